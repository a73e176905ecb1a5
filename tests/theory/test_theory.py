"""The theory's functions against independent checks: enumeration, finite differences, algebra, and other routes."""

import json
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import reference as ref
from commands import command
from fastfedpg import Config, TabularProblem, problems, theory
from fastfedpg.errors import InputError
from fastfedpg.experiment.config import from_toml
from fastfedpg.experiment.plan import plan
from fastfedpg.mdp import finite
from fastfedpg.oracles import ORACLES, preparation
from fastfedpg.problems import tabular_exact
from fastfedpg.theory import proofs

TAUS = (0.0, 0.3)


def points(n: int, d: int, seed: int = 0) -> np.ndarray:
    """Thetas from near uniform to near deterministic."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) * np.geomspace(0.1, 6, n)[:, None]


# Smoothness


@pytest.mark.parametrize("tau", TAUS)
def test_hessian_norm_is_that_of_finite_differences(tau):
    """Columns of each agent's Hessian from differences of Eq. (9), and their largest singular value."""
    p = ref.small_problem(seed=31)
    theta, step = points(1, 12, 1)[0], 1e-5 * np.eye(12)
    ahead, back = ([tabular_exact.gradients(p, theta + s * e, tau).reshape(3, 12) for e in step] for s in (1, -1))
    hessians = np.moveaxis(np.array(ahead) - np.array(back), 0, 2) / 2e-5
    expected = np.linalg.norm(hessians, ord=2, axis=(1, 2)).max()
    got = theory.smoothness_estimate(tabular_exact.gradient_function(p, tau), np.stack([theta, theta])[None])
    assert got == pytest.approx(expected, rel=1e-6)


def test_power_iteration_is_a_lower_estimate_and_a_close_one(monkeypatch):
    gradients, at = tabular_exact.gradient_function(ref.small_problem(N=9, S=8, seed=30), 0.1), points(5, 24, 2)
    dense = jax.lax.map(partial(theory.hessian_norm, gradients), at)
    monkeypatch.setattr("fastfedpg.theory.estimates.DENSE", 0)
    power = jax.lax.map(partial(theory.hessian_norm, gradients), at)
    assert (power <= dense * (1 + 1e-12)).all()
    assert (power > 0.97 * dense).all()


def test_smoothness_is_looked_for_along_the_segment_and_respects_the_bound():
    """J = sum log cosh has its largest curvature, 1, in the middle: three points see it, two do not."""
    gradients = lambda theta: jnp.stack([jnp.tanh(theta), 0.5 * jnp.tanh(theta)])
    segment = np.array([[[-2.0, -2.0], [2.0, 2.0]]])
    assert theory.smoothness_estimate(gradients, segment) == pytest.approx(1)
    assert theory.smoothness_estimate(gradients, segment, points=2) == pytest.approx(1 / np.cosh(2) ** 2)
    p = ref.small_problem(seed=32, kernels=True, rhos=True)
    for tau in TAUS:
        far = points(20, 12, 3).reshape(10, 2, 12)
        got = theory.smoothness_estimate(tabular_exact.gradient_function(p, tau), far)
        assert 0.05 < got < theory.smoothness_bound(p.gamma, 3, tau)
    with pytest.raises(InputError, match="segments have shape"):
        theory.smoothness_estimate(gradients, segment[0])


def test_gradient_and_objective_functions_are_eq_9_and_eq_3():
    for kernels in (False, True):
        p = ref.small_problem(seed=33, kernels=kernels)
        theta = points(1, 12, 4)[0]
        got = tabular_exact.gradient_function(p, 0.2)(jnp.asarray(theta))
        np.testing.assert_allclose(got, tabular_exact.gradients(p, theta, 0.2).reshape(3, 12), atol=1e-14)
        assert tabular_exact.objective_function(p, 0.2)(jnp.asarray(theta)) == pytest.approx(
            tabular_exact.J(p, theta, 0.2), abs=1e-13
        )


