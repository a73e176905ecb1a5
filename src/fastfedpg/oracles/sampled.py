"""Oracles that play: Eq. (5) to the letter (`reinforce`), and its causal form (`gpomdp`).

Both are sums of weighted scores, sum_{b,k} w_{b,k} grad log pi(a_k|s_k), and differ in the weights alone.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int

from fastfedpg import mdp
from fastfedpg.core import Oracle, Own, RngKey, Theta
from fastfedpg.errors import InputError

Weights = Callable[[Float[Array, "B K"]], Float[Array, "B K"]]
"""From discounted costs gamma^t r_t to the weight of each step's score."""


class Draw(NamedTuple):
    """Distributions to draw from by inverting their distribution function: outcome number sum_j [u >= below_j].

    Only outcomes of positive probability are kept, so a row is as wide as the widest support.
    """

    outcome: Array | np.ndarray  # (…, W) int32
    below: Array | np.ndarray  # (…, W - 1) float32


class Model(NamedTuple):
    """The dynamics as tables to draw from."""

    next: Draw
    first: Draw


class Trajectories(NamedTuple):
    """B roll-outs of K steps."""

    states: Int[Array, "B K"]
    actions: Int[Array, "B K"]


def tabulate(p: np.ndarray) -> Draw:
    """Distributions in the last axis, as tables; thresholds are rounded once, to float32."""
    width = int((p > 0).sum(axis=-1).max())
    order = np.argsort(p <= 0, axis=-1, kind="stable")[..., :width]
    kept = np.take_along_axis(p, order, axis=-1)
    below = np.cumsum(kept, axis=-1)
    remaining = np.cumsum(kept[..., ::-1], axis=-1)[..., ::-1] - kept  # what lies above each outcome
    below = np.where(remaining > 0, below, 2.0)  # the last possible outcome takes all that is left
    return Draw(order.astype(np.int32), below[..., :-1].astype(np.float32))


def prepare(P: np.ndarray, rho: np.ndarray) -> Model:
    """The dynamics of one agent, or with a leading axis of all of them."""
    return Model(tabulate(P), tabulate(rho))


def draw(table: Draw, index: tuple[Int[Array, ""], ...], u: Float[Array, ""]) -> Int[Array, ""]:
    """The outcome of row `index` for a uniform number u."""
    return table.outcome[(*index, jnp.sum(u >= table.below[index]))]


def play(model: Model, log_pi: Float[Array, "S A"], key: RngKey, K: int) -> tuple[Int[Array, " K"], Int[Array, " K"]]:
    """One trajectory of K steps, two uniform numbers each: one for the state, one for the action."""
    below = jnp.cumsum(jnp.exp(log_pi.astype(jnp.float32)), axis=1)[:, :-1]
    u = jax.random.uniform(key, (K, 2), jnp.float32)

    def act(s: Int[Array, ""], u: Float[Array, ""]) -> Int[Array, ""]:
        return jnp.sum(u >= below[s], dtype=jnp.int32)

    def step(sa: tuple[Array, Array], u: Float[Array, "2"]) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        s = draw(model.next, sa, u[0])
        a = act(s, u[1])
        return (s, a), (s, a)

    s = draw(model.first, (), u[0, 0])
    first = (s, act(s, u[0, 1]))
    _, rest = lax.scan(step, first, u[1:])
    states, actions = (jnp.concatenate([x[None], xs]) for x, xs in zip(first, rest, strict=True))
    return states, actions


def _oracle(
    model: Model, cost: Float[Array, "S A"], gamma: float, tau: float, B: int, K: int, weights: Weights
) -> Oracle:
    S, A = cost.shape
    model = jax.tree.map(jnp.asarray, model)

    def sample(theta: Theta, own: Own, key: RngKey, size: int | None) -> tuple[Trajectories, Own]:
        n = B if size is None else size
        if n < 1:
            raise InputError(f"{n} trajectories were asked for; an estimate needs at least 1")
        log_pi = mdp.log_softmax_policy(theta, S, A)
        keys = jax.vmap(lambda b: jax.random.fold_in(key, b))(jnp.arange(n))
        return Trajectories(*jax.vmap(lambda k: play(model, log_pi, k, K))(keys)), own

    def gradient(theta: Theta, own: Own, batch: Trajectories) -> Theta:
        log_pi = mdp.log_softmax_policy(theta, S, A)
        visited = batch.states * A + batch.actions
        r = (cost.astype(theta.dtype) + tau * log_pi).reshape(-1)[visited]
        w = weights(jnp.asarray(gamma, theta.dtype) ** jnp.arange(K) * r) / len(visited)
        # A score is e_{s,a} - pi(.|s) in row s, so the weighted sum of scores needs only each pair's total weight.
        total = jnp.zeros(S * A, theta.dtype).at[visited].add(w).reshape(S, A)
        return (total - jnp.exp(log_pi) * total.sum(axis=1, keepdims=True)).reshape(-1)

    return Oracle(lambda key: (), sample, gradient, lambda batch: batch.states.size)


def reinforce(model: Model, cost: Float[Array, "S A"], gamma: float, B: int, K: int, tau: float = 0.0) -> Oracle:
    """Eq. (5) to the letter, averaged over B trajectories: (sum_t gamma^t r_t) (sum_k grad log pi(a_k|s_k))."""
    return _oracle(model, cost, gamma, tau, B, K, lambda r: jnp.broadcast_to(r.sum(axis=1, keepdims=True), r.shape))


def gpomdp(
    model: Model,
    cost: Float[Array, "S A"],
    gamma: float,
    B: int,
    K: int,
    tau: float = 0.0,
    baseline: Literal["none", "leave-one-out"] = "none",
) -> Oracle:
    """The causal form, sum_k grad log pi(a_k|s_k) (sum_{t>=k} gamma^t r_t - b_k), with the mean of Eq. (5).

    The leave-one-out baseline b_k of a trajectory is the mean of sum_{t>=k} gamma^t r_t over the B - 1 others, which is
    independent of its own scores; the whole batch's mean is not, and would shrink the gradient by (B-1)/B.
    """

    def weights(r: Float[Array, "B K"]) -> Float[Array, "B K"]:
        to_go = jnp.cumsum(r[:, ::-1], axis=1)[:, ::-1]
        if baseline == "none":
            return to_go
        if len(r) < 2:
            raise InputError("the leave-one-out baseline needs at least 2 trajectories; B (or B0) = 1 has no others")
        return to_go - (to_go.sum(axis=0) - to_go) / (len(r) - 1)

    return _oracle(model, cost, gamma, tau, B, K, weights)
