"""How many examples a property is tried with: a few, always the same, or as many as there is time for.

The second form is the part `properties` of `make test-all`. PROPERTY_SECONDS is the time for each test, PROPERTY_SEED
the first seed; a test that fails has printed the seed it stood at, and with that one it fails at once. Where each
example is slow it takes minutes to find the smallest: PROPERTY_SHRINK=0 shows the first.
"""

import os
import secrets
import sys
import time

from hypothesis import HealthCheck, Phase, seed, settings

SECONDS = float(os.environ.get("PROPERTY_SECONDS", "1800"))
SEED = int(os.environ.get("PROPERTY_SEED") or secrets.randbits(31))

_COMMON = {"deadline": None, "database": None, "suppress_health_check": list(HealthCheck), "print_blob": False}
PHASES = (Phase.generate, *((Phase.shrink,) if os.environ.get("PROPERTY_SHRINK", "1") == "1" else ()))


def few(examples: int, steps: int = 50) -> settings:
    """The same examples every time."""
    return settings(derandomize=True, max_examples=examples, stateful_step_count=steps, **_COMMON)


def many(examples: int, steps: int = 50) -> settings:
    """Examples of one seed."""
    return settings(max_examples=examples, stateful_step_count=steps, phases=PHASES, **_COMMON)


def until_time_is_up(attempt, record) -> None:
    """Call `attempt` with one decorator of a seed after the other; `record` hears with how many."""
    end, number = time.monotonic() + SECONDS, SEED
    while time.monotonic() < end:
        print(f"PROPERTY_SEED={number}", file=sys.stderr)
        attempt(seed(number))
        number += 1
    record("seeds", f"{SEED} to {number - 1}")
