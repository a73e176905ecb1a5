"""What is exactly known about a finite problem, always in float64: J_i, J, gradients, Q, occupancy, optima.

Costs are the paper's, in [0, 1]; `returns` is in the user's units. Every function takes theta of shape (S, A) or (S*A,)
and works whatever JAX's 64-bit setting is, without changing it.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fastfedpg import mdp
from fastfedpg.core import Evaluation
from fastfedpg.errors import InputError
from fastfedpg.problems.tabular import TabularProblem


def J_i(problem: TabularProblem, theta: Any, tau: float = 0.0) -> np.ndarray:
    """Every agent's objective, Eq. (1): (N,)."""
    return _each(problem, theta, tau, mdp.objective)


def J(problem: TabularProblem, theta: Any, tau: float = 0.0) -> float:
    """The global objective, Eq. (3)."""
    return float(J_i(problem, theta, tau).mean())


def gradients(problem: TabularProblem, theta: Any, tau: float = 0.0) -> np.ndarray:
    """Every agent's policy gradient, Eq. (9): (N, S, A)."""
    return _each(problem, theta, tau, mdp.gradient)


def gradient(problem: TabularProblem, theta: Any, tau: float = 0.0) -> np.ndarray:
    """The gradient of J: (S, A)."""
    return gradients(problem, theta, tau).mean(axis=0)


def q_values(problem: TabularProblem, theta: Any, tau: float = 0.0) -> np.ndarray:
    """Every agent's Q_i: (N, S, A)."""
    return _each(problem, theta, tau, _q_values)


def occupancy(problem: TabularProblem, theta: Any) -> np.ndarray:
    """The discounted state occupancy d_rho: (N, S), the same for all agents where dynamics are shared."""
    return _each(problem, theta, 0.0, _occupancy)


def returns(problem: TabularProblem, theta: Any) -> np.ndarray:
    """Every agent's expected discounted reward, in the user's units: (N,)."""
    return problem.reward_range[1] / (1 - problem.gamma) - problem.scale * J_i(problem, theta)


class Best(NamedTuple):
    """The least cost J that a policy can have, and such a policy as probabilities (S, A)."""

    J: float
    policy: np.ndarray


def optimum(problem: TabularProblem, tau: float = 0.0) -> Best:
    """J* and an optimal common policy, by dynamic programming on the average MDP."""
    if not problem.shared:
        raise InputError("J* is defined only for agents that share P and rho; own_optima gives each agent's own")
    return own_optima(problem.average(), tau)[0]


def own_optima(problem: TabularProblem, tau: float = 0.0) -> list[Best]:
    """Each agent's own optimum, were it alone; the mean of their J is a lower bound for every common policy."""
    with jax.enable_x64(True):
        P, cost, rho, axes = _arrays(problem)

        costs, policies = _optima(P, cost, rho, problem.gamma, tau, axes)
        return [Best(float(c), np.asarray(policy)) for c, policy in zip(costs, policies, strict=True)]


def evaluator(problem: TabularProblem, tau: float = 0.0) -> Callable[[Any], Evaluation]:
    """The runtimes' view of a policy: thetas (n, d), or (n, N, d) for one policy per agent, to an Evaluation of n rows.

    Everything is in the user's units. With one policy per agent, J is the mean over agents of each one's own cost, and
    the squared gradient norm the mean of their own.
    """
    J_star = optimum(problem, tau).J if problem.shared else np.nan
    gamma, scale, hi = problem.gamma, problem.scale, problem.reward_range[1]

    def one(P: Any, cost: Any, rho: Any, theta: Any) -> tuple[Any, Any, Any]:
        log_pi = mdp.log_softmax_policy(theta, problem.S, problem.A)
        plain = mdp.objective(P, cost, rho, gamma, log_pi)
        full = mdp.objective(P, cost, rho, gamma, log_pi, tau) if tau else plain
        return plain, full, mdp.gradient(P, cost, rho, gamma, log_pi, tau)

    @jax.jit
    def run(thetas: Any) -> tuple[Any, Any, Any]:
        P, cost, rho, axes = _arrays(problem)

        def policy(theta: Any) -> tuple[Any, Any, Any]:
            own = theta.ndim == 2
            plain, full, g = jax.vmap(one, in_axes=(*axes, 0 if own else None))(P, cost, rho, theta)
            norm_sq = jnp.mean(jnp.sum(g**2, axis=(1, 2))) if own else jnp.sum(jnp.mean(g, axis=0) ** 2)
            return plain, full.mean(), norm_sq

        return jax.lax.map(policy, thetas)

    def evaluate(thetas: Any) -> Evaluation:
        with jax.enable_x64(True):
            plain, full, norm_sq = (np.asarray(x) for x in run(np.asarray(thetas, np.float64)))
        return Evaluation(scale * full, scale * (full - J_star), scale**2 * norm_sq, hi / (1 - gamma) - scale * plain)

    return evaluate


def _arrays(problem: TabularProblem) -> tuple[Any, Any, Any, tuple[Any, ...]]:
    axes = (0 if problem.P.ndim == 4 else None, 0, 0 if problem.rho.ndim == 2 else None)
    return jnp.asarray(problem.P), jnp.asarray(problem.cost), jnp.asarray(problem.rho), axes


def _each(problem: TabularProblem, theta: Any, tau: float, function: Callable[..., Any]) -> np.ndarray:
    """function(P_i, cost_i, rho_i, gamma, log_pi, tau) for every agent i."""
    theta = np.asarray(theta, np.float64)
    if theta.shape not in ((problem.S, problem.A), (problem.S * problem.A,)):
        raise InputError(f"theta has shape {theta.shape}; it must be ({problem.S}, {problem.A}): states, actions")
    with jax.enable_x64(True):
        P, cost, rho, axes = _arrays(problem)
        return np.asarray(_mapped(function, P, cost, rho, problem.gamma, theta.reshape(-1), tau, axes))


# Compiled once per shape, however often they are called.


@partial(jax.jit, static_argnames=("function", "axes"))
def _mapped(function: Any, P: Any, cost: Any, rho: Any, gamma: Any, theta: Any, tau: Any, axes: Any) -> Any:
    log_pi = mdp.log_softmax_policy(theta, *cost.shape[1:])
    return jax.vmap(lambda P, c, r: function(P, c, r, gamma, log_pi, tau), in_axes=axes)(P, cost, rho)


@partial(jax.jit, static_argnames=("tau", "axes"))
def _optima(P: Any, cost: Any, rho: Any, gamma: Any, tau: float, axes: Any) -> tuple[Any, Any]:
    best = jax.vmap(lambda P, c: mdp.optimal(P, c, gamma, tau), in_axes=axes[:2])(P, cost)
    return jnp.sum(rho * best.values, axis=1), best.policy


def _q_values(P: Any, cost: Any, rho: Any, gamma: Any, log_pi: Any, tau: Any) -> Any:
    return mdp.q_values(P, cost, gamma, log_pi, tau)


def _occupancy(P: Any, cost: Any, rho: Any, gamma: Any, log_pi: Any, tau: Any) -> Any:
    return mdp.occupancy(P, rho, gamma, log_pi)
