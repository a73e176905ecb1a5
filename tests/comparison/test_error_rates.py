"""The rule of comparisons errs no more often than it says, for gaps as skewed as they come, and never about itself."""

import numpy as np
import pytest
from scipy.stats import binom

from compared import compare, table
from fastfedpg.comparison.paired import BETTER, EQUIVALENT, MARGIN, WORSE, difference

TIMES, SEEDS = 1500, 8
ALLOWED = binom(TIMES, 0.025).ppf(0.9999)
"""A rule with errors of 2.5% on a side passes with probability 0.9999; one with 5% fails with more than 0.9."""


def said(first: float, other: float, common: float = 0.0, ratio: float = 1.0) -> list[str]:
    """Verdicts on gaps whose logarithms are normal with these standard deviations, and with a part in common."""
    rng, found = np.random.default_rng(1), []
    for _ in range(TIMES):
        seed, a, b = rng.normal(size=(3, SEEDS))
        x, y = np.exp(common * seed + first * a), ratio * np.exp(common * seed + other * b)
        found.append(difference(x, y, log=True).verdict)
    return found


@pytest.mark.parametrize(
    ("first", "other", "common"), [(1, 1, 0), (0.5, 0.5, 1), (0, 1, 0)], ids=["independent", "paired", "unlike"]
)
def test_gaps_of_one_geometric_mean(first, other, common):
    """Lognormal with sigma = 1; of 2^8 signs 6 are in a tail: 2.34%."""
    found = said(first, other, common)
    assert found.count(BETTER) <= ALLOWED
    assert found.count(WORSE) <= ALLOWED
    assert found.count(BETTER) + found.count(WORSE) >= binom(TIMES, 2 * 6 / 256).ppf(0.0001), "and is not idle"


def test_gaps_that_differ_by_the_margin_are_not_called_equivalent():
    assert said(0.1, 0.1, 1.0, ratio=1 + MARGIN).count(EQUIVALENT) <= ALLOWED
    assert said(0.1, 0.1, 1.0).count(EQUIVALENT) >= 0.85 * TIMES, "with so little noise equals are"


def test_plain_differences_would_not_hold_it():
    """A constant beside a lognormal(1) of the same mean: its median is less, and few seeds show no large value."""
    rng = np.random.default_rng(2)
    first = np.full(SEEDS, np.exp(0.5))
    found = [difference(first, np.exp(rng.normal(size=SEEDS))).verdict for _ in range(TIMES)]
    assert found.count(BETTER) > 0.08 * TIMES


@pytest.mark.parametrize("seeds", [1, 2, 6, 8, 20, 600])
def test_nothing_is_worse_than_itself(seeds):
    x = np.exp(np.random.default_rng(3).normal(size=seeds))
    for noise in (True, False):
        for log in (True, False):
            for comparisons in (1, 5):
                verdict = difference(x, x.copy(), comparisons, noise, 1.0, log).verdict
                assert verdict not in (BETTER, WORSE)
                assert seeds < 9 or verdict == EQUIVALENT


@pytest.mark.usefixtures("fresh_folder")
@pytest.mark.parametrize("oracle", [("exact",), ("gpomdp", "--B", 2, "--K", 3)], ids=["exact", "sampled"])
def test_a_method_beside_itself(oracle):
    words = ("--problem", "compromise", "--H", 2, "--rounds", 3, "--seeds", 6, "--eta", 2, "--oracle", *oracle)
    compare(*words, "--algorithms", "a=fedavg_pg", "b=fedavg_pg")
    row = table()["b"]
    assert (row["verdict"], float(row["ratio"]), float(row["chance"])) == (EQUIVALENT, 1, 0.5)


@pytest.mark.usefixtures("fresh_folder")
def test_a_margin_of_ones_own(capsys):
    words = ("--problem", "compromise", "--H", 10, "--rounds", 30, "--seeds", 1, "--eta", 0.05)
    methods = ("--algorithms", "fast_fedpg", "fedavg_pg")
    compare(*words, *methods)
    ratio = float(table()["fedavg_pg"]["ratio"])
    assert (table()["fedavg_pg"]["verdict"] == EQUIVALENT) == (1 / 1.25 <= ratio <= 1.25)
    tight = abs(np.expm1(abs(np.log(ratio)))) / 2
    compare("out/fast_fedpg", "out/fedavg_pg", "--margin", tight, "--overwrite")
    assert table()["fedavg_pg"]["verdict"] in (BETTER, WORSE)
    assert float(table()["fedavg_pg"]["margin"]) == pytest.approx(1 + tight)
    assert f"between {1 / (1 + tight):.4g} and {1 + tight:.4g} are equivalent (--margin)" in capsys.readouterr().out
