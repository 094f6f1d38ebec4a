"""Takes a script through the rounds of a job: one slot after the other, until the job is done."""
from __future__ import annotations

from collections.abc import Callable, Iterator

from capstan.client import Client, Slot, Work


class Rounds:
    """Owns the client's rounds. Calls `begins` when a round's weights are in the client's memory, `ends` when the job
    is done, and `waits` regularly while waiting."""

    def __init__(self, begins: Callable[[Work, Work | None], None], ends: Callable[[], None],
                 waits: Callable[[], None]) -> None:
        self._begins, self._ends, self._waits = begins, ends, waits
        self._is_sync = False  # the job's mode is sync
        self._coming: Iterator[Work] = iter(())
        self._rest: Iterator[Slot] = iter(())  # the round's slots that have not begun
        self.work: Work | None = None  # the current round; None: not begun, or the job is done
        self.newest: Work | None = None  # the newest round, also after the job is done
        self._computed: dict[int, int] = {}  # by slot: the last step in which this process had it
        self.slot: Slot | None = None  # the current slot
        self.done = False  # the job's last step is committed

    def open(self, client: Client) -> None:
        """Waits for the first round."""
        self._is_sync = client.job["job"]["mode"] == "sync"
        self._coming = client.work(self._waits)
        self._next_round()

    def next_slot(self) -> None:
        """Moves to the next slot, unless there is a current one or the job is done."""
        while self.slot is None and not self.done:
            self.slot = next(self._rest, None)
            if self.slot is None:
                self._next_round()

    def take_slot(self) -> Slot:
        """Returns the current slot, which is finished."""
        slot, self.slot = self.slot, None
        assert slot is not None
        return slot

    def own_slots(self) -> list[int]:
        """This process's slots in ascending order: those of the newest round. In modes where a round is one slot, those
        of the current step and the one before. Empty before the first round."""
        if self.newest is None:
            return []
        oldest = self.newest.step - (0 if self._is_sync else 1)
        return sorted(slot for slot, step in self._computed.items() if step >= oldest)

    def is_last(self, slot: Slot) -> bool:
        """Whether it is the round's last slot."""
        assert self.work is not None
        return slot.index == self.work.slot_indices[-1]

    def _next_round(self) -> None:
        """Waits for work and its weights."""
        before, self.work = self.work, next(self._coming, None)
        if self.work is None:
            self.done = True
            self._rest = iter(())
            self._ends()
            return
        self.newest = self.work
        if before is not None and before.generation != self.work.generation:
            self._computed.clear()
        self._computed.update(dict.fromkeys(self.work.slot_indices, self.work.step))
        self._rest = self.work.slots
        self._begins(self.work, before)
