"""Labelled cells: one algorithm several times, any setting per cell, swept, tuned, planned once, and every mistake."""

import csv
import sys
from pathlib import Path

import numpy as np
import pytest

from commands import command
from fastfedpg import Config, InputError
from fastfedpg.comparison import cell_plans, run_cells
from fastfedpg.comparison.spec import Comparison, from_file, read_cell
from fastfedpg.experiment import plan
from fastfedpg.experiment.config import from_toml

SMALL = ("--problem", "compromise", "--rounds", 4, "--seeds", 2, "--eta", 0.5, "--H", 3)


@pytest.fixture(autouse=True)
def _fresh_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def theta(folder):
    with np.load(Path(folder) / "final.npz") as file:
        return file["theta"]


def test_words_become_cells():
    assert read_cell("fast_fedpg") == ("fast_fedpg", {"algorithm": "fast_fedpg"})
    assert read_cell("fast_fedpg,reuse=true") == ("fast_fedpg,reuse=true", {"algorithm": "fast_fedpg", "reuse": "true"})
    assert read_cell("x=m.py:f,mu=1") == ("x", {"algorithm": "m.py:f", "mu": "1"})
    assert read_cell("m.py:f,mu=1") == ("f,mu=1", {"algorithm": "m.py:f", "mu": "1"})


def test_one_algorithm_three_times(capsys):
    """reuse takes H estimates a round instead of H + 1: at 4 rounds of 4 estimates the reused one has 16 / 3 rounds."""
    methods = ("fast_fedpg", "reused=fast_fedpg,reuse=true", "fast_fedpg,H=7")
    assert command("compare", *SMALL, "--algorithms", *methods, "--out", "out") == 0
    configs = {name: from_toml(f"out/{name}/config.toml") for name in ("fast_fedpg", "reused", "fast_fedpg,H=7")}
    assert [c.get("reuse") for c in configs.values()] == [False, True, False]
    assert [c.get("H") for c in configs.values()] == [3, 3, 7]
    assert [c.rounds for c in configs.values()] == [4, 5, 2]
    assert not np.allclose(theta("out/reused"), theta("out/fast_fedpg"))
    again = from_file(Path("out/compare.toml"))
    assert again.labels == [*configs]
    assert all(again.config(label) == config.but(rounds=4) for label, config in configs.items())


def test_cells_in_a_file_have_any_settings():
    Path("cells.toml").write_text(
        'problem = "compromise"\nrounds = 2\nseeds = 1\nH = 3\nbudget = "rounds"\n'
        '[compare.sampled]\nalgorithm = {name = "fast_fedpg", eta = 0.25}\noracle = {name = "gpomdp", B = 4, K = 5}\n'
        '[compare.exact]\nalgorithm = "fedavg_pg"\n'
    )
    assert command("compare", "--config", "cells.toml", "--out", "out") == 0
    one, two = from_toml("out/sampled/config.toml"), from_toml("out/exact/config.toml")
    assert (one.oracle, one.get("B"), one.get("K"), one.eta, one.get("H")) == ("gpomdp", 4, 5, 0.25, 3)
    assert (two.oracle, two.algorithm, two.eta, two.get("H")) == ("exact", "fedavg_pg", 0.1, 3)
    assert command("compare", "--config", "out/compare.toml", "--out", "again") == 0
    np.testing.assert_array_equal(theta("again/sampled"), theta("out/sampled"))


def test_a_sweep_is_every_combination(capsys, monkeypatch):
    """Of four none is run; of two both, each as if it were run alone."""
    with monkeypatch.context() as patched:
        four = swept(patched, "--H", 2, 4, "--eta", 0.1, 0.5).labels
    assert four == ["H=2,eta=0.1", "H=2,eta=0.5", "H=4,eta=0.1", "H=4,eta=0.5"]
    words = ("--H", 4, "--eta", 0.1, 0.5, "--budget", "rounds", "--out", "out")
    assert command("sweep", *SMALL[:6], *words) == 0
    labels = from_file(Path("out/compare.toml")).labels
    assert len(labels) == 2
    said = capsys.readouterr().out
    for label in labels:
        assert label in said
        config = from_toml(f"out/{label}/config.toml")
        assert f"eta={config.eta:g}" in label
        assert config.get("H") == 4
    assert command("run", *SMALL[:6], "--H", 4, "--eta", 0.5, "--out", "one") == 0
    np.testing.assert_array_equal(theta(f"out/{labels[1]}"), theta("one"))


