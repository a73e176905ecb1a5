"""Heavy anchor: what it is at both ends of q, that its corrections cancel, and what noise does between them."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fastfedpg as ff
import reference as ref
from fastfedpg import loop, simulate, with_oracle
from fastfedpg.core import Evaluation, Oracle, Problem, key_for, pairwise_mean
from fastfedpg.problems import tabular_exact
from fastfedpg.runtime import message_sizes

heavy_anchor, fast_fedpg, minibatch_pg, centralised_pg, fedavg_pg = (
    cache(make) for make in (ff.heavy_anchor, ff.fast_fedpg, ff.minibatch_pg, ff.centralised_pg, ff.fedavg_pg)
)  # one is compiled once for all tests
H, ETA = 4, 0.3
P = ref.small_problem(N=3, S=3, A=2, seed=72)
THETA0 = np.random.default_rng(73).normal(size=6)
EXACT = with_oracle(P, "exact")
SAMPLED = with_oracle(P, "gpomdp", B=2, K=4, baseline="leave-one-out")
BOTH = pytest.mark.parametrize("run", [loop, simulate])
g = lambda theta: tabular_exact.gradients(P, theta).reshape(P.N, -1)


@BOTH
@pytest.mark.parametrize("problem", [EXACT, SAMPLED], ids=["exact", "sampled"])
def test_with_one_estimate_at_the_start_it_is_fast_fedpg_with_reuse(run, problem):
    """To the bit: the first step's direction is h there and here, and both exchanges have the same names and keys."""
    one, two = (run(problem, a, 3, 2, theta0=THETA0) for a in (heavy_anchor(ETA, H, 1), fast_fedpg(ETA, H, reuse=True)))
    np.testing.assert_array_equal(one.theta, two.theta)
    for name in ("env_steps", "drift", "bytes_up", "syncs"):
        np.testing.assert_array_equal(one.metrics[name], two.metrics[name])


@BOTH
def test_without_local_steps_it_is_minibatch_pg(run):
    """q = H, to the bit, and centralised_pg with H eta and H B; the second exchange is not sent."""
    found = run(SAMPLED, heavy_anchor(ETA, H, H), 3, 2, theta0=THETA0)
    large = with_oracle(P, "gpomdp", B=2 * H, K=4, baseline="leave-one-out")
    for problem, algorithm in ((SAMPLED, minibatch_pg(ETA, H)), (large, centralised_pg(H * ETA))):
        other = run(problem, algorithm, 3, 2, theta0=THETA0)
        np.testing.assert_array_equal(found.theta, other.theta)
        assert {k: v[0, -1] for k, v in found.metrics.items()} == {k: v[0, -1] for k, v in other.metrics.items()}
    assert message_sizes(EXACT, heavy_anchor(ETA, H, H), THETA0) == (6, 6, 48, 48, 1)
    assert message_sizes(EXACT, heavy_anchor(ETA, H, H - 1), THETA0) == (12, 12, 96, 96, 2)


@BOTH
def test_between_the_ends_it_is_the_equation(run):
    """Two rounds with q = 2 and L = 2, written out; half of H is what q is unless given."""
    theta = THETA0
    for _ in range(2):
        h_i = g(theta)
        h, ends = h_i.mean(axis=0), []
        for i in range(P.N):
            x = theta - 2 * ETA * h
            for _ in range(2):
                x = x - ETA * (g(x)[i] - h_i[i] + h)
            ends.append(x)
        theta = np.mean(ends, axis=0)
    np.testing.assert_allclose(run(EXACT, heavy_anchor(ETA, H), 2, theta0=THETA0).theta[0], theta, atol=1e-13)
    assert run(SAMPLED, heavy_anchor(ETA, H), 2, theta0=THETA0).final("env_steps")[0] == 2 * P.N * H * 2 * 4


