"""When a script's scheduler acts: after each of the job's steps, or after each epoch."""
from __future__ import annotations

from capstan.errors import Invalid

WORDS = ("step", "epoch")


class Interval:
    """The interval is the argument of prepare(), or else it follows from the script: "step" if it calls
    scheduler.step() after its first optimizer.step(), "epoch" if it asks for the next batch first. All later calls must
    fit the interval."""

    def __init__(self, word: str | None, steps_per_epoch: int | None = None, name: str = "scheduler") -> None:
        if word not in (None, *WORDS):
            raise Invalid(f'scheduler_interval is {word!r}; wanted "step" or "epoch"')
        if word == "epoch" and steps_per_epoch is None:
            raise Invalid('scheduler_interval="epoch": a loop without a prepared loader has no epochs; give prepare() '
                          "the loader, or a scheduler that acts after each step")
        self.word = word
        self._is_told = word is not None
        self._steps_per_epoch, self._name = steps_per_epoch, name
        self._steps = 0  # calls of optimizer.step() since the last scheduler.step(), in this pass
        self._in_pass = steps_per_epoch is None

    def acts_after(self, step: int) -> bool:
        if self.word == "epoch":
            assert self._steps_per_epoch is not None
            return (step + 1) % self._steps_per_epoch == 0
        return self.word == "step"

    def adopt(self, word: str) -> None:
        """Takes the interval with which the job was begun."""
        if self.word not in (None, word):
            raise Invalid(f'the job\'s {self._name} acts once each {word}, and this script\'s once each {self.word}: '
                          f'go on with prepare(..., scheduler_interval="{word}"), or begin another job')
        self.word = word

    def pass_begins(self) -> None:
        if self.word == "epoch" and not self._is_told and not self._in_pass and self._steps > 0:
            raise Invalid(f"{self._name}.step() was called neither after optimizer.step() nor after the pass over the "
                          "loader: call it where it is to act, or leave the scheduler out. Begin a new job with it")
        self._in_pass, self._steps = True, 0

    def pass_ends(self) -> None:
        self._in_pass = False

    def optimizer_steps(self) -> None:
        """The script has called optimizer.step()."""
        self._steps += 1

    def loop_goes_on(self) -> None:
        """The script asks for a batch or computes with one."""
        if self._steps == 0:
            return
        if self.word is None:
            if self._steps_per_epoch is None:
                raise Invalid(f"{self._name}.step() is not called after optimizer.step(), and a loop without a "
                              "prepared loader has no epochs after which it could act: call it after each "
                              "optimizer.step(), or give prepare() the loader")
            self.word = "epoch"
        elif self.word == "step" and not self._is_told:
            raise Invalid(f"{self._name}.step() was called after earlier calls of optimizer.step(), and not after this "
                          f'one: prepare(..., scheduler_interval="step") has it act after each of the job\'s steps, '
                          f'"epoch" after each epoch; for anything else use LambdaLR with a function of the step. '
                          "Begin a new job with it")

    def scheduler_steps(self, *, done: bool) -> None:
        """The script has called scheduler.step(). A call that is too early raises before anything is computed."""
        if self.word is None and self._steps == 0 and not done:
            raise Invalid(f"{self._name}.step() is called before the first optimizer.step(), which would leave out its "
                          "first learning rate: call it after optimizer.step(), or after the loop over the loader")
        if self.word is None and self._in_pass and self._steps > 0:
            self.word = "step"
        elif self.word == "epoch" and self._in_pass and self._steps > 0:
            raise Invalid(f"{self._name}.step() is called within an epoch, {self._steps} calls of optimizer.step() after "
                          'the last time, and it acts after each epoch here: prepare(..., scheduler_interval="step") '
                          "has it act after each step; for anything else use LambdaLR with a function of the step. "
                          "Begin a new job with it")
        elif self.word == "step" and self._steps > 1:
            raise Invalid(f"{self._name}.step() is called once for {self._steps} calls of optimizer.step(), and it acts "
                          'after each step here: write prepare(..., scheduler_interval="epoch"), and begin a new job')
        self._steps = 0
