"""The paper's claims as rows of a report: each is decided as it says, and fails when its claim is made false.

Everything is on one tiny problem (3 agents, 3 states, 2 actions, gamma = .5) whose programs are compiled once.
"""

import io
import json
import math
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from itertools import islice
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from commands import command
from fastfedpg import InputError, fedavg_pg, problems, simulate, theory
from fastfedpg.algorithms.fast_fedpg import Memory
from fastfedpg.core import Oracle
from fastfedpg.problems import TabularProblem, tabular_exact
from fastfedpg.verify import agenda, figures, report, verdict
from fastfedpg.verify.claims import bias, floors, lemmas, rates, stationary, structure
from fastfedpg.verify.claims.floors import Effort, Sweep
from fastfedpg.verify.controls import flipped, without_guide
from fastfedpg.verify.options import Settings
from fastfedpg.verify.recording import estimates, gradients_at, one_round
from fastfedpg.verify.test_case import Subject
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

TINY = {"tau": 0.2, "H": 3, "K": 10, "B": 2}
EFFORT = Effort(
    seeds=4, relaxations=1, times=(0, 1), steps=(1, 2), long_steps=(), totals=(), longer=(1, 2), steps_at_most=1e9
)
EFFECTS = agenda.Effects(points=3, replicas=64, samples=2**14, sweeps=EFFORT)
FLAGS = tuple(word for name, value in TINY.items() for word in (f"--{name}", value))


def verdicts(found):
    """Claims and what was decided."""
    return {row.claim: row.verdict for row in decided(found)}


def noisy(margin, error, control=False):
    """A row of one comparison with noise in it, a million degrees of freedom: Student's law is the normal one."""
    return Row(
        "a claim", "left <= right", 1.0, 2.0, Estimate(np.array([margin]), np.array([error]), 10**6), "", control
    )


# rows.py


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


# The subject


@pytest.fixture(scope="module")
def subject() -> Subject:
    return Subject(problems.random(agents=3, S=3, A=2, gamma=0.5), **TINY, name="tiny.npz")


def like(subject, *kept, **changes) -> Subject:
    """Another subject, in which some of what this one has computed stays."""
    other = replace(subject, **changes)
    vars(other).update({name: getattr(subject, name) for name in ("pilot", *kept)})
    return other


@pytest.fixture(scope="module")
def scaled(subject) -> Subject:
    """The same with rewards of -3 + 8 R, in [-3, 5]; costs are the same, and so is the pilot."""
    known = replace(subject.tabular, reward=-3 + 8 * subject.tabular.reward, reward_range=(-3.0, 5.0))
    return like(subject, known=known)


@pytest.fixture(scope="module")
def theta() -> np.ndarray:
    return np.random.default_rng(5).normal(size=6)


def test_the_rounds_own_iterates_are_seen(subject, theta):
    """Eq. (6) and (7) in NumPy from the recorded answers give every iterate and the next theta_bar."""
    eta = 0.3
    seen = one_round(subject.watched_sampled, subject.fast, eta, theta, 3, 64)
    assert seen.iterates.shape == seen.answers.shape == (64, 3, 3, 6)
    g_i, x = seen.first, np.broadcast_to(theta, (64, 3, 6))
    for step in range(3):
        np.testing.assert_allclose(seen.iterates[:, :, step], x, rtol=0, atol=1e-13)
        x = x - eta * (seen.answers[:, :, step] - g_i + g_i.mean(axis=1, keepdims=True))
    np.testing.assert_allclose(seen.end, theta + (x - theta).mean(axis=1), rtol=0, atol=1e-13)
    np.testing.assert_allclose(seen.drift, np.sum((seen.iterates - theta) ** 2, axis=-1), rtol=1e-12)
    assert np.all(np.ptp(seen.answers, axis=0) > 0), "replicas have draws of their own"
    result = simulate(subject.sampled, subject.fast(eta), 1, seeds=64, theta0=theta)
    np.testing.assert_allclose(seen.end, result.theta, rtol=0, atol=1e-13, err_msg="recording changes no number")


def test_own_answers(subject, theta):
    """`gradients_at` asks each agent at its own points, and means of Eq. (5) are those of `structure.truncated`."""
    at = theta + np.random.default_rng(6).normal(size=(2, 3, 2, 6))
    found = gradients_at(subject.exact, at)
    for r, i, step in np.ndindex(2, 3, 2):
        expected = tabular_exact.gradients(subject.tabular, at[r, i, step], 0.2)[i].reshape(-1)
        np.testing.assert_allclose(found[r, i, step], expected, rtol=0, atol=1e-14)
    means = gradients_at(subject.truncated, np.broadcast_to(theta, (1, 3, 1, 6)))[0, :, 0]
    np.testing.assert_allclose(structure.truncated(subject, theta, 10)[9], means, rtol=0, atol=1e-14)


@pytest.fixture(scope="module")
def drawn(subject, theta):
    """Many estimates at theta, and their means."""
    means = gradients_at(subject.truncated, np.broadcast_to(theta, (1, 3, 1, 6)))[0, :, 0]
    return estimates(subject.watched_sampled, theta, 2**14), means


