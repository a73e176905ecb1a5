"""How many examples a property is tried with: a few, always the same, or as many as there is time for.

The second form is the part `properties` of `make test-all`. PROPERTY_SECONDS is the time for each test, PROPERTY_SEED
the first seed; a test that fails has printed the seed it stood at, and with that one it fails at once. Where each
example is slow it takes minutes to find the smallest: PROPERTY_SHRINK=0 shows the first.
"""

import os
import secrets
import sys
import time
import tracemalloc

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st

from fastfedpg import InputError

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


MOST = 64 << 20
"""Bytes; the files that are made up have some thousand."""


@st.composite
def damaged(draw, data: bytes) -> bytes:
    """The data, perhaps cut, or with some bits another way round."""
    changed = bytearray(data)
    for at, bit in draw(st.lists(st.tuples(st.integers(0, 10**4), st.integers(0, 7)), max_size=3)):
        if changed:
            changed[at % len(changed)] ^= 1 << bit
    return bytes(changed[: draw(st.one_of(st.just(len(changed)), st.integers(0, len(changed))))])


def taken(read, tried: dict[str, int]):
    """What `read` gives, or None where it refuses in one line; with little memory either way."""
    found, said = None, "nothing"
    tracemalloc.start()
    try:
        found = read()
    except InputError as error:
        said = str(error)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert said
    assert "\n" not in said
    assert peak < MOST, peak
    tried["refused" if found is None else "taken"] += 1
    return found