# Variance and truncation


def enumerated_variance(p: TabularProblem, theta, K: int, definition, tau: float) -> float:
    """sigma^2 of one trajectory, exactly: a sum over all of them."""
    every = list(ref.all_trajectories(p.P, p.rho, theta, K))
    weight = np.array([t.probability for t in every])
    values = np.array([definition(p.cost[0], p.gamma, theta, t, tau) for t in every])
    return float(weight @ ((values - weight @ values) ** 2).sum(axis=1))


@pytest.mark.parametrize(("oracle", "definition"), [("reinforce", ref.eq5), ("gpomdp", ref.causal)])
@pytest.mark.parametrize("tau", TAUS)
def test_variance_bound_holds_everywhere(oracle, definition, tau):
    p = ref.small_problem(N=1, S=2, A=2, gamma=0.7, seed=34)
    for K in (1, 3):
        got = [enumerated_variance(p, theta, K, definition, tau) for theta in points(6, 4, 5)]
        assert max(got) <= theory.variance_bound(0.7, 2, K, tau=tau, oracle=oracle)


def test_variance_bound_of_eq_5_is_attained():
    """One state, cost 1, the uniform policy: the return is R always, and the score's square 1 - 1/A.

    K = 3, A = 2, gamma = .7: 3 * 1/2 * (1 + .7 + .49)^2.
    """
    p = TabularProblem(np.ones((1, 2, 1)), np.zeros((1, 1, 2)), np.ones(1), 0.7)
    expected = 1.5 * 2.19**2
    assert theory.variance_bound(0.7, 2, 3) == pytest.approx(expected)
    assert enumerated_variance(p, np.zeros(2), 3, ref.eq5, 0.0) == pytest.approx(expected)
    assert theory.variance_bound(0.7, 2, 3, B=4) == pytest.approx(expected / 4)
    assert theory.variance_bound(0.0, 2, 5) == pytest.approx(2.5)
    with pytest.raises(InputError, match="leave-one-out"):
        theory.variance_bound(0.7, 2, 3, oracle="leave-one-out")


def test_the_second_moment_of_log_probabilities():
    """E[log^2 pi] <= (1 + log A)^2, on which the bounds with entropy rest."""
    for A in (2, 3, 10, 100):
        pi = np.random.default_rng(A).dirichlet(np.full(A, 0.3), 2000)
        pi = np.concatenate([pi, np.full((1, A), 1 / A)]).clip(1e-300)
        assert (pi * np.log(pi) ** 2).sum(axis=1).max() <= (1 + np.log(A)) ** 2


def test_truncation_bound_holds_everywhere_and_falls_like_gamma_to_the_K():
    """And at K = 4, A = 3, gamma = .8 it is sqrt(2/3 (4 + 5))/.2 by hand."""
    p = ref.small_problem(seed=35, gamma=0.8)
    at, lengths = points(10, 12, 6), (1, 4, 16, 48)

    @partial(jax.jit, static_argnums=0)
    def cut(K, tau):
        J_K = lambda theta, c: finite.truncated_objective(
            p.P, c, p.rho, 0.8, K, finite.log_softmax_policy(theta, 4, 3), tau
        )
        return jax.vmap(jax.vmap(jax.grad(J_K), (None, 0)), (0, None))(at, jnp.asarray(p.cost))

    for tau in TAUS:
        full = np.array([tabular_exact.gradients(p, theta, tau).reshape(3, 12) for theta in at])
        errors = np.array([np.linalg.norm(cut(K, tau) - full, axis=-1).max() for K in lengths])
        bounds = np.array([theory.truncation_bound(0.8, 3, K, tau) * 0.8**K for K in lengths])
        assert (errors <= bounds).all()
        assert errors[0] > 0.01 * bounds[0]  # some 10 to 100 times too large, not millions
        assert np.polyfit(lengths, np.log(errors), 1)[0] <= np.log(0.8) + 1e-3
    assert theory.truncation_bound(0.8, 3, 4) == pytest.approx(np.sqrt(6) / 0.2)