def test_estimates_are_independent_draws(drawn):
    """Their means are those of grad_K J_i, and the two that one round gives have no correlation.

    z-tests, 3 x 6 coordinates and 3 agents, Bonferroni at 1e-6 together; 2^14 draws, so that z is normal. Were the two
    of a round the same draw their products' mean would be sigma^2, 50 errors away or more.
    """
    found, means = drawn
    assert found.shape == (2**14, 3, 6)
    noise = found - means
    first, second = np.split(noise, 2)
    products = np.sum(first * second, axis=-1)
    limit = stats.norm.ppf(1 - 1e-6 / (2 * 21))
    for values in (noise.reshape(2**14, 18), products):
        assert np.abs(values.mean(axis=0) / values.std(axis=0) * np.sqrt(len(values))).max() < limit
    same = np.sum(first * first, axis=-1)
    assert np.all(same.mean(axis=0) > 50 * products.std(axis=0) / np.sqrt(len(products)))


# structure.py


@pytest.fixture
def wrong_average(monkeypatch):
    """The average MDP, with one reward that is wrong by 1e-9; called to begin with it."""
    average = TabularProblem.average

    def wrong(known):
        right = average(known)
        reward = right.reward.copy()
        reward[0, 1, 0] += 1e-9
        return replace(right, reward=reward)

    return lambda: monkeypatch.setattr(TabularProblem, "average", wrong)


def test_proposition_1(subject, wrong_average):
    """All steps hold to 1e-12; one reward of the average MDP that is wrong by 1e-9 makes all of them fail."""
    names = [f"Proposition 1, step {k}" for k in ("1", "2 (i)", "2 (ii)", "3")]
    assert verdicts(structure.proposition(subject)) == dict.fromkeys(names, PASS)
    wrong_average()
    assert verdicts(structure.proposition(subject)) == dict.fromkeys(names, FAIL)


def test_truncation(subject, monkeypatch):
    """The errors fall by log gamma for every K; errors that fall by half of it make the slope fail, and the bound."""
    found, drawn = structure.truncation(subject)
    assert verdicts(found) == {"Assumption 4, bound": PASS, "Assumption 4, slope": PASS}
    assert found[1].left == pytest.approx(np.log(0.5), abs=1e-3)
    assert len(drawn["K"]) == len(drawn["error"]) == len(drawn["bound"])

    def slow(subject, theta, last):
        K = np.arange(1, last + 1)
        return subject.gradients_at(theta) + 0.5 ** (K / 2)[:, None, None]

    monkeypatch.setattr(structure, "truncated", slow)
    assert verdicts(structure.truncation(subject)[0]) == {"Assumption 4, bound": FAIL, "Assumption 4, slope": UNDECIDED}


def test_noise_rows(subject, drawn, monkeypatch):
    """Eq. (5) passes; each mutant fails its own row; too few samples decide no equality.

    With gamma = .5 every gamma^t one too high is half of Eq. (5). All at the report's own family-wise error, 1e-3.
    """
    found, means = drawn
    names = ("Assumption 2", "Assumption 3, bound", "Assumption 5")
    assert verdicts(structure.noise(subject, found, means)) == dict.fromkeys(names, PASS)
    for factor in (1.5, 0.5):
        assert decided([structure.unbiased(factor * found, means)])[0].verdict == FAIL
    same = found.copy()
    same[:, 1] = same[:, 0]
    assert decided([structure.independent(same, means)])[0].verdict == FAIL
    assert verdicts(structure.noise(subject, found[:64], means))["Assumption 2"] == UNDECIDED
    assert structure.independent(found[:, :1], means[:1]).margin is None
    bound = theory.variance_bound
    monkeypatch.setattr(theory, "variance_bound", lambda *given: 1e-2 * bound(*given))
    assert decided([structure.variance(subject, found, means)])[0].verdict == FAIL


# lemmas.py and controls.py


@pytest.mark.parametrize(("make", "sign", "guide"), [(flipped, 1, -1), (without_guide, -1, 0)])
def test_broken_corrections_by_hand(make, sign, guide):
    """Two steps with g_i(x) = 3x: x - eta (g_i(x) + sign g_i(theta_bar) + guide g(theta_bar))."""
    oracle = Oracle(lambda key: (), lambda x, own, key, B: ((), own), lambda x, own, batch: 3 * x, lambda batch: 0)
    bar, g_i, g_bar, eta = np.array([1.0, -2.0]), np.array([0.5, 0.25]), np.array([2.0, 7.0]), 0.1
    step = lambda x: x - eta * (3 * x + sign * g_i + guide * g_bar)
    agent = make(eta, 2).exchanges[1].agent
    memory = Memory(jnp.asarray(bar), jnp.asarray(g_i))
    _, _, change, _ = agent(memory, (), jnp.asarray(g_bar), oracle, jnp.zeros(2, jnp.uint32))
    np.testing.assert_allclose(change, step(step(bar)) - bar, rtol=1e-14)


