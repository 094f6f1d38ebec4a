"""Messages for a script whose loop does something that the job cannot follow. Each gives the line to write instead."""
from __future__ import annotations

PLAIN_BACKWARD = ("loss.backward() was called, and its gradients are this process's alone: write "
                  "trainer.backward(loss) in its place, then optimizer.step()")
NO_BACKWARD = "optimizer.step() comes after trainer.backward(loss), once for each batch"
NOTHING_COMPUTED = ("the loop asks for the next batch, and backward() and step() of the last one are missing. To pass "
                    "over a batch, write trainer.skip() before `continue`; to look at the data without training, "
                    "iterate over a DataLoader that prepare() was not given")
NO_STEP = ("the loop asks for the next batch, and optimizer.step() of the last one is missing. Gradients of several "
           "batches are accumulated by the job: write optimizer.step() after every batch, do not divide the loss by "
           "the number of batches, and set job.global_batch to the samples of one update; a loader with a batch_size "
           "below global_batch / slots = {share} cuts a slot into pieces")
TWO_OF_A_BATCH = ("backward() comes once for each batch of the prepared loader: add the losses of the batch, and call "
                  "it with their sum")
TWO_OF_A_SLOT = ("backward() comes once before each step(). Put the calls of one update into `with "
                 "trainer.accumulate(samples):`, samples being those of all of them; their losses are not to be "
                 "divided, or say accumulate(samples, divided=True)")
NO_SAMPLES = ("backward(loss, samples=...): over how many samples is the loss a mean? A prepared loader knows by itself")
NO_GRADIENT = ("the loss does not depend on it. Where a branch is not taken in each step, write prepare(..., "
               'unused="zero"): then its gradient is 0 there, and momentum and weight decay go on. Where it is '
               "never trained, freeze it before prepare(), with requires_grad_(False). Where it was replaced after "
               "prepare(), make the model whole before")
UNFROZEN = ('parameter "{name}" was unfrozen after prepare(), by step {step}, and the servers do not train it: '
            "unfreeze it before prepare(). To begin with it frozen, give it a group of the optimizer with lr=0, and "
            "set the group's lr when trainer.global_step is where it begins")
FROZEN = ('parameter "{name}" was frozen after prepare(), by step {step}, and the servers train it: freeze it '
          "before prepare(). To freeze it on the way, give it a group of the optimizer, and set the group's lr to 0 "
          "from a trainer.global_step on")


def begins_late(step: int) -> str:
    return (f"the job is at step {step}, and this loop begins with its first batch: begin with that of "
            "trainer.global_step, and say so by prepare(..., resumes=True); or take work from `for slot in "
            "trainer.slots():`, or give prepare() the loader, which follow the job by themselves")


def other_samples(slot: int, samples: int, global_batch: int, slots: int, share: int) -> str:
    return (f"slot {slot} has {samples} samples by backward(loss, samples), and job.global_batch = {global_batch} in "
            f"{slots} slots makes {share}: the job takes the mean over what comes; set job.global_batch to the "
            "samples of one update over all slots")


def cut_batches(batch_size: int, share: int, global_batch: int, slots: int) -> str:
    return (f"the loader's batch_size is {batch_size}, and a slot has {share} samples (job.global_batch = "
            f"{global_batch} in {slots} slots): batches come with {share}. Set job.global_batch = {batch_size * slots} "
            f"for {slots} batches of {batch_size} in each update, or {batch_size} for one")


def ends_early(step: int, steps: int, steps_per_epoch: int | None) -> str:
    epochs = "" if steps_per_epoch is None else f" ({step / steps_per_epoch:.3g} of {steps / steps_per_epoch:.3g} epochs)"
    return (f"the script ends at step {step} of the job's {steps}{epochs}, and the job is not done: it goes on with "
            f"its other workers, or waits for one. To end a job here, set job.steps = {step}; to end it now, press "
            "Ctrl-C in capstan launch, which takes a last snapshot; to go on, start the script again, or loop over "
            "trainer.epochs() until the job is done")