def test_the_tail_sum_behind_the_truncation_bound():
    """sum_{t>=K} gamma^t sqrt(t+1) <= gamma^K sqrt(K + 1/(1-gamma))/(1-gamma), summed out."""
    for gamma in (0.0, 0.5, 0.9, 0.99):
        for K in (1, 5, 50):
            t = np.arange(K, K + 5000)
            tail = (gamma**t * np.sqrt(t + 1)).sum()
            limit = theory.truncation_bound(gamma, 2, K) / np.sqrt(0.5) * gamma**K
            assert 0.85 * limit <= tail <= limit * (1 + 1e-12)


def test_variance_estimate_is_the_t_interval_of_the_squares():
    x = np.random.default_rng(7).normal(size=(50, 3, 2)) * np.array([1.0, 2.0, 1.5])[:, None]
    one = theory.variance_estimate(x[:, 0], np.zeros(2), 0.9)
    squares = (x[:, 0] ** 2).sum(axis=1)
    assert one[1:] == pytest.approx(stats.t.interval(0.9, 49, squares.mean(), stats.sem(squares)))
    every = theory.variance_estimate(x, np.zeros((3, 2)), 0.9)
    alone = [theory.variance_estimate(x[:, i], np.zeros(2), 1 - 0.1 / 3) for i in range(3)]
    assert every == pytest.approx(np.array(alone).max(axis=0))
    assert every.low < 8 < every.high  # the second agent: two coordinates of variance 4
    with pytest.raises(InputError, match="at least 2"):
        theory.variance_estimate(x[:1], np.zeros((3, 2)))


def test_domination_is_a_ratio_of_means_without_rounding():
    """Replicas first: (1 + 3)/(1 + 1) = 2 beats (8 + 2)/(1 + 1); the last round's gap is rounding."""
    norms_sq, gaps = np.array([[8.0, 1.0, 0.0], [2.0, 3.0, 0.0]]), np.array([[1.0, 1.0, 1e-14], [1.0, 1.0, -1e-14]])
    assert theory.domination_estimate(norms_sq, gaps) == 2
    assert theory.domination_estimate(norms_sq[0], gaps[0]) == 1
    assert theory.domination_estimate(np.zeros(3), np.zeros(3)) == np.inf


def test_heterogeneity():
    """Gradients (3, 0), (-3, 0), (0, 6) with mean (0, 2): distances sqrt(13), sqrt(13), 4."""
    assert theory.heterogeneity(np.array([[3.0, 0], [-3, 0], [0, 6]])) == pytest.approx(4)


# C


def test_the_constant_C():
    """Theorem 1 needs 4x + 32x^2(1 + 4x) <= 1/4; with x = 1/(4C) that is tight for C, and true for the paper's."""
    left = lambda C: 4 / (4 * C) + 32 / (4 * C) ** 2 * (1 + 4 / (4 * C))
    assert left(theory.C) == pytest.approx(0.25, abs=1e-14)
    assert left(theory.C) <= 0.25 < left(theory.C * (1 - 1e-9))
    assert 5.66 < theory.C < 5.67
    assert left(theory.C_PAPER) < 0.25
    x = np.linspace(0, 1, 101)
    assert (4 * x + 32 * x**2 * (1 + 4 * x) <= theory.C_PAPER * x + 1e-12).all()  # what alpha L <= 1 is used for
    assert theory.theorem1_step_limit(2.0, 5, C=10) == pytest.approx(1 / 400)
    assert theory.theorem1_step_limit(2.0, 5) < theory.lemma2_step_limit(2.0, 5)  # so Lemma 2 applies too


# The proofs

N, H, K, ETA = 3, 4, 3, 0.3