@pytest.fixture(scope="module")
def round_seen(subject):
    """One exact round from three points along the pilot, and the step."""
    eta = subject.eta()
    return one_round(subject.watched, subject.fast, eta, lemmas.points(subject, 3), 3, 3), eta


WITHOUT_NOISE = ("Lemma 2", "Lemma 1", "Theorem 1")


def test_points_along_the_pilot(subject):
    """From the first theta to a millionth of its gap, evenly by the logarithm, as near as the pilot has them."""
    at = lemmas.points(subject, 3)
    np.testing.assert_array_equal(at[0], subject.pilot.thetas[0])
    gaps, _ = subject.gaps(subject.exact, at)
    assert gaps[2] / gaps[0] <= 1e-5
    assert 1e-4 < gaps[1] / gaps[0] < 1e-2


EACH = ("", "", lambda values: exactly(values.reshape(-1)))
"""Every start for itself."""


def test_lemmas_can_fail(subject, round_seen, monkeypatch):
    """Right sides a thousandth of Lemma 2's, or progress of twenty times alpha/2: the rows of these fail, alone."""
    seen, eta = round_seen
    say = lambda: verdicts(lemmas.rows(subject, seen, eta, lemmas.Constants(subject.L, 0.0, 0.0, ""), *EACH))
    assert say() == dict.fromkeys(WITHOUT_NOISE, PASS)
    right = theory.lemma2_right
    with monkeypatch.context() as patch:
        patch.setattr(theory, "lemma2_right", lambda *given: 1e-3 * right(*given))
        assert say() == {**dict.fromkeys(WITHOUT_NOISE, PASS), "Lemma 2": FAIL}
    terms = theory.lemma1_terms
    more = lambda found: found._replace(progress=20 * found.progress)
    with monkeypatch.context() as patch:
        patch.setattr(theory, "lemma1_terms", lambda *given: more(terms(*given)))
        assert say() == {**dict.fromkeys(WITHOUT_NOISE, PASS), "Lemma 1": FAIL}
    # A round that goes the other way raises J, which Theorem 1 forbids.
    back = seen._replace(end=2 * seen.theta_bar - seen.end)
    assert verdicts(lemmas.rows(subject, back, eta, lemmas.Constants(subject.L, 0.0, 0.0, ""), *EACH)) == {
        "Lemma 2": PASS,
        "Lemma 1": FAIL,
        "Theorem 1": FAIL,
    }


def test_noise_is_what_lemma_2_needs_it_for(subject):
    """Replicas with noise against a right side that leaves sigma^2 out (1e-9 of it): Lemma 2 fails, every level."""
    eta = subject.eta()
    seen = one_round(subject.watched_sampled, subject.fast, eta, subject.pilot.thetas[0], 3, 64)
    of = lambda sigma_sq: lemmas.Constants(subject.L, sigma_sq, 0.0, "")
    say = lambda sigma_sq: verdicts(lemmas.rows(subject, seen, eta, of(sigma_sq), "", "", mean_of))
    sigma_sq = float(seen.first.var(axis=0).sum(axis=-1).max())
    assert say(sigma_sq)["Lemma 2"] == PASS
    assert say(1e-9 * sigma_sq)["Lemma 2"] == FAIL


def test_a_J_that_is_flat_is_no_division_by_zero(subject):
    """L = 0 where no policy is better than another: said in words, which a report shows in an undecided row."""
    flat = like(subject)
    vars(flat)["pilot"] = subject.pilot._replace(L=0.0)
    for ask in (lambda: flat.eta(), lambda: bias.rows(flat, EFFORT)):
        with pytest.raises(InputError, match="nothing to learn"):
            ask()


def test_controls_need_agents_that_differ(subject):
    """Identical agents, the average kept, do not drift; nor do agents that make one step."""
    same = like(subject, known=bias.mixed(subject.tabular, 0.0))
    once = like(subject, "exact", "gradients", "_compiled", "stationary", H=1)
    for other, why in ((same, "zeta"), (once, "H = 1")):
        found = decided(islice(lemmas.controls(other), 2))
        assert [row.verdict for row in found] == [NOT_APPLICABLE] * 2
        assert all(why in row.note for row in found)


# rates.py


def test_linear_needs_domination_and_the_correction(subject, monkeypatch):
    """tau = 0: does not apply. FedAvg-PG in Fast-FedPG's place stops at a bias far above 1e-12: the limit fails."""
    found, course = rates.linear(replace(subject, tau=0.0))
    assert verdicts(found) == dict.fromkeys(("Theorem 2, exact: limit", "Theorem 2, exact: rate"), NOT_APPLICABLE)
    assert course is None
    assert "tau = 0" in found[0].note
    monkeypatch.setattr(rates, "fast_fedpg", fedavg_pg)
    found, _ = rates.linear(subject)
    assert verdicts(found)["Theorem 2, exact: limit"] == FAIL


def test_without_entropy_it_is_not_linear(subject):
    """The control: plain softmax falls about like 1/t, whose slope is -1 (Mei et al. 2020: at best 1/t)."""
    row, course = rates.plain(like(subject, tau=0.0))
    assert decided([row])[0].verdict == CONTROL
    assert -1.5 < row.left < -0.7
    assert course.rounds[-1] == rates.PLAIN


