"""How often who waits looks again."""

from types import SimpleNamespace

import pytest

from fastfedpg.federation.transport import engine


def looks(pace, clock, seconds):
    """How often it looks while it waits so long, and how many seconds too late it then comes."""
    pace.begin()
    began, n = clock[0], 0
    while clock[0] - began < seconds:
        clock[0] += pace.pause()
        n += 1
    late = clock[0] - began - seconds
    pace.came()
    return n, late


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(engine, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


def test_what_comes_as_usual_is_found_at_once_by_a_few_looks(clock):
    pace = engine.Pace()
    for seconds in (0.2, 0.3, 1.0):
        for _ in range(6):
            n, late = looks(pace, clock, seconds)
        assert late <= max(engine.SHORTEST, 0.03 * seconds), seconds
        assert n <= 10, seconds


def test_waits_that_take_turns_are_each_as_usual(clock):
    """As in rounds with two exchanges, one after long local work, or three, where the policy is evaluated too."""
    for waits in ((8.0, 0.2), (8.0, 1.0, 0.1)):
        pace = engine.Pace()
        for _ in range(4):
            late = {seconds: looks(pace, clock, seconds)[1] for seconds in waits}
        assert all(extra <= max(engine.SHORTEST, 0.03 * seconds) for seconds, extra in late.items()), late


def test_what_can_not_be_foretold_is_a_quarter_late_at_most_and_no_quarter_of_a_second(clock):
    """In turns with something whose length changes; from 12.5 s on a fiftieth of the wait."""
    pace = engine.Pace()
    for seconds in (0.2, 9.0, 0.2, 6.0, 0.2, 11.0, 0.2, 0.5, 40.0):
        assert looks(pace, clock, seconds)[1] <= min(0.25 * seconds + 0.01, max(0.25, seconds / 50)), seconds


def test_it_looks_at_least_every_two_seconds(clock):
    pace = engine.Pace()
    pace.begin()
    clock[0] += 1000.0
    assert pace.pause() == engine.LONGEST
    pace.came()
    pace.begin()
    assert pace.pause() == engine.SHORTEST, "a run begins"


def test_looks_that_are_all_held_up_are_fewer(clock):
    """From far away each takes long, and that says nothing; three of four that queue up say nothing either."""
    pace = engine.Pace()
    for seconds in (0.3, 0.3, 0.3, 0.3, 0.3):
        pace.looked(seconds)
    assert pace.pause() == engine.SHORTEST
    for seconds in (0.4, 0.41, 0.5):
        pace.looked(seconds)
    assert pace.pause() == engine.SHORTEST
    pace.looked(0.4)
    assert pace.pause() == pytest.approx(20 * (0.4 - 0.3 - 0.05))