def swept(monkeypatch, *words) -> Comparison:
    """The comparison that a sweep asks for; nothing is run."""
    asked = []
    monkeypatch.setattr(run_cells, "compare", lambda comparison, *_, **more: asked.append(comparison))
    monkeypatch.setattr("fastfedpg.cli.sweep.compare_and_report", lambda work, *_: work() or 0)
    assert command("sweep", "--problem", "compromise", *words) == 0
    return asked[0]


def test_a_sweep_has_as_many_seeds_as_a_comparison_where_there_is_noise(monkeypatch):
    seeds = lambda *words: swept(monkeypatch, "--H", 2, 4, *words).settings.seeds
    assert seeds() == seeds("--oracle", "truncated") == 1, "copies of one run tell nothing"
    assert seeds("--oracle", "gpomdp") == seeds("--participants", 1) == Comparison().settings.seeds == 8
    assert seeds("--oracle", "exact", "gpomdp") == 8
    assert (seeds("--seeds", 3), seeds("--seeds", 2, "--oracle", "gpomdp")) == (3, 2)


def test_switches_are_swept(monkeypatch):
    asked = swept(monkeypatch, "--reuse", "true", "false", "--eta", 0.1, 0.5)
    assert asked.labels[:2] == ["reuse=true,eta=0.1", "reuse=true,eta=0.5"]
    assert [asked.config(label).get("reuse") for label in asked.labels] == [True, True, False, False]
    asked = swept(monkeypatch, "--normalise", "yes", "no")
    assert [asked.config(label).normalise for label in asked.labels] == [True, False]


def test_a_sweep_of_nothing(capsys):
    assert command("sweep", *SMALL, "--out", "out") == 2
    assert "Give a flag several values, as in --H 5 10 20" in capsys.readouterr().err
    assert not Path("out").exists()


def test_tuning_over_more_than_step_sizes(capsys):
    """The combination that is run is the one with the least mean J of all that were tried, step sizes included."""
    words = ("--tune", "--tune-over", "H=1,6", "--tune-seeds", 1, "--candidates", 6, "--budget", "rounds")
    assert command("compare", *SMALL, "--algorithms", "fast_fedpg", "centralised_pg", *words, "--out", "out") == 0
    with Path("out/tune.csv").open(newline="") as file:
        trials = [row for row in csv.DictReader(file) if row["J"]]
    assert {row["algorithm"] for row in trials} == {"fast_fedpg,H=1", "fast_fedpg,H=6", "centralised_pg"}
    mine = [row for row in trials if row["algorithm"] != "centralised_pg"]
    best = min(mine, key=lambda row: (float(row["J"]), float(row["eta"])))
    chosen = from_toml("out/fast_fedpg/config.toml")
    said = capsys.readouterr()
    row = next(line for line in said.out.splitlines() if line.startswith("H, tuned too"))
    assert row.split()[-2:] == [str(chosen.get("H")), "–"], "in the table too"
    with Path("out/table.csv").open(newline="") as file:
        assert [row["tuned"] for row in csv.DictReader(file)] == [f"H={chosen.get('H')}", ""]
    assert f"fast_fedpg,H={chosen.get('H')}" == best["algorithm"]
    assert chosen.eta == float(best["eta"])
    assert f"fast_fedpg: H={chosen.get('H')} was best" in said.err


def test_each_cell_is_planned_once(monkeypatch):
    """What used to plan each method four or five times: on the way from the flags to the table it is done once."""
    planned, real = [], plan

    def counted(config, like=None):
        planned.append(config.algorithm)
        return real(config, like)

    for module in (
        "fastfedpg.comparison.cell_plans",
        "fastfedpg.experiment.recorded_run",
        "fastfedpg.experiment.finished_run",
    ):
        monkeypatch.setattr(sys.modules[module], "plan", counted)
    settings = Config("compromise", H=2, rounds=2, seeds=2)
    run_cells.compare(Comparison(settings, ("fast_fedpg", "fedavg_pg")), "out", note=lambda words: None)
    assert sorted(planned) == ["fast_fedpg", "fedavg_pg"]


