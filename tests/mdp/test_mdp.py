"""Exact evaluation: against sums, finite differences, autodiff, hand-worked probes and brute force."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import reference as ref
from fastfedpg import TabularProblem
from fastfedpg.mdp import finite
from fastfedpg.problems import compromise, random, tabular_exact
from fastfedpg.theory import lemma2_step_limit, smoothness_bound


@pytest.fixture(params=[0.0, 0.3], ids=["plain", "entropy"])
def tau(request):
    return request.param


def test_objective_equals_the_discounted_sum(tau):
    p = ref.small_problem()
    theta = np.random.default_rng(1).normal(size=12)
    expected = [ref.J(p.P, c, p.rho, p.gamma, theta, tau) for c in p.cost]
    np.testing.assert_allclose(tabular_exact.J_i(p, theta, tau), expected, rtol=1e-13)
    assert tabular_exact.J(p, theta, tau) == pytest.approx(np.mean(expected), rel=1e-13)


def test_autodiff_equals_eq_9_equals_finite_differences(tau):
    """Three routes to one gradient: Eq. (9) to 1e-12 of autodiff; differences of the independent sum to 1e-9.

    The step h = 1e-5 with Richardson's rule has truncation O(h^4) = 1e-20 and rounding 1e-15/h = 1e-10.
    """
    p = ref.small_problem(seed=2)
    theta = np.random.default_rng(3).normal(size=12)
    eq9 = tabular_exact.gradients(p, theta, tau).reshape(p.N, -1)
    for cost, g in zip(p.cost, eq9, strict=True):
        f = lambda x, cost=cost: finite.objective(
            jnp.asarray(p.P), jnp.asarray(cost), jnp.asarray(p.rho), p.gamma, finite.log_softmax_policy(x, 4, 3), tau
        )
        np.testing.assert_allclose(jax.grad(f)(jnp.asarray(theta)), g, atol=1e-12)
        differences = ref.finite_difference(lambda x, cost=cost: ref.J(p.P, cost, p.rho, p.gamma, x, tau), theta)
        np.testing.assert_allclose(differences, g, atol=1e-9)


def test_proposition_1_in_all_its_steps():
    """Rewards, values of every state, Q, one occupancy for all, and the gradient: averages of the agents', to 1e-12."""
    p, theta = ref.small_problem(N=5, seed=4), np.random.default_rng(5).normal(size=12)
    average = p.average()
    pi = ref.policy(theta, 4, 3)
    np.testing.assert_allclose((pi * average.reward[0]).sum(1), (pi * p.reward).sum(2).mean(0), atol=1e-12)  # step 1
    state_values = lambda q: (pi * q).sum(axis=-1)
    np.testing.assert_allclose(  # step 2 (i)
        state_values(tabular_exact.q_values(average, theta)[0]),
        state_values(tabular_exact.q_values(p, theta)).mean(axis=0),
        atol=1e-12,
    )
    for d in tabular_exact.occupancy(p, theta):  # step 3
        np.testing.assert_allclose(d, tabular_exact.occupancy(average, theta)[0], atol=1e-12)
    np.testing.assert_allclose(tabular_exact.J_i(average, theta)[0], tabular_exact.J_i(p, theta).mean(), atol=1e-12)
    np.testing.assert_allclose(
        tabular_exact.q_values(average, theta)[0], tabular_exact.q_values(p, theta).mean(axis=0), atol=1e-12
    )
    each = tabular_exact.gradients(p, theta)
    np.testing.assert_allclose(tabular_exact.gradients(average, theta)[0], each.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(tabular_exact.gradient(p, theta), each.mean(axis=0), atol=1e-12)


def test_proposition_1_needs_shared_kernels():
    """With different kernels the average of the gradients is not that of an average kernel: the control."""
    p, theta = ref.small_problem(seed=6, kernels=True), np.random.default_rng(7).normal(size=12)
    merged = TabularProblem(p.P.mean(axis=0), p.reward.mean(axis=0, keepdims=True), p.rho, p.gamma)
    assert np.abs(tabular_exact.gradient(merged, theta) - tabular_exact.gradient(p, theta)).max() > 1e-3


def test_occupancy_is_a_distribution_that_gives_the_objective():
    """J = sum_s d(s) sum_a pi(a|s) c(s,a) / (1 - gamma), for any policy."""
    p, theta = ref.small_problem(seed=8), np.random.default_rng(9).normal(size=12)
    d = tabular_exact.occupancy(p, theta)
    np.testing.assert_allclose(d.sum(axis=1), 1, atol=1e-13)
    c = (ref.policy(theta, 4, 3) * p.cost).sum(axis=2)
    np.testing.assert_allclose((d * c).sum(axis=1) / (1 - p.gamma), tabular_exact.J_i(p, theta), rtol=1e-13)


def test_probe_one_state_with_values_by_hand():
    """One state, actions of cost 0 and 1, gamma = 1/2, pi = (1/4, 3/4).

    J = (3/4) / (1 - 1/2) = 3/2; Q = c + J/2 = (3/4, 7/4); dJ/dtheta_a = 2 pi_a (Q_a - J) = (-3/8, 3/8).
    """
    p = TabularProblem(np.ones((1, 2, 1)), np.array([[[1.0, 0.0]]]), np.ones(1), 0.5)
    theta = np.log([1.0, 3.0])
    assert tabular_exact.J(p, theta) == pytest.approx(1.5, abs=1e-15)
    np.testing.assert_allclose(tabular_exact.q_values(p, theta)[0, 0], [0.75, 1.75], atol=1e-15)
    np.testing.assert_allclose(tabular_exact.gradient(p, theta)[0], [-0.375, 0.375], atol=1e-15)
    assert tabular_exact.returns(p, theta)[0] == pytest.approx(0.5, abs=1e-15)


def test_probe_two_state_chain_with_values_by_hand():
    """State 0 pays 1 and leads to state 1, which pays 0 and stays; gamma = 0.9; one action.

    Started in state 0: cost 0 once, then 1 for ever: J = 0.9 / 0.1 = 9; occupancy (0.1, 0.9).
    """
    P = np.array([[[0.0, 1.0]], [[0.0, 1.0]]])
    p = TabularProblem(P, np.array([[[1.0], [0.0]]]), np.array([1.0, 0.0]), 0.9)
    assert tabular_exact.J(p, np.zeros(2)) == pytest.approx(9.0, rel=1e-14)
    np.testing.assert_allclose(tabular_exact.occupancy(p, np.zeros(2))[0], [0.1, 0.9], atol=1e-15)


def test_probe_entropy_alone():
    """Zero cost, tau = 1, A = 4: the uniform policy has J = -log 4 / (1 - gamma), and that is the optimum."""
    p = TabularProblem(np.ones((1, 4, 1)), np.ones((1, 1, 4)), np.ones(1), 0.75)
    assert tabular_exact.J(p, np.zeros(4), tau=1.0) == pytest.approx(-np.log(4) / 0.25, rel=1e-14)
    best = tabular_exact.optimum(p, tau=1.0)
    assert pytest.approx(-np.log(4) / 0.25, rel=1e-14) == best.J
    np.testing.assert_allclose(best.policy, 0.25, atol=1e-14)


def test_optimum_equals_the_best_of_all_deterministic_policies():
    """3^4 = 81 policies, each evaluated by the independent sum; also every agent's own optimum."""
    p = ref.small_problem(seed=10)
    choices = list(itertools.product(range(3), repeat=4))
    thetas = [np.where(np.arange(3) == np.array(c)[:, None], 40.0, 0.0).reshape(-1) for c in choices]
    costs = np.array([[ref.J(p.P, c, p.rho, p.gamma, t) for c in p.cost] for t in thetas])
    best = tabular_exact.optimum(p)
    assert pytest.approx(costs.mean(axis=1).min(), abs=1e-12) == best.J
    assert tuple(best.policy.argmax(axis=1)) == choices[costs.mean(axis=1).argmin()]
    np.testing.assert_allclose([b.J for b in tabular_exact.own_optima(p)], costs.min(axis=0), atol=1e-12)
    assert np.mean([b.J for b in tabular_exact.own_optima(p)]) < best.J - 1e-3, "own optima are a lower bound, not J*"


def test_soft_optimum_is_stationary_and_no_worse_than_any_policy():
    """At the soft optimum the exact gradient is zero, and 200 random policies cost more."""
    p, tau = random(agents=3, S=4, A=3, seed=1), 0.1
    best = tabular_exact.optimum(p, tau)
    theta = np.log(best.policy).reshape(-1)
    assert tabular_exact.J(p, theta, tau) == pytest.approx(best.J, abs=1e-12)
    assert np.abs(tabular_exact.gradient(p, theta, tau)).max() < 1e-12
    others = np.random.default_rng(0).normal(size=(200, 12)) * 2
    assert min(tabular_exact.J(p, other, tau) for other in others) > best.J


def test_optimum_with_ties_terminates():
    """All actions alike: policy iteration must not switch for ever."""
    p = TabularProblem(np.full((3, 4, 3), 1 / 3), np.full((1, 3, 4), 0.3), np.full(3, 1 / 3), 0.99)
    assert pytest.approx(70.0, rel=1e-12) == tabular_exact.optimum(p).J


@pytest.mark.parametrize(("gamma", "delta"), [(0.99, 1e-10), (0.999, 1e-9), (0.9999, 1e-8)])
def test_a_small_improvement_is_not_missed_at_a_large_horizon(gamma, delta):
    """State 0 can stay (reward 1/2) or move for good to state 1, which pays delta more: J* gains gamma delta/(1-gamma).

    delta is above what float64 resolves in Q, 64 eps / (1-gamma), and must not be taken for rounding.
    """
    P = np.zeros((2, 2, 2))
    P[0, 0, 0] = P[0, 1, 1] = P[1, :, 1] = 1
    reward = np.array([[[0.5, 0.5], [0.5 + delta, 0.5 + delta]]])
    p = TabularProblem(P, reward, np.array([1.0, 0.0]), gamma)
    expected = (0.5 - gamma * delta) / (1 - gamma)
    assert tabular_exact.optimum(p).J - expected == pytest.approx(0, abs=0.1 * gamma * delta / (1 - gamma))
    assert tabular_exact.optimum(p).policy[0, 1] == 1


def test_the_soft_optimum_nears_the_plain_one_for_tiny_tau():
    p = ref.small_problem(seed=13)
    for tau in (1e-6, 1e-12, 1e-20):
        assert pytest.approx(tabular_exact.optimum(p).J, abs=1e-4) == tabular_exact.optimum(p, tau).J


def test_smoothness_bound_of_assumption_1():
    """The formula at a point by hand, (1 + .5 (log 3 + 2/e + 1/4)) / (2 * .5^3), and no Hessian exceeds it."""
    assert smoothness_bound(0.5, 3, 0.5) == pytest.approx((1 + 0.5 * (np.log(3) + 2 / np.e + 0.25)) * 4)
    assert lemma2_step_limit(8.0, 5) == pytest.approx(1 / 120)
    p, tau = ref.small_problem(gamma=0.5, seed=14), 0.5
    f = lambda x, c: finite.objective(
        jnp.asarray(p.P), c, jnp.asarray(p.rho), p.gamma, finite.log_softmax_policy(x, 4, 3), tau
    )
    hessians = jax.jit(jax.vmap(jax.vmap(jax.hessian(f), (None, 0)), (0, None)))
    thetas = np.random.default_rng(0).normal(size=(50, 12)) * 2
    norms = np.linalg.norm(hessians(jnp.asarray(thetas), jnp.asarray(p.cost)), ord=2, axis=(-2, -1))
    assert 0.1 < norms.max() <= smoothness_bound(0.5, 3, tau)


def test_truncation_error_falls_at_least_as_fast_as_gamma_to_the_K(tau):
    """Assumption 4, against a bound derived here, and its rate.

    The error is the tail sum_{t>=K} gamma^t E[r_t sum_{k<=t} score_k]. The policy-gradient form of the tail is at most
    gamma^K (K + 1/(1-gamma)) sqrt(2) c_max / (1-gamma), each score having norm at most sqrt(2); with entropy
    |c + tau log pi| <= 1 + tau max|log pi|.
    """
    p, theta = ref.small_problem(seed=11), np.random.default_rng(12).normal(size=12)
    full = tabular_exact.gradients(p, theta, tau)
    c_max = 1 + tau * np.abs(np.log(ref.policy(theta, 4, 3))).max()
    errors = []
    for K in (1, 2, 4, 8, 16, 32, 64):
        J_K = lambda x, c, K=K: finite.truncated_objective(
            jnp.asarray(p.P), c, jnp.asarray(p.rho), p.gamma, K, finite.log_softmax_policy(x, 4, 3), tau
        )
        g = jax.vmap(jax.grad(J_K), in_axes=(None, 0))(jnp.asarray(theta), jnp.asarray(p.cost))
        error = np.linalg.norm(np.asarray(g).reshape(full.shape) - full, axis=(1, 2)).max()
        bound = p.gamma**K * (K + 1 / (1 - p.gamma)) * np.sqrt(2) * c_max / (1 - p.gamma)
        assert error <= bound
        errors.append(error)
    slope = np.polyfit((8, 16, 32, 64), np.log(errors[3:]), 1)[0]
    assert slope <= np.log(p.gamma), "an over-all rate at least as fast as gamma^K"


def test_average_mdp_of_different_kernels_is_refused():
    p = ref.small_problem(kernels=True)
    for call in (p.average, lambda: tabular_exact.optimum(p)):
        with pytest.raises(ValueError, match="share P and rho"):
            call()


def test_evaluation_is_float64_without_changing_the_users_setting():
    """With 64-bit mode off, evaluation is still exact, and the mode is still off afterwards."""
    p, theta = compromise(), np.array([0.3, -0.2, 0.9])
    with jax.enable_x64(False):
        value, g = tabular_exact.J(p, theta), tabular_exact.gradient(p, theta)
        assert not jax.config.jax_enable_x64
        assert jnp.ones(1).dtype == jnp.float32
    assert g.dtype == np.float64
    assert value == pytest.approx(np.mean([ref.J(p.P, c, p.rho, p.gamma, theta) for c in p.cost]), rel=1e-14)


def test_no_lapack_call_has_a_batch_that_it_would_deal_out_to_the_threads_it_waits_in():
    """Two calls that did, on two cores, waited for ever: `compare --problem mazes --algorithms fednpg_admm`.

    Agents with kernels of their own, seeds above them, and derivatives: every call has one matrix, and the numbers are
    those of NumPy's own solutions, agent by agent.
    """
    p = random(agents=3, S=4, A=2, gamma=0.9, kernel=0.5)
    thetas = np.random.default_rng(0).normal(size=(2, 8))
    f = jax.jit(jax.vmap(tabular_exact.gradient_function(p)))
    hessians = jax.jit(jax.vmap(jax.jacrev(tabular_exact.gradient_function(p))))
    for program in (f, hessians):
        lines = program.lower(thetas).as_text().splitlines()
        calls = [line for line in lines if "custom_call @lapack" in line]
        assert {"dgetrf", "dtrsm"} == {line.split("@lapack_")[1].split("_ffi")[0] for line in calls}
        assert all('num_batch_dims = "0"' in line for line in calls)
    for theta, g, H in zip(thetas, f(thetas), hessians(thetas), strict=True):
        for i in range(p.N):
            J = lambda x, i=i: ref.J(p.P[i], p.cost[i], p.rho, p.gamma, x)
            np.testing.assert_allclose(g[i], ref.finite_difference(J, theta), atol=1e-8)
        np.testing.assert_allclose(H, np.swapaxes(H, 1, 2), atol=1e-12)
