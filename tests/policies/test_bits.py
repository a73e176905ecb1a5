"""Actions bit by bit: probabilities by hand, gradients by differences, entropy whose later bits weigh less."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import reference as ref
from fastfedpg import InputError, fedavg_pg, loop, policies, simulate, with_policy
from fastfedpg.core import key_for
from fastfedpg.policies import make, plain
from fastfedpg.problems import TabularProblem
from fastfedpg.runtime import Schedule
from fastfedpg.spaces import Discrete, MultiDiscrete

S = 3
RNG = np.random.default_rng(80)


def bits(k, **settings):
    return make("bits", Discrete(S), Discrete(2**k), settings=settings)


def probabilities(policy, theta, k):
    """pi (S, 2^k) from log_prob."""
    s, a = np.meshgrid(np.arange(S), np.arange(2**k), indexing="ij")
    return np.exp(np.asarray(policy.log_prob(theta, s[..., None].astype(float), a[..., None].astype(float))))


@pytest.mark.parametrize("k", [1, 2, 3, 5])
@pytest.mark.parametrize("xp", [np, jnp])
def test_probabilities_add_up(k, xp):
    policy = bits(k)
    assert policy.size == S * (2**k - 1) * 2
    pi = probabilities(policy, xp.asarray(5 * RNG.normal(size=policy.size)), k)
    np.testing.assert_allclose(pi.sum(axis=1), 1, rtol=1e-12)
    assert pi.min() > 0


def test_two_bits_by_hand():
    """theta[s] = (root), (after 0), (after 1), two logits each: with log odds x, y, z for bit 1, pi(10) is
    sigma(x) (1 - sigma(z)). In state 1: x = log 3, y = log 4, z = 0: pi = (1/4)(1/5), (1/4)(4/5), (3/4)/2, (3/4)/2."""
    policy = bits(2)
    theta = np.zeros((S, 3, 2))
    theta[1, :, 1] = np.log([3, 4, 1])
    pi = probabilities(policy, theta.ravel(), 2)
    np.testing.assert_allclose(pi[1], [1 / 20, 4 / 20, 3 / 8, 3 / 8], rtol=1e-13)
    np.testing.assert_allclose(pi[[0, 2]], 0.25, rtol=1e-13)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_gradient_is_that_of_differences(k):
    policy = bits(k)
    theta, state, action = RNG.normal(size=policy.size), np.array([2.0]), np.array([2.0**k - 1])
    f = lambda theta: float(policy.log_prob(theta, state, action))
    found = jax.grad(lambda theta: policy.log_prob(theta, jnp.asarray(state), jnp.asarray(action)))(jnp.asarray(theta))
    np.testing.assert_allclose(found, ref.finite_difference(f, theta), atol=1e-9)
    assert np.count_nonzero(found) == 2 * k, "the prefixes on the way, and no others"


def test_one_bit_is_the_table_of_two_actions():
    """theta is (S, 1, 2) = (S, 2): the same numbers, choices and log-probabilities."""
    one, two = bits(1), make("table", Discrete(S), Discrete(2))
    theta, states = RNG.normal(size=2 * S), np.arange(S, dtype=float)[:, None]
    noise = RNG.random((50, S, 1))
    np.testing.assert_array_equal(one.choose(theta, states, noise), two.choose(theta, states, noise))
    for a in (0.0, 1.0):
        action = np.full((S, 1), a)
        np.testing.assert_allclose(
            one.log_prob(theta, states, action), two.log_prob(theta, states, action), rtol=1e-13, atol=1e-15
        )
        np.testing.assert_allclose(
            one.surprise(theta, states, action), two.log_prob(theta, states, action), rtol=1e-13, atol=1e-15
        )


def test_choices_have_their_probabilities():
    """200,000 choices: every frequency within 5 standard errors."""
    policy, n = bits(2), 200_000
    theta = RNG.normal(size=policy.size)
    noise = np.asarray(policy.noise(key_for(0, 0, "bits", 0), (n,), jnp.float64))
    drawn = policy.choose(theta, np.full((n, 1), 1.0), noise)[:, 0].astype(int)
    pi = probabilities(policy, theta, 2)[1]
    share = np.bincount(drawn, minlength=4) / n
    assert (np.abs(share - pi) < 5 * np.sqrt(pi * (1 - pi) / n)).all()
    likeliest = policy.parts.head.likeliest(np, theta, policy.parts.network.output(np, theta, np.array([[1.0]])))
    assert int(likeliest[0, 0]) == pi.argmax()


def test_later_bits_weigh_less():
    """k = 3, bit_gamma = .25: weights .25^(p/2) = 1, 1/2, 1/4 of log pi(bit_p|prefix_p); with 1 it is log pi(a|s)."""
    theta = RNG.normal(size=(S, 7, 2))
    log = theta - np.log(np.exp(theta).sum(axis=-1, keepdims=True))
    for s, a in itertools.product(range(S), range(8)):
        b = [a >> 2 & 1, a >> 1 & 1, a & 1]
        each = [log[s, 0, b[0]], log[s, 1 + b[0], b[1]], log[s, 3 + 2 * b[0] + b[1], b[2]]]
        at = theta.ravel(), np.array([float(s)]), np.array([float(a)])
        assert bits(3, bit_gamma=0.25).surprise(*at) == pytest.approx(each[0] + each[1] / 2 + each[2] / 4, rel=1e-12)
        assert bits(3, bit_gamma=1.0).surprise(*at) == pytest.approx(sum(each), rel=1e-12)
        assert bits(3).log_prob(*at) == pytest.approx(sum(each), rel=1e-12)


def exact_gradient(problem, policy, theta, tau, K, k):
    """Of the K-step cost with tau h_b, h_b a plain number, by differences of E_theta[sum gamma^t (c + tau h_b(theta'))]
    at theta' = theta: what the estimates have as their mean."""
    s, a = np.meshgrid(np.arange(problem.S), np.arange(problem.A), indexing="ij")
    h = np.asarray(policy.surprise(theta, s[..., None].astype(float), a[..., None].astype(float)))
    c = problem.cost[0] + tau * h

    def J(theta):
        pi, d, total = probabilities(policy, theta, k), problem.rho, 0.0
        for t in range(K):
            total += problem.gamma**t * (d[:, None] * pi * c).sum()
            d = np.einsum("s,sa,sat->t", d, pi, problem.P)
        return total

    return ref.finite_difference(J, theta)


def test_estimates_are_right_on_average():
    """40,000 episodes of 3 steps on a random MDP with 4 actions, tau = .5: all entries within 5 standard errors."""
    rng = np.random.default_rng(81)
    problem = TabularProblem(rng.dirichlet(np.ones(S), (S, 4)), rng.uniform(size=(1, S, 4)), np.full(S, 1 / S), 0.9)
    played = problem.as_environments()
    policy = make("bits", played.observations, played.actions, settings={"bit_gamma": 0.25})
    bound = with_policy(played, policy, "gpomdp", tau=0.5, K=3, B=400, episodes=1)
    oracle = bound.oracle(jnp.asarray(bound.tasks[0]))
    theta = jnp.asarray(rng.normal(size=policy.size) / 2)
    one = jax.jit(lambda key: oracle.gradient(theta, (), oracle.sample(theta, (), key, None)[0]))
    found = np.stack([one(key_for(0, t, "local", 0)) for t in range(100)])
    exact = exact_gradient(problem, policy, np.asarray(theta), 0.5, 3, 2)
    error = found.std(axis=0, ddof=1) / 10
    assert (np.abs(found.mean(axis=0) - exact) < 5 * error).all()
    assert np.abs(exact).max() > 10 * error.max(), "there is something to find"


def test_fedavg_with_bits_learns_and_is_exported():
    """b-RS-FedPG: fedavg_pg with this policy; and what is exported is a table of log-probabilities."""
    rng = np.random.default_rng(82)
    problem = TabularProblem(np.full((S, 4, S), 1 / S), rng.uniform(size=(2, S, 4)), np.full(S, 1 / S), 0.5)
    played = problem.as_environments()
    policy = make("bits", played.observations, played.actions)
    bound = with_policy(played, policy, "gpomdp", tau=0.01, K=5, B=32, episodes=200, baseline="leave-one-out")
    found = simulate(bound, fedavg_pg(1.0, 4), 20, metrics_every=20)
    assert found.metrics["J"][0, -1] < 0.8 * found.metrics["J"][0, 0]
    saved = plain.arrays(policy, found.theta[0])
    np.testing.assert_allclose(np.exp(saved["W0"]), probabilities(policy, found.theta[0], 2), rtol=1e-12)
    assert saved["choices"].tolist() == [4]
    assert saved["b0"].shape == (4,)


def test_b_rs_fedpg_is_the_same_in_loop_simulation_and_over_flower(tmp_path):
    """The conformance table's rows have tables; this is the row of fedavg_pg with bits: two agents, 3 rounds."""
    grid = pytest.importorskip("grid", exc_type=ImportError)
    rng = np.random.default_rng(83)
    problem = TabularProblem(np.full((S, 4, S), 1 / S), rng.uniform(size=(2, S, 4)), np.full(S, 1 / S), 0.5)
    played = problem.as_environments()
    bound = with_policy(played, make("bits", played.observations, played.actions), "gpomdp", 0.01, K=4, B=4, episodes=1)
    algorithm = fedavg_pg(1.0, 2)
    looped, compiled = loop(bound, algorithm, 3), simulate(bound, algorithm, 3)
    np.testing.assert_allclose(looped.theta, compiled.theta, atol=1e-12)
    with grid.grid_of(grid.agents_of(bound, algorithm, tmp_path)) as nodes:
        there = grid.federated(
            grid.engine_of(nodes), bound, algorithm, Schedule(3), terms=grid.Terms(evaluate="server")
        )
    np.testing.assert_allclose(there[-1].theta, compiled.theta, atol=1e-12)
    assert np.abs(compiled.theta).max() > 0.01


@pytest.mark.parametrize(
    ("actions", "settings", "words"),
    [
        (Discrete(3), {}, "actions are .*3.*; policy bits needs 2, 4, 8, … of them"),
        (Discrete(1), {}, "policy bits needs 2, 4, 8"),
        (MultiDiscrete((2, 2)), {}, "policy bits needs 2, 4, 8"),
        (Discrete(4), {"bit_gamma": 0.0}, r"bit_gamma = 0; it must lie in \(0, 1\]"),
    ],
)
def test_what_can_t_be_is_refused(actions, settings, words):
    with pytest.raises(InputError, match=words):
        policies.make("bits", Discrete(S), actions, settings=settings)
