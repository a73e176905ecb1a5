"""`fastfedpg compare`: one budget, one set of random numbers, one table, and no more claims than the numbers bear."""

import csv
import errno
import io
import itertools
import json
import math
import os
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest
from jax.experimental.compilation_cache import compilation_cache

from commands import command
from fastfedpg import Config, InputError
from fastfedpg.algorithms import ALGORITHMS
from fastfedpg.comparison import run_cells, tuning
from fastfedpg.comparison.spec import Comparison, _parse_etas, from_file
from fastfedpg.draw import curves
from fastfedpg.experiment import budgets, exported, files, finished_run, plan, resume, run, run_index
from fastfedpg.experiment.config import Settings, from_toml
from fastfedpg.experiment.statistics import NONE, bootstrap, difference, sign_flip

THREE = ("fast_fedpg", "fedavg_pg", "scaffold_pg")
# A round of one agent costs 3 * 6 steps in fast_fedpg and 2 * 6 in the others: 6, 9 and 9 rounds are the same budget.
SETTINGS = Settings("compromise", H=2, oracle="gpomdp", B=2, K=3, rounds=6, seeds=6)
COMPARISON = Comparison(SETTINGS, THREE, {"all": 0.5})
SAMPLED = [
    "--problem",
    "compromise",
    "--H",
    "2",
    "--oracle",
    "gpomdp",
    "--B",
    "2",
    "--K",
    "3",
    "--rounds",
    "6",
    "--seeds",
    "6",
]
EXACT = ["--problem", "compromise", "--H", "2", "--rounds", "4", "--seeds", "1", "--eta", ".5"]
TWO = ("--algorithms", "fast_fedpg", "fedavg_pg")
NUMBERS = ("metrics.csv", "final.npz", "agents.npz")
PICTURES = ("curves", "policies", "agents")


@pytest.fixture(scope="module", autouse=True)
def compiled_once(tmp_path_factory):
    """Programs that were compiled once are read from the disk; most of the time of these tests would be LLVM's."""
    folder = str(tmp_path_factory.mktemp("compiled"))
    names = {
        "jax_compilation_cache_dir": folder,
        "jax_persistent_cache_min_compile_time_secs": 0,
        "jax_persistent_cache_min_entry_size_bytes": 0,
    }
    before = {name: getattr(jax.config, name) for name in names}
    compilation_cache.reset_cache()
    for name, value in names.items():
        jax.config.update(name, value)
    yield folder
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


@pytest.fixture(autouse=True)
def _fresh_folder(tmp_path, monkeypatch, request):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    if "pictures" not in request.fixturenames:
        for name in PICTURES:
            monkeypatch.setattr(curves, name, lambda *args, **more: [])


@pytest.fixture
def pictures():
    """This test draws."""


@pytest.fixture(scope="module")
def original(tmp_path_factory, compiled_once) -> Path:
    """A comparison that was never interrupted; not to be written to."""
    out = tmp_path_factory.mktemp("original") / "out"
    with pytest.MonkeyPatch.context() as patch:
        for name in PICTURES:
            patch.setattr(curves, name, lambda *args, **more: [])
        run_cells.compare(COMPARISON, out)
    return out


@pytest.fixture
def finished(original) -> Path:
    """A copy of it as an older version left it, whose runs have no results.npz: all is read from their exports."""
    return Path(shutil.copytree(original, "finished", ignore=shutil.ignore_patterns("results.npz")))


def compare(*words) -> Path:
    """A comparison that must succeed, in the folder `out`."""
    assert command("compare", *words, "--out", "out") == 0
    return Path("out")


def refused(capsys, *words) -> str:
    """The one line that says why a comparison is refused."""
    assert command("compare", *words) == 2
    said = capsys.readouterr().err
    assert "Traceback" not in said
    return said


def table(folder: Path | str = "out") -> dict[str, dict[str, str]]:
    with (Path(folder) / "table.csv").open(newline="", encoding="utf-8") as file:
        return {row["label"]: row for row in csv.DictReader(file)}


