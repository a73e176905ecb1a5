"""Scores over many problems: closed forms on hand-made numbers, and intervals that hold their level."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binom, norm, trim_mean

from fastfedpg.comparison import aggregate
from fastfedpg.comparison.aggregate import chance, holm, interquartile, places, profiles, remaining, sign_flips
from fastfedpg.comparison.paired import BETTER, EQUIVALENT, NONE, WORSE
from fastfedpg.statistics import share

RNG = np.random.default_rng(5)
SCORES = [1 - np.exp(-k + RNG.normal(size=(1, 8)) + 0.3 * RNG.normal(size=(3, 8))) for k in range(3)]
SCORES.append(np.array([[0.8], [0.7], [0.9]]))
LABELS = ["a", "b", "c"]


def rows(*values) -> list[np.ndarray]:
    """One method on several problems."""
    return [np.array(x, float) for x in values]


@pytest.mark.parametrize(
    ("start", "end", "best", "left"),
    [(5, 2, 1, 0.25), (5, 5, 1, 1), (5, 1, 1, 0), (5, 0.5, 1, -0.125), (5, 9, 1, 2), (5, 1e9, 1, 2), (5, np.inf, 1, 2),
     (5, np.nan, 1, 2)],
)  # fmt: skip
def test_what_is_left_of_what_there_was_to_gain(start, end, best, left):
    """(J - best)/(J_0 - best): 3 of 4 gained leave a quarter, and nothing is worse than to diverge."""
    assert remaining(np.array([start]), np.array([end]), best) == pytest.approx([left])


def test_other_units_of_J_change_no_score():
    J = np.array([[3.0, 2.0, np.inf], [2.5, 7.0, 1.5]])
    for scale, shift in ((100.0, 0.0), (0.5, -40.0)):
        there = remaining(scale * np.full(3, 4.0) + shift, scale * J + shift, scale * 1.0 + shift)
        np.testing.assert_allclose(there, remaining(np.full(3, 4.0), J, 1.0), rtol=1e-12)


def test_the_middle_half_by_hand():
    """Eight alike: the mean of the middle four. One value beside four: weights 1/2 and 1/8; between 1/4 and 3/4 lie a
    quarter of the 0, and the 1 and the 2 with an eighth each: (1/8 + 2/8) / (1/2) = 3/4."""
    assert interquartile(rows([8, 1, 2, 7], [3, 4, 100, -50])) == pytest.approx((2 + 3 + 4 + 7) / 4)
    assert interquartile(rows([0], [4, 2, 1, 3])) == pytest.approx(0.75)
    x = RNG.normal(size=(5, 12))
    assert interquartile(list(x)) == pytest.approx(trim_mean(x, 0.25, axis=None))


def test_profiles_by_hand():
    """Two runs of one problem count a quarter each, the only one of the other a half."""
    found = profiles([np.array([[0.1, 0.2]]), np.array([[0.5]])], np.array([0.05, 0.1, 0.2, 0.4, 0.5, 2.0]))
    assert found.mean.tolist() == [[0, 0.25, 0.5, 0.5, 1, 1]]
    assert (found.low <= found.mean).all()
    assert (found.mean <= found.high).all()
    assert (found.low[0, 1], found.high[0, 1]) == (0, 0.5), "of two seeds both are drawn anew"


def test_a_chance_by_hand():
    """4 of 4 and 2 of 4 are 6 of 8; with a problem without noise beside them, which is won, (2 x + 1)/3."""
    first, other = rows([0, 0, 0, 0], [0, 0, 0, 0]), rows([1, 1, 1, 1], [1, 1, -1, -1])
    assert [*map(float, chance(first, other))] == pytest.approx([*map(float, share(6, 8))])
    known = chance([*first, np.zeros(1)], [*other, np.ones(1)])
    assert [*map(float, known)] == pytest.approx([(2 * float(x) + 1) / 3 for x in share(6, 8)])
    ties = chance(rows([0, 0]), rows([1e-12, 0]))
    assert float(ties.mean) == 0.5


def test_all_signs_of_eight_equal_differences():
    """Only all signs alike make a sum as large: 2 of 2^8. One against seven: 1 + 8 choices on a side, 18 of 2^8."""
    first = rows([0] * 4, [0] * 4)
    assert sign_flips(first, rows([1] * 4, [1] * 4)) == pytest.approx((1.0, 2 / 256))
    assert sign_flips(first, rows([1] * 4, [1, 1, 1, -1])) == pytest.approx((0.75, 18 / 256))
    assert sign_flips(first, first) == (0.0, 1.0)
    assert sign_flips(rows([0]), rows([0.5])) == (0.5, 1.0), "both signs of one are as large"


def test_a_problem_weighs_as_much_as_another_however_many_seeds_it_has():
    """One value of 1 and eight of -1 add up to nothing."""
    assert sign_flips(rows([0], [0] * 8), rows([1], [-1] * 8))[0] == pytest.approx(0)


def test_holm_by_hand():
    """0.01 times 3; 0.03 times 2; 0.04, and not below the one before."""
    assert holm([0.01, 0.04, 0.03]).tolist() == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]).tolist() == [1, 1]


def test_the_order_of_methods_changes_nothing_but_the_order():
    one, other = places(LABELS, SCORES), places(["a", "c", "b"], [x[[0, 2, 1]] for x in SCORES])
    for p in one:
        q = next(q for q in other if q.label == p.label)
        np.testing.assert_allclose(np.array([*p.score, *p.chance, p.mean, p.p]), [*q.score, *q.chance, q.mean, q.p])
        assert p.verdict == q.verdict
        if p.difference is not None:
            np.testing.assert_allclose(np.array(p.difference), np.array(q.difference), rtol=1e-12)


def test_the_order_of_problems_and_seeds_changes_no_mean():
    """Intervals are drawn, and may differ in their last digits."""
    mixed = [x[:, ::-1] for x in SCORES[::-1]]
    for p, q in zip(places(LABELS, SCORES), places(LABELS, mixed), strict=True):
        assert float(q.score.mean) == pytest.approx(float(p.score.mean))
        assert q.mean == pytest.approx(p.mean)
        assert float(q.chance.mean) == pytest.approx(float(p.chance.mean), nan_ok=True)


def test_a_method_beside_itself_is_equivalent_and_one_that_loses_everywhere_is_worse():
    scores = [np.stack([x[0], x[0], x[0] - 0.5, x[0] + 0.5]) for x in SCORES]
    _, same, less, more = places(["a", "same", "less", "more"], scores)
    assert (same.verdict, float(same.chance.mean), same.p, same.mean) == (EQUIVALENT, 0.5, 1.0, 0.0)
    assert [*map(float, same.difference)] == [0, 0, 0]
    assert (less.verdict, float(less.chance.mean)) == (WORSE, 0)
    assert [*map(float, less.difference)] == pytest.approx([-0.5] * 3), "the same seeds are drawn for both"
    assert (more.verdict, float(more.chance.mean)) == (BETTER, 1)
    assert less.p == more.p == pytest.approx(3 * 2 / 10_000), "the least of 9,999 flips, by Holm"


def test_noise_that_hides_a_difference():
    noisy = [RNG.normal(size=(2, 8)) for _ in range(4)]
    assert places(["a", "b"], noisy)[1].verdict == NONE


def test_without_any_noise_numbers_speak_for_themselves():
    a, b, c = places(LABELS, [np.array([[0.5], [0.505], [0.7]]), np.array([[0.6], [0.6], [0.8]])])
    assert np.isnan(a.score.low)
    assert np.isnan(b.difference.low)
    assert (b.verdict, c.verdict) == (EQUIVALENT, BETTER)


# Coverage: 300 suites of 6 problems and 8 seeds, lognormal. A bound has a chance of 1 in 10,000 to be passed.

SUITES, PROBLEMS, SEEDS = 300, 6, 8
LEAST, MOST = binom(SUITES, 0.95).ppf((0.0001, 0.9999))
MU, SIGMA = np.linspace(-2, 2, PROBLEMS), 0.5


def true_middle() -> float:
    """Of the mixture of lognormals, between its quartiles q and Q: 2/P sum_p e^{mu + s^2/2} (Phi(B) - Phi(A)).

    A = (log q - mu)/s - s and B = (log Q - mu)/s - s are those of each lognormal's part of its mean below q and Q.
    """
    share_below = lambda log_x: norm.cdf((log_x - MU) / SIGMA).mean()
    low, high = (brentq(lambda t, at=at: share_below(t) - at, -9, 9) for at in (0.25, 0.75))
    part = norm.cdf((high - MU) / SIGMA - SIGMA) - norm.cdf((low - MU) / SIGMA - SIGMA)
    return float(2 * (np.exp(MU + SIGMA**2 / 2) * part).mean())


def drawn(rng, common: np.ndarray | float = 0.0, own: float = SIGMA) -> list[np.ndarray]:
    """Each problem's values, (suites, seeds): a row for each suite, as if suites were methods."""
    noise = common + own * rng.normal(size=(PROBLEMS, SUITES, SEEDS))
    return [np.exp(MU[p] + noise[p]) for p in range(PROBLEMS)]