@pytest.mark.parametrize(
    ("methods", "says"),
    [
        (("fast_fedpg", "fast_fedpg"), "two methods are called fast_fedpg; give one a label of its own"),
        (("a=fast_fedpg", "a=fedavg_pg"), "two methods are called a"),
        (("fast_fedpg,reuse",), "'reuse' is not of the form setting=value"),
        (("fast_fedpg,reusee=true",), "unknown setting 'reusee'; did you mean 'reuse'?"),
        (("fast_fedpg,H=many",), "H is 'many'; it must be a whole number"),
        (("fast_fedpg,H=0",), "H = 0; it must be at least 1"),
        (("a/b=fast_fedpg",), "label 'a/b' can't be a folder's name here"),
        (("table.csv=fast_fedpg",), "label 'table.csv' can't be a folder's name here"),
        ((" =fast_fedpg",), "can't be a folder's name here"),
        (("",), "can't be a folder's name here"),
        (("a=fast_fedpg", "A=fast_fedpg"), "must differ in more than capitals"),
        (("fast_fedpg", "--tune", "--tune-over", "zz=1"), "unknown setting in tune_over 'zz'"),
        (("fast_fedpg", "--tune", "--tune-over", "mid=0.2,0.8"), "unknown setting in tune_over 'mid'"),
        (("fast_fedpg", "--tune", "--tune-over", "agents=2,3"), "unknown setting in tune_over 'agents'"),
        (("fast_fedpg", "--tune", "--tune-over", "first_seed=1,2"), "unknown setting in tune_over 'first_seed'"),
        (("fast_fedpg", "--tune", "--tune-over", "algorithm=fedavg_pg"), "unknown setting in tune_over 'algorithm'"),
        (("fast_fedpg", "--tune", "--tune-over", "oracle=gpomdp"), "counts environment steps, and fast_fedpg does not"),
        (("heavy_anchor", "--tune", "--tune-over", "q=1,99"), "q = 99; it must lie between 1 and H"),
        (("fast_fedpg", "--tune", "--tune-over", "H=x,4"), "argument H of algorithm 'fast_fedpg' is 'x'"),
        (("fast_fedpg", "long=fast_fedpg,rounds=9"), "method 'long' has rounds of its own; the budget gives rounds"),
        (("fast_fedpgg,H=2",), "unknown algorithm 'fast_fedpgg'; did you mean 'fast_fedpg'?"),
        (("fast_fedpg", "other=fast_fedpg,problem=random"), "runs of different problems can't be compared"),
    ],
)
def test_mistakes_in_cells(methods, says, capsys):
    assert command("compare", *SMALL, "--algorithms", *methods, "--out", "out") == 2
    assert says in " ".join(capsys.readouterr().err.split())
    assert not Path("out").exists()


def test_a_label_twice_in_python():
    with pytest.raises(InputError, match="two methods are called weak"):
        Comparison(Config("compromise"), ("weak=fast_fedpg",), cells={"weak": {"algorithm": "fedavg_pg"}}).check()


def test_bytes_are_counted_for_those_who_take_part():
    """Half of the agents in a round send half as much on average: twice as many rounds for the same bytes."""
    settings = Config("compromise", H=2, rounds=4, seeds=1)
    comparison = Comparison(settings, ("fast_fedpg", "half=fast_fedpg,participants=1"), budget="bytes")
    plans = cell_plans.give_rounds(comparison, cell_plans.plan_cells(comparison), lambda words: None)
    assert [p.config.rounds for p in plans.values()] == [4, 8]


@pytest.mark.long  # test_a_sweep_is_every_combination sweeps arguments of algorithm and oracle
def test_arguments_of_the_policy_are_swept():
    words = ("--problem", "compromise", "--policy", "mlp", "--oracle", "gpomdp", "--B", 2, "--K", 3, "--rounds", 1)
    more = ("--evaluation-episodes", 2, "--H", 1, "--budget", "rounds", "--seeds", 1)
    assert command("sweep", *words, *more, "--hidden", 2, 3, "--out", "out") == 0
    sizes = [from_toml(f"out/hidden={n}/config.toml").choice("policy").args["hidden"] for n in (2, 3)]
    assert sizes == [(2,), (3,)]


def test_python_shows_a_report_as_its_table():
    settings = Config("compromise", H=2, rounds=2, seeds=2)
    said = str(run_cells.compare(Comparison(settings, ("fast_fedpg", "fedavg_pg")), "out", note=lambda words: None))
    assert said.splitlines()[0] == "compromise: 2 agents, exact gradients, H = 2"
    assert "gap to the best common policy" in said
    table, _, _ = said.rpartition("\n\n")  # below it are the footnotes
    assert max(map(len, table.splitlines())) <= 100
