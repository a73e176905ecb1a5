"""PAvg and QAvg: the numbers of their authors' code, their equations, and what they are where agents are alike."""

from functools import cache

import jax.numpy as jnp
import numpy as np
import pytest

import reference as ref
from fastfedpg import InputError, fedavg_pg, pavg, qavg, simulate, with_oracle
from fastfedpg.algorithms.pavg import project
from fastfedpg.experiment import Config, plan
from fastfedpg.problems import tabular_exact
from published import GAMMA, KAPPAS, table

N, S, A = 4, 4, 3
SHARED = ref.small_problem(N=N, S=S, A=A, seed=70)
OWN = ref.small_problem(N=N, S=S, A=A, seed=71, kernels=True)
THETA0 = np.random.default_rng(72).normal(size=S * A)

# The public code with 4 instances instead of 16,000, to the digits that were noted; kappa = 0, .2, .4, .6, .8, 1.
SOFT = {
    1: (3.599655509, 3.528674921, 3.508482445, 3.491543109, 3.476761504, 3.461221473),
    8: (3.645418684, 3.579497868, 3.543547601, 3.530590703, 3.540770164, 3.550331425),
    32: (3.648129806, 3.593576901, 3.553267980, 3.544065669, 3.551219663, 3.553646658),
    "never": (3.599655509, 3.531237164, 3.512354508, 3.498217936, 3.489004540, 3.469791379),
}
VALUES = {
    1: (3.625170298, 3.595068117, 3.595068117, 3.592801237, 3.590505293, 3.394213796),
    16: (None, None, None, None, None, 3.478437725),
    32: (3.595068117, None, None, None, None, 3.476104980),
    "never": (None, None, None, None, None, 3.592838038),
}


@cache
def soft(H):
    return lambda eta: pavg(eta, H)


@cache
def values(H):
    return lambda eta: qavg(eta, H)