def column(folder: Path | str, name: str) -> np.ndarray:
    """One column of metrics.csv, (seeds, records)."""
    with (Path(folder) / "metrics.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    seeds = len({row["seed"] for row in rows})
    return np.array([float(row[name] or "nan") for row in rows]).reshape(seeds, -1)


def notes(capsys) -> list[str]:
    return [line[6:] for line in capsys.readouterr().err.splitlines() if line.startswith("note: ")]


def line_of(text: str, start: str) -> str:
    return next(line for line in text.splitlines() if line.strip().startswith(start))


def numbers(folder: Path | str) -> dict[str, bytes]:
    cells = [p for p in sorted(Path(folder).iterdir()) if (p / "config.toml").is_file()]
    return {f"{cell.name}/{name}": (cell / name).read_bytes() for cell in cells for name in NUMBERS}


def without_seconds(folder: Path | str) -> list[dict[str, str]]:
    return [{k: v for k, v in row.items() if k != "seconds"} for row in table(folder).values()]


# One budget


@pytest.mark.parametrize(
    "settings",
    [
        *({"algorithm": name} for name in ALGORITHMS),
        {"algorithm": "fast_fedpg", "reuse": True},
        {"algorithm": "fast_fedpg", "B0": 5},
        {"algorithm": "fast_fedpg", "B0": 5, "reuse": True},
        {"algorithm": "scaffold_pg", "option": "I"},
        {"algorithm": "fedavg_pg", "participants": 2},
    ],
    ids=lambda settings: " ".join(map(str, settings.values())),
)
def test_what_a_round_costs_is_what_a_run_reports(settings):
    """By hand: N (or the participants) times the estimates of a round times B K; the H + 1st estimate is counted."""
    config = Config("compromise", agents=3, H=2, oracle="gpomdp", B=2, K=3, **settings)
    planned = plan(config)
    estimates = {"centralised_pg": 1, "fast_fedpg": 3 - config.reuse, "scaffold_pg": 2 + (config.option == "I")}
    steps = 6 * estimates.get(config.algorithm, 2) + 3 * ((config.B0 or 2) - 2)
    assert budgets.samples(planned) == (config.participants or 3) * steps
    assert budgets.cost(planned, "samples") == budgets.samples(planned)
    assert budgets.cost(planned, "rounds") == 1
    assert budgets.cost(planned, "bytes") == planned.sizes.bytes_up + planned.sizes.bytes_down
    assert budgets.unit(planned) == "environment steps"


def test_what_a_round_costs_is_what_the_simulation_counts(original):
    for name in THREE:
        planned = plan(from_toml(original / name / "config.toml"))
        steps = column(original / name, "env_steps")
        np.testing.assert_array_equal(steps, budgets.samples(planned) * column(original / name, "round"))
        sent = column(original / name, "bytes_up") + column(original / name, "bytes_down")
        np.testing.assert_array_equal(sent, budgets.cost(planned, "bytes") * column(original / name, "round"))


def test_exact_gradients_are_counted_in_estimates():
    planned = plan(Config("compromise", H=4))
    assert (budgets.samples(planned), budgets.unit(planned)) == (2 * 5, "gradient estimates")
    assert budgets.samples(plan(Config("compromise", H=4, algorithm="fedavg_pg"))) == 2 * 4


def test_rounds_of_one_budget():
    """Never over it, never a whole round under it, and exactly at it where a common multiple is near."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        costs = [int(c) for c in rng.integers(1, 40, rng.integers(1, 5))]
        asked = int(rng.integers(40, 400))
        given = budgets.rounds([f"m{k}" for k in range(len(costs))], costs, asked, "samples")
        spent = [n * c for n, c in zip(given, costs, strict=True)]
        assert 0.9 * asked * costs[0] <= spent[0] <= asked * costs[0]
        assert given[0] <= asked
        together = math.lcm(*costs)
        if asked * costs[0] % together < 0.1 * asked * costs[0]:
            assert {*spent} == {asked * costs[0] // together * together}
        else:
            assert given[0] == asked
            assert all(s <= spent[0] < s + c for s, c in zip(spent, costs, strict=True))


@pytest.mark.parametrize(
    ("costs", "asked", "given"),
    [
        ([11, 10], 100, [100, 110]),
        ([11, 10], 103, [100, 110]),
        ([11, 10], 9, [9, 9]),
        ([4, 0, 2], 5, [5, 5, 10]),
        ([1, 1, 1], 7, [7, 7, 7]),
        ([3, 2, 2], 6, [6, 9, 9]),
    ],
)
def test_rounds_by_hand(costs, asked, given):
    assert budgets.rounds("abc"[: len(costs)], costs, asked, "samples") == given


def test_a_budget_that_buys_nothing(capsys):
    with pytest.raises(InputError, match=r"10 samples do not pay for one round of b, which costs 11; ask for more"):
        budgets.rounds("ab", [5, 11], 2, "samples")
    said = refused(capsys, *EXACT, "--budget", "bytes", "--algorithms", "independent_pg", "fedavg_pg", "--out", "out")
    assert "a budget in bytes needs a first method that spends some; independent_pg does not" in said
    assert not Path("out").exists()


def test_all_stop_at_the_same_number_of_environment_steps(original):
    """2 agents, 6 rounds of (H + 1) B K = 18 steps: 216; H B K = 12 steps in a round of the others: 9 rounds."""
    for name, rounds in zip(THREE, (6, 9, 9), strict=True):
        assert (column(original / name, "env_steps")[:, -1] == 216).all()
        assert column(original / name, "round")[0, -1] == rounds
        assert from_toml(original / name / "config.toml").rounds == rounds
        assert table(original)[name]["samples"] == "216.0"


def test_samples_are_the_default_budget():
    assert Comparison().budget == "samples"
    assert Comparison().algorithms == THREE


@pytest.mark.parametrize(("budget", "rounds"), [("rounds", (4, 4)), ("bytes", (4, 8)), ("samples", (4, 6))])
def test_budgets(budget, rounds):
    """fast_fedpg sends twice what fedavg_pg does, in 3 estimates of a round instead of 2."""
    out = compare(*EXACT, *TWO, "--budget", budget)
    assert tuple(int(row["rounds"]) for row in table(out).values()) == rounds


def budgeted(**settings) -> tuple[list[str], list[int]]:
    """What is said of a budget, and the rounds of every method."""
    heard: list[str] = []
    comparison = Comparison(Settings("compromise", **settings), TWO[1:])
    plans = run_cells._budgeted(comparison, run_cells._plans(comparison), heard.append)
    return heard, [p.config.rounds for p in plans.values()]


def test_a_budget_that_does_not_divide_is_said():
    """With H = 5 and 2 agents a round costs 12 and 10 estimates; with H = 10, 22 and 20."""
    said = "fedavg_pg stops at 40 of 48 gradient estimates, its last whole round within the budget"
    assert budgeted(H=5, rounds=4) == ([said], [4, 4])
    said = "fast_fedpg has 10 rounds instead of 11, so that all stop at 220 gradient estimates"
    assert budgeted(H=10, rounds=11) == ([said], [10, 11])
    assert budgeted(H=10, rounds=10) == ([], [10, 11])


def test_a_budget_beyond_32_bits():
    """H B K N is 2 * 10^10 steps in a round; the command line itself is not in 64-bit mode."""
    with jax.enable_x64(False):
        planned = plan(Config("compromise", H=1000, oracle="gpomdp", B=1000, K=10_000))
        assert budgets.samples(planned) == 2 * 1001 * 10**7


def test_a_setting_that_no_method_uses_is_said_once():
    said = "alpha_g = 0.5 has no effect: no method here uses it"
    comparison = Comparison(Settings("compromise", alpha_g=0.5), ("fedavg_pg", "centralised_pg"))
    heard = []
    run_cells._budgeted(comparison, run_cells._plans(comparison), heard.append)
    assert said in heard
    assert not [words for words in budgeted(alpha_g=0.5)[0] if "effect" in words], "one of them does"


def test_independent_pg_sends_nothing(capsys):
    out = compare(*EXACT, "--budget", "bytes", "--algorithms", "fedavg_pg", "independent_pg")
    said = capsys.readouterr()
    assert "note: independent_pg spends no bytes: it has as many rounds as fedavg_pg, 4" in said.err
    row = table(out)["independent_pg"]
    assert (row["bytes"], row["syncs"], row["rounds"]) == ("0.0", "0.0", "4")
    assert line_of(said.out, "bytes per agent").split()[-1] == "0"
    with np.load(out / "independent_pg/final.npz") as file:
        assert file["theta"].shape == (1, 2, 1, 3), "a policy of its own for every agent"
    assert row["verdict"] in (NONE, "better", "worse")


# Common random numbers


def test_a_cell_is_the_run_of_the_same_configuration_to_the_byte(original, capsys):
    for name in THREE:
        config = original / name / "config.toml"
        assert command("run", "--config", config, "--out", f"again-{name}") == 0
        for file in NUMBERS:
            assert Path(f"again-{name}", file).read_bytes() == (original / name / file).read_bytes()


def test_methods_that_do_the_same_draw_the_same(original):
    """In the first round all control variates are zero, so scaffold_pg's is fedavg_pg's: to the last bit of J."""
    a, b = (column(original / name, "J") for name in ("fedavg_pg", "scaffold_pg"))
    np.testing.assert_array_equal(a[:, :2], b[:, :2])
    assert len({*a[:, 1]}) == 6, "and every seed has numbers of its own"
    assert (a[:, 2:] != b[:, 2:]).all()


def test_all_methods_have_the_same_seeds_and_start(original):
    for name in THREE:
        assert column(original / name, "seed")[:, 0].tolist() == [0, 1, 2, 3, 4, 5]
        np.testing.assert_array_equal(column(original / name, "J")[:, 0], column(original / THREE[0], "J")[:, 0])


# Step sizes


def test_a_step_size_for_each():
    compare(*EXACT, *TWO, "--eta", "fast_fedpg=.5", "fedavg_pg=.25")
    assert [from_toml(f"out/{name}/config.toml").eta for name in TWO[1:]] == [0.5, 0.25]
    assert [row["eta"] for row in table().values()] == ["0.5", "0.25"]


def test_a_step_size_for_one_leaves_the_others_theirs():
    comparison = Comparison(SETTINGS, THREE, _parse_etas(["2", "fedavg_pg=.5"]))
    assert [comparison.config(name).eta for name in THREE] == [2.0, 0.5, 2.0]
    comparison = Comparison(SETTINGS, THREE, _parse_etas(["fedavg_pg=.5"]))
    assert [comparison.config(name).eta for name in THREE] == [Config().eta, 0.5, Config().eta]
    assert comparison.without_eta == ["fast_fedpg", "scaffold_pg"], "which a note says"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["fedavg=2"], "unknown algorithm in eta 'fedavg'; did you mean 'fedavg_pg'?"),
        (["scaffold_pg=2"], "unknown algorithm in eta 'scaffold_pg'"),
        (["fast_fedpg=two"], "two"),
        (["fast"], "fast"),
        (["0"], "eta = 0; a step size must be positive and finite"),
        (["1", "fedavg_pg=-1"], "eta = -1; a step size must be positive and finite"),
        (["nan"], "eta = nan; a step size must be positive and finite"),
        (["fedavg_pg="], "fedavg_pg="),
        (["fedavg_pg=1", "fedavg_pg=2"], "one step size for all, and one for each method"),
    ],
)
def test_wrong_step_sizes(words, why, capsys):
    assert why in refused(capsys, *EXACT, *TWO, "--eta", *words, "--out", "out")
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--algorithms", "fast_fedpg", "fedavg"], "unknown algorithm 'fedavg'; did you mean 'fedavg_pg'?"),
        (["--algorithms", "fedavg_pg", "fedavg_pg"], "name each once"),
        (["--algorithms"], "at least one"),
        (["--budget", "samples", "--rounds", 0], "rounds = 0; it must be at least 1"),
        (["--tune", "--candidates", 5], "candidates = 5; a fair choice needs at least 6"),
        (["--tune", "--tune-seeds", 0], "tune_seeds = 0; it must be at least 1"),
        (["--problem", "compromis"], "did you mean 'compromise'?"),
    ],
)
def test_wrong_comparisons(words, why, capsys):
    assert why in refused(capsys, *words, "--out", "out")
    assert not Path("out").exists()


def test_an_unknown_budget(capsys):
    assert command("compare", *EXACT, "--budget", "seconds", "--out", "out") == 2
    assert not Path("out").exists()


# Tuning


def tried(folder: Path | str = "out") -> dict[str, dict[float, float]]:
    """J by method and step size, from tune.csv."""
    found: dict[str, dict[float, float]] = {}
    with (Path(folder) / "tune.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            assert (row["state"] == "diverged") == (row["J"] == "")
            found.setdefault(row["algorithm"], {})[float(row["eta"])] = float(row["J"] or "inf")
    return found


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


def fake_try(monkeypatch, J, calls=None):
    """Trials without a run: J as a function of the method and eta."""

    def trial(name, planned, etas, seeds, report):
        if calls is not None:
            calls.append((name, list(etas)))
        return [tuning.Trial(name, e, J(name, e)) for e in etas]

    monkeypatch.setattr(tuning, "_try", trial)


def tune(eta=1.0, candidates=6, note=lambda words: None):
    plans = dict.fromkeys(("a", "b"), plan(Config("compromise")))
    return tuning.tune(plans, eta, candidates, 2, Path("tune.csv"), run_cells.unseen, note)


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


# Statistics


def test_sign_flip_is_the_count_over_all_signs():
    rng = np.random.default_rng(3)
    for n in (2, 3, 5, 8):
        for _ in range(4):
            d = rng.normal(0.4, 1, n)
            means = np.array([np.mean(d * s) for s in itertools.product((1, -1), repeat=n)])
            tail = min((means >= d.mean() - 1e-12).mean(), (means <= d.mean() + 1e-12).mean())
            assert sign_flip(d) == pytest.approx(min(1, 2 * tail))
    assert sign_flip(np.zeros(8)) == 1
    assert sign_flip(np.ones(1)) == 1
    assert sign_flip(np.ones(6)) == 2**-5


def test_differences_that_nobody_claims_are_not_claimed():
    """480 times 8 pairs without a difference: at most 5% claims, and three standard deviations of that count.

    A rule that claims 5% of the time passes with probability 0.9987; one that claims 10% fails with more than 0.97.
    """
    rng = np.random.default_rng(11)
    claims, n = 0, 480
    for _ in range(n):
        shared = rng.normal(size=8)
        first, other = shared + rng.normal(size=8), shared + rng.normal(size=8)
        claims += difference(first, other).verdict != NONE
    assert claims <= 0.05 * n + 3 * math.sqrt(0.05 * 0.95 * n)


def test_a_clear_difference_is_claimed_with_8_seeds():
    rng = np.random.default_rng(5)
    for _ in range(40):
        first = rng.normal(size=8)
        other = first + 1 + 0.2 * rng.normal(size=8)  # five standard deviations of a pair
        assert difference(first, other).verdict == "worse"
        assert difference(other, first).verdict == "better"
        assert difference(first, other, comparisons=3).verdict == "worse"


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_few_seeds_never_show_a_difference(n):
    first = np.arange(n, dtype=float)
    assert difference(first, first + 1000).verdict == NONE


def test_several_comparisons_ask_for_more():
    """6 seeds can show p = 2^-5 = 0.031: enough for one comparison at 5%, not for each of two at 2.5%."""
    first, other = np.zeros(6), np.array([1.0, 1.1, 0.9, 1.2, 0.8, 1.0])
    assert difference(first, other, 1).verdict == "worse"
    assert difference(first, other, 2).verdict == NONE
    assert np.isclose(difference(first, other, 2).interval.mean, 1)
    one, two = difference(first, other, 1).interval, difference(first, other, 2).interval
    assert two.low < one.low < one.high < two.high
    assert one == bootstrap(other, 0.95, resamples=100_000)


def test_without_noise_a_difference_counts_from_one_percent_of_the_first_gap_on():
    gap = np.array([0.5])
    assert difference(gap, gap + 0.0099, noise=False, scale=1.0).verdict == NONE
    assert difference(gap, gap + 0.0101, noise=False, scale=1.0).verdict == "worse"
    assert difference(gap, gap - 0.0101, noise=False, scale=1.0).verdict == "better"
    assert difference(gap, gap, noise=False, scale=0.0).verdict == NONE


def test_without_noise_a_factor_of_two_counts_where_it_is_more_than_rounding():
    of = lambda a, b, **how: difference(np.array([a]), np.array([b]), noise=False, scale=1.0, **how).verdict
    assert of(1e-4, 2.1e-4) == "worse"
    assert of(2.1e-4, 1e-4) == "better"
    assert of(1e-4, 1.9e-4) == NONE
    assert of(0.0, 1e-4) == "worse"
    assert of(1e-15, 8e-15) == NONE, "rounding"
    assert of(1e-4, 2.1e-4, factor=False) == NONE, "values without a natural zero"


def test_differences_are_paired():
    """Seeds that differ by 100 and methods by 1: only in pairs is that seen."""
    first = 100.0 * np.arange(8)
    jitter = np.array([0, 0.1, -0.1, 0.05, 0, -0.05, 0.1, -0.1])
    assert difference(first, first + 1 + jitter).verdict == "worse"
    assert difference(first, (first + 1 + jitter)[::-1]).verdict == NONE


# One table


def test_the_table_is_what_the_run_folders_hold(original):
    found = table(original)
    assert list(found) == list(THREE)
    first = column(original / THREE[0], "gap")[:, -1]
    for name, row in found.items():
        folder = original / name
        gap = column(folder, "gap")
        value = lambda key, row=row: float(row[key])
        mean, low, high = bootstrap(gap[:, -1])
        assert (value("value"), value("value_low"), value("value_high")) == pytest.approx((mean, low, high), rel=1e-12)
        assert gap[:, -1].min() <= low < mean < high <= gap[:, -1].max()
        with np.load(folder / "agents.npz") as file:
            returns = file["returns"][:, -1]
        assert value("return_mean") == pytest.approx(returns.mean(), rel=1e-12)
        assert value("return_worst") == pytest.approx(returns.min(axis=1).mean(), rel=1e-12)
        sent = column(folder, "bytes_up") + column(folder, "bytes_down")
        assert value("bytes") == sent[:, -1].mean()
        assert value("syncs") == column(folder, "syncs")[0, -1]
        assert value("samples") == column(folder, "env_steps")[0, -1]
        assert value("seconds") == json.loads((folder / "summary.json").read_text())["seconds"]
        assert row["seeds"] == "6"
        if name == THREE[0]:
            assert row["difference"] == row["verdict"] == ""
        else:
            d = gap[:, -1] - first
            mean, low, high = bootstrap(d, 1 - 0.05 / 2, resamples=100_000)
            assert value("difference") == pytest.approx(d.mean(), rel=1e-9)
            assert (value("difference_low"), value("difference_high")) == pytest.approx((low, high), rel=1e-9)
            assert row["verdict"] == difference(first, gap[:, -1], 2).verdict


def test_what_is_printed(finished, capsys):
    assert command("resume", finished) == 0
    said = capsys.readouterr().out
    for words in (
        "step size eta", "gap to the best common policy", "95% interval over 6 seeds", "minus that of fast_fedpg",
        "its interval, paired", "so it is", "mean return of the agents", "worst agent's return",
        "rounds to 1% of the first gap", "environment steps until then", "rounds", "environment steps, all agents",
        "bytes per agent, up and down", "synchronisations", "seconds",
    ):  # fmt: skip
        assert line_of(said, words)
    found = table(finished)
    shown = line_of(said, "gap to the best common policy").split()[-3:]
    assert shown == [f"{float(row['value']):.4g}" for row in found.values()]
    assert line_of(said, "environment steps, all agents").split()[-3:] == ["216", "216", "216"]
    low, high = float(found["fast_fedpg"]["value_low"]), float(found["fast_fedpg"]["value_high"])
    assert f"{low:.4g} to {high:.4g}" in line_of(said, "95% interval")
    assert "95% for all 2 together" in said
    assert "written: finished/table.csv" in said


def test_rounds_and_samples_to_one_percent_of_the_first_gap():
    """From the records themselves: the first that has no more than 1% of the gap at round 0."""
    out = compare(
        "--problem", "compromise", "--H", 5, "--eta", 10, "--rounds", 20, "--seeds", 3, "--algorithms", "fast_fedpg"
    )
    gap = column(out / "fast_fedpg", "gap")[0]
    reached = next(k for k, g in enumerate(gap) if g <= 0.01 * gap[0])
    assert 0 < reached < 20
    row = table(out)["fast_fedpg"]
    assert float(row["rounds_to"]) == reached
    assert float(row["samples_to"]) == 2 * 6 * reached
    assert row["arrived"] == "3"


def test_the_median_counts_seeds_that_never_arrive_as_infinitely_late():
    from fastfedpg.comparison.table import _median

    assert _median(np.array([3, 5, 9]), 3) == 5
    assert _median(np.array([3, 5, 9]), 5) == 9
    assert _median(np.array([3, 5, 9]), 6) == math.inf
    assert _median(np.array([]), 4) == math.inf


def test_pngs_and_svgs(pictures, capsys):
    grid = ("--problem", "compromise-grid", "--problem-args", "n=3", "--H", 2, "--eta", 2)
    out = compare(*grid, "--rounds", 2, *TWO)
    for name in PICTURES:
        assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "</svg>" in (out / f"{name}.svg").read_text(encoding="utf-8")
    said = capsys.readouterr().out
    assert all(f"written: out/{name}.png" in said for name in PICTURES)
    svg = (out / "curves.svg").read_text(encoding="utf-8")
    assert svg.count('id="axes_') == 3, "over rounds, samples and bytes"


def test_kernels_that_differ_are_compared_by_J(capsys):
    out = compare("--problem", "random", "--problem-args", "S=3", "A=2", "kernel=1", "--H", 2, "--rounds", 3, *TWO[:2])
    said = capsys.readouterr().out
    assert line_of(said, "J, the mean cost (there is no J*)")
    assert "gap" not in said.replace("of the first gap on", "")
    for name, row in table(out).items():
        assert float(row["value"]) == column(out / name, "J")[0, -1]
        assert row["rounds_to"] == row["samples_to"] == ""


def test_a_title_and_labels_with_brackets_are_printed_as_they_are(finished, capsys):
    shutil.copytree(finished / "fast_fedpg", "a[b]")
    shutil.copytree(finished / "fast_fedpg", "c[d]")
    compare("a[b]", "c[d]")
    said = capsys.readouterr().out
    assert "fast_fedpg (a[b])" in said
    assert "fast_fedpg (c[d])" in said


# Where the difference disappears


def verdicts(said: str) -> str:
    row = line_of(said, "so it is")
    return " ".join(row.split()[3:])


def test_small_steps_show_no_difference(capsys):
    """eta H = 0.002: the methods differ by far less than 1% of the first gap."""
    compare(*EXACT, "--eta", 0.001, *TWO)
    said = capsys.readouterr().out
    assert verdicts(said) == NONE
    assert NONE == "no difference at this sample size"
    assert {row["verdict"] for row in table().values()} == {"", NONE}


def test_large_steps_show_one(capsys):
    """The same methods where client drift is large, so that the words above are not said of everything."""
    compare("--problem", "compromise", "--H", 20, "--eta", 2, "--rounds", 20, *TWO)
    assert verdicts(capsys.readouterr().out) == "worse"


def test_noise_above_drift_shows_no_difference(capsys):
    """Eq. (5) on the grid, with 2 trajectories in an estimate."""
    grid = ("--problem", "compromise-grid", "--problem-args", "n=3", "--oracle", "reinforce", "--B", 2, "--K", 5)
    compare(*grid, "--H", 2, "--eta", 0.02, "--rounds", 4, "--seeds", 8, *TWO)
    said = capsys.readouterr().out
    assert verdicts(said) == NONE
    gap = [column(f"out/{name}", "gap")[:, -1] for name in TWO[1:]]
    assert not np.allclose(*gap, rtol=1e-6), "they do differ, seed by seed"


# Runs that are there already


def test_finished_runs_are_compared(finished, capsys):
    out = compare(*(finished / name for name in THREE))
    assert without_seconds(out) == without_seconds(finished)
    assert notes(capsys) == []
    assert not list(out.glob("*/config.toml")), "nothing was run"


def test_one_algorithm_twice_is_told_apart_by_its_folder(finished):
    shutil.copytree(finished / "fedavg_pg", "slow")
    shutil.copytree(finished / "fedavg_pg", "quick")
    assert list(table(compare("slow", "quick", finished / "fast_fedpg"))) == [
        "fedavg_pg (slow)", "fedavg_pg (quick)", "fast_fedpg",
    ]  # fmt: skip
    shutil.copytree("slow", "other/slow")
    assert list(table(compare("slow", "other/slow", "--overwrite"))) == ["slow", "other/slow"]
    assert table()["other/slow"]["verdict"] == NONE


def edit(folder: Path | str, **settings) -> None:
    """Another configuration in a folder."""
    path = Path(folder) / "config.toml"
    path.write_text(replace(from_toml(path), **settings).to_toml())


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"problem": "compromise-grid", "problem_args": {"n": 3}}, "problem is compromise in"),
        ({"problem_args": {"mid": 0.7}}, "problem_args is {} in"),
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
    with files.held(finished / "fedavg_pg"):
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
    (said,) = notes(capsys)
    assert str(path) in said
    assert said.endswith("it is left out")
    assert without_seconds(out)[1]["value"] == without_seconds(finished)[1]["value"]


# Metrics that were cut off


def cuts(text: str) -> dict[str, tuple[str, int]]:
    """Damaged files by name, and how many of the 42 rows of 6 seeds each still has in whole seeds."""
    lines = text.splitlines(keepends=True)
    return {
        "one digit of the last number": (text[:-2], 35),
        "the last line break": (text[:-1], 35),
        "half of the last line": (text[: -len(lines[-1]) // 2], 35),
        "the last line": (text[: -len(lines[-1])], 35),
        "inside the third seed": (text[: sum(map(len, lines[:18])) + 9], 14),
        "inside the first seed": (text[: sum(map(len, lines[:4])) + 9], 3),
        "after one row": (text[: sum(map(len, lines[:2]))], 1),
        "garbage in the middle": ("".join([*lines[:10], "\x00\ufffd,,\n", *lines[11:]]), 35),
        "words in the middle": ("".join([*lines[:10], "nan," * 16 + "nan\n", *lines[11:]]), 35),
        "a quote in the middle": ("".join([*lines[:10], '"' + lines[10], *lines[11:]]), 35),
        "a line of a megabyte": ("".join([*lines[:10], "x" * 1_000_000 + "\n", *lines[11:]]), 35),
        "a column less": ("".join([*lines[:10], lines[10].split(",", 1)[1], *lines[11:]]), 35),
        "a row twice": ("".join([*lines[:10], lines[10], *lines[10:]]), 35),
    }


CUTS = [*cuts("0,0\n" * 43)]


@pytest.mark.parametrize("cut", CUTS)
def test_the_good_rows_are_used(cut, finished, capsys):
    path = finished / "fast_fedpg/metrics.csv"
    whole = path.read_text()
    text, used = cuts(whole)[cut]
    path.write_text(text, encoding="utf-8")
    heard = []
    outcome, _ = finished_run.read(finished / "fast_fedpg", "it", heard.append)
    (said,) = heard
    assert str(path) in said
    assert f"{used} of 42 rows are used" in said
    assert f"{42 - used} are not" in said
    assert ("cut off inside line" in said) == (not text.endswith("\n"))
    assert outcome.result.metrics["gap"].size == used
    rows = {tuple(line.split(",")[:2]): line.split(",") for line in whole.splitlines()}
    at = rows[("seed", "round")].index("gap")
    for seed, gaps in zip(outcome.seeds, outcome.result.metrics["gap"], strict=True):
        for number, gap in zip(outcome.result.rounds, gaps, strict=True):
            assert gap == float(rows[(str(seed), str(number))][at])
    assert outcome.result.returns.shape == (len(outcome.seeds), len(outcome.result.rounds), 2)
    with np.load(finished / "fast_fedpg/agents.npz") as file:
        np.testing.assert_array_equal(
            outcome.result.returns, file["returns"][np.ix_(outcome.seeds, outcome.result.rounds)]
        )


@pytest.mark.parametrize("byte", range(0, 4000, 397))
def test_a_file_cut_at_any_byte(byte, finished):
    """Never a traceback: a message, or what is left."""
    path, heard = finished / "fast_fedpg/metrics.csv", []
    whole = path.read_bytes()
    path.write_bytes(whole[:byte])
    if byte < sum(map(len, whole.splitlines(keepends=True)[:2])):
        with pytest.raises(InputError, match=str(path)):
            finished_run.read(finished / "fast_fedpg", "it", heard.append)
    else:
        outcome, _ = finished_run.read(finished / "fast_fedpg", "it", heard.append)
        assert len(heard) == 1
        assert np.isfinite(outcome.result.metrics["gap"]).all()


@pytest.mark.parametrize("text", ["", "seed,round", "seed,round,J\n", "\x00\x01\n\n", "a,b\n1,2\n"])
def test_metrics_without_a_row(text, finished, capsys):
    path = finished / "fast_fedpg/metrics.csv"
    path.write_text(text)
    assert str(path) in refused(capsys, finished / "fast_fedpg", "--out", "out")


def test_a_row_in_the_middle_of_one_seed_is_left_out_of_everything(finished):
    """What is left of the only seed is of the rounds that it says, in the returns too."""
    path, heard = finished / "fast_fedpg/metrics.csv", []
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:3], "garbage\n", *lines[4:8]]))
    outcome, _ = finished_run.read(finished / "fast_fedpg", "it", heard.append)
    assert outcome.result.rounds.tolist() == [0, 1, 3, 4, 5, 6]
    with np.load(finished / "fast_fedpg/agents.npz") as file:
        np.testing.assert_array_equal(outcome.result.returns[0], file["returns"][0, [0, 1, 3, 4, 5, 6]])


def test_a_cut_file_in_a_comparison(finished, capsys):
    path = finished / "fedavg_pg/metrics.csv"
    path.write_text(path.read_text()[:-2])
    out = compare(finished / "fast_fedpg", finished / "fedavg_pg")
    said = notes(capsys)
    assert f"{path}: cut off inside line 61; 50 of 60 rows are used (5 of 6 seeds), 10 are not" in said
    assert "fedavg_pg and fast_fedpg have 1 seeds not in common; differences leave them out" in said
    assert table(out)["fedavg_pg"]["seeds"] == "5"


# Comparisons that were stopped


@contextmanager
def stopping(monkeypatch, stop, title="fedavg_pg", at=4):
    """Something happens in the middle of one cell."""
    from fastfedpg.cli import compare

    real = compare.progress

    @contextmanager
    def shown(console, name, rounds):
        with real(console, name, rounds) as report:

            def heard(done, record=None):
                report(done, record)
                if name.startswith(title) and done == at and record is not None:
                    stop()

            yield heard

    with monkeypatch.context() as patch:
        patch.setattr(compare, "progress", shown)
        yield


def times(folder: Path) -> dict[str, int]:
    return {str(p): p.stat().st_mtime_ns for p in sorted(folder.rglob("*")) if p.is_file()}


FLAGS = (*SAMPLED, "--eta", 0.5, "--checkpoint-rounds", 2)


def resumed(original: Path, capsys) -> None:
    """The end is that of a comparison that was never stopped, and the first cell was not touched."""
    before = times(Path("out/fast_fedpg"))
    assert {"config.toml", "metrics.csv", "summary.json"} <= {Path(name).name for name in before}
    assert command("resume", "out") == 0
    assert times(Path("out/fast_fedpg")) == before
    assert numbers("out") == numbers(original)
    assert without_seconds("out") == without_seconds(original)
    assert "fast_fedpg: round" not in capsys.readouterr().err


def test_ctrl_c_and_resume(original, monkeypatch, capsys):
    with stopping(monkeypatch, lambda: os.kill(os.getpid(), signal.SIGINT)):
        assert command("compare", *FLAGS, "--out", "out") == 130
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("fastfedpg: interrupted after round ")
    assert said.endswith("fastfedpg resume out goes on")
    assert json.loads(Path("out/fedavg_pg/summary.json").read_text())["state"] == "interrupted"
    assert not Path("out/scaffold_pg").exists()
    resumed(original, capsys)


def test_ctrl_c_while_tuning(monkeypatch, capsys):
    """What was tried until then is kept, and it must not say that nothing was done."""
    calls = []
    fake_try(monkeypatch, lambda name, e: abs(math.log2(e) - 0.25), calls)
    kept = tuning._try

    def stop(name, *rest):
        if name == "fedavg_pg":
            raise KeyboardInterrupt
        return kept(name, *rest)

    monkeypatch.setattr(tuning, "_try", stop)
    assert command("compare", *EXACT, *TWO, "--tune", "--out", "out") == 130
    said = capsys.readouterr().err
    assert "before anything was done" not in said
    assert said.splitlines()[-1].endswith("fastfedpg resume out goes on")
    assert {*tried()} == {"fast_fedpg"}


KILLED = """
import os, signal, sys
from contextlib import contextmanager
from fastfedpg import cli
from fastfedpg.cli import compare
@contextmanager
def shown(console, name, rounds):
    yield lambda done, record=None: os.kill(os.getpid(), signal.SIGKILL) if (name, done) == ("fedavg_pg", 5) else None
compare.progress = shown
cli.main(sys.argv[1:])
"""


def test_sigkill_and_resume(original, compiled_once, capsys):
    more = {"JAX_COMPILATION_CACHE_DIR": compiled_once, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    words = [sys.executable, "-c", KILLED, "compare", *map(str, FLAGS), "--out", "out"]
    done = subprocess.run(words, env={**os.environ, **more}, capture_output=True, timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert not Path("out/fedavg_pg/summary.json").exists()
    assert Path("out/fedavg_pg/checkpoints/000000004").is_dir()
    resumed(original, capsys)


def test_nothing_is_run_again(finished, monkeypatch, capsys):
    monkeypatch.setattr(run_cells, "execute", None)
    before = times(finished / "fast_fedpg") | times(finished / "fedavg_pg") | times(finished / "scaffold_pg")
    (finished / "table.csv").unlink()
    assert command("resume", finished) == 0
    assert before == {k: v for k, v in times(finished).items() if k in before}
    assert list(table(finished)) == list(THREE)


def test_a_cell_of_another_configuration(finished, capsys):
    edit(finished / "fedavg_pg", eta=0.25)
    assert command("resume", finished) == 2
    assert "a run of another configuration (eta is 0.25 there and 0.5 here)" in capsys.readouterr().err


def test_two_processes_do_not_work_in_one_folder(finished, capsys):
    with files.held(finished):
        assert command("resume", finished) == 2
    assert "another process is at work in this folder" in capsys.readouterr().err


def test_a_comparison_repeats_from_its_file(original):
    assert from_file(original / "compare.toml") == COMPARISON
    text = (original / "compare.toml").read_text()
    assert "fastfedpg compare --config THIS_FILE --out ANOTHER_FOLDER" in text
    out = compare("--config", original / "compare.toml")
    assert numbers(out) == numbers(original)
    assert without_seconds(out) == without_seconds(original)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("algorithms = 3", "algorithms is 3; it must be a list of names"),
        ('algorithms = ["fedavg"]', "unknown algorithm 'fedavg'"),
        ('budget = "bits"', "unknown budget 'bits'; did you mean 'bytes'?"),
        ('eta = "x"', "eta of all is 'x'; it must be a number"),
        ("tune = 1", "tune is 1; it must be true or false"),
        ("algorithm = 'fedavg_pg'", "unknown setting 'algorithm'"),
        ("H = 0", "H = 0; it must be at least 1"),
    ],
)
def test_wrong_files(text, why, capsys):
    Path("compare.toml").write_text(text)
    assert why in refused(capsys, "--config", "compare.toml", "--out", "out")
    assert not Path("out").exists()


def test_a_folder_that_holds_something(finished, capsys):
    why = "the folder is not empty; choose another --out, or give --overwrite"
    before = times(finished)
    assert why in refused(capsys, *EXACT, *TWO, "--out", finished)
    assert why in refused(capsys, finished / "fast_fedpg", "--out", finished)
    assert times(finished) == before
    Path("foreign").mkdir()
    Path("foreign/thesis.tex").write_text("dear")
    assert why in refused(capsys, *EXACT, *TWO, "--out", "foreign")
    assert command("compare", *EXACT, *TWO, "--out", finished, "--overwrite") == 0
    assert list(table(finished)) == list(TWO[1:])
    assert not (finished / "scaffold_pg").exists(), "nothing of the earlier comparison is left"
    assert len(column(finished / "fedavg_pg", "gap")) == 1
    assert command("compare", *EXACT, *TWO, "--out", "foreign", "--overwrite") == 0
    assert Path("foreign/thesis.tex").read_text() == "dear"


# What goes wrong on the way


def diverging(monkeypatch, *names):
    """These methods diverge in their first round."""
    real = run_cells.execute

    def execute(planned, cell, *rest):
        if planned.config.algorithm not in names:
            return real(planned, cell, *rest)
        (cell / "summary.json").write_text('{"state": "diverged"}')
        raise run_cells.Diverged(1, "local", 0, 3, ". Try a smaller eta.")

    monkeypatch.setattr(run_cells, "execute", execute)


def test_a_method_that_diverges_is_left_out(monkeypatch, capsys):
    diverging(monkeypatch, "fast_fedpg")
    out = compare(*EXACT)
    said, instead = notes(capsys)
    assert said.startswith("fast_fedpg is left out: ")
    assert instead == "differences are to fedavg_pg instead of fast_fedpg"
    assert "Try a smaller eta" in said
    assert list(table(out)) == ["fedavg_pg", "scaffold_pg"]
    assert table(out)["scaffold_pg"]["difference"], "to the first that is left"
    monkeypatch.setattr(run_cells, "execute", None)
    assert command("resume", out) == 0, "and it is not tried again"
    assert notes(capsys) == ["fast_fedpg is left out: it diverged", instead]


def test_all_diverge(monkeypatch, capsys):
    diverging(monkeypatch, *TWO)
    said = refused(capsys, *EXACT, *TWO, "--out", "out")
    assert "out: every method diverged; try a smaller eta, or --tune" in said


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EROFS])
def test_a_disk_that_is_full_or_read_only_in_the_middle(error, original, monkeypatch, capsys):
    """The second cell can't write its metrics: what was kept is said, with its place, and a resume goes on."""
    real = os.replace

    def fail(a, b, *rest, **more):
        if Path(b).name == "metrics.csv" and Path(b).parent.name == "fedavg_pg":
            raise OSError(error, os.strerror(error))
        return real(a, b, *rest, **more)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", fail)
        assert command("compare", *FLAGS, "--out", "out") == 1
    said = capsys.readouterr().err.splitlines()[-1]
    assert os.strerror(error) in said
    assert "kept in out: " in said
    assert "nothing" not in said
    assert "fast_fedpg" in said, "the cell that has finished is there"
    assert said.endswith("fastfedpg resume out goes on")
    resumed(original, capsys)


def test_a_full_disk_under_a_comparison_of_runs(finished, monkeypatch, capsys):
    """There is nothing to go on with: the runs are where they were."""

    def fail(path, text):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(run_cells, "write_text", fail)
    assert command("compare", finished / "fast_fedpg", "--out", "out") == 1
    said = capsys.readouterr().err
    assert "No space left on device" in said
    assert "resume out" not in said


def test_a_folder_that_can_not_be_made(monkeypatch, capsys):
    monkeypatch.setattr(os, "access", lambda *args: False)
    assert "no permission to write" in refused(capsys, *EXACT, *TWO, "--out", "out")


def test_no_figures_without_matplotlib(finished, monkeypatch, capsys):
    def missing(*args):
        raise InputError("matplotlib is not installed")

    monkeypatch.setattr(curves, "curves", missing)
    assert command("resume", finished) == 0
    assert notes(capsys) == ["no figures: matplotlib is not installed"]
    assert list(table(finished)) == list(THREE)


def test_a_start_from_a_file_is_no_noise(tmp_path):
    """One theta for all seeds makes exact runs no less exact: the 1% rule holds, and copies are not replicates."""
    np.savez(tmp_path / "start.npz", theta=np.zeros((1, 3)))
    settings = Settings(problem="compromise", H=10, rounds=60, seeds=1, theta0=str(tmp_path / "start.npz"))
    report = run_cells.compare(
        Comparison(settings, TWO[1:], eta={"all": 0.05}), tmp_path / "out", note=lambda words: None
    )
    assert not report.lines[1].noise
    assert report.lines[1].difference.verdict == "worse"


def test_overwriting_leaves_one_identity(tmp_path):
    """A run over a comparison is a run, and a comparison over a run a comparison."""
    config = Config(problem="compromise", rounds=2)
    settings = Settings(problem="compromise", rounds=2, seeds=1)
    run(config, tmp_path / "out")
    run_cells.compare(
        Comparison(settings, TWO[1:], eta={"all": 0.05}), tmp_path / "out", overwrite=True, note=lambda words: None
    )
    assert {e.folder.name for e in run_index.find(tmp_path / "out")} == set(TWO[1:])
    run(config, tmp_path / "out", overwrite=True)
    assert not (tmp_path / "out" / run_cells.FILE).exists()


def test_python_resume_does_not_repeat_what_has_finished(tmp_path):
    run(Config(problem="compromise", rounds=2), tmp_path / "out")
    with pytest.raises(InputError, match="has finished; there is nothing to go on with"):
        resume(tmp_path / "out")