# floors.py and bias.py


@pytest.mark.parametrize("times", [0, 1, 3, 64])
def test_repeated_agents_have_the_same_average(subject, times):
    known = floors.repeated(subject.tabular, times)
    assert max(1, 3 * times) == known.N
    mean = np.vectorize(lambda s, a: math.fsum(known.reward[:, s, a]) / known.N)(*np.indices((3, 2)))
    np.testing.assert_allclose(mean, subject.tabular.reward.mean(axis=0), rtol=0, atol=1e-15)
    np.testing.assert_array_equal(known.P, subject.tabular.P)


@pytest.mark.parametrize("kappa", [0.0, 0.3, 1.0])
def test_mixed_agents_have_the_same_average(subject, kappa):
    """R_i - Rbar is kappa of what it was, and Rbar stays."""
    known, mean = subject.tabular, subject.tabular.reward.mean(axis=0)
    mixed = bias.mixed(known, kappa)
    np.testing.assert_allclose(mixed.reward.mean(axis=0), mean, rtol=0, atol=1e-15)
    np.testing.assert_allclose(mixed.reward - mean, kappa * (known.reward - mean), rtol=0, atol=1e-15)


def test_a_run_is_as_long_as_the_noise_needs(subject):
    """relaxations/(alpha mu), at least some; more than there may be are left open."""
    mu = subject.pilot.mu
    assert floors.rounds_for(subject, 1 / mu, EFFORT._replace(relaxations=300.0), 10) == 300
    assert floors.rounds_for(subject, 1 / mu, EFFORT._replace(relaxations=1.0), 10) == 10
    with pytest.raises(floors.TooLong, match="rounds to settle"):
        floors.rounds_for(subject, 1e-9, EFFORT, 10)


def test_a_floor_is_the_last_half_of_a_run_from_the_optimum(scaled, monkeypatch):
    """Of the run itself: where it began, how long it was, and the mean of its later gaps, in cost units."""
    kept = {}

    def watched(problem, algorithm, rounds, seeds, every, theta0):
        kept.update(rounds=rounds, every=every, theta0=theta0)
        kept["result"] = simulate(problem, algorithm, rounds, seeds, every, theta0=theta0)
        return kept["result"]

    monkeypatch.setattr(floors, "simulate", watched)
    alpha = 1 / scaled.L
    found = floors.floor(scaled, scaled.sampled, scaled.fast(alpha / 3), alpha, EFFORT, 120)
    np.testing.assert_array_equal(kept["theta0"], scaled.stationary)
    assert (kept["rounds"], kept["every"]) == (120, 3)
    late = kept["result"].rounds >= 60
    np.testing.assert_allclose(found, kept["result"].metrics["gap"][:, late].mean(axis=1) / 8, rtol=1e-12)
    assert np.all(found > 0)
    assert len(set(found)) == EFFORT.seeds


LONG = EFFORT._replace(times=(0, 1, 2), steps=(1, 2, 4), long_steps=(1, 2, 32))


def follow(patch, subject, law):
    """Floors law(N, H, alpha) in the place of runs, the same for every seed to a thousandth; alpha = 1 is 1/(4CL)."""
    limit = subject.alpha
    patch.setattr(floors, "SAMPLES", EFFECTS.samples)

    def floor(subject, problem, algorithm, alpha, effort, least=0):
        rng = np.random.default_rng(int(1e6 * alpha) + problem.N)
        H = round(alpha / algorithm.eta)
        return law(problem.N, H, alpha / limit) * (1 + 1e-3 * rng.normal(size=effort.seeds))

    patch.setattr(floors, "floor", floor)
    patch.setattr(floors, "fast_fedpg", lambda eta, H: SimpleNamespace(eta=eta, H=H))


def heterogeneous(patch, subject, **grows):
    """Floors exp(grows kappa) in the place of runs of both algorithms; sigma is the same for all kappa."""
    patch.setattr(bias, "fast_fedpg", lambda eta, H: "fast")
    patch.setattr(bias, "fedavg_pg", lambda eta, H: "average")
    patch.setattr(bias, "noise", lambda *given: floors.Noise(1.0, 1.0, 0.0))
    patch.setattr(bias, "alone", lambda *given: np.exp(grows["average"]))
    spread = np.ptp(subject.tabular.cost, axis=0).max()

    def floor(subject, problem, algorithm, alpha, effort, least):
        kappa = np.ptp(problem.tasks, axis=0).max() / spread
        rng = np.random.default_rng(round(10 * kappa))
        return np.exp(grows[algorithm] * kappa) * (1 + 1e-3 * rng.normal(size=effort.seeds))

    patch.setattr(bias, "floor", floor)


