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
from dataclasses import asdict, replace
from pathlib import Path

import jax
import numpy as np
import pytest
from jax.experimental.compilation_cache import compilation_cache

from fastfedpg import Config, InputError, cli
from fastfedpg.algorithms import ALGORITHMS
from fastfedpg.config import Settings, from_toml
from fastfedpg.study import budgets, comparisons, figures, files, outcomes, plan, statistics, tuning
from fastfedpg.study.comparisons import Comparison
from fastfedpg.study.statistics import NONE, bootstrap, difference, sign_flip

THREE = ("fast_fedpg", "fedavg_pg", "scaffold_pg")
# A round of one agent costs 3 * 6 steps in fast_fedpg and 2 * 6 in the others: 6, 9 and 9 rounds are the same budget.
SETTINGS = Settings("compromise", H=2, oracle="gpomdp", B=2, K=3, rounds=6, seeds=6)
COMPARISON = Comparison(SETTINGS, THREE, {"all": 0.5})
SAMPLED = "--problem compromise --H 2 --oracle gpomdp --B 2 --K 3 --rounds 6 --seeds 6".split(" ")
EXACT = "--problem compromise --H 2 --rounds 4".split(" ")
TWO = ("--algorithms", "fast_fedpg", "fedavg_pg")
NUMBERS = ("metrics.csv", "final.npz", "agents.npz")
PICTURES = ("curves", "policies", "agents")


@pytest.fixture(scope="module", autouse=True)
def _compiled_once(tmp_path_factory):
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
            monkeypatch.setattr(figures, name, lambda *args, **more: [])


@pytest.fixture
def pictures():
    """This test draws."""


@pytest.fixture(scope="module")
def original(tmp_path_factory, _compiled_once) -> Path:
    """A comparison that was never interrupted; not to be written to."""
    out = tmp_path_factory.mktemp("original") / "out"
    with pytest.MonkeyPatch.context() as patch:
        for name in PICTURES:
            patch.setattr(figures, name, lambda *args, **more: [])
        comparisons.compare(COMPARISON, out)
    return out


@pytest.fixture
def finished(original) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(original, "finished"))


def command(*words) -> int:
    """The exit code of `fastfedpg …`."""
    try:
        return cli.main([str(w) for w in words])
    except SystemExit as stop:
        return stop.code


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


def test_a_budget_that_does_not_divide_is_said(capsys):
    """4 rounds of 3 estimates and 2 agents: 24, of which independent_pg spends 2 * 5 in a round with H = 5."""
    compare(*EXACT[:2], "--H", 5, "--rounds", 4, *TWO)
    assert "fedavg_pg stops at 40 of 48 gradient estimates, its last whole round within the budget" in notes(capsys)
    compare("--problem", "compromise", "--H", 10, "--rounds", 11, *TWO, "--overwrite")
    said = "fast_fedpg has 10 rounds instead of 11, so that all stop at 220 gradient estimates"
    assert said in notes(capsys)
    assert [row["rounds"] for row in table().values()] == ["10", "11"]


def test_independent_pg_sends_nothing(capsys):
    out = compare(*EXACT, "--eta", 0.5, "--budget", "bytes", "--algorithms", "fedavg_pg", "independent_pg")
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


def test_one_step_size_for_all_or_one_for_each():
    compare(*EXACT, *TWO, "--eta", 0.25)
    assert [from_toml(f"out/{name}/config.toml").eta for name in TWO[1:]] == [0.25, 0.25]
    compare(*EXACT, *TWO, "--eta", "fast_fedpg=2", "fedavg_pg=.5", "--overwrite")
    assert [from_toml(f"out/{name}/config.toml").eta for name in TWO[1:]] == [2.0, 0.5]
    assert [row["eta"] for row in table().values()] == ["2.0", "0.5"]


