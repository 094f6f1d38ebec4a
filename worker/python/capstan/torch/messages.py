"""Messages for a script whose loop does something that the job cannot follow. Each gives the line to write instead."""
from __future__ import annotations

DONE = "the job is done: there is nothing more to compute (Trainer.done says so)"
NO_BACKWARD = ("optimizer.step() comes after loss.backward(), once for each batch, and no parameter of the model has a gradient "
               "that a backward() of this slot computed")
NOT_SYNCED = ("optimizer.step() comes after a backward() within no_sync(), or with require_backward_grad_sync = False: leave the "
              "last backward() before each optimizer.step() outside, as with DDP")
EXPLICIT_WITHIN_NO_SYNC = ("trainer.backward() within no_sync(): write loss.backward() there, or put the calls of trainer.backward() "
                           "into `with trainer.accumulate(samples):`")
ZEROED = ('the gradient of parameter "{name}" was cleared between backward() and optimizer.step(), and it has left: call '
          "zero_grad() before backward() or after optimizer.step(). Gradients of a backward() that is to be discarded stay here "
          "within `with trainer.no_sync():`")
NOT_ZEROED = ('parameter "{name}" still has the gradient of the step before, to which PyTorch would add this one: call '
              "optimizer.zero_grad() once for each optimizer.step()")
SECOND_GRADIENT = ('parameter "{name}" has a second gradient before optimizer.step(), and the first has left. Where a batch has '
                   "several backward(), write `with trainer.no_sync():` around all but the last. Where an earlier one was for "
                   "something else, take torch.autograd.grad(loss, x) for it. Checkpointed segments that share the parameter "
                   "want use_reentrant=False")
GROUPS = ("optimizer.step() does not come with the last batch of a slot: this loop adds up the gradients of several batches by "
          "itself, so job.global_batch is to be slots times the samples of one optimizer.step() in a process. Set it so, or "
          "give the loader drop_last=True where the last group is smaller")
MICRO_BATCHES = ("the loop accumulates {count} batches, the loader's batch_size is {batch_size}, and job.global_batch = {now} in "
                 "{slots} slots: give the loader batch_size={size}, and set job.global_batch = {wanted}, so that each slot has "
                 "{count} equal batches")
LAST_GROUP = ("the loop accumulates {count} batches, and the last {lost} of an epoch's {samples} samples are fewer than job.global_batch = "
              "{global_batch}, so no step would have them: give the loader torch.utils.data.Subset(data, range({whole})), or a data set of "
              "a multiple of {global_batch}")
NO_STEP_AFTER_CLIP = ("clip_grad_norm_() returned a finite norm, and optimizer.step() did not follow: the servers have updated the "
                      "weights when it returns. To pass over a batch, write trainer.skip() before its backward()")
UNEVEN = ("job.global_batch = {global_batch} in {slots} slots gives them different numbers of samples, and loss.backward() does "
          "not say which this slot has: set job.global_batch to a multiple of the slots, or write trainer.backward(loss, samples)")
LATE_RATE = ("the optimizer's numbers changed within step {step}, after backward(): {now}, and the gradients have left with {told}: "
             "set the learning rate and its like before loss.backward()")
NOTHING_COMPUTED = ("the loop asks for the next batch, and backward() and step() of the last one are missing. To pass "
                    "over a batch, write trainer.skip() before `continue`; to look at the data without training, "
                    "iterate over a DataLoader that prepare() was not given")
NO_STEP = ("the loop asks for the next batch, and optimizer.step() of the last one is missing. Gradients of several "
           "batches are accumulated by the job: write optimizer.step() after every batch, do not divide the loss by "
           "the number of batches, and set job.global_batch to the samples of one update; a loader with a batch_size "
           "below global_batch / slots = {share} cuts a slot into pieces")
TWO_OF_A_BATCH = ("backward() comes once for each batch of the prepared loader: add the losses of the batch, and call "
                  "it with their sum; or write `with trainer.no_sync(): loss.backward()` for all but the last")
TWO_OF_A_SLOT = ("backward() comes once before each step(). Where an update has several loss.backward(), write `with "
                 "trainer.no_sync():` around all but the last, or set model.require_backward_grad_sync as with DDP. Or put calls "
                 "of trainer.backward() into `with trainer.accumulate(samples):`, samples being those of all of them; their "
                 "losses are not to be divided, or say accumulate(samples, divided=True)")
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
NO_SKIPS = ('with reduction="sum" every slot of a step has its samples, because the servers divide by those that are reported: write '
            'trainer.backward(loss * 0, reduction="sum") in place of trainer.skip()')


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
