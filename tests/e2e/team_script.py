"""A process of team_calls_test.py: it makes collective calls, and says what came out of them.

usage: team_script.py ops|loop GATE|differ|lonely SECONDS       the rank and the number of ranks are in RANK and RANKS
"""
import hashlib
import os
import sys
import time

import capstan
import numpy as np

RANK, RANKS = int(os.environ["RANK"]), int(os.environ["RANKS"])
TYPES = ("float32", "float64", "float16", "int32", "int64", "uint8")
REDUCTIONS = {"sum": np.add, "min": np.minimum, "max": np.maximum, "product": np.multiply}
CALLS = 40


def values_of(seed, rank, count, kind="float32"):
    numbers = np.random.default_rng([seed, rank]).uniform(0, 4, count)
    return numbers.astype(kind)


def reduced(op, kind, everyone):
    """The reduction by numpy, in the order of the ranks; 16-bit numbers as float32."""
    wide = np.float32 if kind == "float16" else kind
    result = everyone[0].astype(wide)
    for other in everyone[1:]:
        result = REDUCTIONS["sum" if op == "mean" else op](result, other.astype(wide))
    if op == "mean":
        result = result / np.asarray(RANKS, wide)
    return result.astype(kind)


def check(what, found, wanted):
    assert found.dtype == wanted.dtype and found.shape == wanted.shape, (what, found.dtype, found.shape)
    assert found.tobytes() == wanted.tobytes(), what


def ops(client):
    team = client.form_team(RANK, RANKS)
    assert (team.rank, team.ranks) == (RANK, RANKS)
    for kind in TYPES:
        for count in (0, 1, 3, 70_000):
            for op in (*REDUCTIONS, "mean"):
                if op == "mean" and "int" in kind:
                    continue
                everyone = [values_of(count, rank, count, kind) for rank in range(RANKS)]
                found = everyone[RANK].copy()
                assert client.all_reduce(found, op) is found
                check((op, kind, count), found, reduced(op, kind, everyone))
    for root in range(RANKS):
        everyone = [values_of(root, rank, 300_000).reshape(-1, 3) for rank in range(RANKS)]
        check(("broadcast", root), client.broadcast(everyone[RANK].copy(), root), everyone[root])
        gathered = client.gather(everyone[RANK], root)
        assert (gathered is None) == (RANK != root)
        for rank, part in enumerate(gathered or []):
            check(("gather", rank), part, everyone[rank])
        assert client.broadcast_object({"from": RANK}, root) == {"from": root}
    shapes = [(rank, 5) for rank in range(RANKS)]  # rank 0 gives nothing
    for rank, part in enumerate(client.all_gather(np.full(shapes[RANK], RANK, "int64"))):
        check(("all_gather", rank), part, np.full(shapes[rank], rank, "int64"))
    assert client.all_gather(b"x" * RANK) == [b"x" * rank for rank in range(RANKS)]
    assert client.all_gather_object(RANK) == list(range(RANKS))
    everyone = [values_of(7, rank, 4 * RANKS) for rank in range(RANKS)]
    check("reduce_scatter", client.reduce_scatter(everyone[RANK]), reduced("sum", "float32", everyone)[4 * RANK:4 * RANK + 4])
    means = client.mean({"accuracy": (RANK, 2), "none": (0, 0)})
    assert means["accuracy"] == sum(range(RANKS)) / (2 * RANKS) and np.isnan(means["none"]), means
    refused(client)
    print("all operations are right", flush=True)


def refused(client):
    """What is refused before it is sent: the team goes on."""
    cases = {"over the limit": lambda: client.all_reduce(np.zeros(17 << 20, "f")),
             "bytes over the limit": lambda: client.all_gather(bytes(65 << 20)),
             "a type": lambda: client.all_reduce(np.zeros(3, "complex64")),
             "an operation": lambda: client.all_reduce(np.zeros(3, "f"), "median"),
             "the mean of integers": lambda: client.all_reduce(np.zeros(3, "int32"), "mean"),
             "not contiguous": lambda: client.all_reduce(np.zeros((4, 4), "f")[:, 1]),
             "read-only": lambda: client.all_reduce(b"1234"),
             "no array": lambda: client.all_reduce(3),
             "a root": lambda: client.broadcast(np.zeros(3, "f"), RANKS),
             "rows": lambda: client.reduce_scatter(np.zeros(RANKS + 1, "f"))}
    for name, call in cases.items():
        try:
            call()
        except capstan.Invalid as error:
            print(f"{name}: {error}", flush=True)
        else:
            raise AssertionError(name)


def loop(client, gate):
    """Calls of many sizes; rank 0 waits at the gate in the middle, and the others in the call."""
    client.form_team(RANK, RANKS)
    digest = hashlib.sha256()
    for call in range(CALLS):
        if call == CALLS // 2:
            print("in the middle", flush=True)
            if RANK == 0:
                open(gate, encoding="ascii").read()
        size = [3, 200_000, 1_500_000][call % 3]
        digest.update(client.all_reduce(values_of(call, RANK, size)).tobytes())
        digest.update(client.all_gather(bytes(call * RANK))[RANKS - 1])
    print("digest", digest.hexdigest(), flush=True)


def differ(client):
    client.form_team(RANK, RANKS)
    client.all_reduce(np.zeros(3 if RANK == 0 else 4, "f"))


def lonely(client, seconds):
    """Waits in vain, then the call goes on when the others have come."""
    client.form_team(RANK, RANKS)
    if RANK == RANKS - 1:
        open(sys.argv[3], encoding="ascii").read()
    values = np.full(5, RANK, "f")
    while True:
        try:
            client.all_reduce(values, seconds=float(seconds))
            break
        except capstan.Timeout as error:
            print(error, flush=True)
    print("sum", values[0], flush=True)


def main():
    with capstan.connect(os.environ["CAPSTAN_COORDINATOR"], f"r{RANK}", on_notice=lambda text: None) as client:
        client.declare([capstan.Tensor("w", (4,))])
        began = time.monotonic()
        try:
            {"ops": ops, "loop": loop, "differ": differ, "lonely": lonely}[sys.argv[1]](client, *sys.argv[2:3])
        except capstan.Error as error:
            print(f"{type(error).__name__} after {time.monotonic() - began:.1f} s: {error}", flush=True)
            raise SystemExit(3) from error
        for work in client.work():
            for slot in work.slots:
                slot.begin(1)["w"] = np.zeros(4, "f")
                slot.end(0.0, 1)


if __name__ == "__main__":
    main()
