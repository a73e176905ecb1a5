"""What a row of a report says: the margins, their errors, and the verdict."""

import numpy as np
import pytest
from scipy import stats

from fastfedpg.verify import verdict
from fastfedpg.verify.verdict import (
    CONTROL,
    FAIL,
    FAMILY,
    NOT_APPLICABLE,
    PASS,
    UNDECIDED,
    Estimate,
    Row,
    claim,
    decided,
    exactly,
    mean_of,
    near,
    not_applicable,
    slope,
    zero,
)


def noisy(margin, error, control=False):
    """A row of one comparison with noise in it, a million degrees of freedom: Student's law is the normal one."""
    return Row(
        "a claim", "left <= right", 1.0, 2.0, Estimate(np.array([margin]), np.array([error]), 10**6), "", control
    )


def test_what_a_row_says():
    """One comparison at level 1e-3 has an interval of 3.29 errors each way: margins of 3.2 and 3.4 errors differ."""
    quantile = stats.norm.ppf(1 - FAMILY / 2)
    assert 3.2 < quantile < 3.4
    assert [r.verdict for x in (3.4, 3.2, -3.2, -3.4) for r in decided([noisy(x, 1.0)])] == [
        PASS,
        UNDECIDED,
        UNDECIDED,
        FAIL,
    ]
    # A control must be violated: one that holds has failed.
    assert [r.verdict for x in (-3.4, -3.2, 3.2, 3.4) for r in decided([noisy(x, 1.0, control=True)])] == [
        CONTROL,
        UNDECIDED,
        UNDECIDED,
        FAIL,
    ]
    [found] = decided([noisy(1.0, 1.0)])
    assert found.interval == pytest.approx((1 - quantile, 1 + quantile), rel=1e-4)
    [row] = decided([not_applicable("a claim", "left <= right", "a reason")])
    assert (row.verdict, row.note, row.comparisons) == (NOT_APPLICABLE, "a reason", 0)


def test_without_noise_any_margin_decides():
    """Equality holds; the least number below it is a violation, by any instance of many."""
    say = lambda left, right: decided([claim("a", "", left, right)])[0]
    assert say(1.0, 1.0).verdict == PASS
    assert say(np.nextafter(1.0, 2), 1.0).verdict == FAIL
    assert say([0.1, 3.0, 0.2], [1.0, 2.9, 1.0]).verdict == FAIL
    assert say([0.1, 3.0, 0.2], [1.0, 2.9, 1.0]).interval is None
    assert (say([1.0, 2.0, 0.0], [9.0, 3.0, 0.0]).left, say([1.0, 2.0], [9.0, 3.0]).right) == (2.0, 3.0)


def test_all_comparisons_share_the_error():
    """n comparisons are made at 1e-3/n each: a margin that decides alone does not beside 999 others, nor as they do."""
    alone, among = (stats.norm.ppf(1 - FAMILY / (2 * n)) for n in (1, 1000))
    x = (alone + among) / 2
    many = Row("many", "", 1.0, 2.0, Estimate(np.full(999, 100.0), np.ones(999), 10**6))
    without_noise = Row("many", "", 1.0, 2.0, exactly(np.full(999, 100.0)))
    assert decided([noisy(x, 1.0), without_noise])[0].verdict == PASS
    assert [row.verdict for row in decided([noisy(x, 1.0), many])] == [UNDECIDED, PASS]
    assert [row.verdict for row in decided([noisy(among + 0.01, 1.0), many])] == [PASS, PASS]
    assert [row.verdict for row in decided([noisy(among - 0.01, 1.0), many])] == [UNDECIDED, PASS]


def test_noise_alone_seldom_decides(monkeypatch):
    """With margin 0 in truth a row of 20 normal values passes with chance level/2, and fails with level/2.

    Student's interval is exact for them, so 4000 rows at level .05 have Binomial(4000, .025) of each; both counts lie
    within the quantiles 1e-6 and 1 - 1e-6: confidence 1 - 4e-6. In reports of five rows any is decided with chance at
    most .05 (800 reports, the same confidence).
    """
    monkeypatch.setattr(verdict, "FAMILY", 0.05)
    drawn = np.random.default_rng(0).normal(size=(4000, 20))
    each = [Row("a", "", 1.0, 1.0, mean_of(x)) for x in drawn]
    alone = [decided([row])[0].verdict for row in each]
    low, high = (stats.binom.ppf(q, 4000, 0.025) for q in (1e-6, 1 - 1e-6))
    assert low <= alone.count(PASS) <= high
    assert low <= alone.count(FAIL) <= high
    reports = [decided(each[k : k + 5]) for k in range(0, 4000, 5)]
    some = sum(any(row.verdict != UNDECIDED for row in found) for found in reports)
    assert stats.binom.ppf(1e-6, 800, 0.04) <= some <= stats.binom.ppf(1 - 1e-6, 800, 0.05)


def test_equalities():
    """Rejected: fail. Not rejected: pass if what matters would have been seen, undecided if not."""
    say = lambda mean, error, matters: decided(
        [zero("a", "", Estimate(np.array(mean), np.array(error), 10**6), matters)]
    )[0]
    assert say([0.1, 5.0], [1.0, 1.0], 10.0).verdict == FAIL
    assert say([0.1, -5.0], [1.0, 1.0], 10.0).verdict == FAIL
    assert say([0.1, 2.0], [1.0, 1.0], 10.0).verdict == PASS
    assert say([0.1, 2.0], [1.0, 1.0], 3.0).verdict == UNDECIDED
    found = say([0.5, -2.0], [1.0, 1.0], 10.0)
    assert (found.left, found.right, found.vacuous) == (2.0, 10.0, False)
    assert "2.0 standard errors" in found.note


def test_near():
    """A number with error .01 within .2 of -1: inside, at an end, outside either; its distance is shown."""
    say = lambda at: decided([near("a", "", Estimate(np.array([at]), np.array([0.01]), 10**6), -1.0, 0.2)])[0]
    assert [say(at).verdict for at in (-1.0, -0.81, -1.19, -0.7, -1.3)] == [PASS, UNDECIDED, UNDECIDED, FAIL, FAIL]
    assert (say(-0.9).right, say(-1.1).left, say(-0.9).left) == pytest.approx((0.2, 0.1, 0.1))


def test_slope_of_a_power_law():
    """c_s x^p_s for each seed: the slope is the mean of the p_s, its error that of their mean."""
    x, powers = np.array([1.0, 3.0, 7.0, 20.0]), np.array([-1.2, -1.0, -0.9])
    found = slope(x, np.array([[2.0], [5.0], [0.1]]) * x ** powers[:, None])
    assert found.mean == pytest.approx(powers.mean(), abs=1e-12)
    assert found.error == pytest.approx(powers.std(ddof=1) / np.sqrt(3), abs=1e-12)
    assert found.degrees == 2


def test_tightness_and_what_says_nothing():
    """right/left; above 100 a bound that holds is vacuous, and an identity never is."""
    say = lambda left, right, **more: decided([claim("a", "", left, right, **more)])[0]
    assert say(2.0, 6.0).tightness == 3
    assert [say(1.0, x).vacuous for x in (99.0, 100.0, 101.0)] == [False, False, True]
    assert say(1.0, 101.0).words == "holds, vacuous"
    assert say(1.0, 101.0).verdict == PASS
    assert say(1e-15, 1e-12, bound=False).words == PASS
    assert say(0.0, 1.0).tightness is None
    assert not_applicable("a", "", "why").tightness is None
