"""The entropy of every head: against sums and SciPy's, its gradient against differences, and where there is none."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import reference as ref
from fastfedpg import with_oracle
from fastfedpg.core import key_for
from fastfedpg.envs.catalogue.cart_pole import cart_pole
from fastfedpg.envs.catalogue.pendulum import pendulum
from fastfedpg.policies import POLICIES, linear, make
from fastfedpg.problems import with_policy
from fastfedpg.spaces import Box, Discrete, MultiDiscrete, box

SIDES = Box((-1.0, 0.0), (3.0, 0.5))
SEEN = np.random.default_rng(1).normal(size=(2, 3, 3))
STATES = np.arange(3.0)[:, None]


def theta_of(policy):
    return np.random.default_rng(7).normal(size=policy.size)


def every(n):
    """All joint choices."""
    return np.stack(np.meshgrid(*map(np.arange, n), indexing="ij"), -1).reshape(-1, len(n)) * 1.0


@pytest.mark.parametrize("n", [(4,), (2, 4, 1), (3, 3)])
def test_that_of_choices_is_the_sum_over_all_joint_ones(n):
    """SciPy's entropy of exp(log_prob) over every joint choice, of which shorter parts must not lend any."""
    policy = make("linear", box(3), Discrete(*n) if len(n) == 1 else MultiDiscrete(n))
    theta = theta_of(policy)
    p = np.exp(policy.log_prob(theta, SEEN[..., None, :], every(n)))
    found = policy.entropy(theta, SEEN)
    assert type(found) is np.ndarray
    assert found.shape == (2, 3)
    np.testing.assert_allclose(found, stats.entropy(p, axis=-1), rtol=1e-12)
    np.testing.assert_allclose(policy.entropy(jnp.asarray(theta), SEEN), found, rtol=1e-12)
    np.testing.assert_array_equal(policy.entropy(theta, SEEN[1, 2]), found[1, 2])
    assert np.isfinite(jax.grad(lambda x: policy.entropy(x, SEEN).sum())(jnp.asarray(1e4 * theta))).all()


def test_that_of_bits_counts_every_bit_alike():
    """Over all 8 actions of 3 bits: bit_gamma weighs the surprise, and not the entropy."""
    policy = make("bits", Discrete(3), Discrete(8), settings={"bit_gamma": 0.25})
    theta = theta_of(policy)
    p = np.exp(policy.log_prob(theta, STATES[:, None], every((8,))))
    np.testing.assert_allclose(policy.entropy(theta, STATES), stats.entropy(p, axis=-1), rtol=1e-12)


@pytest.mark.parametrize("learn_std", [True, False])
def test_that_of_a_normal_choice_is_scipys_in_units_of_the_action(learn_std):
    """The choice is c + h x, so its std is h exp(log_std) with h = 2 and 1/4; the observation does not change it."""
    policy = make("mlp", box(3), SIDES, settings={"hidden": (4,), "learn_std": learn_std, "log_std": -0.3})
    theta = theta_of(policy)
    std = np.array([2, 0.25]) * np.exp(theta[-2:] if learn_std else -0.3)
    found = policy.entropy(theta, SEEN)
    assert found.shape == (2, 3)
    np.testing.assert_allclose(found, stats.norm(0, std).entropy().sum(), rtol=1e-12)
    np.testing.assert_allclose(policy.entropy(jnp.asarray(theta), SEEN), found, rtol=1e-12)
    assert policy.entropy(theta.astype(np.float32), SEEN).dtype == np.float32


@pytest.mark.parametrize(
    ("name", "actions"), [("linear", MultiDiscrete((2, 3))), ("linear", SIDES), ("bits", Discrete(4))]
)
def test_its_gradient_is_that_of_differences(name, actions):
    observations, seen = (Discrete(3), STATES) if name == "bits" else (box(3), SEEN.reshape(-1, 3))
    policy = POLICIES[name](observations, actions)
    theta, weight = theta_of(policy), np.arange(1.0, len(seen) + 1)
    found = jax.grad(lambda x: weight @ policy.entropy(x, seen))(jnp.asarray(theta))
    differences = ref.finite_difference(lambda x: float(weight @ policy.entropy(x, seen)), theta)
    np.testing.assert_allclose(found, differences, atol=1e-7)
    assert np.abs(found).max() > 0.1


def test_what_is_squashed_has_none():
    assert make("linear", box(3), SIDES, settings={"squash": True}).entropy is None


def asked(problem):
    """An oracle, the start, and a batch that was played there."""
    oracle, key = problem.oracle(jax.tree.map(lambda x: jnp.asarray(x[0]), problem.tasks)), key_for(0, 0, "local", 0)
    theta = jnp.asarray(np.random.default_rng(2).normal(size=problem.theta0.size))
    return oracle, theta, oracle.sample(theta, oracle.init(key), key, None)[0]


def test_an_oracle_tells_it_where_each_step_was_taken():
    """In an environment the policy's own, and 0 after an episode's end; of a table -sum_a pi log pi of the states."""
    carts = cart_pole(agents=2)
    policy = linear(carts.observations, carts.actions)
    oracle, theta, batch = asked(with_policy(carts, policy, "gpomdp", B=4, K=40))
    alive = np.asarray(batch.episodes.alive)
    assert alive.any() > alive.all()
    right = np.where(alive, policy.entropy(np.asarray(theta), np.asarray(batch.episodes.observations[:, :-1])), 0)
    np.testing.assert_allclose(oracle.entropy(theta, batch), right, rtol=1e-9, atol=1e-12)
    oracle, theta, batch = asked(with_oracle(ref.small_problem(N=3, S=4, A=3, seed=50), "gpomdp", B=3, K=5))
    of_state = stats.entropy(ref.policy(np.asarray(theta), 4, 3), axis=1)
    np.testing.assert_allclose(oracle.entropy(theta, batch), of_state[np.asarray(batch.states)], rtol=1e-12)
    swings = pendulum(agents=2)
    squashed = linear(swings.observations, swings.actions, squash=True)
    assert asked(with_policy(swings, squashed, "gpomdp", B=2, K=2))[0].entropy is None
