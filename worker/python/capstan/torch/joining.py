"""How a process gets into its job: at once, or in prepare(), where `capstan run` started the script before the job."""
from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch.utils.data.distributed import DistributedSampler

from capstan.client import Client
from capstan.errors import Invalid, Unreachable
from capstan.torch.arguments import Arguments
from capstan.torch.orders import batches_of, order_of
from capstan.torch.rules import kind_of, options_of_job

BROKER = "CAPSTAN_BROKER"  # the path of the socket at which `capstan run` waits for the facts
OPEN_ENDED = 1 << 40  # job.steps of a job that ends where its programs' loops end
_ANSWER_BYTES = 4096


@dataclass(frozen=True)
class Joining:
    """`connect` joins the job of the coordinator at an address. `address`: the coordinator's; None: the broker knows it
    once the job runs."""

    connect: Callable[[str], Client]
    address: str | None

    def ask(self, things: Arguments) -> str:
        """Gives the broker the facts of the job that these things need. Returns the coordinator's address."""
        return ask_broker(os.environ[BROKER], int(os.environ.get("CAPSTAN_INDEX", "0")), facts_of(things))


def facts_of(things: Arguments) -> dict[str, Any]:
    """The facts of the job that follow from what prepare() was given."""
    facts: dict[str, Any] = {"optimizer": kind_of(things.optimizer), **options_of_job(things.optimizer)}
    loader = things.loader
    if loader is None:
        return facts
    return {**facts, "global_batch": global_batch_of(loader, things.accumulates), "samples": order_of(loader, 0).samples,
            "drop_last": bool(batches_of(loader)[1])}


def global_batch_of(loader: Any, accumulates: int) -> int:
    """The samples of an optimizer.step() in all processes of the script."""
    # A DistributedSampler is of a script in which each process has a batch of its own.
    processes = loader.sampler.num_replicas if isinstance(loader.sampler, DistributedSampler) else 1
    return batches_of(loader)[0] * int(processes) * accumulates


def ask_broker(path: str, index: int, facts: dict[str, Any]) -> str:
    """Waits until the job runs. `capstan run` keeps the deadline and says whom it waits for; when it ends, so does the
    wait."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as broker:
        try:
            broker.connect(path)
            broker.sendall(json.dumps({"index": index, "facts": facts}).encode() + b"\n")
            answer = b""
            while not answer.endswith(b"\n"):
                more = broker.recv(_ANSWER_BYTES)
                if not more or len(answer) > _ANSWER_BYTES:
                    raise Unreachable("capstan run ended before it had a job for this script; its last lines say why")
                answer += more
        except OSError as error:
            raise Unreachable(f"capstan run does not answer at {path} ({error}): start the script by capstan run, or set "
                              f"CAPSTAN_COORDINATOR and unset {BROKER}") from error
    return answer.decode().strip()


def refuse_endless(job: dict[str, Any], call: str, instead: str) -> None:
    """Refuses a loop that goes on until the job is done, in a job that goes on until the loop ends."""
    if int(job["job"]["steps"]) == OPEN_ENDED:
        raise Invalid(f"{call} goes on until the job is done, and this job goes on until the script's loop ends: "
                      f"{instead}start it by capstan run --steps N")
