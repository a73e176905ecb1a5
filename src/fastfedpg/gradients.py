"""What an agent makes of its oracle's answers: estimates, and gradients on batches that another theta has played."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fastfedpg.answers import Batch, Oracle, Own, RngKey, Theta


def estimate(oracle: Oracle, theta: Theta, own: Own, key: RngKey, B: int | None = None) -> tuple[Theta, Own, int]:
    """Play pi_theta and estimate the gradient there; B trajectories, or the oracle's own number of them."""
    batch, own = oracle.sample(theta, own, key, B)
    return oracle.gradient(theta, own, batch), own, oracle.steps(batch)


def trajectories(oracle: Oracle, n: int) -> int:
    """n times as many as an estimate has by itself: 0 where nothing is played."""
    if oracle.B is None:
        raise ValueError("the oracle does not say how many trajectories its estimates have: give it B, 0 for none")
    return n * oracle.B


WEIGHTS = ("anywhere or log_prob", "anywhere or credit")
"""What `weighted_gradient` needs of an oracle."""


def log_weights(oracle: Oracle, theta: Theta, played: Theta, batch: Batch) -> Float[Array, " B"]:
    """log w of each trajectory, w = p(tau|theta)/p(tau|played) = prod_k pi_theta(a_k|s_k)/pi_played(a_k|s_k)."""
    if oracle.anywhere:
        return jnp.zeros(1, theta.dtype)
    log_prob = _answer(oracle, "log_prob")
    return jnp.sum(log_prob(theta, batch) - log_prob(played, batch), axis=1)


def weighted_gradient(oracle: Oracle, theta: Theta, played: Theta, own: Own, batch: Batch) -> Theta:
    """An estimate of the gradient at theta from a batch that another theta has played: mean_b w_b g(tau_b|theta).

    With these weights its mean is that of trajectories played with theta itself: E_q[(p/q) g] = E_p[g]. Of an oracle
    that can be asked anywhere it is the gradient at theta, without weights.
    """
    if oracle.anywhere:
        return oracle.gradient(theta, own, batch)
    w = jnp.exp(log_weights(oracle, theta, played, batch))
    of_scores = w[:, None] * _answer(oracle, "credit")(theta, own, batch) / len(w)
    (g,) = jax.vjp(lambda theta: _answer(oracle, "log_prob")(theta, batch), theta)[1](of_scores)
    return g


def effective_share(log_w: Float[Array, " B"]) -> Float[Array, ""]:
    """The effective number of trajectories with weights w, as a share of all B: (sum w)^2 / (B sum w^2)."""
    add = jax.scipy.special.logsumexp
    return jnp.exp(2 * add(log_w) - add(2 * log_w)) / len(log_w)


def _answer(oracle: Oracle, name: str) -> Callable[..., Any]:
    found: Callable[..., Any] | None = getattr(oracle, name)
    if found is None:
        raise ValueError(f"this oracle does not answer {name}, and its batches are those of one theta alone")
    return found


def room_for_a_batch(oracle: Oracle, theta: Theta, own: Own, key: RngKey, B: int | None = None) -> Batch:
    """Zeros in the form of a batch; nothing is played."""
    form = jax.eval_shape(lambda theta, own, key: oracle.sample(theta, own, key, B)[0], theta, own, key)
    return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), form)
