"""FedPG-BR: its filter on uploads by hand, the server's steps in plain loops, and agents that lie."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import reference as ref
from enumerated import enumerated
from fastfedpg import centralised_pg, fedpg_br, loop, simulate, with_oracle
from fastfedpg.algorithms.fedpg_br import nearby
from fastfedpg.problems import tabular_exact
from quadratics import Quadratics

P = ref.small_problem(N=3, S=2, A=2, seed=120)
THETA0 = np.random.default_rng(121).normal(size=4)
g = lambda x: tabular_exact.gradients(P, x).reshape(P.N, -1)
ETA, H = 0.5, 3


def of(*numbers, **settings):
    return float(nearby(**settings).merge(jnp.array(numbers, float)[:, None])[0])


def test_the_filter_by_hand():
    """m = 5 and delta = .6: 2 log(2 m / delta) = 5.6268. Everybody is a neighbour of itself.

    sigma .2, B0 16: T = .2372. Of 0, .1, .2, .35, 100 the first three have three neighbours or more; .1 is their mean
    and in the midst, and 0, .1, .2 are near it. sigma 1, B0 64: T = .593. Of 0, .5, 1, 2.4, 20 only .5 has three; near
    it are 0, .5, 1, which is enough with alpha = .4. With alpha = .2 it is not: within 2 of each other all but 20 have
    three, 1 is nearest to their mean .975, and all four are near it. 0, 1, 2, 3, 100 have no neighbours at all with
    sigma .2, and 3 is nearest to their mean.
    """
    assert of(0, 0.1, 0.2, 0.35, 100, sigma=0.2, B0=16) == pytest.approx(0.1)
    assert of(0, 0.5, 1, 2.4, 20, sigma=1.0, B0=64) == pytest.approx(0.5)
    assert of(0, 0.5, 1, 2.4, 20, sigma=1.0, B0=64, alpha=0.2) == pytest.approx(3.9 / 4)
    assert of(0, 1, 2, 3, 100, sigma=0.2, B0=16) == pytest.approx(3)


def test_nobody_is_left_out_where_all_agree():
    """Equal uploads, and such as differ by less than T, give the plain mean."""
    same = jnp.tile(jnp.array([0.3, -2.0]), (7, 1))
    np.testing.assert_allclose(nearby(1e-6, 16).merge(same), same[0], rtol=1e-15)
    few = jnp.asarray(np.random.default_rng(0).normal(size=(6, 4)))
    np.testing.assert_allclose(nearby(100.0, 16).merge(few), few.mean(axis=0), rtol=1e-14)


def by_loops(mu, sigma, B0, delta=0.6, alpha=0.4):
    m = len(mu)
    near = lambda i, j, T: np.linalg.norm(mu[i] - mu[j]) <= T
    for T in (2 * sigma * np.sqrt(2 * np.log(2 * m / delta) / B0), 2 * sigma):
        S = [i for i in range(m) if sum(near(i, j, T) for j in range(m)) > m / 2]
        centre = np.mean(mu[S or range(m)], axis=0)
        c = min(S or range(m), key=lambda i: np.linalg.norm(mu[i] - centre))
        G = [i for i in range(m) if near(i, c, T)]
        if S and len(G) >= (1 - alpha) * m:
            break
    return mu[G].mean(axis=0), len(G)


def test_the_filter_against_loops():
    """40 random clouds with outliers, tight and wide."""
    rng, merge, kept = np.random.default_rng(122), jax.jit(nearby(0.5, 4).merge), set()
    for _ in range(40):
        mu = rng.normal(size=(7, 3)) * 10 ** rng.uniform(-1, 0.5)
        mu[: rng.integers(3)] += 20
        wanted, size = by_loops(mu, 0.5, 4)
        np.testing.assert_allclose(merge(jnp.asarray(mu)), wanted, rtol=1e-12, atol=1e-12)
        kept.add(size)
    assert {5, 6, 7} <= kept
    assert min(kept) < 5


def test_the_servers_steps_against_loops():
    """Exact gradients: mu, then H steps with agent 0's difference of gradients; theta moves by agent 0's way alone."""
    theta = THETA0
    for _ in range(3):
        mu, x = g(theta).mean(axis=0), theta
        for _ in range(H):
            x = x - ETA * (g(x)[0] - g(theta)[0] + mu)
        theta = x
    for run in (loop, simulate):
        found = run(with_oracle(P, "exact"), fedpg_br(ETA, H), 3, theta0=THETA0).theta[0]
        np.testing.assert_allclose(found, theta, atol=1e-13)


def test_one_agent_and_one_step_is_a_step_along_the_gradient_that_was_sent():
    """SVRPG's first: w = 1 and g(theta;tau) - g(theta;tau) = 0, so theta - eta mu to rounding, for sampled mu too."""
    alone = ref.small_problem(N=1, S=2, A=2, seed=123)
    sampled = with_oracle(alone, "gpomdp", B=2, K=3)
    one, two = (simulate(sampled, method, 1) for method in (fedpg_br(ETA, 1, B0=2), centralised_pg(ETA)))
    np.testing.assert_allclose(one.theta, two.theta, atol=1e-15)
    assert one.final("env_steps")[0] == 2 * two.final("env_steps")[0] == 12


