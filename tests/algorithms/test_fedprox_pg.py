"""FedProx: FedAvg at one end of mu, one short step at the other, and the bias between them."""

import numpy as np
import pytest

import reference as ref
from fastfedpg import fedavg_pg, fedprox_pg, loop, simulate, with_oracle
from fastfedpg.core import Evaluation, Oracle, Problem
from fastfedpg.problems import tabular_exact

H, ETA = 4, 0.3
P = ref.small_problem(N=3, S=3, A=2, seed=77)
THETA0 = np.random.default_rng(78).normal(size=6)
EXACT, SAMPLED = with_oracle(P, "exact"), with_oracle(P, "gpomdp", B=2, K=4)
BOTH = pytest.mark.parametrize("run", [loop, simulate])
g = lambda theta: tabular_exact.gradients(P, theta).reshape(P.N, -1)


@BOTH
@pytest.mark.parametrize("problem", [EXACT, SAMPLED], ids=["exact", "sampled"])
def test_without_a_pull_it_is_fedavg_to_the_bit(run, problem):
    one, two = (run(problem, a, 3, 2, theta0=THETA0) for a in (fedprox_pg(ETA, H, 0.0), fedavg_pg(ETA, H)))
    np.testing.assert_array_equal(one.theta, two.theta)
    assert np.abs(one.theta - run(problem, fedprox_pg(ETA, H, 0.5), 3, 2, theta0=THETA0).theta).max() > 1e-4


@BOTH
def test_with_a_pull_of_one_over_eta_every_step_begins_anew(run):
    """x_{l+1} = theta - eta g_i(x_l): H nested gradients, each step of the same length."""
    x = np.tile(THETA0, (P.N, 1))
    for _ in range(H):
        x = THETA0 - ETA * np.stack([g(x[i])[i] for i in range(P.N)])
    found = run(EXACT, fedprox_pg(ETA, H, 1 / ETA), 1, theta0=THETA0).theta[0]
    np.testing.assert_allclose(found, x.mean(axis=0), atol=1e-14)


def bowls(N=4, d=3):
    """J_i(theta) = theta'A_i theta/2 - b_i'theta with random positive A_i, and the minimum of their mean."""
    rng = np.random.default_rng(79)
    M, b = rng.normal(size=(N, d, d)), rng.normal(size=(N, d))
    A = np.eye(d) + np.einsum("nij,nkj->nik", M, M) / d
    oracle = lambda task: Oracle(
        lambda key: (),
        lambda theta, own, key, B: ((), own),
        lambda theta, own, batch: task[0] @ theta - task[1],
        lambda batch: 0,
        B=0,
    )
    none = lambda thetas, seeds=None: Evaluation(*(np.zeros(len(thetas)),) * 3, np.zeros((len(thetas), N)))
    return Problem((A, b), np.arange(N, dtype=np.int32), oracle, none, np.zeros(d)), A, b


@pytest.mark.parametrize("r", [1.0, 0.75, 0.0, -0.5])
def test_the_bias_is_the_first_order_formula(r):
    """At its fixed point grad J = eta c mean_i[A_i (A_i theta - b_i)] + O(eta^2), c = sum_{k<H} r^{H-1-k} S_k/S_H, with
    eta mu = 1 - r kept fixed while eta is small. The fixed point solves a linear system: x_l - theta = T_l (theta -
    theta_i*) with T_0 = 0, T_{l+1} = T_l - eta (A_i (I + T_l) + mu T_l), so that mean_i T_H,i (theta - theta_i*) = 0.
    (H-1)/2 = 1.5 at r = 1, and 1 at r = 0.
    """
    problem, A, b = bowls()
    S = [sum(r**j for j in range(k)) for k in range(H + 1)]
    c = sum(r ** (H - 1 - k) * S[k] for k in range(H)) / S[H]
    assert r == 1 or c == pytest.approx((1 - H * r ** (H - 1) / S[H]) / (1 - r))
    assert (r, c) in ((1.0, 1.5), (0.0, 1.0)) or r in (0.75, -0.5)
    for eta in (1e-3, 1e-4):
        mu, T = (1 - r) / eta, np.zeros_like(A)
        for _ in range(H):
            T = T - eta * (A @ (np.eye(3) + T) + mu * T)
        own = np.linalg.solve(A, b[..., None])[..., 0]
        theta = np.linalg.solve(T.mean(axis=0), np.einsum("nij,nj->i", T, own) / len(T))
        gradients = np.einsum("nij,j->ni", A, theta) - b
        predicted = eta * c * np.einsum("nij,nj->i", A, gradients) / len(A)
        assert np.linalg.norm(gradients.mean(axis=0) - predicted) < 30 * eta * np.linalg.norm(predicted)
        stay = simulate(problem, fedprox_pg(eta, H, mu), 1, theta0=theta).theta[0]
        np.testing.assert_allclose(stay, theta, atol=1e-14)
    at_start = simulate(problem, fedprox_pg(eta, H, mu), 1, theta0=np.zeros(3)).theta[0]
    np.testing.assert_allclose(at_start, eta * S[H] * b.mean(axis=0), rtol=0.01, err_msg="a step of eta S_H")


def test_mu_can_be_swept():
    swept = simulate(EXACT, lambda mu: fedprox_pg(ETA, H, mu), 2, sweep=[0.0, 1.0], theta0=THETA0).theta
    single = simulate(EXACT, fedprox_pg(ETA, H, 1.0), 2, theta0=THETA0).theta
    np.testing.assert_allclose(swept[1], single, atol=1e-13)


@pytest.mark.parametrize("mu", [-0.1, float("nan"), float("inf")])
def test_bad_arguments_are_refused(mu):
    with pytest.raises(ValueError, match="it must be a finite number, at least 0"):
        fedprox_pg(ETA, H, mu)
