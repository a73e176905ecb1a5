"""Runs that are there already are compared, if they are of one problem."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from compared import THREE, TWO, column, compare, edit, notes, refused, table, without_seconds
from fastfedpg import files
from fastfedpg.comparison.paired import EQUIVALENT
from fastfedpg.experiment import exported, plan
from fastfedpg.experiment.config import from_toml
from fastfedpg.experiment.finished_run import INSTEAD

pytestmark = pytest.mark.usefixtures("fresh_folder")


def test_finished_runs_are_compared(finished, capsys):
    out = compare(*(finished / name for name in THREE))
    assert without_seconds(out) == without_seconds(finished)
    assert notes(capsys) == [f"{finished / name / 'results.npz'}: no such file; {INSTEAD}" for name in THREE]
    assert not list(out.glob("*/config.toml")), "nothing was run"


def test_one_algorithm_twice_is_told_apart_by_its_folder(finished):
    shutil.copytree(finished / "fedavg_pg", "slow")
    shutil.copytree(finished / "fedavg_pg", "quick")
    assert list(table(compare("slow", "quick", finished / "fast_fedpg"))) == [
        "fedavg_pg (slow)", "fedavg_pg (quick)", "fast_fedpg",
    ]  # fmt: skip
    shutil.copytree("slow", "other/slow")
    assert list(table(compare("slow", "other/slow", "--overwrite"))) == ["slow", "other/slow"]
    assert table()["other/slow"]["verdict"] == EQUIVALENT


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"problem": "compromise-grid", "problem_args": {"n": 3}}, "problem is compromise in"),
        ({"problem_args": {"mid": 0.7}}, "problem_args is {'mid': 0.6, 'gamma': 0.5} in"),
        ({"agents": 3}, "agents is None in"),
        ({"tau": 0.5}, "tau is 0.0 in"),
    ],
)
def test_runs_of_different_problems(settings, why, finished, capsys, monkeypatch):
    edit(finished / "fedavg_pg", **settings)
    monkeypatch.setattr(exported, "_metrics", metrics_of(finished / "fast_fedpg"))
    said = refused(capsys, finished / "fast_fedpg", finished / "fedavg_pg", "--out", "out")
    assert "runs of different problems can't be compared" in said
    assert why in said
    assert not Path("out").exists()


def metrics_of(folder: Path):
    """The rows of one folder for all."""
    real, planned = exported._metrics, plan(from_toml(folder / "config.toml"))
    return lambda path, other, note: real(folder / "metrics.csv", planned, note)


def test_one_problem_in_other_words_is_the_same_problem(finished):
    """The command line writes text where a TOML file has numbers, and two agents are what the problem has anyway."""
    edit(finished / "fast_fedpg", problem_args={"mid": "0.6"}, agents=2)
    edit(finished / "fedavg_pg", problem_args={"mid": 0.6})
    compare(finished / "fast_fedpg", finished / "fedavg_pg")


def test_other_seeds_are_left_out_of_differences(finished, capsys):
    metrics = finished / "fedavg_pg/metrics.csv"
    head, *rows = metrics.read_text().splitlines(keepends=True)
    moved = [f"{int(row.split(',')[0]) + 2},{row.split(',', 1)[1]}" for row in rows]
    metrics.write_text("".join([head, *moved]))
    edit(finished / "fedavg_pg", first_seed=2)
    out = compare(finished / "fast_fedpg", finished / "fedavg_pg")
    said = "fedavg_pg and fast_fedpg have 4 seeds not in common; differences leave them out"
    assert said in notes(capsys)
    a, b = (column(finished / name, "gap")[:, -1] for name in TWO[1:])
    assert float(table(out)["fedavg_pg"]["difference"]) == pytest.approx((b[:4] - a[2:]).mean())
    edit(finished / "fast_fedpg", rounds=5)


def test_another_budget_is_said(finished, capsys):
    """A run that was cut short by hand, at its round 8 of 9."""
    metrics = finished / "fedavg_pg/metrics.csv"
    rows = metrics.read_text().splitlines(keepends=True)
    metrics.write_text("".join(row for row in rows if row.split(",")[1] != "9"))
    edit(finished / "fedavg_pg", rounds=8)
    compare(finished / "fast_fedpg", finished / "fedavg_pg")
    assert "fedavg_pg stopped at 192 environment steps, fast_fedpg at 216: not the same budget" in notes(capsys)


def test_folders_that_are_no_runs(finished, capsys):
    Path("empty").mkdir()
    said = refused(capsys, finished / "fast_fedpg", "empty", "--out", "out")
    assert "empty: not a run: there is no config.toml in it" in said
    assert "nowhere: not a run" in refused(capsys, "nowhere", "--out", "out")
    Path("file").touch()
    assert "file: not a run" in refused(capsys, "file", "--out", "out")
    (finished / "fast_fedpg/config.toml").write_text("= 3")
    assert "not a TOML file" in refused(capsys, finished / "fast_fedpg", "--out", "out")
    assert not Path("out").exists()


@pytest.mark.parametrize("state", ["interrupted", "failed", "diverged", None])
def test_runs_that_have_not_finished(state, finished, capsys):
    cell = finished / "fedavg_pg"
    if state is None:
        (cell / "summary.json").unlink()
    else:
        (cell / "summary.json").write_text(json.dumps({"state": state}))
    said = refused(capsys, finished / "fast_fedpg", cell, "--out", "out")
    assert f"{cell}: the run is {state or 'interrupted'}, not finished" in said
    assert (f"fastfedpg resume {cell} goes on with it" in said) == (state != "diverged")


def test_a_run_that_is_running(finished, capsys):
    with files.hold(finished / "fedavg_pg"):
        said = refused(capsys, finished / "fedavg_pg", "--out", "out")
    assert "the run is running, not finished" in said


@pytest.mark.parametrize("damage", ["missing", "garbage", "shape"])
@pytest.mark.parametrize("name", ["agents.npz", "final.npz"])
def test_arrays_that_are_lost_are_said_and_the_rest_is_shown(name, damage, finished, capsys):
    path = finished / "fedavg_pg" / name
    path.unlink()
    if damage == "garbage":
        path.write_bytes(b"no zip")
    if damage == "shape":
        np.savez(path, **{"theta": np.zeros(3), "returns": np.zeros(3), "round": np.zeros(3)})
    out = compare(finished / "fast_fedpg", finished / "fedavg_pg")
    (said,) = (words for words in notes(capsys) if not words.endswith(INSTEAD))
    assert str(path) in said
    assert said.endswith("it is left out")
    assert without_seconds(out)[1]["value"] == without_seconds(finished)[1]["value"]
