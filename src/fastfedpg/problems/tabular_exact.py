"""What is exactly known about a finite problem, always in float64: J_i, J, gradients, Q, occupancy, optima.

Costs are the paper's, in [0, 1]; `returns` is in the user's units. Every function takes theta of shape (S, A) or (S*A,)
and works whatever JAX's 64-bit setting is, without changing it.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from fastfedpg.core import Evaluate, Evaluation
from fastfedpg.errors import InputError
from fastfedpg.mdp import finite
from fastfedpg.mdp.transitions import as_kernel, direct
from fastfedpg.precision import float64
from fastfedpg.problems.tabular_arrays import TabularArrays

AT_A_TIME = 2**20
"""Numbers in one array of the equations of several agents that are solved together: 8 MB."""


@float64
def J_i(problem: TabularArrays, theta: Any, tau: float = 0.0) -> np.ndarray:
    """Every agent's objective, Eq. (1): (N,)."""
    if not problem.shared:
        return _each(problem, theta, tau, finite.objective)
    common = _common(_arrays(problem.average()), _flat(problem, theta)[None], problem.gamma, tau)
    return _sums(problem.cost, common.visits)[0] + common.entropy[0]


def J(problem: TabularArrays, theta: Any, tau: float = 0.0) -> float:
    """The global objective, Eq. (3)."""
    return float(J_i(problem, theta, tau).mean())


def gradients(problem: TabularArrays, theta: Any, tau: float = 0.0) -> np.ndarray:
    """Every agent's policy gradient, Eq. (9): (N, S, A)."""
    return _each(problem, theta, tau, finite.gradient)


def gradient(problem: TabularArrays, theta: Any, tau: float = 0.0) -> np.ndarray:
    """The gradient of J: (S, A); where dynamics are shared, that of the average MDP (Proposition 1)."""
    return gradients(problem.average() if problem.shared else problem, theta, tau).mean(axis=0)


def gradient_function(problem: TabularArrays, tau: float = 0.0) -> Callable[[Any], Any]:
    """`gradients` as a pure JAX function, theta (d,) to (N, d), to be differentiated again; for 64-bit mode."""
    arrays, (axes, size) = _arrays(problem), _layout(problem)

    def every(theta: Any) -> Any:
        log_pi = finite.log_softmax_policy(theta, problem.S, problem.A)
        one = lambda P, c, r: finite.gradient(P, c, r, problem.gamma, log_pi, tau).reshape(-1)
        return _agents(one, arrays, axes, size)

    return every


def objective_function(problem: TabularArrays, tau: float = 0.0) -> Callable[[Any], Any]:
    """`J` as a pure JAX function of theta (d,); where dynamics are shared, that of the average MDP."""
    problem = problem.average() if problem.shared else problem
    arrays, (axes, size) = _arrays(problem), _layout(problem)

    def mean(theta: Any) -> Any:
        log_pi = finite.log_softmax_policy(theta, problem.S, problem.A)
        one = lambda P, c, r: finite.objective(P, c, r, problem.gamma, log_pi, tau)
        return jnp.mean(_agents(one, arrays, axes, size))

    return mean


def q_values(problem: TabularArrays, theta: Any, tau: float = 0.0) -> np.ndarray:
    """Every agent's Q_i: (N, S, A)."""
    return _each(problem, theta, tau, _q_values)


def occupancy(problem: TabularArrays, theta: Any) -> np.ndarray:
    """The discounted state occupancy d_rho: (N, S), the same for all agents where dynamics are shared."""
    one = _each(problem.average() if problem.shared else problem, theta, 0.0, _occupancy)
    return np.broadcast_to(one, (problem.N, problem.S))


def returns(problem: TabularArrays, theta: Any) -> np.ndarray:
    """Every agent's expected discounted reward, in the user's units: (N,)."""
    return problem.reward_range[1] / (1 - problem.gamma) - problem.scale * J_i(problem, theta)


class Best(NamedTuple):
    """The least cost J that a policy can have, and such a policy as probabilities (S, A), or as a gain (m, n)."""

    J: float
    policy: np.ndarray