LAWS = {
    # (13): alpha sigma^2/(NH) and a term alpha^2 sigma^2 that no agent helps with
    "as (13) says": (
        lambda N, H, alpha: alpha / (N * H) + 1e-3 * alpha**2,
        {"N": PASS, "H": PASS, "N, large": PASS, "H, fixed": PASS, "rises": PASS},
    ),
    "no speed-up": (
        lambda N, H, alpha: alpha,
        {"N": UNDECIDED, "H": UNDECIDED, "N, large": PASS, "H, fixed": UNDECIDED, "rises": PASS},
    ),
    "nothing flattens": (
        lambda N, H, alpha: alpha / (N * H),
        {"N": PASS, "H": PASS, "N, large": UNDECIDED, "H, fixed": PASS, "rises": UNDECIDED},
    ),
}


@pytest.mark.parametrize("law", LAWS)
def test_slopes_are_read_off_as_they_are(subject, monkeypatch, law):
    """Floors with known slopes in N and H, at alpha = 1/(4CL), at 1/L and at fixed eta: every row decides by them."""
    f, expected = LAWS[law]
    follow(monkeypatch, subject, f)
    found, shapes = [], []
    for check in (floors.in_N, floors.in_H, floors.in_N_large, floors.in_H_fixed_eta):
        more, sweep = check(subject, LONG)
        found += more
        shapes.append((sweep.x.tolist(), sweep.floors.shape))
    assert shapes == [([1, 3, 6], (4, 3)), ([1, 2, 4], (4, 3)), ([1, 3, 6], (4, 3)), ([1, 2, 32], (4, 3))]
    names = {
        "N": "Theorem 2, floor in N",
        "H": "Theorem 2, floor in H",
        "N, large": "Theorem 2, floor in N, large eta H",
        "H, fixed": "Theorem 2, floor in H, fixed eta",
        "rises": "Theorem 2, floor in H, fixed eta: rises",
    }
    got = verdicts(found)
    assert {k: got[name] for k, name in names.items()} == expected


@pytest.mark.parametrize(("fast", "average", "expected"), [(0, 2, [PASS, CONTROL]), (2, 0, [FAIL, NOT_APPLICABLE])])
def test_heterogeneity_is_told_from_none(subject, monkeypatch, fast, average, expected):
    """Floors that grow like exp(2 kappa), or not at all: as they should, and the other way round."""
    heterogeneous(monkeypatch, subject, fast=fast, average=average)
    found, sweeps = bias.rows(subject, EFFORT)
    assert [row.verdict for row in decided(found)] == expected
    assert {name: sweep.floors.shape for name, sweep in sweeps.items()} == {"Fast-FedPG": (4, 3), "FedAvg-PG": (4, 3)}


def test_gap_against_all_trajectories(scaled, monkeypatch):
    """T is the least that Theorem 2's conditions allow, and multiples; gaps like log(NHT)/NHT have slope -1."""
    ran = []

    def runs(power):
        def simulate(problem, make, T, seeds, every, sweep):
            ran.append((problem.N, T, *sweep))
            NHT = problem.N * 3 * T
            gaps = 8 * np.log(NHT) * NHT**power * (1 + 1e-3 * np.random.default_rng(T).normal(size=(1, seeds, 12)))
            return SimpleNamespace(metrics={"gap": gaps})

        return simulate

    effort = EFFORT._replace(totals=((0, (1,)), (1, (1, 4))))
    for power, expected in ((-1, PASS), (-0.5, UNDECIDED)):
        monkeypatch.setattr(floors, "simulate", runs(power))
        [row], sweep = floors.in_NHT(scaled, effort)
        assert decided([row])[0].verdict == expected
        expected = np.log(sweep.x) * sweep.x ** float(power)  # in cost units
        np.testing.assert_allclose(sweep.floors, np.tile(expected, (4, 1)), rtol=0.01)
    assert [N for N, _, _ in ran[:3]] == [1, 3, 3]
    assert ran[2][1] == 4 * ran[1][1]
    for N, T, eta in ran[:3]:
        schedule = theory.theorem2(N, 3, T, scaled.pilot.mu, scaled.noisy_L, 0.5)
        assert schedule.T_least <= T
        assert eta == schedule.eta


# The report and the command


def saved(path, known, scale=1.0, shift=0.0):
    """A problem's arrays in a file, rewards in other units."""
    np.savez(path, P=known.P, reward=shift + scale * known.reward, rho=known.rho, gamma=known.gamma)
    return path


