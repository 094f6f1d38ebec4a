#!/usr/bin/python3
"""A worker, started by `capstan launch job.toml -- python3 own_program.py HOW`. HOW is what happens to it:

train          nothing
fail-once FILE it fails in the first step after step 5, unless FILE exists, and creates FILE
fail-one FILE  the one whose index FILE holds fails in the first step after step 5, after each start
fail           it fails before it takes part
refused        the library refuses its calls after step 5
leave-one      the one with index 1 exits with 0 after step 5, all others train
leave          it exits with 0 after step 5
warn           the library prints a warning
stay           after the job it does not end by itself
"""
import array
import logging
import os
import signal
import sys

import capstan

STEP = 5


def befall(how, step):
    """Does in this step what HOW says. Returns whether the program is to exit with 0 now."""
    if how[0] == "fail-once" and step > STEP and not os.path.exists(how[1]):
        open(how[1], "w", encoding="ascii").close()
        sys.exit("a disk was lost")
    if how[0] == "refused" and step > STEP:
        raise capstan.Invalid("this is not the job's")
    if how[0] == "fail-one" and step > STEP and os.environ["CAPSTAN_INDEX"] in open(how[1], encoding="ascii").read():
        sys.exit("no such disk")
    return step > STEP and (how[0] == "leave" or (how[0] == "leave-one" and os.environ["CAPSTAN_INDEX"] == "1"))


def train(how):
    with capstan.connect(os.environ["CAPSTAN_COORDINATOR"], os.environ["CAPSTAN_WORKER"]) as client:
        client.declare([capstan.Tensor("weight", (4,), initial="ones")])
        for work in client.work():
            if befall(how, work.step):
                return
            for slot in work.slots:
                gradient = slot.begin(2)
                gradient["weight"] = array.array("f", [float(slot.key[2] + 1)] * 4)
                slot.end(1.0, predictions=2)


if __name__ == "__main__":
    print("place", os.environ["CAPSTAN_INDEX"], "of", os.environ["CAPSTAN_INDEXES"])  # not flushed
    print("descriptors", sorted(int(name) for name in os.listdir("/proc/self/fd")))
    print("\x1b[31mred", file=sys.stderr)
    if sys.argv[1] == "warn":
        logging.getLogger("capstan").warning("half of the samples are passed over")
    if sys.argv[1] == "fail":
        sys.exit("no such disk")
    train(sys.argv[1:])
    print("evaluated")
    if sys.argv[1] == "stay":
        signal.pause()
