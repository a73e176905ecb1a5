"""What is exactly known about a linear-quadratic regulator, always in float64: J_i, J, gradients, optima, (12).

The equations and their derivation are those of `regulator`. Rewards are minus the costs, in the same units. Functions
have the names they have in `exact`, take a gain F of shape (m, n) or (m*n,), and work whatever JAX's 64-bit setting is.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from fastfedpg.core import Evaluate, Evaluation
from fastfedpg.errors import InputError
from fastfedpg.mdp import regulator
from fastfedpg.precision import float64
from fastfedpg.problems.lqr_arrays import LQRArrays, riccati
from fastfedpg.problems.tabular_exact import Best


def J_i(problem: LQRArrays, F: Any) -> np.ndarray:
    """Every agent's objective: (N,); infinite outside the stable set."""
    return _each(problem, F, regulator.objective)


def J(problem: LQRArrays, F: Any) -> float:
    """The global objective, Eq. (3)."""
    return float(J_i(problem, F).mean())


def gradients(problem: LQRArrays, F: Any) -> np.ndarray:
    """Every agent's gradient: (N, m, n); NaN outside the stable set."""
    return _each(problem, F, regulator.gradient)


def gradient(problem: LQRArrays, F: Any) -> np.ndarray:
    """The gradient of J: (m, n), that of the average problem."""
    return gradients(problem.average(), F)[0]


def returns(problem: LQRArrays, F: Any) -> np.ndarray:
    """Every agent's expected discounted reward: (N,)."""
    return -J_i(problem, F)


def correlation(problem: LQRArrays, F: Any) -> np.ndarray:
    """Sigma_F, the discounted correlation of the states: (n, n); NaN outside the stable set."""
    found = _each(problem.only(0), F, regulator.evaluated)
    return np.where(found.stable[0], found.Sigma_F[0], np.nan)


def optimum(problem: LQRArrays) -> Best:
    """J* and the best common gain F*, by the Riccati equation of the average costs."""
    return own_optima(problem.average())[0]


def own_optima(problem: LQRArrays) -> list[Best]:
    """Each agent's own optimum, were it alone; the noise does not move the gain, since E_F = 0 there whatever Sigma."""
    gains = [riccati(problem, Q, R)[1] for Q, R in zip(problem.Q, problem.R, strict=True)]
    return [Best(J(problem.only(i), F), F) for i, F in enumerate(gains)]


def gradient_domination_bound(problem: LQRArrays) -> float:
    """mu with mu (J(F) - J*) <= ||grad J(F)||^2 for every stable F, Eq. (12) (Fazel et al. 2018, Lemma 11).

    With W = Rbar + gamma B'P_F B and the discounted correlation of F*,

        J(F*) - J(F) = tr(Sigma_F* (2 D'E_F + D'W D)) >= -tr(Sigma_F* E_F'W^-1 E_F),    D = F* - F

    so J(F) - J* <= ||Sigma_F*|| ||E_F||^2 / s_min(Rbar), while ||grad J||^2 = 4 ||E_F Sigma_F||^2 >= 4 s_min(Sigma)^2
    ||E_F||^2 since Sigma_F >= Sigma, which is Sigma_0 if there is no noise. Together
    mu = 4 s_min(Sigma)^2 s_min(Rbar) / ||Sigma_F*||.
    """
    least = lambda x: float(np.linalg.eigvalsh(x)[0])
    worst = float(np.linalg.norm(correlation(problem, optimum(problem).policy), 2))
    return 4 * least(problem.model.Sigma) ** 2 * least(problem.R.mean(axis=0)) / worst


def gradient_function(problem: LQRArrays) -> Callable[[Any], Any]:
    """`gradients` as a pure JAX function, theta (d,) to (N, d); for 64-bit mode."""

    def every(theta: Any) -> Any:
        model, F = problem.model.like(theta), theta.reshape(problem.theta_shape)
        one = lambda Q, R: regulator.gradient(model, Q, R, F).reshape(-1)
        return jax.vmap(one)(jnp.asarray(problem.Q), jnp.asarray(problem.R))

    return every


