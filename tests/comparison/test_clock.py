"""A clock turns rounds into seconds: by hand, against simulations of what it stands for, and as a budget."""

import numpy as np
import pytest

from commands import command
from compared import SAMPLED, SETTINGS, compare, line_of, refused, table
from fastfedpg import Config
from fastfedpg.comparison.run_cells import prepare
from fastfedpg.comparison.spec import Comparison
from fastfedpg.experiment import budgets, plan
from fastfedpg.experiment.clock import Clock, Round, seconds

pytestmark = pytest.mark.usefixtures("fresh_folder")

FAR = 4.9
"""Standard errors that a mean of many is away from its expectation with probability 1e-6 at most."""


def test_a_round_by_hand():
    """2 of 0.1 s; 96 + 144 bytes at 1000 a second; 18 steps of 1 ms, times 1 + 0.5 (1 + 1/2 + 1/3) = 23/12."""
    clock = Clock(0.1, 1000.0, 0.001, 0.5)
    assert seconds(clock, Round(2, 96, 144, 18, 3)) == pytest.approx(0.2 + 0.24 + 0.018 * 23 / 12, rel=1e-14)
    assert seconds(clock, Round(2, 96, 144, 18, 1)) == pytest.approx(0.2 + 0.24 + 0.018 * 1.5, rel=1e-14)
    assert seconds(clock._replace(straggle=0.0), Round(1, 0, 0, 18, 3)) == pytest.approx(0.118, rel=1e-14)


@pytest.mark.parametrize("m", [1, 2, 8])
@pytest.mark.parametrize("alike", [True, False])
def test_the_slowest_of_several(m, alike):
    """A round of two synchronisations, 12 and 6 steps of a second, drawn 200,000 times: agents 1 + 0.5 E as slow each.

    Late in both alike, or in each anew: the mean is the same. One agent more or less is 0.5 * 18 / (m + 1) or more,
    at least 1, and a hundred standard errors.
    """
    rng, times = np.random.default_rng(m), 200_000
    first = 1 + 0.5 * rng.exponential(size=(times, m))
    second = first if alike else 1 + 0.5 * rng.exponential(size=(times, m))
    took = 12 * first.max(axis=1) + 6 * second.max(axis=1)
    error = took.std() / np.sqrt(times)
    assert abs(took.mean() - seconds(Clock(0, 1, 1, 0.5), Round(2, 0, 0, 18, m))) < FAR * error
    assert error < 0.03


def test_arrivals_where_nobody_waits():
    """4 agents come and go, 2 s + 3 (1 + 0.5 E) s each time: 40,000 arrivals, 6.5 / 4 seconds apart on average.

    The number of arrivals by time t has variance 4 t s^2 / mu^3 (renewals with mean mu and deviation s = 1.5), so the
    mean distance has the relative error s / mu / sqrt(40,000), and the ends of 4 cycles, 4 / 40,000.
    """
    rng = np.random.default_rng(0)
    ends = np.cumsum(2 + 3 * (1 + 0.5 * rng.exponential(size=(4, 12_000))), axis=1)
    last = np.sort(ends.ravel())[39_999]
    expected = seconds(Clock(2, 1, 1, 0.5), Round(1, 0, 0, 3, 1, at_once=4))
    assert expected == 6.5 / 4
    assert last / 40_000 == pytest.approx(expected, rel=FAR * 1.5 / 6.5 / 200 + 4 / 40_000)


def planned(algorithm: str, **settings):
    return plan(Config("compromise", algorithm=algorithm, agents=3, H=2, oracle="gpomdp", B=2, K=3, **settings))


TIME = Clock(0.1, 1000.0, 0.001, 0.5)


@pytest.mark.parametrize(
    ("algorithm", "settings", "expected"),
    [
        ("fast_fedpg", {}, 0.2 + 0.128 + 0.018 * 23 / 12),  # theta has 4 numbers; 2 of them up, 2 down; 3 estimates
        ("fast_fedpg", {"reuse": True}, 0.2 + 0.128 + 0.012 * 23 / 12),
        ("scaffold_pg", {}, 0.1 + 0.064 + 0.012 * 23 / 12),
        ("fedavg_pg", {"participants": 2}, 0.1 + 0.064 + 0.012 * 7 / 4),  # whoever takes part, and not the mean of all
        ("independent_pg", {}, 0.012 * 1.5),  # nobody waits
        ("incremental_pg", {}, 0.1 + 0.064 + 0.006 * 1.5),
        ("afedpg", {}, (0.1 + 0.064 + 0.006 * 1.5) / 3),  # three are under way
        ("fedlin_pg", {"steps": (1, 2, 2)}, 0.2 + 0.128 + 0.018 * 23 / 12),  # the busiest agent's
    ],
)  # fmt: skip
def test_what_a_round_of_a_method_takes(algorithm, settings, expected):
    assert budgets.seconds(planned(algorithm, **settings), TIME) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("latency", "given"), [(0.0, (6, 9)), (1.0, (6, 12))])
