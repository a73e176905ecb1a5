"""Differences are claimed where the numbers bear it, and not elsewhere."""

import itertools
import math

import numpy as np
import pytest
from scipy.special import ndtr, stdtrit

from fastfedpg.comparison.paired import EQUIVALENT, NONE, difference
from fastfedpg.statistics import FEWEST, bootstrap, spread, spread_words, symmetric


def test_few_values_have_no_interval_but_their_range():
    """A resample is the least value n times with probability n^-n; where the tail is below that, the end is that value.

    The tails are 1e-72, 7e-8, 1.2e-4 and 9.5e-4 for n = 2 to 5, and n^-n is 0.25, 0.037, 0.0039 and 3.2e-4.
    """
    for n in range(2, 8):
        tail = ndtr(np.sqrt(n / (n - 1)) * stdtrit(n - 1, 0.025))
        assert (tail < float(n) ** -n) == (n < FEWEST)
        x = np.arange(n, dtype=float)[:, None] ** 2
        mean, low, high = bootstrap(x)
        assert mean == x.mean()
        assert np.isnan([low, high]).all() if n < FEWEST else 0 < low < mean < high < x.max()
        drawn = spread(x)
        assert (drawn.low, drawn.high) == ((0, x.max()) if n < FEWEST else (low, high))
    assert np.isnan(spread(np.ones((1, 3))).low).all()


def test_what_a_picture_shows_is_named():
    assert spread_words([1, 1]) == "one seed, no interval"
    assert spread_words([8, 8]) == "mean and 95% interval, 8 seeds"
    assert spread_words([4, 2]) == "mean and range, 2 to 4 seeds"
    assert spread_words([3, 8]) == "mean and 95% interval, 3 to 8 seeds (range below 5)"


def p_value(d, centre):
    """Of one side, counted over all signs: how many make the sum as large as it is, or as small."""
    d = d - centre
    means = np.array([np.mean(d * s) for s in itertools.product((1, -1), repeat=len(d))])
    return min((means >= d.mean() - 1e-12).mean(), (means <= d.mean() + 1e-12).mean())


def test_the_interval_has_the_centres_that_the_sign_flip_test_does_not_reject():
    """Just outside each end a count over all signs rejects, and just inside it does not."""
    rng = np.random.default_rng(3)
    for n, level in [(6, 0.95), (7, 0.975), (8, 0.95), (8, 0.99)]:
        for _ in range(3):
            d = rng.normal(0.4, 1, n)
            mean, low, high = symmetric(d, level)
            assert mean == d.mean()
            tail = (1 - level) / 2
            assert p_value(d, low - 1e-9) <= tail < p_value(d, low + 1e-9)
            assert p_value(d, high + 1e-9) <= tail < p_value(d, high - 1e-9)
    assert np.isinf(symmetric(np.arange(5.0))[1:]).all()
    assert list(symmetric(np.ones(6))) == [1, 1, 1]


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
    assert [one.low, one.high] == pytest.approx([0.8, 1.2]), "of 63 subsets' means the least and the largest"
    assert [two.low, two.high] == [-math.inf, math.inf]


def test_without_noise_a_difference_counts_from_the_margin_on():
    J = np.array([0.5])
    assert difference(J, J + 0.0099, noise=False, scale=1.0).verdict == EQUIVALENT
    assert difference(J, J + 0.0101, noise=False, scale=1.0).verdict == "worse"
    assert difference(J, J - 0.0101, noise=False, scale=1.0).verdict == "better"
    assert difference(J, J - 0.0101, noise=False, scale=1.0, margin=0.02).verdict == EQUIVALENT
    assert difference(J, J, noise=False, scale=0.0).verdict == EQUIVALENT


def test_without_noise_gaps_differ_by_a_factor_where_it_is_more_than_rounding():
    of = lambda a, b, **how: difference(np.array([a]), np.array([b]), noise=False, scale=1.0, log=True, **how).verdict
    assert of(1e-4, 1.26e-4) == "worse"
    assert of(1.26e-4, 1e-4) == "better"
    assert of(1e-4, 1.24e-4) == EQUIVALENT
    assert of(1e-4, 1.24e-4, margin=0.2) == "worse"
    assert of(0.0, 1e-4) == "worse"
    assert of(1e-15, 8e-15) == EQUIVALENT, "rounding"


def test_differences_are_paired():
    """Seeds that differ by 100 and methods by 1: only in pairs is that seen."""
    first = 100.0 * np.arange(8)
    jitter = np.array([0, 0.1, -0.1, 0.05, 0, -0.05, 0.1, -0.1])
    assert difference(first, first + 1 + jitter).verdict == "worse"
    assert difference(first, (first + 1 + jitter)[::-1]).verdict == NONE
