"""Differences are claimed where the numbers bear it, and not elsewhere."""

import functools
import itertools
import math

import numpy as np
import pytest

from fastfedpg import statistics
from fastfedpg.statistics import NONE, bootstrap, difference, sign_flip


@pytest.fixture(scope="module", autouse=True)
def drawn_once():
    """Resamples are the same in every call; to draw them is nearly all of its time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statistics, "_resamples", functools.cache(statistics._resamples))
        yield


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
