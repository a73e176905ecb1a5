"""FedHAPG-M: the mean of its Hessian term in closed form, its equations in plain loops, and where it stops."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import reference as ref
from enumerated import enumerated
from fastfedpg import fedavg_pg, fedhapg_m, fedsvrpg_m, simulate, with_oracle
from fastfedpg.algorithms.fedhapg_m import MIX
from fastfedpg.core import key_for, weighted_gradient
from quadratics import Quadratics

P = ref.small_problem(N=3, S=2, A=2, seed=100)
THETA0 = np.random.default_rng(101).normal(size=4)
EXACT = with_oracle(P, "exact", 0.2)
ETA, H, B, LAM = 0.5, 3, 0.3, 2.1
BANDIT = ref.small_problem(N=1, S=1, A=3, seed=102)
X, OLD = np.random.default_rng(103).normal(size=(2, 3))


def term(a, credit=True):
    """E[D|a] on a bandit, (sum_tau p(tau|z) D(tau)), played with z = a x + (1 - a) theta-; or D without costs."""
    oracle = enumerated(BANDIT, 1).oracle(jnp.asarray(1 - BANDIT.reward[0]))
    if not credit:
        oracle = oracle._replace(credit=lambda theta, own, p: 3 * p[:, None])
    z = jnp.asarray(a * X + (1 - a) * OLD)
    batch, _ = oracle.sample(z, (), None, None)
    at = lambda q: weighted_gradient(oracle, q, z, (), batch)
    return np.asarray(jax.jvp(at, (z,), (jnp.asarray(X - OLD),))[1])


def by_hand(a):
    """sum_k pi_k c_k ((s_k . y) s_k + S y) with s_k = e_k - pi and S = d s_k / dz = -(diag(pi) - pi pi')."""
    z, y, c = a * X + (1 - a) * OLD, X - OLD, 1 - BANDIT.reward[0, 0]
    pi = np.exp(z) / np.exp(z).sum()
    s = np.eye(3) - pi
    return sum(pi[k] * c[k] * ((s[k] @ y) * s[k] - (np.diag(pi) - np.outer(pi, pi)) @ y) for k in range(3))


def test_the_mean_of_the_hessian_term_is_the_difference_of_gradients():
    """The mean over a, by 20 points of Gauss and Legendre, of the mean over the arms, on a bandit with three.

    grad J(theta)_k = pi_k (c_k - pi . c). Without costs in it, as in public code, the mean is 0.
    """
    points, weights = np.polynomial.legendre.leggauss(20)
    found = sum(w / 2 * term((1 + p) / 2) for p, w in zip(points, weights, strict=True))

    def gradient(theta, c=1 - BANDIT.reward[0, 0]):
        pi = np.exp(theta) / np.exp(theta).sum()
        return pi * (c - pi @ c)

    np.testing.assert_allclose(term(0.3), by_hand(0.3), atol=1e-14)
    np.testing.assert_allclose(found, gradient(X) - gradient(OLD), atol=1e-12)
    assert np.abs(found).max() > 0.05
    assert np.abs(term(0.3, credit=False)).max() < 1e-14


def rounds(T):
    """T rounds as loops, with Hessians by autodiff and the a of the same keys."""
    g = jax.jit(lambda i, x: EXACT.oracle(jnp.asarray(EXACT.tasks)[i]).gradient(x, (), ()))
    hess = jax.jit(lambda i, x: jax.jacfwd(lambda x: g(i, x))(x))
    theta, old, u = THETA0, THETA0, np.zeros(4)
    for r in range(T):
        ends = []
        for i in range(P.N):
            x = theta
            for k in range(H):
                key = jax.random.fold_in(key_for(0, r, "local", i), k)
                z = old + float(jax.random.uniform(jax.random.fold_in(key, MIX), dtype=float)) * (x - old)
                x = x - ETA * (B * g(i, x) + (1 - B) * (u + hess(i, z) @ (x - old)))
            ends.append(x)
        u = -(np.mean(ends, axis=0) - theta) / (ETA * H)
        theta, old = theta - LAM * u, theta
    return theta


def test_against_its_equations():
    found = simulate(EXACT, fedhapg_m(ETA, H, B, LAM), 2, theta0=THETA0)
    np.testing.assert_allclose(found.theta[0], rounds(2), atol=1e-12)
    np.testing.assert_array_equal(found.metrics["ess"][0, 1:], 1)


def test_with_weights_it_is_the_method_with_truncated_gradients():
    """All 16 trajectories of 2 steps, with entropy, in the place of truncated gradients and their Hessians: equal."""
    algorithm = fedhapg_m(ETA, H, B, LAM)
    weighted = simulate(enumerated(P, 2, 0.2), algorithm, 3, theta0=THETA0)
    known = simulate(with_oracle(P, "truncated", 0.2, K=2), algorithm, 3, theta0=THETA0)
    np.testing.assert_allclose(weighted.theta, known.theta, atol=1e-12)
    assert np.abs(weighted.theta - THETA0).max() > 0.05


def test_on_quadratics_it_is_fedsvrpg_m():
    """Where the Hessian is the same everywhere a plays no part, with noise that does not depend on theta either."""
    problem = Quadratics(N=3, d=2, seed=104).problem(noise=0.1)
    one, two = (simulate(problem, method(0.2, 3, 0.4), 6).theta for method in (fedhapg_m, fedsvrpg_m))
    np.testing.assert_allclose(one, two, atol=1e-13)


def test_without_momentum_and_with_exact_gradients_it_is_fedavg():
    one, two = (
        simulate(EXACT, method, 3, theta0=THETA0).theta for method in (fedhapg_m(ETA, H, 1.0), fedavg_pg(ETA, H))
    )
    np.testing.assert_allclose(one, two, atol=1e-13)


def test_its_weights_are_nearer_to_one():
    """z lies between x and theta-, so that trajectories count more than in FedSVRPG-M, on average over 8 rounds."""
    problem = with_oracle(P, "gpomdp", B=8, K=3)
    near, far = (simulate(problem, method(1.0, 3), 8).metrics["ess"][0, 1:] for method in (fedhapg_m, fedsvrpg_m))
    assert far.mean() < near.mean() < 1


def test_bad_settings_are_refused():
    with pytest.raises(ValueError, match=r"b = 0; it must lie in \(0, 1\]"):
        fedhapg_m(0.1, 2, 0)
    with pytest.raises(ValueError, match="lam = -1; it must be positive and finite"):
        fedhapg_m(0.1, 2, lam=-1.0)