def test_with_weights_it_is_the_method_with_truncated_gradients(monkeypatch):
    """All 16 trajectories of 2 steps, weighted, in the place of truncated gradients; ratios of single steps fail."""
    run = lambda problem: simulate(problem, fedpg_br(2.0, H), 3, theta0=THETA0).theta
    known = run(with_oracle(P, "truncated", K=2))
    np.testing.assert_allclose(run(enumerated(P, 2)), known, atol=1e-13)

    def per_step(oracle, theta, played, own, batch):
        w = jnp.exp(oracle.log_prob(theta, batch) - oracle.log_prob(played, batch)) * oracle.credit(theta, own, batch)
        return jax.grad(lambda theta: jnp.sum(w * oracle.log_prob(theta, batch)) / len(w))(theta)

    monkeypatch.setattr(sys.modules["fastfedpg.algorithms.fedpg_br"], "weighted_gradient", per_step)
    assert np.abs(run(enumerated(P, 2)) - known).max() > 1e-5


def test_agent_0_alone_plays_for_the_server():
    """N B0 K + H B K environment steps a round; drawn anew, H varies, and its mean over 300 rounds is near 3.

    H = 3 has the variance (1 - 1/3) 9 = 6: 5 standard errors are 5 sqrt(6/300) = .71.
    """
    problem = with_oracle(P, "gpomdp", B=2, K=5)
    assert simulate(problem, fedpg_br(ETA, H, B0=4), 2).final("env_steps")[0] == 2 * (3 * 4 + 3 * 2) * 5
    steps = simulate(problem, fedpg_br(1e-3, H, B0=1, geometric=True), 300).metrics["env_steps"][0]
    drawn = (np.diff(steps) - 3 * 5) / (2 * 5)
    assert drawn.min() == 1
    assert drawn.max() > 6
    assert abs(drawn.mean() - 3) < 0.71


def test_two_liars_of_seven_do_not_matter():
    """They send -20 times their gradient: the mean then leads away, and the filter to the optimum."""
    Q = Quadratics(N=7, d=3, seed=124)
    Q.A, Q.c = np.tile(Q.A[:1], (7, 1, 1)), np.tile(Q.c[:1], (7, 1))
    honest = Q.problem(noise=0.02)
    lie = jnp.where(jnp.arange(7) >= 5, -20.0, 1.0)

    def oracle(task):
        theirs = honest.oracle(task[0])
        return theirs._replace(gradient=lambda theta, own, batch: task[1] * theirs.gradient(theta, own, batch))

    problem = honest._replace(tasks=(honest.tasks, lie), oracle=oracle)
    start = Q.c[0] + 0.5
    found = simulate(problem, fedpg_br(0.2, 3, sigma=0.3), 20, theta0=start).theta[0]
    assert np.abs(found - Q.c[0]).max() < 0.05
    away = simulate(problem, centralised_pg(0.2), 20, theta0=start).theta[0]
    assert np.abs(away - Q.c[0]).max() > 10


def test_bad_settings_are_refused():
    with pytest.raises(ValueError, match="H = 0; the server must take at least 1 step"):
        fedpg_br(0.1, 0)
    with pytest.raises(ValueError, match="sigma = 0; it must be positive"):
        fedpg_br(0.1, 1, sigma=0.0)
