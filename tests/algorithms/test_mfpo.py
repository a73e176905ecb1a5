"""MFPO: its equations in plain loops, its weights by adding up all trajectories, and where it stops."""

import numpy as np
import pytest

import reference as ref
from enumerated import enumerated
from fastfedpg import fedavg_pg, mfpo, simulate, with_oracle
from fastfedpg.problems import tabular_exact
from quadratics import Quadratics

P = ref.small_problem(N=3, S=2, A=2, seed=80)
THETA0 = np.random.default_rng(81).normal(size=4)
EXACT = with_oracle(P, "exact")
g = lambda x: tabular_exact.gradients(P, x).reshape(P.N, -1)
ETA, H, A = 0.5, 3, 0.3


def rounds(T, factor=1 - A, past=True):
    """T rounds as loops; with another factor of the past, or without the step that all take together."""
    theta, u = THETA0, np.zeros(4)
    for t in range(T):
        ends = []
        for i in range(P.N):
            x, old, v = theta, theta + ETA * u if past else theta, u
            for l in range(H):
                v = g(x)[i] if t == l == 0 else g(x)[i] + factor * (v - g(old)[i])
                old, x = x, x - ETA * v
            ends.append((x, v))
        theta, u = (np.mean(each, axis=0) for each in zip(*ends, strict=True))
    return theta


def test_against_its_equations():
    """And not with the mistake of public code, a factor of 1 in the place of 1 - a; nor with x_{-1} = theta."""
    found = simulate(EXACT, mfpo(ETA, H, A), 3, theta0=THETA0).theta[0]
    np.testing.assert_allclose(found, rounds(3), atol=1e-13)
    assert np.abs(found - rounds(3, factor=1)).max() > 1e-3
    assert np.abs(found - rounds(3, past=False)).max() > 1e-3


def test_with_weights_it_is_the_method_with_truncated_gradients():
    """All 16 trajectories of 2 steps, weighted, in the place of truncated gradients at x_l and at x_{l-1}: equal."""
    weighted = simulate(enumerated(P, 2, 0.2), mfpo(ETA, H, A), 3, theta0=THETA0)
    known = simulate(with_oracle(P, "truncated", 0.2, K=2), mfpo(ETA, H, A), 3, theta0=THETA0)
    np.testing.assert_allclose(weighted.theta, known.theta, atol=1e-13)
    assert np.abs(weighted.theta - THETA0).max() > 0.1


def test_without_a_past_it_is_fedavg():
    sampled = with_oracle(P, "gpomdp", B=4, K=3)
    one, two = (simulate(sampled, method, 3) for method in (mfpo(ETA, H, 1.0), fedavg_pg(ETA, H)))
    np.testing.assert_allclose(one.theta, two.theta, atol=1e-13)
    said = simulate(sampled, mfpo(ETA, H, A), 3).metrics["ess"][0, 1:]
    assert ((said > 1 / 4) & (said < 1 - 1e-4)).all()


@pytest.mark.parametrize("a", [0.1, 0.6])
def test_it_stops_where_fedavg_stops(a):
    """(theta - theta*) / eta is (H-1)/2 (hess J)^-1 mean_i[hess J_i grad J_i] for every a, but for what falls with eta.

    By hand, with q = 1 - a, h = mean_i[hess J_i grad J_i] and c_l = sum_{j<l} 1 - q^(j+1): agent i is -eta c_l grad J_i
    away, u - grad J = -eta h c_{H-1} / (1 - q^H), and sum_l mean_i u_l = 0 gives
    H grad J = eta h (sum_l c_l + c_{H-1} q / (1 - q)), whose bracket is H (H-1)/2 whatever q is.
    """
    Q, etas, H = Quadratics(N=4, d=3, seed=82), np.array([0.02, 0.01]), 6
    push = np.einsum("nij,nj->i", Q.A, Q.g(Q.best)) / Q.N
    wanted = (H - 1) / 2 * np.linalg.solve(Q.A.mean(axis=0), push)
    came = simulate(Q.problem(), lambda eta: mfpo(eta, H, a), 800, metrics_every=800, sweep=etas).theta[:, 0]
    off = np.linalg.norm((came - Q.best) / etas[:, None] - wanted, axis=1) / np.linalg.norm(wanted)
    assert off[0] < 0.1
    assert off[1] == pytest.approx(off[0] / 2, rel=0.1)
    q = 1 - a
    c = [sum(1 - q ** (j + 1) for j in range(l)) for l in range(H)]
    assert sum(c) + c[-1] * q / (1 - q) == pytest.approx(H * (H - 1) / 2)
    assert sum(c) < 0.9 * H * (H - 1) / 2, "agents do stay nearer to each other"


def test_bad_settings_are_refused():
    for a in (0, 1.5):
        with pytest.raises(ValueError, match=rf"a = {a:g}; it must lie in \(0, 1\]"):
            mfpo(0.1, 2, a)