class Played(NamedTuple):
    """3,000 replicas of one round of Algorithm 1 from one theta_bar."""

    problem: TabularProblem
    theta: np.ndarray
    rounds: theory.Round
    same_steps: theory.Round  # a mutant: every step of an agent draws the same numbers
    same_agents: theory.Round  # a mutant: all agents are alike and draw the same numbers


@pytest.fixture(scope="module")
def played() -> Played:
    """Algorithm 1 written out once more: all replicas, agents and steps, with everything that the proofs look at."""
    p = ref.small_problem(N=N, S=3, A=2, gamma=0.6, seed=36)
    theta_bar = jnp.asarray(points(3, 6, 8)[1])
    known, sampled = (preparation(ORACLES[name])(p.P, p.rho) for name in ("truncated", "reinforce"))

    def answers(cost, theta, key):
        oracle = ORACLES["reinforce"](sampled, cost, p.gamma, 1, K)
        batch, _ = oracle.sample(theta, (), key, 1)
        whole, cut = (ORACLES["exact"](known, cost, p.gamma), ORACLES["truncated"](known, cost, p.gamma, K))
        return whole.gradient(theta, (), ()), cut.gradient(theta, (), ()), oracle.gradient(theta, (), batch)

    def one(costs, steps, agents, seed):
        """Step l of agent i draws with the numbers steps[l] and agents[i]."""
        key = jax.random.key(seed)
        of = lambda l, i: jax.random.fold_in(jax.random.fold_in(key, agents[i]), l)
        bar = jax.vmap(lambda c, i: answers(c, theta_bar, of(H, i)))(costs, jnp.arange(N))

        def step(theta, l):
            found = jax.vmap(lambda c, x, i: answers(c, x, of(l, i)))(costs, theta, jnp.arange(N))
            return theta - ETA * (found[2] - bar[2] + bar[2].mean(axis=0)), (theta, *found)  # Eq. (6)

        _, rows = jax.lax.scan(step, jnp.tile(theta_bar, (N, 1)), steps)
        return theory.Round(theta_bar, *(jnp.swapaxes(x, 0, 1) for x in rows), *bar)

    many = jax.jit(jax.vmap(one, (None, None, None, 0)))
    costs, alike, seeds = jnp.asarray(p.cost), jnp.tile(jnp.asarray(p.cost[:1]), (N, 1, 1)), jnp.arange(3000)
    l, i = jnp.arange(H), jnp.arange(N)
    rounds = many(costs, l, i, seeds), many(costs, 0 * l, i, seeds), many(alike, l, 0 * i, seeds)
    return Played(p, np.asarray(theta_bar), *rounds)


def over(function, rounds, *given) -> np.ndarray:
    return np.asarray(jax.vmap(lambda r: function(r, *given))(rounds))


def test_the_directions_add_up(played):
    """V + W is Eq. (6)'s direction; H of them lead from theta_bar to theta_{i,H}, their mean is the round's change."""
    played = played.rounds
    got = over(proofs.V, played) + over(proofs.W, played)
    np.testing.assert_allclose(got, over(proofs.direction, played), atol=1e-13)
    moves = np.diff(np.asarray(played.iterates), axis=2)
    np.testing.assert_allclose(moves, -ETA * got[:, :, :-1], atol=1e-13)
    change = -ETA * got.sum(axis=2).mean(axis=1)
    np.testing.assert_allclose(over(proofs.change, played, ETA * H), change, atol=1e-13)
    np.testing.assert_allclose(over(proofs.v, played)[:, :, 0], 0, atol=1e-15)
    parts = over(proofs.h, played) + over(proofs.e, played)
    np.testing.assert_allclose(parts, np.asarray(played.noisy - played.exact), atol=1e-14)


