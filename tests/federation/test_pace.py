"""How often who waits looks again."""

from types import SimpleNamespace

import pytest

from fastfedpg.federation.transport import engine


def looks(pace, clock, seconds):
    """How often it looks while it waits so long, and how much too late it then comes, as a share of the wait."""
    pace.begin()
    began, n = clock[0], 0
    while clock[0] - began < seconds:
        clock[0] += pace.pause()
        n += 1
    late = (clock[0] - began - seconds) / seconds
    pace.came()
    return n, late


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(engine, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


def test_looking_costs_some_ten_requests_and_a_tenth_of_the_wait(clock):
    pace = engine.Pace()
    for seconds in (0.3, 0.3, 0.3, 1.0, 1.0, 1.0, 8.0, 8.0, 8.0):
        n, late = looks(pace, clock, seconds)
        assert late <= 0.11, seconds
    assert n <= 11, "the third of them, when such waits are usual"


def test_a_short_wait_beside_a_long_one_stays_short(clock):
    """As in rounds with two exchanges, one after long local work: with the last wait alone it would be 0.8 s late."""
    pace = engine.Pace()
    for _ in range(3):
        looks(pace, clock, 8.0)
        assert looks(pace, clock, 0.2)[1] <= 0.11


def test_it_looks_at_least_every_two_seconds(clock):
    pace = engine.Pace()
    pace.begin()
    clock[0] += 1000.0
    assert pace.pause() == engine.LONGEST
    pace.came()
    pace.begin()
    assert pace.pause() == engine.SHORTEST


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
