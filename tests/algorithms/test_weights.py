"""Importance weights: unbiased by adding up all trajectories, which weights of single steps are not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import reference as ref
from enumerated import enumerated
from fastfedpg import with_oracle
from fastfedpg.core import effective_share, log_weights, weighted_gradient
from fastfedpg.oracles.sampled import Trajectories

K, TAU = 2, 0.3
P = ref.small_problem(N=1, S=2, A=2, seed=50)
PLAYED, THETA = 2 * np.random.default_rng(51).normal(size=(2, 4))
ALL = list(ref.all_trajectories(P.P, P.rho, PLAYED, K))
VISITED = jnp.array([[2 * s + a for s, a in zip(t.states, t.actions, strict=True)] for t in ALL], jnp.int32)
CHANCE = np.array([t.probability for t in ALL])
COST = jnp.asarray(1 - P.reward[0])
TRUNCATED = np.asarray(with_oracle(P, "truncated", TAU, K=K).oracle(COST).gradient(jnp.asarray(THETA), (), ()))


def per_step(oracle, theta, played, own, batch):
    """The mistake of public code: each step's own ratio in the place of the trajectory's product."""
    w = jnp.exp(oracle.log_prob(theta, batch) - oracle.log_prob(played, batch)) * oracle.credit(theta, own, batch)
    return jax.grad(lambda theta: jnp.sum(w * oracle.log_prob(theta, batch)) / len(w))(jnp.asarray(theta))


def mean(oracle, form, batches, chances):
    each = jax.vmap(lambda visited: form(oracle, jnp.asarray(THETA), jnp.asarray(PLAYED), (), Trajectories(visited, 2)))
    return np.asarray(chances @ each(batches))


@pytest.mark.parametrize("name", ["reinforce", "gpomdp"])
def test_the_mean_is_the_gradient_where_nobody_played(name):
    """sum_tau p(tau|played) w(tau) g(tau|theta) over all 16 trajectories of 2 steps is the truncated gradient at theta.

    Entropy's cost is theta's own, too. Ratios of single steps miss it by 2.7% of its largest entry.
    """
    oracle = with_oracle(P, name, TAU, B=1, K=K).oracle(COST)
    np.testing.assert_allclose(mean(oracle, weighted_gradient, VISITED[:, None], CHANCE), TRUNCATED, atol=1e-14)
    wrong = mean(oracle, per_step, VISITED[:, None], CHANCE)
    assert np.abs(wrong - TRUNCATED).max() > 0.02 * np.abs(TRUNCATED).max()


def test_each_trajectory_of_a_batch_has_its_own_weight():
    """All 256 pairs with the leave-one-out baseline: what others add is independent of a trajectory's w and scores."""
    oracle = with_oracle(P, "gpomdp", TAU, B=2, K=K, baseline="leave-one-out").oracle(COST)
    pairs = jnp.stack([jnp.repeat(VISITED, 16, axis=0), jnp.tile(VISITED, (16, 1))], axis=1)
    found = mean(oracle, weighted_gradient, pairs, np.outer(CHANCE, CHANCE).ravel())
    np.testing.assert_allclose(found, TRUNCATED, atol=1e-14)


def test_where_it_was_played_it_is_the_estimate():
    oracle = with_oracle(P, "gpomdp", TAU, B=3, K=K).oracle(COST)
    batch, _ = oracle.sample(jnp.asarray(THETA), (), jax.random.key(0), None)
    here = weighted_gradient(oracle, jnp.asarray(THETA), jnp.asarray(THETA), (), batch)
    np.testing.assert_allclose(here, oracle.gradient(jnp.asarray(THETA), (), batch), atol=1e-14)
    assert np.asarray(log_weights(oracle, jnp.asarray(THETA), jnp.asarray(THETA), batch)).tolist() == [0, 0, 0]


def test_all_trajectories_as_one_batch():
    """The oracle of the closed forms of several methods: `truncated`, whether asked where it played or elsewhere."""
    oracle = enumerated(P, K, TAU).oracle(COST)
    batch, _ = oracle.sample(jnp.asarray(PLAYED), (), None, None)
    found = weighted_gradient(oracle, jnp.asarray(THETA), jnp.asarray(PLAYED), (), batch)
    np.testing.assert_allclose(found, TRUNCATED, atol=1e-14)
    batch, _ = oracle.sample(jnp.asarray(THETA), (), None, None)
    np.testing.assert_allclose(oracle.gradient(jnp.asarray(THETA), (), batch), TRUNCATED, atol=1e-14)


def test_the_effective_share_by_hand():
    """Weights 1, 1, 2: 4^2 / (3 * 6) = 8/9. Equal ones count fully, and one alone a third, also where exp overflows."""
    assert float(effective_share(jnp.log(jnp.array([1.0, 1, 2])))) == pytest.approx(8 / 9)
    assert float(effective_share(jnp.array([5.0, 5, 5]))) == pytest.approx(1)
    assert float(effective_share(jnp.array([-2000.0, 2000, 0]))) == pytest.approx(1 / 3)


def test_an_oracle_that_cannot_say_is_refused_and_not_taken_for_exact():
    oracle = with_oracle(P, "gpomdp", B=1, K=K).oracle(COST)._replace(credit=None)
    batch, _ = oracle.sample(jnp.asarray(THETA), (), jax.random.key(0), None)
    with pytest.raises(ValueError, match="does not answer credit, and its batches are those of one theta alone"):
        weighted_gradient(oracle, jnp.asarray(THETA), jnp.asarray(PLAYED), (), batch)