def test_19_in_every_replica(played):
    """The first order is T1 + T2 + the noise's product, the second at most T3 + T4 + T5, and J lies below their sum."""
    p, theta, played = played[:3]
    alpha = ETA * H
    change = over(proofs.change, played, alpha)
    g = tabular_exact.gradient(p, theta).reshape(-1)
    first = over(proofs.T1, played, alpha) + over(proofs.T2, played, alpha) + over(proofs.noise_product, played, alpha)
    np.testing.assert_allclose(change @ g, first, atol=1e-13)
    ends = np.stack([np.broadcast_to(theta, change.shape), theta + change], axis=1)
    L = theory.smoothness_estimate(tabular_exact.gradient_function(p), ends[:300], points=5)
    second = sum(over(T, played, alpha, L) for T in (proofs.T3, proofs.T4, proofs.T5))
    assert (L / 2 * (change**2).sum(axis=1) <= second + 1e-15).all()
    J = jax.vmap(tabular_exact.objective_function(p))
    fall = np.asarray(J(theta + change) - J(jnp.asarray(theta)[None]))
    assert (fall[:300] <= (first + second)[:300] + 1e-13).all()
    assert (fall > first).any()  # the second order is needed


def test_20_to_22_in_every_replica(played):
    """T1 and T3 against the drift, T2 and T5 against the truncation errors: Young, Jensen and smoothness."""
    p, theta, played = played[:3]
    alpha, some = ETA * H, jax.tree.map(lambda x: x[:100], played)
    ends = np.stack([np.broadcast_to(theta, some.iterates.shape), some.iterates], axis=-2).reshape(-1, 2, 6)
    L = theory.smoothness_estimate(tabular_exact.gradient_function(p), ends)
    square = float((tabular_exact.gradient(p, theta) ** 2).sum())
    drift, error = over(proofs.drift, some).mean(axis=(1, 2)), (over(proofs.e, some) ** 2).sum(-1).mean(axis=(1, 2))
    assert (over(proofs.T1, some, alpha) <= alpha * L**2 * drift - 0.75 * alpha * square + 1e-14).all()
    assert (over(proofs.T2, some, alpha) <= alpha * (square / 4 + error)).all()
    assert (over(proofs.T3, some, alpha, L) <= 4 * alpha**2 * L * (L**2 * drift + square)).all()
    assert (over(proofs.T5, some, alpha, L) <= 2 * alpha**2 * L * error + 1e-15).all()


def z_of_cross_terms(played) -> float:
    cross = over(proofs.T4, played, 1.0, 1.0) - over(proofs.T4_alone, played, 1.0, 1.0)
    return float(cross.mean() / (cross.std(ddof=1) / np.sqrt(len(cross))))


def test_T4s_cross_terms_vanish_in_the_mean(played):
    """|z| < 4.42 has probability 1 - 1e-5 where they do. Steps or agents that share trajectories have them."""
    assert abs(z_of_cross_terms(played.rounds)) < 4.42
    assert z_of_cross_terms(played.same_steps) > 10
    assert z_of_cross_terms(played.same_agents) > 10
    product = over(proofs.noise_product, played.rounds, 1.0)
    assert abs(product.mean()) < 4.42 * product.std() / np.sqrt(3000)


def test_lemma_2_put_into_lemma_1_is_theorem_1():
    alpha, L, N, H, square, noise, cut = 0.2, 0.7, 3, 5, 1.3, 0.4, 0.25
    G = theory.G(square, noise, cut)
    assert pytest.approx(1.3 + 18 * 0.65) == G
    drift = N * H * theory.lemma2_right(alpha / H, H, G)
    right = theory.lemma1_right(alpha, L, N, H, square, drift, noise, cut)
    terms = theory.theorem1_terms(alpha, L, N, H, noise, cut)
    assert right == pytest.approx(-terms.progress * square + terms.noise + terms.truncation)
    alone = theory.lemma1_terms(alpha, L, N, H, square, 0.0, 0.0, 0.0)
    assert sum(alone) == pytest.approx(-0.1 * (1 - 8 * 0.14) * 1.3)
    for x in np.linspace(0, 1 / (4 * theory.C), 9):  # within the limit the progress is alpha/4 at least
        assert theory.theorem1_terms(x, 1.0, N, H, 0, 0).progress >= x / 4 - 1e-15
    assert theory.theorem1_terms(1.01 / (4 * theory.C), 1.0, N, H, 0, 0).progress < 1.01 / (16 * theory.C)


