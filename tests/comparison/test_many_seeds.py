"""Intervals and tests over thousands of seeds: what resampling would come to, quickly, and never deaf to Ctrl-C."""

import signal
import time

import numpy as np
import pytest
from scipy.special import ndtr, ndtri, stdtrit
from scipy.stats import binom

from fastfedpg.comparison.paired import difference
from fastfedpg.many_values import MANY, SINGLES
from fastfedpg.statistics import SUBSETS, bootstrap, symmetric


def all_resamples(values, level):
    """The quantiles over all n^n resamples of whole numbers, by the n-th power of one draw's characteristic function.

    They lie on a lattice of 1/n, here less than 0.01 of a standard error.
    """
    n = len(values)
    length = 1 << int(n * values.max() + 1).bit_length()
    one = np.bincount(values, minlength=length) / n
    total = np.fft.irfft(np.fft.rfft(one) ** n, length).cumsum()
    tail = ndtr(np.sqrt(n / (n - 1)) * stdtrit(n - 1, (1 - level) / 2))
    return [np.searchsorted(total, p) / n for p in (tail, 1 - tail)]


@pytest.mark.parametrize("level", [0.95, 0.999])
@pytest.mark.parametrize("skewed", [1, 60])
def test_the_interval_is_that_of_all_resamples(skewed, level):
    """Within 0.012 standard errors; without the term of the skewness, (z^2 - 1) g / 6, it would be off by 0.04."""
    n = MANY + 300
    values = np.random.default_rng(0).integers(0, 100, n)
    values[::25] *= 1 + 2 * (skewed > 1)
    got, want = bootstrap(values, level), all_resamples(values, level)
    error = values.std() / np.sqrt(n)
    assert abs(got.low - want[0]) < 0.012 * error
    assert abs(got.high - want[1]) < 0.012 * error
    if skewed > 1:
        middle = (want[0] + want[1]) / 2 - values.mean()
        assert middle > 0.03 * error


def test_just_below_and_just_above_it_is_the_same_interval():
    """10,000 drawn resamples know a quantile to 0.03 standard errors; three times that is allowed, twice."""
    values = np.random.default_rng(1).normal(size=MANY + 1)
    below, above, error = bootstrap(values[:MANY]), bootstrap(values), 1 / np.sqrt(MANY)
    shift = above.mean - below.mean
    assert abs(above.low - below.low - shift) < 0.09 * error
    assert abs(above.high - below.high - shift) < 0.09 * error


def test_a_value_that_outweighs_all_others_is_resampled():
    """0 but for one 1 in n: the mean is a binomial number over n, which is far from normal."""
    n = MANY + 100
    got = bootstrap(np.eye(1, n)[0], resamples=4000)
    tail = ndtr(np.sqrt(n / (n - 1)) * stdtrit(n - 1, 0.025))
    assert [got.low, got.high] == pytest.approx([binom(n, 1 / n).ppf(p) / n for p in (tail, 1 - tail)])


@pytest.fixture
def counted(monkeypatch):
    """How many numbers are drawn, whatever the distribution."""
    numbers, real = [], np.random.default_rng

    class Counting:
        def __init__(self, seed):
            self.rng = real(seed)

        def __getattr__(self, name):
            def draw(*given, **named):
                drawn = getattr(self.rng, name)(*given, **named)
                numbers.append(np.size(drawn))
                return drawn

            return draw

    monkeypatch.setattr(np.random, "default_rng", Counting)
    return numbers


def test_columns_that_are_resampled_share_what_is_drawn(counted):
    """One seed of a run went astray; each column's interval is what it would be alone, from the same resamples."""
    n, resamples = MANY + 100, 1000
    values = np.random.default_rng(5).lognormal(size=(n, 40))
    values[7] += n
    counted.clear()
    got = bootstrap(values, resamples=resamples)
    assert sum(counted) == resamples * (SINGLES + 2), "counts of each, of the others, and a normal number"
    alone = [bootstrap(column, resamples=resamples) for column in values.T]
    np.testing.assert_allclose(np.stack(got[1:], axis=1), [each[1:] for each in alone], rtol=1e-12)


