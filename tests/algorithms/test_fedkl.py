"""FedKL: without penalties FedAvg-PG, with them a policy that stays where it was; KL divergences by definition."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import reference as ref
from fastfedpg import InputError, fedavg_pg, fedkl, simulate, with_oracle
from fastfedpg.algorithms.fedkl import surrogate
from fastfedpg.core import key_for
from fastfedpg.experiment import Config, plan
from fastfedpg.policies import make
from fastfedpg.runtime import Schedule, simulate_records
from fastfedpg.spaces import Discrete, MultiDiscrete, box

N, S, A, d, B, K = 3, 3, 2, 6, 4, 5
TABULAR = ref.small_problem(N=N, S=S, A=A, seed=95)
SAMPLED = with_oracle(TABULAR, "gpomdp", B=B, K=K, baseline="leave-one-out")
RNG = np.random.default_rng(96)
THETA, OLD = jnp.asarray(RNG.normal(size=d)), jnp.asarray(RNG.normal(size=d))
ORACLE = SAMPLED.oracle(jnp.asarray(SAMPLED.tasks[0]))
BATCH, _ = ORACLE.sample(OLD, (), key_for(0, 0, "local", 0), None)
CREDIT = ORACLE.credit(OLD, (), BATCH)
EVERY = jnp.ones(B, bool)


def plain_kl(theta, other):
    pi, q = ref.policy(np.asarray(theta), S, A), ref.policy(np.asarray(other), S, A)
    return (pi * np.log(pi / q)).sum(axis=1)


def test_the_oracle_s_kl_is_that_of_the_states_it_visited():
    found = ORACLE.kl(THETA, OLD, BATCH)
    np.testing.assert_allclose(found, plain_kl(THETA, OLD)[np.asarray(BATCH.states)], rtol=1e-12)
    np.testing.assert_allclose(ORACLE.kl(OLD, OLD, BATCH), 0, atol=1e-16)


@pytest.mark.parametrize(
    ("actions", "settings"),
    [
        (Discrete(3), {}),
        (MultiDiscrete((2, 3)), {}),
        (box(2), {}),
        (box(2, -1, 3), {"squash": True, "log_std": 0.3}),
        (box(2, -1, 3), {"learn_std": False}),
    ],
    ids=["discrete", "several", "normal", "squashed", "std-stays"],
)
@pytest.mark.parametrize("xp", [np, jnp])
def test_kl_is_the_mean_of_log_ratios(actions, settings, xp):
    """E_theta[log pi_theta(a|o) - log pi_other(a|o)] over 100,000 choices, within 5 standard errors; 0 to itself."""
    policy, rng = make("linear", box(2), actions, settings=settings), np.random.default_rng(97)
    theta, other = (xp.asarray(0.5 * rng.normal(size=policy.size)) for _ in range(2))
    seen = np.tile([0.3, -0.8], (100_000, 1))
    noise = np.asarray(policy.noise(key_for(0, 0, "kl", 0), (100_000,), jnp.float64))
    choice = policy.choose(np.asarray(theta), seen, noise)
    log_ratio = policy.log_prob(np.asarray(theta), seen, choice) - policy.log_prob(np.asarray(other), seen, choice)
    found = float(policy.kl(theta, other, xp.asarray(seen[0])))
    assert found == pytest.approx(log_ratio.mean(), abs=5 * log_ratio.std() / 100_000**0.5)
    assert found > 0.01
    assert float(policy.kl(theta, theta, xp.asarray(seen[0]))) == pytest.approx(0, abs=1e-15)


def test_bits_have_the_kl_of_all_their_actions():
    policy = make("bits", Discrete(S), Discrete(4))
    theta, other, s = RNG.normal(size=policy.size), RNG.normal(size=policy.size), np.array([1.0])
    log = lambda x: np.array([float(policy.log_prob(x, s, np.array([float(a)]))) for a in range(4)])
    assert policy.kl(theta, other, s) == pytest.approx(
        (np.exp(log(theta)) * (log(theta) - log(other))).sum(), rel=1e-12
    )


@pytest.mark.parametrize("H", [1, 3])
def test_without_penalties_and_in_one_step_it_is_fedavg(H):
    """The gradient of the ratio's term at x = old is the oracle's estimate, of the same batches: the exchange has the
    same name. The penalties have no gradient at x = old = anchor: with one step a round they change nothing either."""
    one, two = simulate(SAMPLED, fedkl(0.5, H, 0.0, 0.0), 3), simulate(SAMPLED, fedavg_pg(0.5, H), 3)
    np.testing.assert_allclose(one.theta, two.theta, atol=1e-13)
    assert one.final("env_steps") == two.final("env_steps")
    penalised = simulate(SAMPLED, fedkl(0.5, H, 1.0, 1.0), 3)
    assert (np.abs(penalised.theta - two.theta).max() < 1e-13) == (H == 1)


def written_out(x, beta, sigma, rows=slice(None)):
    """L(x) on some trajectories by loops."""
    states, actions = np.asarray(BATCH.states)[rows], np.asarray(BATCH.actions)[rows]
    pi, old = ref.policy(np.asarray(x), S, A), ref.policy(np.asarray(OLD), S, A)
    total = 0.0
    for b in range(len(states)):
        for k in range(K):
            s, a = states[b, k], actions[b, k]
            total += min(pi[s, a] / old[s, a], 10) * np.asarray(CREDIT)[rows][b, k] / len(states)
            roots = np.sqrt(max(plain_kl(THETA, x)[s], 1e-8))
            total += (beta * plain_kl(OLD, x)[s] + sigma * roots) / (len(states) * K)
    return total


def test_the_surrogate_by_loops():
    """With the anchor THETA, at another x; on all trajectories, and on the second and fourth."""
    x = jnp.asarray(np.random.default_rng(98).normal(size=d) * 3)
    for part, rows in ((EVERY, slice(None)), (EVERY.at[jnp.array([0, 2])].set(False), [1, 3])):
        found = surrogate(x, ORACLE, THETA, OLD, BATCH, CREDIT, part, 0.3, 0.7)
        assert float(found) == pytest.approx(written_out(x, 0.3, 0.7, rows), rel=1e-12)


def test_a_large_sigma_keeps_the_anchor():
    """Along minus the gradient from anchor = old: without penalties L falls at first; with sigma -> infinity its least
    value over all lengths t of the step is at t = 0."""
    g = ORACLE.gradient(OLD, (), BATCH)
    t = np.concatenate([[0.0], np.geomspace(1e-2, 10, 40)])
    at = jax.jit(lambda s, *weights: surrogate(OLD - s * g, ORACLE, OLD, OLD, BATCH, CREDIT, EVERY, *weights))
    L = lambda *weights: np.array([float(at(s, *weights)) for s in t])
    plain, held = L(0.0, 0.0), L(0.0, 1e4)
    assert plain.argmin() > 0
    assert plain[1] < plain[0]
    assert held.argmin() == 0
    assert L(1e6, 0.0).argmin() == 0, "and so does a large beta"


@pytest.mark.long
def test_more_of_a_penalty_is_less_of_a_step():
    """Ten epochs on one batch: the policy moves less the larger beta, or sigma, is."""
    moved = lambda beta, sigma: np.abs(simulate(SAMPLED, fedkl(0.3, 1, beta, sigma, epochs=10), 1).theta).max()
    assert moved(3.0, 0.0) < 0.9 * moved(0.0, 0.0)
    assert moved(0.0, 0.5) < 0.9 * moved(0.0, 0.0)


def test_parts_of_an_epoch_are_all_of_the_batch():
    """Small steps on 2 halves are, together, a step on the whole of twice the size, to first order."""
    eta = 1e-6
    whole = simulate(SAMPLED, fedkl(2 * eta, 1, 0.0, 0.0), 1).theta[0]
    halves = simulate(SAMPLED, fedkl(eta, 1, 0.0, 0.0, minibatches=2), 1).theta[0]
    np.testing.assert_allclose(halves, whole, atol=1e-11)
    assert np.abs(whole).max() > 1e-8


def test_there_are_no_more_parts_than_trajectories():
    one, two = (simulate(SAMPLED, fedkl(0.5, 1, minibatches=n), 1).theta for n in (B, 5 * B))
    np.testing.assert_array_equal(one, two)


def test_penalties_adapt_to_their_targets():
    """A target far below what is reached doubles the weight after each batch, one far above halves it, down to where
    sigma began; none leaves it. Three rounds of one batch each."""

    def weights(**targets):
        stood = []
        method = fedkl(0.5, 1, 0.1, 0.2, epochs=3, **targets)
        list(simulate_records(SAMPLED, method, Schedule(3), lambda t, now: stood.append(now()), pause=3))
        return stood[-1].memory

    both = weights(kl_target=1e-9, nm_target=1e-9)
    np.testing.assert_allclose(both.beta[0], 0.8)
    np.testing.assert_allclose(both.sigma[0], 1.6)
    neither = weights(kl_target=1e3, nm_target=1e3)
    np.testing.assert_allclose(neither.beta[0], 0.1 / 8)
    np.testing.assert_allclose(neither.sigma[0], 0.2)
    still = weights()
    np.testing.assert_allclose((still.beta[0][0], still.sigma[0][0]), (0.1, 0.2))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"oracle": "exact"}, "needs log_prob, which the problem's oracle does not answer"),
        ({"epochs": 0}, "epochs = 0; it must be at least 1"),
        ({"sigma": -1.0}, "sigma = -1; a penalty must be finite and at least 0"),
    ],
)
def test_what_can_t_be_is_refused(given, words):
    with pytest.raises(InputError, match=words):
        plan(Config(**{"problem": "compromise", "algorithm": "fedkl", "oracle": "gpomdp", "K": 3, **given}))
