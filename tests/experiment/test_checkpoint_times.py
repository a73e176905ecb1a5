"""When checkpoints are written, and how many are kept."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import fastfedpg
from fastfedpg import Config
from fastfedpg.experiment import checkpoints
from fastfedpg.experiment.checkpoints import Keeper
from fastfedpg.runtime import simulate_records
from stopped_runs import (
    BOTH,
    CONFIG,
    OFTEN,
    PROBLEM,
    ROUNDS,
    WHO,
    algorithm,
    every_standing,
    killed,
    rounds_kept,
    table_of,
)

pytestmark = pytest.mark.usefixtures("fresh_folder")


@pytest.fixture
def written(monkeypatch) -> list[int]:
    """The rounds after which a checkpoint was written."""
    real, noted = checkpoints.write, []

    def write(out, who, standing, *more):
        noted.append(standing.round)
        return real(out, who, standing, *more)

    monkeypatch.setattr(checkpoints, "write", write)
    return noted


@BOTH
@pytest.mark.parametrize(("every", "at"), [(1, list(range(1, 12))), (3, [3, 6, 9]), (11, [11]), (12, [])])
def test_checkpoint_rounds_says_after_which_rounds(every, at, runtime, written):
    fastfedpg.run(replace(CONFIG, checkpoint_rounds=every, runtime=runtime), "out")
    assert written == at


def test_a_run_that_goes_on_keeps_to_the_same_rounds(written):
    out = killed(at=3, config=replace(CONFIG, checkpoint_rounds=3))
    written.clear()
    fastfedpg.experiment.resume(out)
    assert written == [6, 9]


def test_checkpoint_seconds_0_is_after_every_tick(written, monkeypatch):
    """But for the limit on their share of the time, which is lifted here; the loop ticks after every round."""
    monkeypatch.setattr(checkpoints, "LARGEST_SHARE", np.inf)
    fastfedpg.run(replace(CONFIG, checkpoint_seconds=0.0, runtime="loop"), "out")
    assert written == list(range(1, ROUNDS + 1))


def test_a_short_run_writes_none(written):
    fastfedpg.run(CONFIG, "out")
    assert written == []


def test_without_a_folder_there_are_none(written):
    fastfedpg.run(replace(CONFIG, checkpoint_rounds=1, checkpoint_seconds=0.0))
    assert written == []


def test_when_the_next_is_due(monkeypatch):
    """30 s after the last; but where writing took 3 s, so that they have a twentieth of the time, 60 s after it."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(checkpoints, "time", SimpleNamespace(monotonic=lambda: clock.now))
    keeper = Keeper(Config(checkpoint_seconds=30.0), 0)
    due = {}
    for clock.now in (29.9, 30.0):
        due[clock.now] = keeper.due(1)
    clock.now = 33.0
    keeper.kept(1, began=30.0)
    for clock.now in (92.9, 93.0):
        due[clock.now] = keeper.due(2)
    assert due == {29.9: False, 30.0: True, 92.9: False, 93.0: True}
    keeper = Keeper(Config(checkpoint_seconds=30.0, checkpoint_rounds=10), 25)
    assert [keeper.due(done) for done in (29, 30)] == [False, True]
    keeper.kept(30, began=0.0)
    assert [keeper.due(done) for done in (39, 40)] == [False, True], "whatever the last one took"


def test_two_are_kept_while_it_runs_and_none_afterwards():
    seen = []
    fastfedpg.run(OFTEN, "out", report=lambda done, record=None: seen.append((done, rounds_kept("out"))))
    assert dict(seen)[2] == [2]
    assert dict(seen)[4] == [4, 2]
    assert dict(seen)[10] == [10, 8]
    assert dict(seen)[11] == [10, 8]
    assert not Path("out/checkpoints").exists()


def test_rounds_are_counted_beyond_nine_digits():
    """Folders are named by nine digits; rounds may have ten."""
    _, stood = every_standing(simulate_records, PROBLEM, algorithm("fedavg_pg"))
    for number in (10**9 - 2, 10**9 - 1, 10**9, 10**9 + 1):
        checkpoints.write(Path(), WHO, stood[0]._replace(round=number, recorded=-1), table_of(None), 0.0)
    assert rounds_kept(".") == [10**9 + 1, 10**9]
