"""How many of its cases a test tries, as tests/tier.h has it for the tests in C++: CAPSTAN_TEST_TIER and CAPSTAN_TEST_SEED."""
import os
import random


def some(cases, count):
    """Returns all cases in tier all, otherwise `count` of them, which follow from the seed of the run and are printed."""
    cases = list(cases)
    if os.environ.get("CAPSTAN_TEST_TIER") == "all" or count >= len(cases):
        return cases
    seed = os.environ.get("CAPSTAN_TEST_SEED", "0")
    chosen = sorted(random.Random(int(seed)).sample(range(len(cases)), count))
    print(f"CAPSTAN_TEST_SEED={seed} chose {count} of {len(cases)}: {', '.join(str(cases[i]) for i in chosen)}", flush=True)
    return [cases[i] for i in chosen]
