"""The quantities of the paper's proofs, as functions of what happened in one round of one replica.

Expectations in the paper are means over replicas: `vmap` these functions over rounds with a leading axis.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from fastfedpg.core import Scalar

Steps = Float[Array, "N H d"]
Agents = Float[Array, "N d"]
Number = Float[Array, ""]


class Round(NamedTuple):
    """One round: gradients of J_i, of J_{i,K} and their estimates at every iterate theta_{i,l} and at theta_bar."""

    theta_bar: Float[Array, " d"]
    iterates: Steps  # theta_{i,l}, l = 0, …, H-1
    exact: Steps  # grad J_i(theta_{i,l})
    truncated: Steps  # grad_K J_i(theta_{i,l})
    noisy: Steps  # the estimate there
    exact_bar: Agents  # the same three at theta_bar
    truncated_bar: Agents
    noisy_bar: Agents  # what was sent


def drift(round: Round) -> Float[Array, "N H"]:
    """||Delta_{i,l}||^2 = ||theta_{i,l} - theta_bar||^2."""
    return jnp.sum((round.iterates - round.theta_bar) ** 2, axis=-1)


def v(round: Round) -> Steps:
    """v_{i,l} = grad J_i(theta_{i,l}) - grad J_i(theta_bar)."""
    return round.exact - round.exact_bar[:, None]


def h(round: Round) -> Steps:
    """h_i(theta_{i,l}): the estimate less its mean."""
    return round.noisy - round.truncated


def h_bar(round: Round) -> Agents:
    """h_i(theta_bar)."""
    return round.noisy_bar - round.truncated_bar


def e(round: Round) -> Steps:
    """e_i(theta_{i,l}) = grad_K J_i - grad J_i, the truncation error."""
    return round.truncated - round.exact


def e_bar(round: Round) -> Agents:
    """e_i(theta_bar)."""
    return round.truncated_bar - round.exact_bar


def V(round: Round) -> Steps:
    """Eq. (6) with exact gradients: grad J_i(theta_{i,l}) - grad J_i(theta_bar) + grad J(theta_bar)."""
    return v(round) + round.exact_bar.mean(axis=0)


def W(round: Round) -> Steps:
    """What noise and truncation add to it; V + W is the direction of Eq. (6)."""
    return h(round) + e(round) + _corrected(h_bar(round)) + _corrected(e_bar(round))


def direction(round: Round) -> Steps:
    """Eq. (6): the direction that agent i takes at local step l."""
    return round.noisy + _corrected(round.noisy_bar)


def T1(round: Round, alpha: Scalar) -> Number:
    """(20): -<grad J(theta_bar), alpha/(NH) sum grad J_i(theta_{i,l})>."""
    return -_grad(round) @ _mean(round.exact, alpha)


def T2(round: Round, alpha: Scalar) -> Number:
    """(21): <grad J(theta_bar), alpha/(NH) sum (grad J_i - grad_K J_i)(theta_{i,l})>."""
    return -_grad(round) @ _mean(e(round), alpha)


def T3(round: Round, alpha: Scalar, L: Scalar) -> Number:
    """(22): 2L ||alpha/(NH) sum grad J_i(theta_{i,l})||^2."""
    return 2 * L * _square(_mean(round.exact, alpha))


def T4(round: Round, alpha: Scalar, L: Scalar) -> Number:
    """(23): 2L ||alpha/(NH) sum h_i(theta_{i,l})||^2."""
    return 2 * L * _square(_mean(h(round), alpha))


def T4_alone(round: Round, alpha: Scalar, L: Scalar) -> Number:
    """T4 without its cross-terms, which have mean zero: 2 alpha^2 L/(NH)^2 sum ||h_i(theta_{i,l})||^2."""
    N, H, _ = round.noisy.shape
    return 2 * alpha**2 * L / (N * H) ** 2 * jnp.sum(h(round) ** 2)


def T5(round: Round, alpha: Scalar, L: Scalar) -> Number:
    """2L ||alpha/(NH) sum e_i(theta_{i,l})||^2."""
    return 2 * L * _square(_mean(e(round), alpha))


def noise_product(round: Round, alpha: Scalar) -> Number:
    """-<grad J(theta_bar), alpha/(NH) sum h_i(theta_{i,l})>: of mean zero, so that (19) leaves it out."""
    return -_grad(round) @ _mean(h(round), alpha)


def change(round: Round, alpha: Scalar) -> Float[Array, " d"]:
    """theta_bar^(t+1) - theta_bar^(t) = -alpha/(NH) sum of estimates: the corrections cancel in the mean."""
    return -_mean(round.noisy, alpha)


def _corrected(bar: Agents) -> Float[Array, "N 1 d"]:
    return (bar.mean(axis=0) - bar)[:, None]


def _grad(round: Round) -> Float[Array, " d"]:
    return round.exact_bar.mean(axis=0)


def _mean(x: Steps, alpha: Scalar) -> Float[Array, " d"]:
    return alpha * x.mean(axis=(0, 1))


def _square(x: Float[Array, " d"]) -> Number:
    return jnp.sum(x * x)