def told(*words) -> SimpleNamespace:
    """`fastfedpg verify …`: its exit code, and what it said."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = command("verify", *words)
    return SimpleNamespace(code=code, out=out.getvalue(), err=err.getvalue())


@pytest.fixture(scope="module")
def command_run(subject, tmp_path_factory):
    """The whole of it on a user's file, with little effort, and floors that follow a law in the place of long runs.

    Programs are those of `subject`, which the command's own must equal.
    """
    folder = tmp_path_factory.mktemp("verify")
    file, make = saved(folder / "tiny.npz", subject.tabular), agenda._subject

    def shared(settings, known, name, tau):
        own = make(settings, known, name, tau)
        np.testing.assert_array_equal(own.known.reward, subject.tabular.reward)
        assert replace(own, known=subject.known) == subject
        return subject

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(agenda, "QUICK", EFFECTS)
        patch.setattr(agenda, "_subject", shared)
        follow(patch, subject, LAWS["as (13) says"][0])
        heterogeneous(patch, subject, fast=0, average=2)
        patch.setenv("COLUMNS", "400")
        said = told("--quick", "--problem", file, *FLAGS, "--out", folder / "out")
    said.folder = folder / "out"
    said.file = json.loads((said.folder / "verify.json").read_text())
    return said


CLAIMS = (
    *(f"Proposition 1, step {k}" for k in ("1", "2 (i)", "2 (ii)", "3")),
    *(f"Assumption {k}" for k in ("1, bound", "1, estimate", "2", "3, bound", "4, bound", "4, slope", "5")),
    *(f"{name}, {how}" for how in ("exact", "sampled", "a-priori bounds") for name in WITHOUT_NOISE),
    *(f"{k}, {name}" for name in ("FedAvg-PG", "flipped correction") for k in ("Lemma 2", "Theorem 1")),
    "Lemma 1, no global gradient",
    "Theorem 2, exact: limit",
    "Theorem 2, exact: rate",
    "Theorem 2, floor",
    "Theorem 2, floor in N",
    "Theorem 2, floor in H",
    "No heterogeneity bias",
    "No heterogeneity bias, FedAvg-PG",
    "Theorem 3",
    "Theorem 3, rate",
)


def test_every_claim_is_in_the_file_and_the_table(command_run):
    """Exit code 0; a row for each claim in verify.json, with finite sides, and a line in the table."""
    assert command_run.code == 0, command_run.err
    found = command_run.file["rows"]
    assert sorted(row["claim"] for row in found) == sorted(CLAIMS)
    for row in found:
        assert {"claim", "left", "right", "tightness", "verdict"} <= row.keys()
        assert np.isfinite([row["left"], row["right"]]).all(), row
        assert row["problem"] == "tiny.npz"
        if row["left"] > 0 and row["right"] >= 0:
            assert row["tightness"] == pytest.approx(row["right"] / row["left"])
        words = row["words"].removesuffix(" at this sample size")
        assert any(
            line.split("  ")[0].strip() == row["claim"] and line.rstrip().endswith(words)
            for line in command_run.out.splitlines()
        ), row["claim"]
    assert command_run.file["comparisons"] == sum(row["comparisons"] for row in found) > 0
    assert command_run.file["level_of_each"] == FAMILY / command_run.file["comparisons"]
    assert sum(command_run.file["verdicts"].values()) == len(CLAIMS)
    assert command_run.file["settings"]["tau"] == 0.2
    assert "part 1 of" in command_run.err


def test_exact_claims_are_decided_with_little_effort(command_run):
    """Without noise in them: pass, or control as expected; nothing fails, and Lemmas and Theorem 1 pass with noise."""
    got = {row["claim"]: row["verdict"] for row in command_run.file["rows"]}
    exact_rows = [row["claim"] for row in command_run.file["rows"] if row["comparisons"] == 0]
    assert len(exact_rows) == 4 + 2 + 2 + 3 + 5 + 2
    for name in exact_rows:
        control = any(name.endswith(k) for k in ("FedAvg-PG", "flipped correction", "no global gradient"))
        assert got[name] == (CONTROL if control else PASS)
    for name in WITHOUT_NOISE:
        assert got[f"{name}, sampled"] == PASS
    assert FAIL not in got.values()


def test_pictures(command_run):
    """Each as PNG and SVG, named in what was said."""
    for name in figures.NAMES:
        assert (command_run.folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "</svg>" in (command_run.folder / f"{name}.svg").read_text()
        assert f"{name}.png" in command_run.out
    assert len(list(command_run.folder.glob("*.*"))) == 2 * len(figures.NAMES) + 1


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "400")
    return tmp_path


def with_parts(monkeypatch, *works):
    """The command with other work."""
    made = [agenda.Part(f"part {k}", work) for k, work in enumerate(works)]
    monkeypatch.setattr(agenda, "parts", lambda settings: made)


GOOD = claim("a good claim", "1 <= 2", 1.0, 2.0)


def test_a_failed_claim_is_exit_code_1(workplace, monkeypatch):
    """One false claim beside a true one; and a control that holds is a failure too."""
    for k, bad in enumerate(
        (claim("a bad claim", "2 <= 1", 2.0, 1.0), replace(GOOD, claim="a bad claim", control=True))
    ):
        with_parts(monkeypatch, lambda bad=bad: ([GOOD, bad], {}))
        said = told("--out", f"out-{k}")
        assert said.code == 1
        assert "fail: a bad claim" in said.out
        found = json.loads((workplace / f"out-{k}" / "verify.json").read_text())["rows"]
        assert [row["verdict"] for row in found] == [PASS, FAIL]


def test_a_wrong_average_is_exit_code_1(workplace, subject, wrong_average, monkeypatch):
    """Proposition 1's own rows in the command: 0, and with a wrong average 1."""
    with_parts(monkeypatch, lambda: (list(structure.proposition(subject)), {}))
    assert told("--out", "right").code == 0
    wrong_average()
    assert told("--out", "wrong").code == 1