def test_a_second_synchronisation_is_paid_for(latency, given):
    """Fast-FedPG has two of them and 18 steps, SCAFFOLD-PG one and 12.

    Without latency 6 rounds of 18 ms pay for 9 of 12 ms. With a second of latency they are 12.108 s, and 11 rounds of
    1.012 s are 11.132 s, 12 are 12.144 s: too much, unless steps take no time.
    """
    step = 0.001 if latency == 0 else 0.0
    clock = {"latency": latency, "bandwidth": float("inf"), "step_seconds": step}
    asked = Comparison(SETTINGS, ("fast_fedpg", "scaffold_pg"), {"all": 0.5}, "clock", clock=clock)
    plans = prepare(asked, lambda words: None)
    assert tuple(p.config.rounds for p in plans.values()) == given
    both = Comparison(**{**vars(asked), "clock": {**clock, "step_seconds": 0.001}})
    heard: list[str] = []
    plans = prepare(both, heard.append)
    assert tuple(p.config.rounds for p in plans.values()) == ((6, 9) if latency == 0 else (6, 11))
    late = "scaffold_pg stops at 11.13 of 12.11 seconds, its last whole round within the budget"
    assert heard == ([] if latency == 0 else [late])


WORDS = ("latency=0.1", "bandwidth=1000", "step_seconds=0.001", "straggle=0.5")
TWO = ("--algorithms", "fast_fedpg", "scaffold_pg", "--eta", "0.5")


def test_the_table_has_them_and_so_has_one_that_is_gone_on_with(capsys):
    """2 agents, 3 numbers: a round takes 0.2 + 96 / 1000 + 0.018 (1 + 0.5 * 1.5) s, or half of it and 0.012."""
    out = compare(*SAMPLED, *TWO, "--clock", *WORDS)
    rounds = {"fast_fedpg": 6 * (0.2 + 0.096 + 0.018 * 1.75), "scaffold_pg": 9 * (0.1 + 0.048 + 0.012 * 1.75)}
    for name, expected in rounds.items():
        assert float(table(out)[name]["simulated_seconds"]) == pytest.approx(expected, rel=1e-12)
    shown = line_of(capsys.readouterr().out, "simulated seconds").split()
    assert shown[2:] == [f"{x:.4g}" for x in rounds.values()]
    before = (out / "table.csv").read_text()
    assert command("resume", "out") == 0
    assert (out / "table.csv").read_text() == before
    runs = [out / name for name in rounds]
    assert command("compare", *runs, "--clock", *WORDS, "--out", "again") == 0
    assert table("again")["scaffold_pg"]["simulated_seconds"] == table(out)["scaffold_pg"]["simulated_seconds"]


def test_without_a_clock_there_are_none(original, capsys):
    assert {row["simulated_seconds"] for row in table(original).values()} == {""}


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--budget", "clock"), "budget = clock needs a clock"),
        (("--clock", "bandwidth=1", "step_seconds=1"), "clock has no latency; say what takes how long, as in lat"),
        (("--clock", "latency=1", "bandwidth=1"), "clock has no step_seconds"),
        (("--clock", *WORDS, "latncy=1"), "unknown setting of a clock 'latncy'; did you mean 'latency'?"),
        (("--clock", *WORDS, "bandwidth=0"), "clock: bandwidth = 0; it must be above 0: bytes per second"),
        (("--clock", *WORDS, "latency=-1"), "clock: latency = -1; it must be finite and at least 0: seconds"),
        (("--clock", *WORDS, "step_seconds=inf"), "clock: step_seconds = inf; it must be finite"),
        (("--budget", "clock", "--clock", *WORDS, "latency=1e308"), "clock: a round of fast_fedpg takes inf"),
        (("--budget", "clock", "--clock", *WORDS, "bandwidth=1e-320"), "a round of fast_fedpg takes inf seconds"),
        (("--clock", *WORDS, "straggle=much"), "clock: straggle = much; it must be a number: a share of the work"),
        (("--clock", *WORDS, "straggle=true"), "clock: straggle = True; it must be a number"),
    ],
)  # fmt: skip
def test_what_is_refused(words, why, capsys):
    assert why in refused(capsys, *SAMPLED, *TWO, *words, "--out", "out")


def test_a_clock_in_a_file_is_a_table(fresh_folder, tmp_path, capsys):
    (tmp_path / "my.toml").write_text('clock = 3\nproblem = "compromise"\n')
    assert "my.toml: clock is 3; it must be a table" in refused(capsys, "--config", "my.toml", "--out", "out")


def test_a_budget_of_time_that_buys_nothing():
    with pytest.raises(ValueError, match=r"2 seconds do not pay for one round of b, which costs 11; ask for more"):
        budgets.rounds("ab", [10**9, 11 * 10**9], 2, "clock")