def parity_soft(E):
    H = 1 if E == "never" else E
    found = table(soft(H), 100, 5e-2, 0.9, 512 // H, averaged=E != "never")
    np.testing.assert_allclose(found, SOFT[E], atol=1e-9, rtol=0)


def parity_values(E):
    H = 1 if E == "never" else E
    as_cost = lambda Q: Q - 1 / (1 - GAMMA)  # theta0 is minus the first Q of costs 1 - r
    known = [k for k, x in enumerate(VALUES[E]) if x is not None]
    found = table(values(H), 101, 1e-2, 0.95, 128 // H, KAPPAS[known], E != "never", as_cost)
    np.testing.assert_allclose(found, [VALUES[E][k] for k in known], atol=1e-9, rtol=0)


def test_the_authors_softpavg():
    """Table 1's column of the centre, E = 32: 16 rounds of 32 natural steps, with their rule for the step size."""
    parity_soft(32)


@pytest.mark.parametrize("E", [16, 32])
def test_the_authors_qavg(E):
    """The same for QAvg, in the reading of the code: sweeps of V, and a last one that is not damped."""
    parity_values(E)


@pytest.mark.claims
@pytest.mark.parametrize("E", SOFT)
def test_the_authors_softpavg_whole(E):
    """All of the table that is known; `test_the_authors_softpavg` is the short one."""
    parity_soft(E)


@pytest.mark.claims
@pytest.mark.parametrize("E", VALUES)
def test_the_authors_qavg_whole(E):
    """All of the table that is known; `test_the_authors_qavg` is the short one."""
    parity_values(E)


def test_without_their_decay_equal_agents_do_not_see_H():
    """kappa = 0: 32 rounds of one step are one round of 32, where their table has 3.5997 against 3.6481."""
    same = ref.TabularProblem(SHARED.P, np.repeat(SHARED.reward[:1], N, axis=0), SHARED.rho, SHARED.gamma)
    problem = with_oracle(same, "exact")
    one, two = simulate(problem, pavg(0.05, 1), 32, metrics_every=32), simulate(problem, pavg(0.05, 32), 1)
    np.testing.assert_allclose(one.theta, two.theta, atol=1e-11)


def Q_and_V(problem, theta, i, tau=0.0):
    """Q with the entropy of the first action, and V, by (I - gamma P_pi) V = c_pi."""
    pi = ref.policy(theta, S, A)
    c, P = problem.cost[i] + tau * np.log(pi), problem.P[i] if problem.P.ndim == 4 else problem.P
    V = np.linalg.solve(np.eye(S) - problem.gamma * np.einsum("sap,sa->sp", P, pi), (pi * c).sum(axis=1))
    return c + problem.gamma * P @ V, V


@pytest.mark.parametrize("problem", [SHARED, OWN], ids=["shared", "own"])
def test_natural_is_the_equation(problem):
    """H = 2 by loops, with entropy: theta - eta (Q_i - V_i)/(1-gamma), twice, and the mean."""
    ends = []
    for i in range(N):
        theta = THETA0.reshape(S, A)
        for _ in range(2):
            Q, V = Q_and_V(problem, theta, i, tau=0.1)
            theta = theta - 0.2 * (Q - V[:, None]) / (1 - problem.gamma)
        ends.append(theta.ravel())
    found = simulate(with_oracle(problem, "exact", tau=0.1), pavg(0.2, 2), 1, theta0=THETA0).theta[0]
    np.testing.assert_allclose(found, np.mean(ends, axis=0), atol=1e-12)


def test_natural_is_the_gradient_without_its_weights():
    """F^+ grad J_i, F = sum_s d(s) sum_a pi(a|s) score score': the step differs from it by a constant in each state."""
    pi, d = ref.policy(THETA0, S, A), tabular_exact.occupancy(SHARED, THETA0)[0]
    F = np.zeros((S, A, S, A))
    for s in range(S):
        F[s, :, s] = d[s] * (np.diag(pi[s]) - np.outer(pi[s], pi[s]))
    g = tabular_exact.gradients(SHARED, THETA0)[0].ravel()
    y = (np.linalg.pinv(F.reshape(S * A, S * A)) @ g).reshape(S, A)
    alone = simulate(with_oracle(SHARED.only(0), "exact"), pavg(1.0, 1), 1, theta0=THETA0).theta[0]
    step = (THETA0 - alone).reshape(S, A)
    np.testing.assert_allclose(step - (pi * step).sum(axis=1, keepdims=True), step, atol=1e-12)
    np.testing.assert_allclose(y - (pi * y).sum(axis=1, keepdims=True), step, atol=1e-10)


def test_one_natural_step_is_the_average_mdp_s():
    """Shared kernels, H = 1: the mean of the agents' advantages is that of the average MDP."""
    many = simulate(with_oracle(SHARED, "exact"), pavg(0.3, 1), 4)
    one = simulate(with_oracle(_average(), "exact"), pavg(0.3, 1), 4)
    np.testing.assert_allclose(many.theta, one.theta, atol=1e-12)


def _average():
    return ref.TabularProblem(SHARED.P, SHARED.reward.mean(axis=0, keepdims=True), SHARED.rho, SHARED.gamma)


def test_soft_is_fedavg():
    problem = with_oracle(SHARED, "gpomdp", B=2, K=4)
    one, two = simulate(problem, pavg(0.3, 3, "soft"), 3), simulate(problem, fedavg_pg(0.3, 3), 3)
    np.testing.assert_array_equal(one.theta, two.theta)


def test_natural_with_entropy_finds_the_soft_optimum():
    """Shared kernels and H = 1, tau > 0: a linear rate to pi* of the average MDP, 1 - eta tau/(1-gamma) a round."""
    tau = 0.1
    found = simulate(with_oracle(SHARED, "exact", tau=tau), pavg(1.0, 1), 60, metrics_every=60)
    best = tabular_exact.optimum(SHARED, tau)
    np.testing.assert_allclose(ref.policy(found.theta[0], S, A), best.policy, atol=1e-12)


def test_the_simplex_by_hand():
    """(.5, .5, 0) stays; (2, 0, 0) is nearest to a corner; (.9, .4, -.5): t = (.9 + .4 - 1)/2 = .15 leaves .75, .25, 0;
    all equal: 1/3 each, whatever they are. And no point of the simplex is nearer than what is found."""
    x = np.array([[0.5, 0.5, 0], [2, 0, 0], [0.9, 0.4, -0.5], [-7, -7, -7]])
    expected = [[0.5, 0.5, 0], [1, 0, 0], [0.75, 0.25, 0], [1 / 3] * 3]
    np.testing.assert_allclose(project(jnp.asarray(x)), expected, atol=1e-15)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, A))
    found = np.asarray(project(jnp.asarray(x)))
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-14)
    assert (found >= 0).all()
    for other in rng.dirichlet(np.full(A, 0.3), 200):
        # <x - p, q - p> <= 0 for all q of a convex set is what makes p the nearest point
        assert (((x - found) * (other - found)).sum(axis=1) < 1e-14).all()