def test_what_is_done_without_a_problem():
    """Every kind of claim has its part; --quick leaves out only sweeps that take long, and nothing that is exact."""
    long, quick = ([part.title for part in agenda.parts(Settings(quick=quick))] for quick in (False, True))
    for begin in (
        *(
            "Proposition 1 and the assumptions",
            "noise on",
            "one round without noise",
            "controls",
            "one round, replicas",
        ),
        *("one round, a-priori", "Theorem 2 without noise on random, tau = 0.2", "Theorem 2 without noise on lqr"),
        *("Theorem 2 without noise on random, tau = 0", "noise floor against N on"),
        "Proposition 1 and (12) on lqr",
    ):
        assert any(title.startswith(begin) for title in quick), begin
    assert {title.split(" on ")[0] for title in set(long) - set(quick)} == {
        "noise floor against H",
        "noise floor against N, large eta H",
        "noise floor against H, fixed eta",
        "noise floor against NHT",
        "heterogeneity",
        "Theorem 3",
    }
    assert not set(quick) - set(long)


@pytest.mark.parametrize("error", [InputError, MemoryError, floors.TooLong])
def test_what_can_not_be_checked_takes_nothing_with_it(workplace, monkeypatch, error):
    """A part that breaks is an undecided row that says why; the rows of the others stay."""

    def broken():
        raise error("it is too large")

    with_parts(monkeypatch, broken, lambda: ([GOOD], {}))
    said = told("--out", "out")
    assert said.code == 0, said.err
    found = json.loads((workplace / "out" / "verify.json").read_text())["rows"]
    assert [(row["claim"], row["verdict"], row["left"]) for row in found] == [
        ("part 0", UNDECIDED, None),
        ("a good claim", PASS, 1.0),
    ]
    assert "it is too large" in found[0]["note"]
    assert "it is too large" in said.out


def test_ctrl_c(workplace, monkeypatch):
    """One line, 130, and no half of a report: what was there before stays, and a new folder goes."""

    def interrupted():
        raise KeyboardInterrupt

    with_parts(monkeypatch, lambda: ([GOOD], {}))
    assert told("--out", "out").code == 0
    with_parts(monkeypatch, lambda: ([GOOD], {}), interrupted)
    said = told("--out", "out", "--overwrite")
    assert said.code == 130
    assert said.err.splitlines()[-1].startswith("fastfedpg: interrupted before anything was decided; no report was")
    assert len(json.loads((workplace / "out" / "verify.json").read_text())["rows"]) == 1
    assert told("--out", "new").code == 130
    assert not (workplace / "new").exists()


def test_an_earlier_report_is_replaced(workplace, monkeypatch):
    """With --overwrite the files of the earlier one go, and a stranger's stay."""
    data = {"stationary": Sweep(np.array([1, 2]), np.array([[2.0, 1.0], [2.1, 1.1]]), "x")}
    with_parts(monkeypatch, lambda: ([GOOD], data))
    assert told("--out", "out").code == 0
    assert (workplace / "out" / "stationary.png").exists()
    (workplace / "out" / "mine.txt").write_text("mine")
    with_parts(monkeypatch, lambda: ([GOOD], {}))
    assert told("--out", "out", "--overwrite").code == 0
    assert sorted(p.name for p in (workplace / "out").glob("*.*")) == [
        "mine.txt",
        "tightness.png",
        "tightness.svg",
        "verify.json",
    ]


def chosen(settings, *begin) -> list[Row]:
    """The rows of those parts whose titles begin so."""
    work = [part for part in agenda.parts(settings) if part.title.startswith(begin)]
    assert work
    return report.verify(settings, work=work).rows


def test_different_kernels(workplace, monkeypatch):
    """No average MDP: Proposition 1 and Theorem 2 do not apply, no floors are run, and Theorem 3 is checked."""
    monkeypatch.setattr(agenda, "QUICK", EFFECTS)
    file = saved("own.npz", problems.random(agents=3, S=3, A=2, gamma=0.5, kernel=0.5))
    settings = Settings(problem=str(file), quick=True, **TINY)
    assert not [
        part for part in agenda.parts(settings) if part.title.startswith(("noise floor against", "heterogeneity"))
    ]
    met = floors.Noise(theory.variance_bound(0.5, 2, 10, 2, 0.2), 0.0, 0.0)
    monkeypatch.setattr(stationary, "noise", lambda *given: met)
    monkeypatch.setattr(structure, "truncation", lambda subject: ([], {}))
    got = {row.claim: row for row in chosen(settings, "Proposition 1", "Theorem 2", "Theorem 3")}
    for name in ("Proposition 1", "Theorem 2, exact: limit", "Theorem 2, exact: rate"):
        assert got[name].verdict == NOT_APPLICABLE
        assert "differ" in got[name].note
    assert got["Theorem 3"].verdict == PASS
    assert "different kernels" in got["Theorem 3"].note
    assert got["Theorem 3, rate"].comparisons == 2


