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
        self._steps = 0  # of the job
        self._coming: Iterator[Work] = iter(())
        self._rest: Iterator[Slot] = iter(())  # the round's slots that have not begun
        self.work: Work | None = None  # the current round; None: not begun, or the job is done
        self.newest: Work | None = None  # the newest round, also after the job is done
        self._computed: dict[int, int] = {}  # by slot: the last step in which this process had it
        self.slot: Slot | None = None  # the current slot
        self.done = False  # the job's last step is committed
        self.last_norm: float | None = None  # of the gradient of the job's last step

    def open(self, client: Client) -> None:
        """Waits for the first round."""
        self._is_sync, self._steps = client.job["job"]["mode"] == "sync", int(client.job["job"]["steps"])
        self._coming = self._begin(client)
        self._next_round()

    def _begin(self, client: Client) -> Iterator[Work]:
        return client.work(self._waits)

    @property
    def step(self) -> int:
        """The current step, which equals the number of committed steps."""
        return self.work.step if self.work is not None else self._steps

    @property
    def loss_scale(self) -> float:
        """The factor for this round's losses; 1 if the job has no loss scale."""
        return self.work.loss_scale if self.work is not None else 1.0

    @property
    def grad_norm(self) -> float:
        """The norm of the gradient that made the newest version; 0 if none has made it."""
        if self.last_norm is not None:
            return self.last_norm
        return self.newest.grad_norm if self.newest is not None else 0.0

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