def test_beta_to_the_H_is_below_8_and_unrolls_to_lemma_2():
    L, G = 2.0, 1.7
    for H in (1, 2, 7, 100, 10_000):
        eta = theory.lemma2_step_limit(L, H)
        b = theory.beta(eta, L, H)
        assert b**H < 8
        d = 0.0
        for _ in range(H - 1):
            d = b * d + 4 * eta**2 * H * G
            assert d <= theory.lemma2_right(eta, H, G)


def test_theorems_2_and_3_unroll_theorem_1():
    """gap <- (1 - alpha mu/4) gap + noise stays below (13) and ends at its floor; sums of (11) give Theorem 3."""
    given = {"alpha": 0.05, "L": 0.8, "N": 4, "H": 5, "sigma_sq": 0.3, "truncation_sq": 0.02}
    mu, terms = 1.1, theory.theorem1_terms(**given)
    gap = first = 2.0
    for T in range(1, 2001):
        gap = (1 - 0.05 * mu / 4) * gap + terms.noise + terms.truncation
        assert gap <= theory.theorem2_right(T, first, mu=mu, **given)
    assert gap == pytest.approx(theory.theorem2_floor(mu=mu, **given), rel=1e-9)
    squares = np.random.default_rng(9).uniform(size=50)
    fall = 0.05 / 4 * squares.sum() - 50 * (terms.noise + terms.truncation)  # (11) with equality
    assert theory.theorem3_right(50, fall, **given) == pytest.approx(squares.mean())
    right = theory.theorem1_right(norm_sq=1.5, **given)
    assert right == pytest.approx(-0.05 / 4 * 1.5 + terms.noise + terms.truncation)


# The pilot


def test_pilot_on_quadratics():
    """J_i = x'Q_i x/2: L = max ||Q_i|| = 6, and mu, between 2 and 6 = 2 lambda of the mean, is 2 at the end."""
    Q = jnp.array([[[6.0, 0], [0, 1.0]], [[0.0, 0], [0, 1.0]]])
    found = theory.pilot(lambda x: Q @ x, lambda x: x @ Q.mean(axis=0) @ x / 2, np.ones(2), rounds=500)
    assert pytest.approx(6) == found.L
    assert found.mu == pytest.approx(2, rel=1e-3)
    assert found.gaps[-1] <= 1e-10 * found.gaps[0] < found.gaps[-2]
    np.testing.assert_allclose(found.gaps, (found.thetas**2 @ [3, 1]) / 2, rtol=1e-12)
    np.testing.assert_allclose(found.norms_sq, found.thetas**2 @ [9, 1], rtol=1e-12)
    assert len(theory.pilot(lambda x: Q @ x, lambda x: x @ Q.mean(axis=0) @ x / 2, np.ones(2), rounds=3).gaps) == 4


def test_pilot_goes_down_where_curvature_grows_on_the_way():
    """From the flat part of log cosh a step 1/L leaps over the minimum: halved, it descends at every step."""
    gradients = lambda x: jnp.tanh(x)[None]
    found = theory.pilot(gradients, lambda x: jnp.sum(jnp.log(jnp.cosh(x))), np.array([4.0]))
    assert (np.diff(found.gaps) < 0).all()
    assert found.gaps[-1] <= 1e-10 * found.gaps[0]
    assert pytest.approx(1, rel=1e-3) == found.L
    with pytest.raises(InputError, match="not a number"):
        theory.pilot(gradients, lambda x: jnp.nan * x[0], np.array([4.0]))


# Schedules


def enough2(T, N, H, mu, L):
    return L / mu * max(16 * theory.C * np.log(N * H * T), N * H) <= T