def hits(found, truth: float) -> int:
    return int(((found.low <= truth) & (truth <= found.high)).sum())


def middles(parts) -> aggregate.Interval:
    return aggregate.stratified(parts, interquartile, aggregate.winsorised(parts), resamples=700)


def test_intervals_of_the_middle_half_hold_their_level():
    parts = drawn(np.random.default_rng(11))
    assert LEAST <= hits(middles(parts), true_middle()) <= MOST
    pooled = [np.concatenate(parts, axis=1)]  # as if all seeds were of one problem
    assert hits(middles(pooled), true_middle()) > MOST, "too wide: what problems differ by is no noise"


def test_intervals_of_differences_hold_their_level():
    """Methods that share most of a seed's luck, and do equally well."""
    rng = np.random.default_rng(12)
    luck = 0.48 * rng.normal(size=(PROBLEMS, SUITES, SEEDS))
    one, other = (drawn(rng, luck, 0.14) for _ in range(2))
    apart = lambda parts: interquartile([x[0] for x in parts]) - interquartile([x[1] for x in parts])
    moved = [x - y for x, y in zip(aggregate.winsorised(one), aggregate.winsorised(other), strict=True)]
    both = [np.stack(pair) for pair in zip(one, other, strict=True)]
    assert LEAST <= hits(aggregate.stratified(both, apart, moved, resamples=700), 0.0) <= MOST
    unpaired = lambda parts: interquartile(parts[:PROBLEMS]) - interquartile(parts[PROBLEMS:])
    pulled = [*aggregate.winsorised(one), *aggregate.winsorised(other)]
    assert hits(aggregate.stratified([*one, *other], unpaired, pulled, resamples=700), 0.0) > MOST, "too wide"


