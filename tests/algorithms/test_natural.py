"""Natural gradients: ADMM's closed forms, from one sweep to very many, and the tracking of Q on a graph."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import reference as ref
from fastfedpg import InputError, fednpg, fednpg_admm, pavg, simulate, with_oracle
from fastfedpg.algorithms.fednpg_admm import First, fisher
from fastfedpg.core import key_for, pairwise_mean
from fastfedpg.experiment import Config, plan
from fastfedpg.problems import tabular_exact
from fastfedpg.runtime import Schedule, simulate_records
from fastfedpg.runtime.round import begun

N, S, A, d = 3, 3, 3, 9
SHARED = ref.small_problem(N=N, S=S, A=A, seed=90)
OWN = ref.small_problem(N=N, S=S, A=A, seed=91, kernels=True)
THETA = np.random.default_rng(92).normal(size=d)
KEY = key_for(0, 0, "gradient", 0)


def fishers(problem, theta=THETA):
    """F_i = sum_s d_i(s) (diag pi(.|s) - pi pi'), each (d, d)."""
    pi, every = ref.policy(theta, S, A), np.zeros((N, S, A, S, A))
    for i, d_i in enumerate(tabular_exact.occupancy(problem, theta)):
        for s in range(S):
            every[i, s, :, s] = d_i[s] * (np.diag(pi[s]) - np.outer(pi[s], pi[s]))
    return every.reshape(N, d, d)


def gradients(problem, theta=THETA):
    return tabular_exact.gradients(problem, theta).reshape(N, d)


@cache
def agents(problem_name):
    """Each agent's oracle."""
    bound = with_oracle({"shared": SHARED, "own": OWN}[problem_name], "exact")
    return [bound.oracle(jax.tree.map(lambda x, i=i: jnp.asarray(x[i]), bound.tasks)) for i in range(N)]


def direction(problem_name, rho, sweeps, theta=THETA):
    """y and all multipliers after so many sweeps, by the algorithm's own halves; the same two serve for any number."""
    method = fednpg_admm(1.0, 2, rho, cg_steps=50)
    first, again = (jax.jit(e.agent, static_argnums=3) for e in method.exchanges)
    _, _, memory = method.init(jnp.asarray(theta), N)
    kept, ups = [], []
    for i, oracle in enumerate(agents(problem_name)):
        mine, _ = begun(method, oracle, jnp.asarray(theta), jax.tree.map(lambda x, i=i: x[i], memory), KEY)
        mine, _, up, _ = first(mine, (), jnp.asarray(theta), oracle, KEY)
        kept.append(mine)
        ups.append(up.y)
    y = pairwise_mean(jnp.stack(ups))
    for _ in range(sweeps - 1):
        answers = [again(mine, (), y, oracle, KEY) for mine, oracle in zip(kept, agents(problem_name), strict=True)]
        kept, y = [a[0] for a in answers], pairwise_mean(jnp.stack([a[2] for a in answers]))
    return np.asarray(y), np.stack([np.asarray(mine.l) for mine in kept])


def test_one_sweep_with_a_large_rho_is_the_gradient():
    """y = mean (F_i + rho I)^-1 g_i = g/rho + O(rho^-2)."""
    y, _ = direction("own", 1e6, 1)
    np.testing.assert_allclose(1e6 * y, gradients(OWN).mean(axis=0), atol=1e-6)


def test_many_sweeps_are_the_natural_gradient_of_the_average():
    """(mean F_i)^+ mean g_i, where F_i differ: no mean of F_i^+ g_i. Each g_i is orthogonal to constants in a state,
    and so is all that is made of it."""
    y, l = direction("own", 0.05, 120)
    expected = np.linalg.pinv(fishers(OWN).mean(axis=0)) @ gradients(OWN).mean(axis=0)
    np.testing.assert_allclose(y, expected, atol=1e-8)
    np.testing.assert_allclose(l.mean(axis=0), 0, atol=1e-12)
    alone = np.mean([np.linalg.pinv(F) @ g for F, g in zip(fishers(OWN), gradients(OWN), strict=True)], axis=0)
    assert np.abs(alone - expected).max() > 1e-2
    assert np.abs(l).max() > 1e-2


@pytest.mark.parametrize("sweeps", [1, 2, 5])
def test_equal_fisher_matrices_shrink_the_error_by_rho_over_rho_plus_mu(sweeps):
    """Shared kernels: y_k = (I - (rho (F + rho)^-1)^k) F^+ g exactly, for every eigenvalue at once."""
    rho, F, g = 0.05, fishers(SHARED)[0], gradients(SHARED).mean(axis=0)
    shrink = np.linalg.matrix_power(rho * np.linalg.inv(F + rho * np.eye(d)), sweeps)
    y, _ = direction("shared", rho, sweeps)
    np.testing.assert_allclose(y, (np.eye(d) - shrink) @ np.linalg.pinv(F) @ g, atol=1e-9)


def test_steps_are_of_a_length_in_kl_or_plain():
    """trust: theta - eta y/sqrt(y'g); plain: theta - eta y, and y as above."""
    rho, F, g = 0.05, fishers(SHARED)[0], gradients(SHARED).mean(axis=0)
    y = (np.eye(d) - np.linalg.matrix_power(rho * np.linalg.inv(F + rho * np.eye(d)), 2)) @ np.linalg.pinv(F) @ g
    problem = with_oracle(SHARED, "exact")
    for step, change in (("trust", y / np.sqrt(y @ g)), ("plain", y)):
        found = simulate(problem, fednpg_admm(0.3, 2, rho, step), 1, theta0=THETA).theta[0]
        np.testing.assert_allclose(found, THETA - 0.3 * change, atol=1e-9)


def test_a_direction_that_does_not_descend_is_not_taken():
    """d = 1, F = (100, 0), g_i = (10, -9): the mean gradient is 1/2, and one sweep's y = (10/100.1 - 9/0.1)/2 = -45.

    Its length in KL, sqrt(y'g), is that of no number: as 1e-15, it made a step of 1e15.
    """
    method = fednpg_admm(0.1, 1, 0.1)
    state, _, _ = method.init(jnp.ones(1), 2)
    sent, key = lambda g, y: First(jnp.array([g]), jnp.array([y])), key_for(0, 0, "gradient")
    hear = lambda g, y: method.exchanges[0].server(state, sent(g, y), 1.0, key)[0].theta
    assert hear(0.5, (10 / 100.1 - 9 / 0.1) / 2) == 1
    assert hear(0.0, 0.0) == 1
    np.testing.assert_allclose(hear(0.5, 2.0), 1 - 0.1 * 2)


def test_a_step_of_trust_has_the_kl_that_it_says():
    """Many sweeps, small eta: sum_s d(s) KL(pi || pi+) = eta^2/2 to leading order, whatever the gradient is."""
    eta = 1e-3
    y, _ = direction("shared", 0.01, 40)
    new = THETA - eta * y / np.sqrt(y @ gradients(SHARED).mean(axis=0))
    pi, then = ref.policy(THETA, S, A), ref.policy(new, S, A)
    KL = tabular_exact.occupancy(SHARED, THETA)[0] @ (pi * np.log(pi / then)).sum(axis=1)
    assert pytest.approx(eta**2 / 2, rel=1e-2) == KL


def test_the_fisher_product_of_what_was_played():
    """(1/BK) sum score score' v over the steps of a batch, scores written out."""
    bound = with_oracle(SHARED, "gpomdp", B=4, K=5)
    oracle = bound.oracle(jnp.asarray(bound.tasks[0]))
    theta, v = jnp.asarray(THETA), np.random.default_rng(1).normal(size=d)
    batch, _ = oracle.sample(theta, (), KEY, None)
    F = np.zeros((d, d))
    for b in range(4):
        way = ref.Trajectory(tuple(np.asarray(batch.states[b])), tuple(np.asarray(batch.actions[b])), 1.0)
        for score in ref.scores(THETA, S, A, way):
            F += np.outer(score, score) / 20
    np.testing.assert_allclose(fisher(oracle, theta, batch)(jnp.asarray(v)), F @ v, atol=1e-12)


def test_a_batch_serves_all_sweeps():
    """B K steps a round, however many sweeps."""
    bound = with_oracle(SHARED, "gpomdp", B=4, K=5)
    assert simulate(bound, fednpg_admm(0.1, 3), 2).final("env_steps")[0] == 2 * N * 4 * 5


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"problem": "lqr"},
            "needs log_prob or tabular, .*; these do: reinforce, gpomdp, actor_critic, ppo, .*, exact",
        ),
        ({"sweeps": 0}, "sweeps = 0, cg_steps = 20; there must be at least 1"),
        ({"rho": 0.0}, "rho = 0; it must be positive"),
    ],
)
def test_what_admm_can_t_have_is_refused(given, words):
    with pytest.raises(InputError, match=words):
        plan(Config(**{"problem": "compromise", "algorithm": "fednpg_admm", **given}))