@pytest.mark.parametrize(
    ("N", "H", "mu", "L"), [(1, 1, 0.1, 1.0), (4, 10, 0.05, 2.0), (256, 50, 1.0, 1.0), (1, 1, 9, 0.01)]
)
def test_theorem_2s_least_T_is_the_least(N, H, mu, L):
    T = theory.theorem2(N, H, 100, mu, L, 0.9).T_least
    assert all(enough2(T + k, N, H, mu, L) for k in (*range(50), 10**3, 10**6, 10**9))
    assert T * N * H <= 3 or not enough2(T - 1, N, H, mu, L)
    at, below = theory.theorem2(N, H, T, mu, L, 0.9), theory.theorem2(N, H, max(1, T - 1), mu, L, 0.9)
    assert at.holds
    assert at.eta == pytest.approx(4 * np.log(N * H * T) / (mu * H * T))
    assert at.eta <= theory.theorem1_step_limit(L, H) * (1 + 1e-12)  # the paper's claim
    assert not below.holds or T * N * H <= 3


def test_theorem_3s_schedule():
    for N, H, L in ((1, 1, 0.3), (4, 10, 2.0), (64, 50, 0.7)):
        T = theory.theorem3(N, H, 100, L, 0.9).T_least
        need = L**2 * max(256 * theory.C**2 * N * H, (N * H) ** 3)
        assert T - 1 < need <= T
        at = theory.theorem3(N, H, T, L, 0.9)
        assert at.holds
        assert at.eta == pytest.approx(4 / H * np.sqrt(N * H / T))
        assert at.eta <= theory.theorem1_step_limit(L, H)
        assert not theory.theorem3(N, H, T - 1, L, 0.9).holds


def test_horizon():
    """gamma^(2K) <= 1/(NHT) for K and for no less: N H T = 10^4, gamma = .9: log 10^4/(2 log(10/9)) = 43.7."""
    assert theory.horizon(10, 10, 100, 0.9) == 44
    assert 0.9 ** (2 * 44) <= 1e-4 < 0.9 ** (2 * 43)
    assert theory.horizon(10, 10, 100, 0.0) == theory.horizon(1, 1, 1, 0.9) == 1


def test_a_schedule_says_what_fails_and_by_what_factor():
    """C = 6, L = mu, N H = 20, T = 100: 16 * 6 log 2000 = 729.7 is 7.297 times T, and N H is small enough."""
    said = theory.theorem2(2, 10, 100, 1.0, 1.0, 0.5, C=6)
    step, noise = said.conditions
    assert not step.holds
    assert noise.holds
    assert 1 / step.factor == pytest.approx(0.96 * np.log(2000))
    assert "16 C log(NHT)" in said.words()
    assert "fails by a factor 7.297" in said.words()
    assert "(L/mu) NH" not in said.words()
    assert f"needs T >= {said.T_least:,}" in said.words()
    assert "meets its conditions" in theory.theorem2(2, 10, said.T_least, 1.0, 1.0, 0.5, C=6).words()
    for bad in ({"mu": 0.0}, {"mu": np.inf}, {"L": -1.0}, {"gamma": 1.0}, {"T": 0}):
        with pytest.raises(InputError):
            theory.theorem2(**{**{"N": 2, "H": 3, "T": 5, "mu": 1.0, "L": 1.0, "gamma": 0.5}, **bad})


def test_what_the_theorems_do_not_cover():
    assert theory.not_covered("fast_fedpg") == []
    assert len(theory.not_covered("fast_fedpg", 0.5, True, 2)) == 3
    assert "not fedavg_pg" in theory.not_covered("fedavg_pg")[0]


# Runs


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def go(*words):
        out = tmp_path / "out"
        assert command("run", "--problem", "compromise", "--rounds", 30, "--out", out, "--overwrite", *words) == 0
        return json.loads((out / "summary.json").read_text()), from_toml(out / "config.toml")

    return go