def test_projected_is_the_equation():
    """Two steps of pi - eta d Q/(1-gamma), projected, and the mean of the policies; own kernels."""
    ends = []
    for i in range(N):
        pi = ref.policy(THETA0, S, A)
        for _ in range(2):
            theta = np.log(np.maximum(pi, 1e-30))
            Q, _ = Q_and_V(OWN, theta, i)
            d = tabular_exact.occupancy(OWN.only(i), theta)[0]
            pi = np.asarray(project(jnp.asarray(pi - 0.2 * d[:, None] * Q / (1 - OWN.gamma))))
        ends.append(pi)
    found = simulate(with_oracle(OWN, "exact"), pavg(0.2, 2, "projected"), 1, theta0=THETA0).theta[0]
    np.testing.assert_allclose(ref.policy(found, S, A), np.mean(ends, axis=0), atol=1e-12)


def test_projected_finds_the_optimum_of_one_agent_and_not_that_of_several():
    """One agent ends at a vertex, in finitely many steps. A mean of projections is no projection of the mean: several
    agents, each pulled to a vertex of its own, end at a mixture, at H = 1 already."""
    method = pavg(3.0, 1, "projected")
    one = SHARED.only(1)
    found = simulate(with_oracle(one, "exact"), method, 100, metrics_every=100)
    assert found.final("gap")[0] == pytest.approx(0, abs=1e-12)
    np.testing.assert_allclose(ref.policy(found.theta[0], S, A), tabular_exact.optimum(one).policy, atol=1e-12)
    assert simulate(with_oracle(SHARED, "exact"), method, 100, metrics_every=100).final("gap")[0] > 0.1


def mean_sweep(Q):
    """One sweep of the MDP of mean cost and mean kernel."""
    return OWN.cost.mean(axis=0) + OWN.gamma * OWN.P.mean(axis=0) @ Q.min(axis=1)


def test_one_whole_sweep_of_q_is_the_average_mdp_s():
    """eta = 1, H = 1: mean_i (c_i + gamma P_i V) = c + gamma P V. The code's reading has a sweep more, and minima of
    its own in between: it is another map, and the average MDP's only for eta -> 0."""
    problem, Q = with_oracle(OWN, "exact"), np.zeros((S, A))
    for _ in range(5):
        Q = mean_sweep(Q)
    found = simulate(problem, qavg(1.0, 1, "Q"), 5).theta[0].reshape(S, A) / -1e8
    np.testing.assert_allclose(found, Q, atol=1e-12)
    start = -THETA0.reshape(S, A)
    swept = lambda eta: simulate(problem, qavg(eta, 1, "V"), 1, theta0=THETA0).theta[0].reshape(S, A) / -1e8
    V = start.min(axis=1)
    per_agent = [(OWN.cost[i] + OWN.gamma * OWN.P[i] @ V).min(axis=1) for i in range(N)]
    twice = np.mean([OWN.cost[i] + OWN.gamma * OWN.P[i] @ per_agent[i] for i in range(N)], axis=0)
    np.testing.assert_allclose(swept(1.0), twice, atol=1e-12)
    assert np.abs(twice - mean_sweep(mean_sweep(start))).max() > 1e-3
    np.testing.assert_allclose(swept(1e-9), mean_sweep(start), atol=1e-8)