def gap_function(problem: LQRArrays) -> Callable[[Any], Any]:
    """J - J* of a common gain as a pure JAX function of theta (d,), without cancellation; for 64-bit mode."""
    W, F_star = _weights(problem)
    Q, R = (jnp.asarray(x.mean(axis=0)) for x in (problem.Q, problem.R))

    def gap(theta: Any) -> Any:
        F = theta.reshape(problem.theta_shape)
        found = regulator.evaluated(problem.model.like(F), Q, R, F)
        return jnp.where(found.stable, _gap(found.Sigma_F, W, F - F_star), jnp.nan)

    return gap


def _weights(problem: LQRArrays) -> tuple[np.ndarray, np.ndarray]:
    """W = Rbar + gamma B'P*B, and F*."""
    average = problem.average()
    P, F_star = riccati(average, average.Q[0], average.R[0])
    return average.R[0] + problem.gamma * problem.B.T @ P @ problem.B, F_star


def _gap(Sigma_F: Any, W: Any, D: Any) -> Any:
    """J(F) - J* = tr(Sigma_F D'W D) with D = F - F*."""
    return jnp.sum(Sigma_F * (D.T @ W @ D))


def evaluator(problem: LQRArrays) -> Evaluate:
    """The runtimes' view of gains: thetas (k, d), or (k, N, d) for one gain per agent, to an Evaluation of k rows.

    Outside the stable set everything is NaN. The gap of a common gain is not a difference of two costs, which would
    lose all digits near F*, but J(F) - J* = tr(Sigma_F D'W D) with D = F - F* and W = Rbar + gamma B'P*B.
    """
    W, F_star = _weights(problem)
    J_star = J(problem.average(), F_star)

    @float64
    def evaluate(thetas: Any, seeds: Any = None) -> Evaluation:
        F = np.asarray(thetas, np.float64)
        F = F.reshape(*F.shape[:-1], *problem.theta_shape)
        found = _evaluated(tuple(problem.model), problem.Q, problem.R, W, F_star, F)
        costs, gap, norm_sq = (np.asarray(x) for x in found)
        J = costs.mean(axis=-1)
        return Evaluation(J, gap if F.ndim == 3 else J - J_star, norm_sq, -costs)

    return evaluate


@jax.jit
def _evaluated(model: Any, Q: Any, R: Any, W: Any, F_star: Any, F: Any) -> tuple[Any, Any, Any]:
    """J_i of all agents, the gap of a common gain, and ||grad J||^2 or the mean of the agents' own."""
    shared = regulator.LinearSystem(*model)

    def agent(Q: Any, R: Any, F: Any) -> tuple[Any, Any, Any]:
        Sigma_F, P_F, stable = regulator.evaluated(shared, Q, R, F)
        gap = _gap(Sigma_F, W, F - F_star)
        g = 2 * regulator.advantage(shared, R, F, P_F) @ Sigma_F
        kept = lambda x: jnp.where(stable, x, jnp.nan)
        return kept(regulator.cost(shared, Q, R, F, Sigma_F)), kept(gap), kept(g)

    def policy(F: Any) -> tuple[Any, Any, Any]:
        if F.ndim == 3:
            costs, _, g = jax.vmap(agent)(Q, R, F)
            return costs, jnp.nan, jnp.sum(g**2, axis=(1, 2)).mean()
        costs, gap, g = jax.vmap(agent, in_axes=(0, 0, None))(Q, R, F)
        return costs, gap[0], jnp.sum(g.mean(axis=0) ** 2)

    return lax.map(policy, F)


@partial(jax.jit, static_argnums=0)
def _mapped(function: Callable[..., Any], model: Any, Q: Any, R: Any, F: Any) -> Any:
    return jax.vmap(function, in_axes=(None, 0, 0, None))(regulator.LinearSystem(*model), Q, R, F)


@float64
def _each(problem: LQRArrays, F: Any, function: Callable[..., Any]) -> Any:
    """function(model, Q_i, R_i, F) for every agent i."""
    given = jax.tree.map(jnp.asarray, (tuple(problem.model), problem.Q, problem.R, _gain(problem, F)))
    return jax.tree.map(np.asarray, _mapped(function, *given))


def _gain(problem: LQRArrays, F: Any) -> np.ndarray:
    F = np.asarray(F, np.float64)
    if F.shape not in (problem.theta_shape, (problem.m * problem.n,)):
        raise InputError(f"F has shape {F.shape}; it must be {problem.theta_shape}: {problem.theta_axes}")
    return F.reshape(problem.theta_shape)
