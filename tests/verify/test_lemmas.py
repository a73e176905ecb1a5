"""Lemmas, Theorem 1 and the linear rate, each of which fails when its claim is made false."""

from dataclasses import replace
from itertools import islice

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fastfedpg import InputError, fedavg_pg, theory
from fastfedpg.algorithms.fast_fedpg import Memory
from fastfedpg.core import Oracle
from fastfedpg.verify.claims import bias, lemmas, rates
from fastfedpg.verify.controls import flipped, without_guide
from fastfedpg.verify.recording import one_round
from fastfedpg.verify.verdict import (
    CONTROL,
    FAIL,
    NOT_APPLICABLE,
    PASS,
    decided,
    exactly,
    mean_of,
)
from tiny_subject import EFFORT, WITHOUT_NOISE, like, verdicts

# lemmas.py and controls.py


@pytest.mark.parametrize(("make", "sign", "guide"), [(flipped, 1, -1), (without_guide, -1, 0)])
def test_broken_corrections_by_hand(make, sign, guide):
    """Two steps with g_i(x) = 3x: x - eta (g_i(x) + sign g_i(theta_bar) + guide g(theta_bar))."""
    oracle = Oracle(lambda key: (), lambda x, own, key, B: ((), own), lambda x, own, batch: 3 * x, lambda batch: 0)
    bar, g_i, g_bar, eta = np.array([1.0, -2.0]), np.array([0.5, 0.25]), np.array([2.0, 7.0]), 0.1
    step = lambda x: x - eta * (3 * x + sign * g_i + guide * g_bar)
    agent = make(eta, 2).exchanges[1].agent
    memory = Memory(jnp.asarray(bar), jnp.asarray(g_i))
    _, _, change, _ = agent(memory, (), jnp.asarray(g_bar), oracle, jax.random.key(0))
    np.testing.assert_allclose(change, step(step(bar)) - bar, rtol=1e-14)


@pytest.fixture(scope="module")
def round_seen(subject):
    """One exact round from three points along the pilot, and the step."""
    eta = subject.eta()
    return one_round(subject.watched, subject.fast, eta, lemmas.points(subject, 3), 3, 3), eta


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


def test_linear_needs_domination_and_the_correction(subject):
    """tau = 0: does not apply. FedAvg-PG in Fast-FedPG's place stops at a bias far above 1e-12: the limit fails."""
    found, course = rates.linear(replace(subject, tau=0.0))
    assert verdicts(found) == dict.fromkeys(("Theorem 2, exact: limit", "Theorem 2, exact: rate"), NOT_APPLICABLE)
    assert course is None
    assert "tau = 0" in found[0].note
    found, _ = rates.linear(like(subject, "exact", make=fedavg_pg))
    assert verdicts(found)["Theorem 2, exact: limit"] == FAIL


def test_without_entropy_it_is_not_linear(subject):
    """The control: plain softmax falls about like 1/t, whose slope is -1 (Mei et al. 2020: at best 1/t)."""
    row, course = rates.plain(like(subject, tau=0.0))
    assert decided([row])[0].verdict == CONTROL
    assert -1.5 < row.left < -0.7
    assert course.rounds[-1] == rates.PLAIN
