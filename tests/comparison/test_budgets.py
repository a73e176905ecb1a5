"""One budget for all methods of a comparison, in rounds, bytes or samples."""

import math
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest

from compared import EXACT, THREE, TWO, column, compare, line_of, refused, table
from fastfedpg import Config, InputError
from fastfedpg.algorithms import ALGORITHMS
from fastfedpg.comparison import cell_plans
from fastfedpg.comparison.paired import EQUIVALENT
from fastfedpg.comparison.spec import Comparison
from fastfedpg.experiment import budgets, plan
from fastfedpg.experiment.config import Settings, from_toml

KNOWING = {"pavg": 2, "qavg": 2, "fednpg": 1}
"""Methods that need an oracle which knows its MDP, and the evaluations of a round with H = 2."""

pytestmark = pytest.mark.usefixtures("fresh_folder")


@pytest.mark.parametrize(
    "settings",
    [
        *({"algorithm": name} for name in ALGORITHMS),
        {"algorithm": "fast_fedpg", "reuse": True},
        {"algorithm": "fast_fedpg", "B0": 5},
        {"algorithm": "fast_fedpg", "B0": 5, "reuse": True},
        {"algorithm": "scaffold_pg", "option": "I"},
        {"algorithm": "scaffold_pg", "everybody": False, "participants": 2},
        {"algorithm": "fedavg_pg", "participants": 2},
    ],
    ids=lambda settings: " ".join(map(str, settings.values())),
)
def test_what_a_round_costs_is_what_a_run_reports(settings):
    """By hand: N (or the participants) times the estimates of a round times B K; the H + 1st estimate is counted.

    Of fedpg_br, N estimates with 16 trajectories, and agent 0's H with 2.
    """
    config = Config("compromise", agents=3, H=2, oracle="gpomdp", B=2, K=3, **settings)
    if config.algorithm in KNOWING:
        planned = plan(replace(config, oracle="exact"))
        cost = 3 * KNOWING[config.algorithm]
        assert (budgets.samples(planned), budgets.unit(planned)) == (cost, "gradient estimates")
        return
    planned = plan(config)
    config = planned.config
    estimates = {
        "centralised_pg": 1,
        "incremental_pg": 1,
        "afedpg": 1,
        "decentralised_pg": 1,
        "mdpgt": 1,
        "fednpg_admm": 1,
        "fast_fedpg": 3 - bool(config.get("reuse")),
        "fedlin_pg": 3,
        "personal_heads": 3,
        "proxskip_pg": 10,
        "scaffold_pg": 2 + (config.get("option") == "I"),
    }
    steps = 6 * estimates.get(config.algorithm, 2) + 3 * ((config.get("B0") or 2) - 2)
    whole = 3 * 16 * 3 + 2 * 2 * 3 if config.algorithm == "fedpg_br" else (config.participants or 3) * steps
    assert budgets.samples(planned) == whole
    assert budgets.cost(planned, "samples") == budgets.samples(planned)
    assert budgets.cost(planned, "rounds") == 1
    part = (config.participants or 3) / 3  # as the metrics count: the mean over all agents
    assert budgets.cost(planned, "bytes") == round(part * (planned.sizes.bytes_up + planned.sizes.bytes_down))
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


def test_a_budget_that_buys_rounds_without_end():
    """By an absurd clock a round takes 1000 s of one method and 1 ns of another: ten rounds are 10^13 of the other."""
    with pytest.raises(
        InputError, match=r"1e\+04 seconds, as 10 rounds of a cost, pay for 1e\+13 rounds of b, .* clock"
    ):
        budgets.rounds("ab", [10**12, 1], 10, budgets.CLOCK)
    with pytest.raises(InputError, match=r"pay for 2e\+08 rounds of b, which cost 1 each; .* --budget rounds"):
        budgets.rounds("ab", [2 * 10**7, 1], 10, "samples")
    assert budgets.rounds("ab", [2, 2], 10**9, "samples") == [10**9, 10**9], "what was asked for"


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
    plans = cell_plans.give_rounds(comparison, cell_plans.plan_cells(comparison), heard.append)
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
    comparison = Comparison(Settings("compromise", alpha_g=0.5), ("minibatch_pg", "centralised_pg"))
    heard = []
    cell_plans.give_rounds(comparison, cell_plans.plan_cells(comparison), heard.append)
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
    assert row["verdict"] in (EQUIVALENT, "better", "worse")
