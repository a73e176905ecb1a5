"""`--tune`: a grid of step sizes for each method, widened where the best is at an end."""

import csv
import io
import math
from pathlib import Path

import numpy as np
import pytest

from commands import command
from compared import TWO, column, compare, fake_try, table, tried
from fastfedpg import Config, InputError
from fastfedpg.comparison import run_cells, tuning
from fastfedpg.comparison.spec import Comparison
from fastfedpg.experiment import plan
from fastfedpg.experiment.config import from_toml

pytestmark = pytest.mark.usefixtures("fresh_folder")


@pytest.fixture
def schedules(monkeypatch):
    """What tuning asked the simulation for."""
    seen, real = [], tuning.runtime.simulate_records

    def spy(problem, make, schedule, *rest, **more):
        if "sweep" in more:
            seen.append((schedule, list(more["sweep"])))
        return real(problem, make, schedule, *rest, **more)

    monkeypatch.setattr(tuning.runtime, "simulate_records", spy)
    return seen


def test_tuning(schedules):
    """Without noise, so that what a candidate reached is also what the chosen run reaches."""
    words = ("--problem", "compromise", "--H", 2, "--rounds", 4, "--seeds", 2, "--first-seed", 2, "--tau", 0.1)
    out = compare(*words, *TWO, "--tune", "--tune-seeds", 3, "--eta", 4)
    found = tried(out)
    assert list(found) == ["fast_fedpg", "fedavg_pg"]
    assert found["fast_fedpg"].keys() == found["fedavg_pg"].keys(), "the same candidates for every method"
    etas = sorted(found["fast_fedpg"])
    assert len(etas) >= 7
    assert {0.5, 1, 2, 4, 8, 16, 32} <= {*etas}
    np.testing.assert_allclose(np.diff(np.log2(etas)), 1)
    for name in TWO[1:]:
        best = min(found[name], key=found[name].get)
        assert from_toml(out / name / "config.toml").eta == best
        assert float(table(out)[name]["eta"]) == best
        assert etas[0] < best < etas[-1], "not at an end of the grid"
        np.testing.assert_allclose(column(out / name, "J")[:, -1], found[name][best], rtol=1e-12)
    for schedule, _ in schedules:
        chosen = {*range(schedule.first_seed, schedule.first_seed + schedule.seeds)}
        assert chosen == {4, 5, 6}
        assert not chosen & {*column(out / "fedavg_pg", "seed")[:, 0]}
    assert [s.rounds for s, _ in schedules[:2]] == [4, 6], "on the same budget as what is reported"
    before, kept = len(schedules), (out / "tune.csv").read_bytes()
    assert command("resume", out) == 0
    assert len(schedules) == before, "no trial is repeated"
    assert (out / "tune.csv").read_bytes() == kept


def tune(eta=1.0, candidates=6, note=lambda words: None):
    plans = dict.fromkeys(("a", "b"), plan(Config("compromise")))
    best = tuning.tune(plans, eta, candidates, 2, Path("tune.csv"), run_cells.unseen, note)
    return {name: trial.eta for name, trial in best.items()}


def test_a_best_value_at_an_end_widens_the_grid_for_all(monkeypatch):
    calls = []
    fake_try(monkeypatch, lambda name, e: abs(math.log2(e) - (10 if name == "a" else 0)), calls)
    assert tune() == {"a": 1024, "b": 1}
    assert calls[0] == ("a", [2.0**k for k in range(-3, 3)])
    assert calls[2] == ("a", [8, 16, 32])
    assert calls[3] == ("b", [8, 16, 32]), "the same for every method, also for one that is content"
    found = tried(".")
    assert found["a"].keys() == found["b"].keys()
    assert max(found["a"]) > 1024 > 1 > min(found["a"])
    Path("tune.csv").unlink()
    fake_try(monkeypatch, lambda name, e: abs(math.log2(e) + 7))
    assert tune() == {"a": 2**-7, "b": 2**-7}, "downwards too"


def test_a_grid_is_not_widened_for_ever(monkeypatch):
    heard = []
    fake_try(monkeypatch, lambda name, e: -e)
    best = tune(note=heard.append)
    assert best["a"] == best["b"] == max(tried(".")["a"])
    assert [words.split(":")[0] for words in heard] == ["a", "b"]
    assert "is still best at the end of a grid that was widened" in heard[0]


def test_trials_that_are_there_are_not_repeated(monkeypatch):
    calls = []
    fake_try(monkeypatch, lambda name, e: abs(math.log2(e) - 0.25), calls)
    assert tune() == {"a": 1, "b": 1}
    before, text = len(calls), Path("tune.csv").read_text()
    assert tune() == {"a": 1, "b": 1}
    assert len(calls) == before
    lines = text.splitlines(keepends=True)
    Path("tune.csv").write_text("".join(lines[:7]))  # killed after the first method
    assert tune() == {"a": 1, "b": 1}
    assert calls[before:] == [("b", [2.0**k for k in range(-3, 3)])]
    assert Path("tune.csv").read_text() == text


def test_a_candidate_that_diverges_is_marked_and_the_others_go_on(monkeypatch):
    fake_try(monkeypatch, lambda name, e: math.nan if e > 2 else abs(e - 0.6))
    assert tune() == {"a": 0.5, "b": 0.5}
    rows = list(csv.DictReader(io.StringIO(Path("tune.csv").read_text())))
    assert {float(r["eta"]): r["state"] for r in rows if r["algorithm"] == "a"} == {
        0.125: "finished", 0.25: "finished", 0.5: "finished", 1: "finished", 2: "finished", 4: "diverged",
    }  # fmt: skip


def test_step_sizes_that_diverge_in_a_real_run():
    """Steps that overflow leave the smaller ones of the same program the J that they have alone."""
    np.savez("far.npz", theta=np.array([[0.0, 1.0, 2.0]]))
    planned = plan(Config("compromise", algorithm="fedavg_pg", H=2, rounds=4, tau=1e6, theta0="far.npz"))
    found = tuning._try("fedavg_pg", planned, [1e-7, 1e305], 1, lambda done: None)
    assert [math.isnan(t.J) for t in found] == [False, True]
    alone, _ = tuning._try("fedavg_pg", planned, [1e-7, 2e-7], 1, lambda done: None)
    np.testing.assert_allclose(found[0].J, alone.J, rtol=1e-12)
    lost = tuning._try("fedavg_pg", planned, [1e305, 2e305], 1, lambda done: None)
    assert all(math.isnan(t.J) for t in lost)


def test_too_few_candidates():
    with pytest.raises(InputError, match="candidates = 5; a fair choice needs at least 6"):
        Comparison(tune=True, candidates=5).check()


def test_tuning_refuses_step_sizes_for_single_methods():
    with pytest.raises(InputError, match="the middle of one grid for all methods; give one number"):
        Comparison(tune=True, eta={"all": 1.0, "fast_fedpg": 2.0}).check()
    Comparison(tune=True, eta={"all": 2.0}).check()