def test_rewards_in_other_units(subject, scaled, command_run, monkeypatch):
    """Both sides of the rows are in cost units: the same numbers; and without its range such a file is refused."""
    at = subject.pilot.thetas[:2]
    for one, other in zip(subject.gaps(subject.exact, at), scaled.gaps(scaled.exact, at), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)
    monkeypatch.setattr(stationary, "noise", lambda *given: floors.noise(subject, subject.pilot.thetas[0]))
    monkeypatch.setattr(floors, "SAMPLES", EFFECTS.samples)
    expected = {row["claim"]: row for row in command_run.file["rows"]}
    found = [*rates.linear(scaled)[0], *stationary.rows(scaled, EFFORT)[0]]
    assert len(found) == 2 + 2
    for row in decided(found):
        same = expected[row.claim]
        if row.claim != "Theorem 2, exact: limit":  # whose left side is rounding
            # The smallest of the gaps that a rate is taken of is 1e-10 of the first, known to about 1e-4 of itself.
            assert (row.left, row.right) == pytest.approx((same["left"], same["right"]), rel=1e-3)
        assert row.verdict == same["verdict"]


def test_the_range_of_a_file(workplace, subject):
    """Rewards outside [0, 1] need their range, and with it the subject has it."""
    file = str(saved("other.npz", subject.tabular, scale=8.0, shift=-3.0))
    with pytest.raises(InputError, match=r"reward_range|reward-range"):
        agenda.parts(Settings(problem=file, **TINY))
    made = []
    original = agenda._structure
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(agenda, "_structure", lambda subject, effects: made.append(subject) or original(subject, effects))
        agenda.parts(Settings(problem=file, reward_range=(-3.0, 5.0), **TINY))
    assert made[0].known.scale == 8
    np.testing.assert_allclose(made[0].tabular.cost, subject.tabular.cost, rtol=0, atol=1e-15)


def test_a_regulator_from_a_file(workplace, monkeypatch):
    """Only what is exact, all of it decided: pass, and the bound on L does not apply."""
    monkeypatch.setattr(agenda, "QUICK", EFFECTS)
    monkeypatch.setattr(lemmas, "controls", lambda subject: iter(()))  # three programs more
    known = problems.make("lqr", {"n": 2, "m": 1}, agents=2)
    np.savez("lqr.npz", A=known.A, B=known.B, Q=known.Q, R=known.R, Sigma0=known.Sigma0, gamma=known.gamma)
    said = told("--problem", "lqr.npz", "--quick", "--H", 2, "--out", "out")
    assert said.code == 0, said.err
    got = {row["claim"]: row["verdict"] for row in json.loads((workplace / "out/verify.json").read_text())["rows"]}
    assert got == {
        "Proposition 1, values": PASS,
        "Proposition 1, gradients": PASS,
        "Eq. (12), bound": PASS,
        "Assumption 1, bound": NOT_APPLICABLE,
        **{f"{name}, exact": PASS for name in WITHOUT_NOISE},
        "Theorem 2, exact: limit": PASS,
        "Theorem 2, exact: rate": PASS,
    }
    assert (workplace / "out/linear.svg").exists()


MISTAKES = {
    "tau": (("--problem", "random", "--tau", -0.1), ("tau = -0.1", "at least 0")),
    "tau nan": (("--problem", "random", "--tau", "nan"), ("tau = nan", "finite")),
    "H": (("--H", 0), ("H = 0", "at least 1")),
    "K": (("--K", 0), ("K = 0", "at least 1")),
    "B": (("--problem", "random", "--B", 0), ("B = 0", "at least 1")),
    "problem": (("--problem", "compromize"), ("unknown problem 'compromize'", "compromise")),
    "file": (("--problem", "gone.npz"), ("gone.npz",)),
    "folder": (("--out", "full"), ("full: the folder is not empty", "--overwrite")),
    "tau of a regulator": (("--problem", "lqr", "--tau", 0.1), ("tau = 0.1", "must be 0")),
    "one action": (("--problem", "random", "--problem-args", "A=1"), ("one action only", "nothing to learn")),
    "rewards": (("--problem", "same.npz"), ("all rewards are the same", "nothing to learn")),
    "arguments of nothing": (("--problem-args", "S=3"), ("problem_args", "give --problem too")),
    "agents of nothing": (("--agents", 3), ("agents", "give --problem too")),
    "tau of nothing": (("--tau", 0.1), ("tau", "give --problem too")),
    "flags beside a folder": (("full", "--tau", 0.1), ("full", "leave the other flags out")),
    "out beside a folder": (("full", "--out", "new"), ("full", "leave the other flags out")),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_named_before_anything_is_done(workplace, mistake):
    """Exit code 2, one line that says what would be right, and nothing left behind."""
    words, says = MISTAKES[mistake]
    (workplace / "full").mkdir()
    (workplace / "full" / "mine.txt").write_text("mine")
    np.savez("same.npz", P=np.full((2, 2, 2), 0.5), reward=np.full((2, 2, 2), 0.5), rho=[0.5, 0.5], gamma=0.5)
    said = told(*words)
    assert said.code == 2
    [line] = said.err.splitlines()
    for part in says:
        assert part in line
    assert said.out == ""
    assert [str(p.relative_to(workplace)) for p in sorted(workplace.rglob("*"))] == [
        "full",
        "full/mine.txt",
        "same.npz",
    ]
