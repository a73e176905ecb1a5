"""How long a test may take that is not marked as long.

Fifteen seconds of CPU time, its own and that of the processes it waited for, because the machine may be busy with other
things; and sixty by the clock, because a test that only sleeps is slow too. What it compiles is in neither, as that is
kept for the next time. Whole pages may take four times as long.
"""

import resource
import time
from contextlib import contextmanager

import jax
import pytest

SECONDS = 15.0  # aim at 5: of one test 4.8 and 8.4 were measured, on one machine on two days
BY_THE_CLOCK = 60.0
PARTS = ("federation", "kills", "docs", "devices", "claims", "sanitizers", "properties", "long")


def is_long(item: pytest.Item) -> bool:
    """Whether a test belongs to a part of `make test-all` that `make test` leaves out."""
    return any(item.get_closest_marker(part) for part in PARTS)


def times(item: pytest.Item) -> int:
    """How many times as long a test may take."""
    return 4 if item.get_closest_marker("whole") else 1


def _cpu() -> float:
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(used.ru_utime + used.ru_stime for used in spent)


_compiling = [0.0]


def _listen(event: str, seconds: float, **more) -> None:
    if event == "/jax/core/compile/backend_compile_duration":
        _compiling[0] += seconds


jax.monitoring.register_event_duration_secs_listener(_listen)


@contextmanager
def watched(seconds: float = SECONDS, by_the_clock: float = BY_THE_CLOCK):
    """Fail a test that passes and is slow."""
    cpu, clock, compiling = _cpu(), time.monotonic(), _compiling[0]
    yield
    compiling = _compiling[0] - compiling  # by the clock, so that on a busy machine it is more than its CPU time
    cpu, clock = _cpu() - cpu - compiling, time.monotonic() - clock - compiling
    if cpu > seconds or clock > by_the_clock:
        pytest.fail(
            f"took {cpu:.1f} s of CPU time and {clock:.1f} s by the clock, more than {seconds:g} and {by_the_clock:g}; "
            f"make it smaller, or mark it as one of {', '.join(PARTS)}",
            pytrace=False,
        )