def test_where_damped_sweeps_of_q_end():
    """At H = 1 at the average MDP's own fixed point, for every eta; at H = 4 off by a share of eta: half of it for half
    of eta. And two starts come nearer by (1 - eta (1-gamma))^H in every round, at least."""
    problem, best = with_oracle(OWN, "exact"), np.zeros((S, A))
    for _ in range(2000):
        best = mean_sweep(best)
    far = {}
    for H, etas, first, T in ((1, [0.2, 0.1], THETA0, 1600), (4, [0.004, 0.002], -best.ravel(), 12_000)):
        make = lambda eta, H=H: qavg(eta, H, "Q")
        found = simulate(problem, make, T, metrics_every=T, sweep=etas, theta0=first).theta / -1e8
        far[H] = np.abs(found.reshape(2, -1) - best.ravel()).max(axis=1)
    assert far[1].max() < 1e-6
    assert far[4][0] > 5e-4
    assert far[4][1] == pytest.approx(far[4][0] / 2, rel=0.1)
    method = qavg(0.2, 4, "Q")
    one, two = (simulate(problem, method, 3, theta0=theta).theta / -1e8 for theta in (THETA0, 2 - THETA0))
    apart = np.abs(2 * THETA0 - 2).max()
    assert np.abs(one - two).max() <= apart * (1 - 0.2 * (1 - OWN.gamma)) ** 12


@pytest.mark.parametrize("sweep", ["V", "Q"])
def test_sweeps_of_equal_agents_find_the_optimum(sweep):
    one = with_oracle(SHARED.only(1), "exact")
    found = simulate(one, qavg(0.5, 5, sweep), 40, metrics_every=40)
    assert found.final("gap")[0] == pytest.approx(0, abs=1e-12)


def test_damped_sweeps_are_the_equations():
    """eta = .3, H = 2, own kernels, from -theta0: both readings by loops."""
    Qs, Vs = [], []
    for i in range(N):
        T = lambda V, i=i: OWN.cost[i] + OWN.gamma * OWN.P[i] @ V
        Q = -THETA0.reshape(S, A)
        V = Q.min(axis=1)
        for _ in range(2):
            Q, V = 0.7 * Q + 0.3 * T(Q.min(axis=1)), 0.7 * V + 0.3 * T(V).min(axis=1)
        Qs.append(Q)
        Vs.append(T(V))
    for sweep, expected in (("Q", Qs), ("V", Vs)):
        found = simulate(with_oracle(OWN, "exact"), qavg(0.3, 2, sweep), 1, theta0=THETA0).theta[0].reshape(S, A)
        np.testing.assert_allclose(found / -1e8, np.mean(expected, axis=0), atol=1e-12)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"algorithm": "pavg", "oracle": "gpomdp"}, "needs tabular, which the problem's oracle does not answer"),
        ({"algorithm": "qavg", "oracle": "reinforce"}, "needs tabular, .*; these do: exact, truncated"),
        ({"algorithm": "qavg", "tau": 0.1}, "tau = 0.1; qavg's sweeps have no entropy, so it must be 0"),
        ({"algorithm": "qavg", "eta": 1.5}, r"eta = 1.5; a sweep's share must lie in \(0, 1\]"),
        ({"algorithm": "pavg", "kind": "hard"}, "kind of algorithm 'pavg' 'hard'"),
    ],
)
def test_what_can_t_be_is_refused_before_anything_is_run(given, words):
    with pytest.raises(InputError, match=words):
        plan(Config("compromise", **given))