def test_one_noisy_problem_among_still_ones_has_the_seeds_of_one():
    """Student's t with 7 degrees of freedom, and not with 42: plain quantiles cover 89%, these 95%."""
    rng = np.random.default_rng(13)
    parts = [np.broadcast_to(k / 5 + 0.01 * rng.normal(size=(SUITES, SEEDS)), (SUITES, SEEDS)) for k in range(PROBLEMS)]
    parts[2] = 0.4 + 0.05 * rng.normal(size=(SUITES, SEEDS))
    assert LEAST <= hits(middles(parts), 0.5) <= MOST


def test_one_noisy_problem_at_the_level_of_many_comparisons():
    """5 seeds at 1 - 0.05/9: Student's t with 4 degrees of freedom is 5.6, and no resample is so far off.

    Of 3000 normal suites 0.56% are to miss, 17; the ends of all resamples miss where all 5 seeds have one sign, in 6%.
    An interval of 2% passes with a chance of 2 in 1000.
    """
    rng, suites, level = np.random.default_rng(14), 3000, 1 - 0.05 / 9
    parts = [np.zeros((suites, 1)), rng.normal(size=(suites, 5)), 0.05 * rng.normal(size=(suites, 5))]
    mean = lambda parts: np.mean([x.mean(axis=-1) for x in parts], axis=0)
    found = aggregate.stratified(parts, mean, parts, level, resamples=1000)
    assert suites - hits(found, 0.0) <= binom(suites, 0.02).ppf(0.002)
    alike = [np.zeros((1, 1)), np.ones((1, 5))]
    assert np.array(aggregate.stratified(alike, mean, alike, level)).tolist() == [[0.5]] * 3


def test_with_too_few_seeds_nothing_is_told():
    """With two seeds a bootstrap has four samples: what it calls certain is luck."""
    scores = [np.array([[0.1, 0.101], [0.8, 0.802]]), np.array([[0.3, 0.301], [0.7, 0.701]])]
    assert places(["a", "b"], scores)[1].verdict == BETTER, "or nothing is tested"
    for place in places(["a", "b"], scores, few=True):
        assert np.isnan([place.score.low, place.score.high]).all()
        assert place.verdict in ("", NONE)
        assert np.isfinite(place.score.mean)