def test_a_run_by_theorem_2(run, capsys):
    """T = 30, H = 2, N = 2: K = ceil(log 120/(2 log 2)) = 4."""
    words = ("--schedule", "theorem2", "--tau", 0.1, "--H", 2, "--oracle", "reinforce")
    said, config = run(*words)
    parameters = said["schedule"]
    expected = 4 * np.log(120) / (parameters["mu_estimate"] * 2 * 30)
    assert said["eta"] == config.eta == pytest.approx(expected)
    assert config.get("K") == parameters["K"] == 4
    assert said["final"]["env_steps"]["mean"] == 30 * 2 * 3 * 16 * 4  # T N (H + 1) B K
    assert any("fails by a factor" in note and "Theorem 2" in note for note in said["notes"])
    heard = capsys.readouterr()
    assert "with the estimate L" in heard.out
    assert "note: schedule theorem2: eta = " in heard.err
    again = plan(config)  # as resuming does
    assert (again.config, again.config.eta) == (config, config.eta)
    assert not any("was given" in note for note in again.notes)
    longer = plan(replace(config, rounds=60))
    assert any(f"eta = {config.eta:g} was given and stays" in note for note in longer.notes)


def test_the_pilots_L_and_mu_hold_along_the_run(run):
    """Exact gradients and an eta inside the theorem: what (13) says of the last gap, with the pilot's constants."""
    p = problems.make("compromise", {}, None, None)
    config = Config(problem="compromise", schedule="theorem2", tau=0.1, H=2, rounds=3000)
    planned = plan(config)
    assert planned.theorem is not None
    assert planned.theorem.parameters.holds
    g, start = tabular_exact.gradient_function(p, 0.1), np.zeros(3)
    assert theory.smoothness_estimate(g, np.stack([start, start])[None]) <= planned.theorem.L
    assert any("K = " in note and "no effect" in note for note in planned.notes)
    assert planned.config.eta <= theory.theorem1_step_limit(planned.theorem.L, 2)


def test_schedules_that_make_no_sense_are_refused():
    own = Config(problem="random", agents=2, problem_args={"kernel": "0.5"}, rounds=10)
    with pytest.raises(InputError, match="average MDP"):
        plan(replace(own, schedule="theorem2"))
    assert plan(replace(own, schedule="theorem3")).theorem is not None
    with pytest.raises(InputError, match="private"):
        plan(Config(problem="private", agents=2, parameters=3, schedule="theorem2"))
    with pytest.raises(InputError, match="theorem2"):
        plan(Config(schedule="theorem4"))
    assert any("(12) fails" in n for n in plan(Config(problem="compromise", schedule="theorem2")).notes)


def test_every_run_is_measured_against_theorem_1(run, capsys):
    """gamma = .5: L <= 1/(2 * .5^3) = 4, so that with H = 10 the limit is 1/(4 C 40)."""
    limit = 1 / (4 * theory.C * 40)
    said, config = run("--eta", 10 * limit)
    assert said["eta_limit_theorem_1"] == pytest.approx(limit)
    assert said["theorem_1"]["covered"] is False
    assert said["theorem_1"]["factor"] == pytest.approx(10)
    assert "outside the theorem, 10 times" in said["theorem_1"]["words"]
    assert "Theorem 1" not in capsys.readouterr().out, "it is in summary.json, and printed where a schedule asks for it"
    assert "schedule" not in said
    inside = replace(config, eta=0.9 * limit)
    assert plan(inside).standpoint.covered
    assert "inside the theorem, 0.9 of" in plan(inside).standpoint.words
    other = plan(replace(inside, alpha_g=0.5, reuse=True, participants=1)).standpoint
    assert not other.covered
    assert other.factor == pytest.approx(0.9)
    for words in ("alpha_g = 0.5", "reuse", "1 agents that sit out"):
        assert words in other.words
    rival = plan(replace(inside, algorithm="fedavg_pg")).standpoint
    assert rival[:2] == (False, None)
    assert "not fedavg_pg" in rival.words