def test_its_corrections_cancel_with_noise_too():
    """mean_i x_L - theta = -eta (q h + sum_l mean_i g_i(x_l)), whatever the h_i are: here 10 times the noise's."""
    algorithm, q = heavy_anchor(ETA, H, 2), 2
    _, local = algorithm.exchanges
    theta, noise = jnp.asarray(THETA0), jax.random.normal(jax.random.key(0), (P.N, 6))
    h, changes, fresh = pairwise_mean(10 * noise), [], []
    memory = jax.tree.map(lambda x: x[0], algorithm.init(theta, P.N)[2])
    for i in range(P.N):
        oracle, seen = SAMPLED.oracle(jnp.asarray(SAMPLED.tasks[i])), []
        hear = lambda *given, oracle=oracle, seen=seen: (seen.append(oracle.gradient(*given)), seen[-1])[1]
        with jax.disable_jit():
            kept = memory._replace(theta=theta, h_i=10 * noise[i])
            _, _, up, _ = local.agent(kept, (), h, oracle._replace(gradient=hear), key_for(0, 0, "local", i))
        changes.append(up)
        fresh.append(sum(seen))
        assert len(seen) == H - q
    expected = -ETA * (q * h + np.mean(fresh, axis=0))
    np.testing.assert_allclose(np.mean(changes, axis=0), expected, atol=1e-13)
    assert np.abs(changes[0] - changes[1]).max() > 1


@pytest.mark.parametrize("q", [1, 2, 4])
def test_at_a_stationary_point_of_J_nobody_moves(q):
    """theta* = log of the soft-optimal policy, exact gradients; FedAvg's agents walk off (test_algorithms.py)."""
    tau = 0.2
    theta = np.log(tabular_exact.optimum(P, tau).policy).reshape(-1)
    exact = with_oracle(P, "exact", tau)
    stay = simulate(exact, heavy_anchor(1.0, H, q), 3, theta0=theta)
    np.testing.assert_allclose(stay.theta[0], theta, atol=1e-12)
    assert q == H or stay.metrics["drift"][0, 1:].max() < 1e-20
    assert np.abs(simulate(exact, fedavg_pg(1.0, H), 3, theta0=theta).theta[0] - theta).max() > 1e-3


def noise_only(N, d):
    """Gradients that are b_i + noise of variance 1/B in each of d numbers, wherever they are asked for."""
    b = np.random.default_rng(74).normal(size=(N, d))

    def oracle(b_i):
        sample = lambda theta, own, key, B: (jax.random.normal(key, (d,)) / np.sqrt(B or 2), own)
        return Oracle(lambda key: (), sample, lambda theta, own, noise: b_i + noise, lambda batch: 1, B=2)

    none = lambda thetas, seeds=None: Evaluation(*(np.zeros(len(thetas)),) * 3, np.zeros((len(thetas), N)))
    return Problem(b, np.arange(N, dtype=np.int32), oracle, none, np.zeros(d)), b.mean(axis=0)


@pytest.mark.parametrize("q", [1, 3])
def test_noise_does_what_the_docstring_says(q):
    """Where gradients do not depend on theta, E||x_l - theta||^2 is known for every l, with s = d sigma^2/B:

        eta^2 [(q + l)^2 ||b||^2 + (q + l) s/N + (1 - 1/N) (l + l^2/q) s]

    the mean's two parts and the distance from it. The drift that is logged is its sum over the L points where gradients
    are asked for and over agents; 4000 seeds know its mean, and 4.5 standard errors are wrong once in 150,000 times.
    And the mean's variance after the round, (q + L) s/N = H s/N in each direction together, does not depend on q.
    """
    N, d, seeds = 4, 3, 4000
    problem, b = noise_only(N, d)
    found = simulate(problem, heavy_anchor(1.0, H, q), 1, seeds)
    l, s = np.arange(H - q), d / 2
    wanted = N * np.sum((q + l) ** 2 * (b @ b) + (q + l) * s / N + (1 - 1 / N) * (l + l**2 / q) * s)
    drift = found.final("drift")
    assert abs(drift.mean() - wanted) < 4.5 * drift.std() / np.sqrt(seeds)
    off = np.sum((found.theta + H * b) ** 2, axis=1)
    assert abs(off.mean() - H * s / N) < 4.5 * off.std() / np.sqrt(seeds)


@pytest.mark.parametrize("q", [0, 5, -1])
def test_bad_arguments_are_refused(q):
    with pytest.raises(ValueError, match=f"q = {q}; it must lie between 1 and H = 4"):
        heavy_anchor(ETA, H, q)