def policies_of(problem, method, rounds, tau=0.0, theta0=THETA):
    return ref.policy(simulate(with_oracle(problem, "exact", tau=tau), method, rounds, theta0=theta0).theta[0], S, A)


@pytest.mark.parametrize("tau", [0.0, 0.1])
def test_on_the_complete_graph_tracking_is_the_centralised_natural_gradient(tau):
    """W = 11'/N: T_i = mean Q from the first round on, and pi+ is that of the average MDP: pavg with H = 1."""
    found = policies_of(SHARED, fednpg(0.2, "complete"), 5, tau)
    np.testing.assert_allclose(found, policies_of(SHARED, pavg(0.2, 1), 5, tau), atol=1e-12)


@pytest.mark.parametrize("tau", [0.0, 0.1])
def test_tracking_is_its_equations(tau):
    """A path of three agents, four rounds written out with normalised policies."""
    W = np.array([[0.6, 0.4, 0], [0.4, 0.2, 0.4], [0, 0.4, 0.6]])
    rate, gamma = 0.2 / (1 - OWN.gamma), OWN.gamma
    log_pi, T, Q = [np.log(ref.policy(THETA, S, A))] * N, np.zeros((N, S, A)), np.zeros((N, S, A))
    for _ in range(4):
        new = []
        for i in range(N):
            pi = np.exp(log_pi[i])
            c = (pi * (OWN.cost[i] + tau * log_pi[i])).sum(axis=1)
            V = np.linalg.solve(np.eye(S) - gamma * np.einsum("sap,sa->sp", OWN.P[i], pi), c)
            new.append(OWN.cost[i] + gamma * OWN.P[i] @ V)
        T, Q = np.einsum("ij,jsa->isa", W, T + np.stack(new) - Q), np.stack(new)
        mixed = np.einsum("ij,jsa->isa", W, (1 - rate * tau) * np.stack(log_pi) - rate * T)
        log_pi = [x - np.log(np.exp(x).sum(axis=1, keepdims=True)) for x in mixed]
    expected = np.exp(np.mean(log_pi, axis=0))
    found = policies_of(OWN, fednpg(0.2, W), 4, tau)
    np.testing.assert_allclose(found, expected / expected.sum(axis=1, keepdims=True), atol=1e-12)
    assert np.abs(np.exp(log_pi[0]) - np.exp(log_pi[2])).max() > 1e-2, "they differ"


