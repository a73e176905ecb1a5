"""Oracles that know the MDP: the exact gradient, and the expectation of the truncated one."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fastfedpg.core import Batch, Oracle, Own, RngKey, Tabular, Theta
from fastfedpg.mdp import finite
from fastfedpg.mdp.transitions import Kernel, Sparse, as_kernel


class Dynamics(NamedTuple):
    """The dynamics as plain arrays."""

    P: Array | np.ndarray | Sparse
    rho: Array | np.ndarray


def prepare(P: np.ndarray | Sparse, rho: np.ndarray) -> Dynamics:
    """The dynamics of one agent, or with a leading axis of all of them."""
    return Dynamics(P, rho)


def exact(model: Dynamics, cost: Float[Array, "S A"], gamma: float, tau: float = 0.0) -> Oracle:
    """The exact policy gradient: Eq. (4), computed as Eq. (9). It costs no environment steps."""

    def gradient(theta: Theta, own: Own, batch: Batch) -> Theta:
        log_pi = finite.log_softmax_policy(theta, *cost.shape)
        P, c, rho = _as(theta, model, cost)
        return finite.gradient(P, c, rho, gamma, log_pi, tau).reshape(-1)  # Eq. (9)

    return knowing(gradient, Tabular(model.P, cost, model.rho, gamma, tau))


def truncated(model: Dynamics, cost: Float[Array, "S A"], gamma: float, K: int, tau: float = 0.0) -> Oracle:
    """The truncated gradient, nabla_K J_i = E[Eq. (5)]: the exact gradient of the K-step objective."""

    def gradient(theta: Theta, own: Own, batch: Batch) -> Theta:
        P, c, rho = _as(theta, model, cost)

        def J_K(theta: Theta) -> Float[Array, ""]:
            return finite.truncated_objective(P, c, rho, gamma, K, finite.log_softmax_policy(theta, *cost.shape), tau)

        return jax.grad(J_K)(theta)

    return knowing(gradient, Tabular(model.P, cost, model.rho, gamma, tau))


def knowing(gradient: Callable[[Theta, Own, Batch], Theta], known: Tabular | None = None) -> Oracle:
    """An oracle that plays nothing and keeps nothing."""
    tell = None if known is None else lambda: known
    return Oracle(_nothing, _play_nothing, gradient, _no_steps, tabular=tell, B=0, anywhere=True)


def _as(theta: Theta, model: Dynamics, cost: Float[Array, "S A"]) -> tuple[Kernel, Array, Array]:
    """All numbers in theta's dtype."""
    return as_kernel(model.P, theta.dtype), jnp.asarray(cost, theta.dtype), jnp.asarray(model.rho, theta.dtype)


def _nothing(key: RngKey) -> Own:
    return ()


def _play_nothing(theta: Theta, own: Own, key: RngKey, B: int | None) -> tuple[Batch, Own]:
    return (), own


def _no_steps(batch: Batch) -> int:
    return 0