def optimum(problem: TabularArrays, tau: float = 0.0) -> Best:
    """J* and an optimal common policy, by dynamic programming on the average MDP."""
    if not problem.shared:
        raise InputError("J* is defined only for agents that share P and rho; own_optima gives each agent's own")
    return own_optima(problem.average(), tau)[0]


@float64
def own_optima(problem: TabularArrays, tau: float = 0.0) -> list[Best]:
    """Each agent's own optimum, were it alone; the mean of their J is a lower bound for every common policy."""
    costs, policies = _optima(*_arrays(problem), problem.gamma, tau, *_layout(problem))
    return [Best(float(c), policy) for c, policy in zip(np.asarray(costs), np.asarray(policies), strict=True)]


def evaluator(problem: TabularArrays, tau: float = 0.0) -> Evaluate:
    """The runtimes' view of a policy: thetas (n, d), or (n, N, d) for one policy per agent, to an Evaluation of n rows.

    Everything is in the user's units. With one policy per agent, J is the mean over agents of each one's own cost, and
    the squared gradient norm the mean of their own. Where dynamics and policy are shared, equations are solved for the
    average MDP alone, whose J and gradient are J and its gradient (Proposition 1): agents cost one product each.
    """
    J_star = optimum(problem, tau).J if problem.shared else np.nan
    gamma, scale = problem.gamma, problem.scale
    average = _arrays(problem.average()) if problem.shared else None
    arrays = cache(lambda: _arrays(problem))  # large, and needed only where agents differ in more than their rewards

    @float64
    def evaluate(thetas: Any, seeds: Any = None) -> Evaluation:
        thetas = np.asarray(thetas, np.float64)
        if average is not None and thetas.ndim == 2:
            J, visits, norm_sq, _ = _common(average, thetas, gamma, tau)
            returns = _sums(problem.reward, visits)
        else:
            found = _evaluated(*arrays(), thetas, gamma, tau, *_layout(problem))
            J, norm_sq, plain = (np.asarray(x) for x in found)
            returns = problem.reward_range[1] / (1 - gamma) - scale * plain
        return Evaluation(scale * J, scale * (J - J_star), scale**2 * norm_sq, returns)

    return evaluate


Arrays: TypeAlias = tuple[Any, Any, Any]
"""P, cost and rho on the device."""


class Common(NamedTuple):
    """What n policies do in the average MDP; none of it has an agent axis."""

    J: np.ndarray  # (n,)
    visits: np.ndarray  # (n, S, A): d(s) pi(a|s) / (1 - gamma)
    norm_sq: np.ndarray  # (n,): ||grad J||^2
    entropy: np.ndarray  # (n,): its part of every J_i, tau sum visits log pi


def _common(average: Arrays, thetas: np.ndarray, gamma: float, tau: float) -> Common:
    return Common(*(np.asarray(x) for x in _of_average(*average, thetas, gamma, tau)))


def _sums(per_agent: np.ndarray, visits: np.ndarray) -> np.ndarray:
    """sum_{s,a} visits(s,a) x_i(s,a) for every policy and agent: (n, N), without a copy of (N, S, A)."""
    table = per_agent.reshape(len(per_agent), -1)
    return np.stack([table @ each.reshape(-1) for each in visits])


@float64
def _arrays(problem: TabularArrays) -> Arrays:
    return as_kernel(problem.P), jnp.asarray(problem.cost), jnp.asarray(problem.rho)


