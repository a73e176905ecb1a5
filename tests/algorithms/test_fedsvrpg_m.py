"""FedSVRPG-M: its equations in plain loops, where it stops, and its weights by adding up all trajectories."""

import numpy as np
import pytest

import reference as ref
from enumerated import enumerated
from fastfedpg import InputError, fedavg_pg, fedsvrpg_m, simulate, with_oracle
from fastfedpg.problems import tabular_exact
from quadratics import Quadratics

P = ref.small_problem(N=3, S=2, A=2, seed=60)
THETA0 = np.random.default_rng(61).normal(size=4)
EXACT = with_oracle(P, "exact")
g = lambda x: tabular_exact.gradients(P, x).reshape(P.N, -1)
ETA, H, B, LAM = 0.5, 3, 0.3, 2.1


def rounds(T, mistake=None):
    """T rounds as loops over r, i and k, or with one of the mistakes of public code."""
    theta, old, u = THETA0, THETA0, np.zeros(4)
    for _ in range(T):
        u = np.zeros(4) if mistake == "momentum begins anew" else u
        ends = []
        for i in range(P.N):
            x = before = theta
            for k in range(H):
                if mistake == "one step less" and k == H - 1:
                    continue
                pair = before if mistake == "the local iterate before" else old
                v = B * g(x)[i] + (1 - B) * (u + g(x)[i] - g(pair)[i])
                before, x = x, x + ETA * v if mistake == "sign" else x - ETA * v
            ends.append(x)
        u = -(np.mean(ends, axis=0) - theta) / (ETA * H)
        theta, old = theta - LAM * u, theta
    return theta


def test_against_its_equations():
    found = simulate(EXACT, fedsvrpg_m(ETA, H, B, LAM), 3, theta0=THETA0)
    np.testing.assert_allclose(found.theta[0], rounds(3), atol=1e-13)
    np.testing.assert_array_equal(found.metrics["ess"][0, 1:], 1)


@pytest.mark.parametrize("mistake", ["momentum begins anew", "the local iterate before", "one step less", "sign"])
def test_mistakes_of_public_code_are_other_methods(mistake):
    assert np.abs(rounds(3, mistake) - rounds(3)).max() > 1e-2


def test_with_weights_it_is_the_method_with_truncated_gradients():
    """All 16 trajectories of 2 steps, weighted, in the place of truncated gradients at x and at theta-: equal."""
    algorithm = fedsvrpg_m(ETA, H, B, LAM)
    weighted = simulate(enumerated(P, 2, 0.2), algorithm, 3, theta0=THETA0)
    known = simulate(with_oracle(P, "truncated", 0.2, K=2), algorithm, 3, theta0=THETA0)
    np.testing.assert_allclose(weighted.theta, known.theta, atol=1e-13)
    assert np.abs(weighted.theta - THETA0).max() > 0.1


def test_without_momentum_it_is_fedavg_with_a_server_step():
    """b = 1, with noise and common random numbers; lam = eta H averages, half of it goes half the way."""
    sampled = with_oracle(P, "gpomdp", B=2, K=3)
    run = lambda algorithm: simulate(sampled, algorithm, 1, theta0=THETA0).theta[0]
    plain = run(fedavg_pg(ETA, H))
    np.testing.assert_allclose(run(fedsvrpg_m(ETA, H, b=1.0)), plain, atol=1e-14)
    half = run(fedsvrpg_m(ETA, H, b=1.0, lam=ETA * H / 2))
    np.testing.assert_allclose(half, (plain + THETA0) / 2, atol=1e-14)


Q = Quadratics(N=4, d=3, seed=62)


def fedavg_stops(eta, H):
    """sum_i M_i (x - c_i) = 0 with M_i = I - (I - eta A_i)^H: the mean way of H gradient steps from x is 0."""
    M = np.stack([np.eye(Q.d) - np.linalg.matrix_power(np.eye(Q.d) - eta * A, H) for A in Q.A])
    return np.linalg.solve(M.sum(axis=0), np.einsum("nij,nj->i", M, Q.c))


@pytest.mark.parametrize("b", [0.2, 0.8])
def test_it_stops_where_fedavg_stops(b):
    """On quadratics the agents go exactly b times FedAvg's way once u = 0: for every b, and lam = eta H and others."""
    eta, H = 0.1, 6
    stop = fedavg_stops(eta, H)
    assert np.abs(stop - Q.best).max() > 1e-2, "and not at the optimum"
    for lam in (eta * H, eta):
        stay = simulate(Q.problem(), fedsvrpg_m(eta, H, b, lam), 2, theta0=stop)
        np.testing.assert_allclose(stay.theta[0], stop, atol=1e-13)
    came = simulate(Q.problem(), fedsvrpg_m(eta, H, b), 300, metrics_every=300)
    np.testing.assert_allclose(came.theta[0], stop, atol=1e-9)


def test_heterogeneity_goes_only_with_eta():
    """Where it stays, its bias over eta (H-1)/2 (hess J)^-1 mean_i[hess J_i grad J_i] is 1 as eta -> 0, for any b.

    From the optimum it walks off; a method without that bias would stay there.
    """
    H = 6
    push = np.einsum("nij,nj->i", Q.A, Q.g(Q.best)) / Q.N
    first = (H - 1) / 2 * np.linalg.solve(Q.A.mean(axis=0), push)
    for eta, near in ((1e-2, 0.05), (1e-3, 0.005)):
        stop, algorithm = fedavg_stops(eta, H), fedsvrpg_m(eta, H, 0.2)
        assert np.linalg.norm((stop - Q.best) / eta) / np.linalg.norm(first) == pytest.approx(1, abs=near)
        np.testing.assert_allclose(simulate(Q.problem(), algorithm, 2, theta0=stop).theta[0], stop, atol=1e-14)
        away = simulate(Q.problem(), algorithm, 2, theta0=Q.best).theta[0] - Q.best
        assert np.abs(away).max() > 0.1 * eta**2


def test_trajectories_count_less_where_theta_has_moved():
    """In the first round's first step theta- was played; later weights differ, and some of B = 8 count less."""
    problem = with_oracle(P, "gpomdp", B=8, K=3)
    said = simulate(problem, fedsvrpg_m(1.0, 2), 3).metrics["ess"][0]
    assert np.isnan(said[0])
    assert (said[1:] < 1 - 1e-4).all()
    assert (said[1:] > 1 / 8).all()
    assert simulate(problem, fedsvrpg_m(1.0, 1), 1).metrics["ess"][0, 1] == pytest.approx(1, abs=1e-14)


def test_bad_settings_and_oracles_are_refused():
    for b in (0, 1.5, -0.1):
        with pytest.raises(ValueError, match=rf"b = {b:g}; it must lie in \(0, 1\]"):
            fedsvrpg_m(0.1, 2, b)
    with pytest.raises(ValueError, match="lam = 0; it must be positive and finite"):
        fedsvrpg_m(0.1, 2, lam=0.0)
    silent = EXACT._replace(oracle=lambda task: EXACT.oracle(task)._replace(anywhere=False))
    with pytest.raises(InputError, match=r"needs anywhere or log_prob, .* not answer; these do: exact, .*, gpomdp"):
        simulate(silent, fedsvrpg_m(0.1, 2), 1)