def test_a_step_size_for_one_leaves_the_others_theirs():
    comparison = Comparison(SETTINGS, THREE, comparisons._parse_etas(["2", "fedavg_pg=.5"]))
    assert [comparison.config(name).eta for name in THREE] == [2.0, 0.5, 2.0]
    comparison = Comparison(SETTINGS, THREE, comparisons._parse_etas(["fedavg_pg=.5"]))
    assert [comparison.config(name).eta for name in THREE] == [Config().eta, 0.5, Config().eta]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["fedavg=2"], "unknown algorithm in eta 'fedavg'; did you mean 'fedavg_pg'?"),
        (["scaffold_pg=2"], "unknown algorithm in eta 'scaffold_pg'"),
        (["fast_fedpg=two"], "two"),
        (["fast"], "fast"),
        (["0"], "eta = 0; a step size must be positive and finite"),
        (["fedavg_pg=-1"], "eta = -1; a step size must be positive and finite"),
        (["nan"], "eta = nan; a step size must be positive and finite"),
        (["fedavg_pg="], "fedavg_pg="),
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


def test_a_setting_that_no_method_uses_is_said_once(capsys):
    compare(*EXACT, "--algorithms", "fedavg_pg", "--reuse")
    assert notes(capsys) == ["reuse = True has no effect: no method here uses it"]
    compare(*EXACT, *TWO, "--reuse", "--overwrite")
    assert not [words for words in notes(capsys) if "effect" in words], "one of them does"


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
    out = compare(*SAMPLED, *TWO, "--tune", "--tune-seeds", 3, "--first-seed", 2, "--eta", 4)
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
    for schedule, _ in schedules:
        chosen = {*range(schedule.first_seed, schedule.first_seed + schedule.seeds)}
        assert chosen == {8, 9, 10}
        assert not chosen & {*column(out / "fedavg_pg", "seed")[:, 0]}
    assert [s.rounds for s, _ in schedules[:2]] == [6, 9], "on the same budget as what is reported"


def test_what_tuning_says_of_a_step_size_is_what_a_run_of_it_gives():
    out = compare(*EXACT, "--algorithms", "fedavg_pg", "--tune", "--tune-seeds", 1, "--eta", 2)
    best = from_toml(out / "fedavg_pg/config.toml").eta
    np.testing.assert_allclose(column(out / "fedavg_pg", "J")[0, -1], tried(out)["fedavg_pg"][best], rtol=1e-12)


def fake_try(monkeypatch, J, calls=None):
    """Trials without a run: J as a function of the method and eta."""

    def trial(name, planned, etas, seeds, report):
        if calls is not None:
            calls.append((name, list(etas)))
        return [tuning.Trial(name, e, J(name, e)) for e in etas]

    monkeypatch.setattr(tuning, "_try", trial)


def tune(eta=1.0, candidates=6, note=lambda words: None):
    plans = dict.fromkeys(("a", "b"), plan(Config("compromise")))
    return tuning.tune(plans, eta, candidates, 2, Path("tune.csv"), comparisons.unseen, note)


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
    """Steps of 1e307 overflow; the smaller ones of the same program do not, and have the J that they have alone."""
    planned = plan(Config("compromise", algorithm="fedavg_pg", H=2, rounds=4))
    found = tuning._try("fedavg_pg", planned, [0.5, 1e308], 1, lambda done: None)
    assert [math.isnan(t.J) for t in found] == [False, True]
    (alone,) = tuning._try("fedavg_pg", planned, [0.5], 1, lambda done: None)
    assert found[0].J == pytest.approx(alone.J, rel=1e-12)
    (lost,) = tuning._try("fedavg_pg", planned, [1e308], 1, lambda done: None)
    assert math.isnan(lost.J)


def test_too_few_candidates():
    with pytest.raises(InputError, match="candidates = 5; a fair choice needs at least 6"):
        tune(candidates=5)


