"""How many of its cases a test tries, as tests/tier.h has it for the tests in C++: CAPSTAN_TEST_TIER and CAPSTAN_TEST_SEED."""
import os
import random


def some(what, cases, count):
    """Returns all cases in tier all, otherwise `count` of them, which are printed. They follow from the seed of the run and
    from `what`, the name of the cases."""
    cases, tier = list(cases), os.environ.get("CAPSTAN_TEST_TIER") or "default"
    if tier not in ("quick", "default", "all"):
        raise ValueError(f'CAPSTAN_TEST_TIER is quick, default or all, not "{tier}"')
    if tier == "all" or count >= len(cases):
        return cases
    seed = int(os.environ.get("CAPSTAN_TEST_SEED") or 0)
    chosen = sorted(random.Random(f"{seed} {what}").sample(range(len(cases)), count))
    print(f"{what}: CAPSTAN_TEST_SEED={seed} chose {count} of {len(cases)}: {', '.join(str(cases[i]) for i in chosen)}", flush=True)
    return [cases[i] for i in chosen]