@pytest.mark.parametrize("n", [1_000, 100_000])
def test_what_is_drawn_does_not_grow_with_the_values(n, counted):
    """One of them outweighs all others: drawn one by one, 100,000 would take 10^9 numbers, and 2 * 10^9 signs."""
    values = np.eye(1, n)[0]
    low, high = bootstrap(values)[1:]
    tail = ndtr(np.sqrt(n / (n - 1)) * stdtrit(n - 1, 0.025))
    assert [low, high] == pytest.approx([binom(n, 1 / n).ppf(p) / n for p in (tail, 1 - tail)])
    assert sum(counted) == 10_000 * (SINGLES + 2)
    counted.clear()
    assert symmetric(values).low == 0
    assert sum(counted) == SUBSETS * (SINGLES + 4), "and how many others, of either infinity, and a normal number"


@pytest.mark.parametrize("level", [0.95, 0.999])
def test_what_is_drawn_of_some_is_what_resampling_all_comes_to(level):
    """Three of 3,000 weigh more than all others together. 10,000 resamples know a 2.5% quantile to 0.03 standard
    errors and a 0.05% one to 0.13, of which three are allowed, and 0.021 or 0.075 for the normal sum of the others."""
    n = 3000
    values = np.random.default_rng(8).integers(0, 20, n)
    values[:3] = 400
    got, want, error = bootstrap(values, level), all_resamples(values, level), values.std() / np.sqrt(n)
    within = (0.03 * 3 + 0.021 if level == 0.95 else 0.13 * 3 + 0.075) * error
    assert abs(got.low - want[0]) < within
    assert abs(got.high - want[1]) < within


def test_signs_of_many_of_which_some_outweigh_the_others():
    """By drawing the signs of all: of 19,999 subsets the ends are known to 0.026 standard errors, and so are these."""
    d = np.random.default_rng(9).normal(0.1, 1, MANY + 200)
    d[:3] = 15, -12, 18
    got = symmetric(d)
    signs = np.random.default_rng(1).integers(0, 2, (SUBSETS, len(d)))
    low, high = np.quantile(signs @ d / signs.sum(axis=1), (0.025, 0.975))
    error = d.std() / np.sqrt(len(d))
    assert abs(got.low - low) < 4 * np.sqrt(2) * 0.026 * error
    assert abs(got.high - high) < 4 * np.sqrt(2) * 0.026 * error
    d[0] = np.inf
    assert symmetric(d).high == np.inf
    d[:4] = np.inf, np.inf, -np.inf, -np.inf
    assert symmetric(d)[1:] == (-np.inf, np.inf)


def test_all_alike_or_not_a_number():
    got = bootstrap(np.stack([np.full(MANY + 1, 7.0), np.full(MANY + 1, np.nan)], axis=1))
    assert got.low[0] == got.high[0] == 7
    assert np.isnan([got.low[1], got.high[1]]).all()


def test_signs_of_many_differences():
    """The end at which the normal sum of d - c, whose variance is the sum of (d - c)^2, is its own 2.5% quantile.

    19,999 drawn subsets know it to 0.026 standard errors; four times that is allowed.
    """
    d = np.random.default_rng(2).normal(0.06, 1, MANY + 200)
    drawn, mean = symmetric(d[:MANY]), d[:MANY].mean()
    half = ndtri(0.975) * d[:MANY].std() / np.sqrt(MANY - ndtri(0.975) ** 2)
    assert abs(drawn.low - (mean - half)) < 0.11 / np.sqrt(MANY)
    assert abs(drawn.high - (mean + half)) < 0.11 / np.sqrt(MANY)
    low = symmetric(d).low
    assert ndtr((d - low).sum() / np.sqrt(((d - low) ** 2).sum())) == pytest.approx(0.975)
    one = symmetric(np.eye(1, MANY + 1)[0])
    assert one.low == 0, "one sign decides: it is as often the one as the other"


def test_a_hundred_thousand_seeds_take_a_second():
    values = np.random.default_rng(3).exponential(size=(100_000, 2))
    start = time.process_time()
    difference(values[:, 0], values[:, 1])
    difference(values[:, 0], values[:, 1], log=True)
    bootstrap(values)
    assert time.process_time() - start < 3


class Called(Exception):
    pass


def test_ctrl_c_is_heard_while_many_values_are_resampled():
    """Which would take a minute: 10,000,000 resamples of 100,000 values, of which one outweighs the others."""

    def call(number, frame):
        raise Called

    values, before = np.eye(1, 100_000)[0], signal.signal(signal.SIGALRM, call)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        start = time.process_time()
        with pytest.raises(Called):
            bootstrap(values, resamples=10_000_000)
        assert time.process_time() - start < 3
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