def test_a_tuned_comparison_resumes_without_a_trial(schedules):
    out = compare(*EXACT, "--algorithms", "fedavg_pg", "--tune", "--tune-seeds", 1, "--eta", 4)
    before, text = len(schedules), (out / "tune.csv").read_bytes()
    (out / "fedavg_pg/summary.json").unlink()
    eta = from_toml(out / "fedavg_pg/config.toml").eta
    assert command("resume", out) == 0
    assert len(schedules) == before
    assert (out / "tune.csv").read_bytes() == text
    assert float(table(out)["fedavg_pg"]["eta"]) == eta


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
    assert one == bootstrap(other, 0.95)


def test_without_noise_a_difference_counts_from_one_percent_of_the_first_gap_on():
    gap = np.array([0.5])
    assert difference(gap, gap + 0.0099, noise=False, scale=1.0).verdict == NONE
    assert difference(gap, gap + 0.0101, noise=False, scale=1.0).verdict == "worse"
    assert difference(gap, gap - 0.0101, noise=False, scale=1.0).verdict == "better"
    assert difference(gap, gap, noise=False, scale=0.0).verdict == NONE


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
            mean, low, high = bootstrap(d, 1 - 0.05 / 2)
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
    out = compare("--problem", "compromise", "--H", 5, "--eta", 10, "--rounds", 60, "--algorithms", "fast_fedpg")
    gap = column(out / "fast_fedpg", "gap")[0]
    reached = next(k for k, g in enumerate(gap) if g <= 0.01 * gap[0])
    assert 0 < reached < 60
    row = table(out)["fast_fedpg"]
    assert float(row["rounds_to"]) == reached
    assert float(row["samples_to"]) == 2 * 6 * reached
    assert row["arrived"] == "1"


def test_the_median_counts_seeds_that_never_arrive_as_infinitely_late():
    from fastfedpg.study.table import _median

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
    out = compare("--problem", "random", "--problem-args", "S=3", "A=2", "kernel=1", "--H", 2, "--rounds", 3, *TWO)
    said = capsys.readouterr().out
    assert line_of(said, "J, the mean cost (there is no J*)")
    assert "gap" not in said.replace("of the first gap on", "")
    for name, row in table(out).items():
        assert float(row["value"]) == column(out / name, "J")[0, -1]
        assert row["rounds_to"] == row["samples_to"] == ""


def test_a_title_and_labels_with_brackets_are_printed_as_they_are(finished, capsys):
    shutil.copytree(finished / "fast_fedpg", "a[b]")
    shutil.copytree(finished / "fast_fedpg", "c[/d]".replace("/", ""))
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
    compare(*EXACT, "--eta", 0.001)
    said = capsys.readouterr().out
    assert verdicts(said) == f"{NONE} {NONE}"
    assert NONE == "no difference at this sample size"
    assert {row["verdict"] for row in table().values()} == {"", NONE}


def test_large_steps_show_one(capsys):
    """The same methods where client drift is large, so that the words above are not said of everything."""
    compare("--problem", "compromise", "--H", 20, "--eta", 2, "--rounds", 20, *TWO)
    assert verdicts(capsys.readouterr().out) == "worse"
    compare("--problem", "compromise", "--H", 20, "--eta", 2, "--rounds", 20, *TWO[:1], *TWO[:0:-1], "--overwrite")
    assert verdicts(capsys.readouterr().out) == "better"


def test_noise_above_drift_shows_no_difference(capsys):
    """Eq. (5) on the grid, with 2 trajectories in an estimate."""
    grid = ("--problem", "compromise-grid", "--problem-args", "n=3", "--oracle", "reinforce", "--B", 2, "--K", 5)
    compare(*grid, "--H", 2, "--eta", 0.02, "--rounds", 4, "--seeds", 8, *TWO)
    said = capsys.readouterr().out
    assert verdicts(said) == NONE
    gap = [column(f"out/{name}", "gap")[:, -1] for name in TWO[1:]]
    assert not np.allclose(*gap, rtol=1e-6), "they do differ, seed by seed"