@pytest.mark.parametrize("participants", [None, 2])
def test_the_mean_of_T_is_the_mean_of_Q(participants):
    """After every round, whoever takes part: Q at the policies of the round's beginning, as the agents keep it."""
    stood, schedule = [], Schedule(4, participants=participants, theta0=THETA)
    problem = with_oracle(OWN, "exact")
    list(simulate_records(problem, fednpg(0.2, "ring"), schedule, lambda t, now: stood.append(now()), pause=1))
    for now in stood:
        np.testing.assert_allclose(now.state.T[0].mean(axis=0), now.memory[0].mean(axis=0), atol=1e-13)


def test_logits_are_divided_by_z():
    """After every round no agent's logits are larger than -eta/(1-gamma) T_i, mixed: they do not add up over rounds.

    Costs of 1 everywhere give Q = 1/(1-gamma) and no reason to move: pi stays uniform, log pi = -log A, and what is
    sent is -log A - eta/(1-gamma)^2 in each round, where without z_i it would be as much as all rounds together. In
    float32 sums of 1e5 of them would swallow smaller steps.
    """
    same = ref.TabularProblem(SHARED.P, np.zeros_like(SHARED.reward), SHARED.rho, SHARED.gamma)
    stood, rate = [], 0.2 / (1 - SHARED.gamma)
    hear = lambda t, now: stood.append(now())
    list(simulate_records(with_oracle(same, "exact"), fednpg(0.2), Schedule(6), hear, pause=3))
    cost = float(same.cost[0, 0, 0])
    for now in stood:
        np.testing.assert_allclose(now.state.theta, -np.log(A) - rate * cost / (1 - SHARED.gamma), atol=1e-12)
    assert cost > 0


def test_with_entropy_it_converges_linearly_to_the_optimum_of_the_average_mdp():
    """A ring of 9 agents, tau = .1: every agent comes to pi*. The ring's own factor, (1 + 2 cos 40 degrees)/3 = .84, is
    below 1 - eta tau/(1-gamma) = .9, so the error falls by .9 a round: by .9^40 in 40."""
    many = ref.TabularProblem(SHARED.P, np.tile(SHARED.reward, (3, 1, 1)), SHARED.rho, SHARED.gamma)
    best, error = tabular_exact.optimum(many, 0.1).policy, {}

    def note(t, now):
        every = np.asarray(now().state.theta[0])
        error[t] = max(np.abs(ref.policy(theta, S, A) - best).max() for theta in every)

    schedule = Schedule(240, metrics_every=240)
    list(simulate_records(with_oracle(many, "exact", tau=0.1), fednpg(0.2), schedule, note, pause=40))
    assert error[200] / error[160] == pytest.approx(0.9**40, rel=0.02)
    assert error[240] < 1e-9