def _layout(problem: TabularArrays) -> tuple[tuple[int | None, int, int | None], int]:
    """Which of P, cost and rho have an agent axis, and for how many agents equations are solved at a time."""
    S, A = problem.S, problem.A
    row = S if direct(problem.P, S) else A * problem.P.p.shape[-1]
    axes = (0 if problem.own_kernels else None, 0, 0 if problem.own_starts else None)
    return axes, min(problem.N, max(1, AT_A_TIME // (S * max(A, row))))


def _flat(problem: TabularArrays, theta: Any) -> np.ndarray:
    theta = np.asarray(theta, np.float64)
    if theta.shape not in ((problem.S, problem.A), (problem.S * problem.A,)):
        raise InputError(f"theta has shape {theta.shape}; it must be ({problem.S}, {problem.A}): states, actions")
    return theta.reshape(-1)


@float64
def _each(problem: TabularArrays, theta: Any, tau: float, function: Callable[..., Any]) -> np.ndarray:
    """function(P_i, cost_i, rho_i, gamma, log_pi, tau) for every agent i."""
    theta = _flat(problem, theta)
    return np.asarray(_mapped(*_arrays(problem), theta, problem.gamma, tau, *_layout(problem), function))


# Compiled once per shape, however often they are called; arrays are arguments, not constants of the program.


def _agents(function: Callable[..., Any], arrays: tuple[Any, ...], axes: tuple[int | None, ...], size: int) -> Any:
    """`vmap` over the arrays that have an agent axis, for `size` agents at a time."""

    def one(own: list[Any]) -> Any:
        mine = iter(own)
        return function(*(x if axis is None else next(mine) for x, axis in zip(arrays, axes, strict=True)))

    return lax.map(one, [x for x, axis in zip(arrays, axes, strict=True) if axis == 0], batch_size=size)


@jax.jit
def _of_average(P: Any, cost: Any, rho: Any, thetas: Any, gamma: Any, tau: Any) -> tuple[Any, ...]:
    def policy(theta: Any) -> tuple[Any, ...]:
        log_pi = finite.log_softmax_policy(theta, *cost.shape[1:])
        J, visits, g = finite.evaluated(P, cost[0], rho, gamma, log_pi, tau)
        return J, visits, jnp.sum(g**2), tau * jnp.sum(visits * log_pi)

    return tuple(lax.map(policy, thetas))


@partial(jax.jit, static_argnames=("axes", "size"))
def _evaluated(
    P: Any, cost: Any, rho: Any, thetas: Any, gamma: Any, tau: Any, axes: Any, size: int
) -> tuple[Any, Any, Any]:
    """J, ||grad J||^2 and every agent's J_i without entropy."""
    own = thetas.ndim == 3

    def one(P: Any, cost: Any, rho: Any, theta: Any) -> tuple[Any, Any, Any]:
        log_pi = finite.log_softmax_policy(theta, *cost.shape)
        J, visits, g = finite.evaluated(P, cost, rho, gamma, log_pi, tau)
        return J, jnp.sum(g**2) if own else g, jnp.sum(visits * cost)

    def policy(theta: Any) -> tuple[Any, Any, Any]:
        J, g, plain = _agents(one, (P, cost, rho, theta), (*axes, 0 if own else None), size)
        return J.mean(), g.mean() if own else jnp.sum(g.mean(axis=0) ** 2), plain

    J, norm_sq, plain = lax.map(policy, thetas)
    return J, norm_sq, plain


@partial(jax.jit, static_argnames=("axes", "size", "function"))
def _mapped(
    P: Any, cost: Any, rho: Any, theta: Any, gamma: Any, tau: Any, axes: Any, size: int, function: Callable[..., Any]
) -> Any:
    log_pi = finite.log_softmax_policy(theta, *cost.shape[1:])
    return _agents(lambda P, c, r: function(P, c, r, gamma, log_pi, tau), (P, cost, rho), axes, size)


@partial(jax.jit, static_argnames=("tau", "axes", "size"))
def _optima(P: Any, cost: Any, rho: Any, gamma: Any, tau: float, axes: Any, size: int) -> tuple[Any, Any]:
    best = _agents(lambda P, c: finite.optimal(P, c, gamma, tau), (P, cost), axes[:2], size)
    return jnp.sum(rho * best.values, axis=1), best.policy


def _q_values(P: Any, cost: Any, rho: Any, gamma: Any, log_pi: Any, tau: Any) -> Any:
    return finite.q_values(P, cost, gamma, log_pi, tau)


def _occupancy(P: Any, cost: Any, rho: Any, gamma: Any, log_pi: Any, tau: Any) -> Any:
    return finite.occupancy(P, rho, gamma, log_pi)
