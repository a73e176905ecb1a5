"""Rounds are recorded as they are; Proposition 1 and the assumptions fail when they are made false."""

import numpy as np
import pytest
from scipy import stats

from fastfedpg import simulate, theory
from fastfedpg.problems import tabular_exact
from fastfedpg.verify.claims import structure
from fastfedpg.verify.recording import gradients_at, one_round
from fastfedpg.verify.verdict import (
    FAIL,
    NOT_SEEN,
    PASS,
    SEEN,
    UNDECIDED,
    decided,
)
from tiny_subject import verdicts

# The subject


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


def test_proposition_1(subject, wrong_average):
    """All steps hold to 1e-12; one reward of the average MDP that is wrong by 1e-9 makes all of them fail."""
    names = [f"Proposition 1, step {k}" for k in ("1", "2 (i)", "2 (ii)", "3")]
    assert verdicts(structure.proposition(subject)) == dict.fromkeys(names, PASS)
    wrong_average()
    assert verdicts(structure.proposition(subject)) == dict.fromkeys(names, FAIL)


def test_truncation(subject, monkeypatch):
    """The errors fall by log gamma for every K; errors that fall by half of it make the slope fail, and the bound."""
    found, drawn = structure.truncation(subject)
    assert verdicts(found) == {"Assumption 4, bound": PASS, "Not claimed: slope of truncation": SEEN}
    assert found[1].left == pytest.approx(np.log(0.5), abs=1e-3)
    assert len(drawn["K"]) == len(drawn["error"]) == len(drawn["bound"])

    def slow(subject, theta, last):
        K = np.arange(1, last + 1)
        return subject.gradients_at(theta) + 0.5 ** (K / 2)[:, None, None]

    monkeypatch.setattr(structure, "truncated", slow)
    assert verdicts(structure.truncation(subject)[0]) == {
        "Assumption 4, bound": FAIL,
        "Not claimed: slope of truncation": NOT_SEEN,
    }


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
