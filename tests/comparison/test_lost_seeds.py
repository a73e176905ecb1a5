"""A seed that diverges counts as the worst, in every number that is made of seeds, and the others go on."""

import json
import math

import numpy as np
import pytest

from commands import command
from compared import column, compare, line_of, table
from fastfedpg.comparison.paired import NONE, difference
from fastfedpg.statistics import geometric, median, share

pytestmark = pytest.mark.usefixtures("fresh_folder")


def test_one_lost_seed_is_not_an_absent_one():
    """Ten times as good on 7 seeds, which alone would be "better", and lost on the eighth."""
    first = np.exp(np.random.default_rng(0).normal(size=8))
    other = first / 10
    assert difference(first[:7], other[:7], log=True).verdict == "better"
    other[3] = math.inf
    found = difference(first, other, log=True)
    assert found.verdict == NONE
    assert found.interval.mean == math.inf
    assert found.interval.low == pytest.approx(0.1)
    assert found.interval.high == math.inf
    assert found.chance.mean == 7 / 8
    assert difference(other, first, log=True).chance.mean == 1 / 8


def test_lost_on_every_seed_is_worse_and_lost_by_both_is_alike():
    first, lost = np.ones(8), np.full(8, math.inf)
    assert difference(first, lost, log=True).verdict == "worse"
    assert difference(first, lost).verdict == "worse"
    assert difference(first, lost, noise=False, scale=1.0, log=True).verdict == "worse"
    assert difference(lost, lost, log=True).chance.mean == 0.5
    assert difference(lost, lost, log=True).verdict not in ("better", "worse")
    both = np.where(np.arange(8) < 4, math.inf, 1.0)
    assert difference(both, both[::-1], log=True).verdict == NONE, "as many on either side"


def test_numbers_of_seeds_that_are_lost():
    assert geometric(np.array([1.0, 4.0])).mean == pytest.approx(2)
    assert geometric(np.array([1.0, math.inf])).mean == math.inf
    assert list(median(np.array([5.0, 1, math.inf, 2, 3, math.inf]))) == [5, 1, math.inf]
    assert np.isnan(median(np.arange(5.0))[1:]).all(), "2^-5 on each side: no ends at 95%"
    assert list(median(np.arange(9.0))) == [4, 1, 7], "(1 + 9) 2^-9 = 0.0195 on each side"
    low, high = share(8, 8).low, share(8, 8).high
    assert (low, high) == (pytest.approx(0.025 ** (1 / 8)), 1), "low^8 = 0.025"


def test_the_others_go_on(capsys):
    """Agent 1 meets its one cost by chance; whoever does takes a step beyond float64, and the others none at all."""
    stay = np.tile([[0.98, 0.02], [0.0, 1.0]], (2, 1, 1)).transpose(1, 0, 2)
    reward = np.ones((2, 2, 2))
    reward[1, 1] = 0
    np.savez("mdp.npz", P=stay, reward=reward, rho=np.array([1.0, 0.0]), gamma=0.9)
    methods = ("small=fedavg_pg,eta=.1", "large=fedavg_pg,eta=1.7e308")
    words = ("--problem", "mdp.npz", "--oracle", "gpomdp", "--B", 1, "--K", 10, "--H", 1, "--rounds", 3, "--seeds", 8)
    out = compare(*words, "--algorithms", *methods)
    said = capsys.readouterr()
    J = column(out / "large", "J")[:, -1]
    lost = int(np.isnan(J).sum())
    assert 0 < lost < 8
    assert f"note: large: {lost} of 8 seeds diverged; they count as worse than all others" in said.err
    assert line_of(said.out, "seeds that diverged").split()[-3:] == [str(lost), "of", "8"]
    assert line_of(said.out, "mean gap to best common policy").split()[-1] == "diverged"
    row = table(out)["large"]
    assert (row["lost"], row["value"], row["geometric"]) == (str(lost), "", "")
    gap, small = column(out / "large", "gap")[:, -1], column(out / "small", "gap")[:, -1]
    wins = np.where(gap == small, 0.5, gap < small)
    assert float(row["chance"]) == pytest.approx(np.where(np.isnan(gap), 0, wins).mean())
    assert json.loads((out / "large/summary.json").read_text())["state"] == "finished"
    assert command("compare", *words, "--algorithms", methods[1], "--runtime", "loop", "--out", "slow") == 0
    for name in ("gap", "env_steps", "bytes_up"):
        np.testing.assert_allclose(column("slow/large", name), column(out / "large", name), rtol=1e-9)
