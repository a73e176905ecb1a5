"""FedKL, after Xie and Song, "Tackling Data Heterogeneity in Federated RL by Penalizing KL Divergence" (2023)."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from fastfedpg.core import (
    Algorithm,
    Batch,
    Exchange,
    Info,
    Oracle,
    Own,
    RngKey,
    Scalar,
    Theta,
    check_positive,
    count_dtype,
    squared_norm,
)

MOST, CAP, CUT = 20.0, 10.0, 1e-8
"""The largest penalties, the largest ratio of probabilities, and what a KL below a square root is at least."""

PARTS = 2**31 - 1
"""Folded into a batch's key for how it is split: no trajectory's number."""


class Penalties(NamedTuple):
    """What an agent keeps: the weights of its two penalties."""

    beta: Any
    sigma: Any


def fedkl(
    eta: Scalar,
    H: int,
    beta: float = 0.01,
    sigma: float = 0.001,
    epochs: int = 1,
    minibatches: int = 1,
    kl_target: float | None = None,
    nm_target: float | None = None,
) -> Algorithm:
    """Local proximal steps that stay near the last policy and near the one that the round began with, then the average.

        L(x) = (1/B) sum_{b,k} min(pi_x/pi_old, 10) credit_{b,k} + beta mean KL(pi_old || pi_x)
               + sigma mean sqrt(max(KL(pi_anchor || pi_x), 1e-8))
        x <- x - eta grad L(x) on parts of one batch of pi_old;  old = x, H times;  theta+ = mean_i x

    old is the agent's last iterate, the anchor the round's theta. `credit` is the oracle's weight of each score, so at
    x = old the gradient of the first term is its estimate; the first penalty has none there, and the second is cut: the
    first step is plain PG, and with beta = sigma = 0 and one part this is fedavg_pg. Both means are over all steps of
    the part. An epoch splits the batch's trajectories at random into `minibatches` parts.

    With targets the penalties of an agent adapt after each batch, as in the authors' code: beta doubles if mean
    KL(pi_old || pi_x) is above 1.1 kl_target and halves if below kl_target/1.1, within [1e-8, 20]; sigma likewise by
    mean sqrt KL(pi_anchor || pi_x) and nm_target, within [sigma, 20]. There the upper ends are min(max Adv/KL, 20) and
    min(max Adv/nm, 20), so lower where a batch has small advantages, and nm_target falls with the rounds, by a default
    of the class; here both stay.

    Use it where each batch is to serve several steps. Do not where gradients are exact, since nothing is played then,
    nor to remove the bias of heterogeneity: penalties hold agents back, and nothing corrects them.

    Args:
        beta: weight of the first penalty.
        sigma: weight of the second one.
        epochs: passes over each batch.
        minibatches: parts of a batch, a step each; at most as many as it has trajectories.
        kl_target: what beta adapts to; it stays unless given.
        nm_target: what sigma adapts to; it stays unless given.
    """
    for name, value in (("H", H), ("epochs", epochs), ("minibatches", minibatches)):
        if value < 1:
            raise ValueError(f"{name} = {value}; it must be at least 1")
    for name, weight in (("beta", beta), ("sigma", sigma)):
        if isinstance(weight, float | int) and not 0 <= weight < float("inf"):
            raise ValueError(f"{name} = {weight:g}; a penalty must be finite and at least 0")
    check_positive("kl_target", kl_target)
    check_positive("nm_target", nm_target)

    def fit(oracle: Oracle, anchor: Theta, old: Theta, own: Own, batch: Batch, now: Penalties, key: RngKey) -> Any:
        assert oracle.credit is not None
        credit = lax.stop_gradient(oracle.credit(old, own, batch))
        B = len(credit)
        parts = min(minibatches, B)

        def step(x: Theta, n: Any) -> tuple[Theta, None]:
            order = jax.random.permutation(jax.random.fold_in(key, n // parts), B)
            part = (order * parts) // B == n % parts
            grad = jax.grad(surrogate)(x, oracle, anchor, old, batch, credit, part, *now)
            return x - (eta * grad).astype(x.dtype), None

        x, _ = lax.scan(step, old, jnp.arange(epochs * parts))
        every = jnp.ones(B, bool)
        return x, *penalties(x, oracle, anchor, old, batch, every)

    def adapted(now: Penalties, KL: Any, root: Any) -> Penalties:
        def one(weight: Any, found: Any, target: float | None, least: float) -> Any:
            if target is None:
                return weight
            factor = jnp.where(found > 1.1 * target, 2.0, jnp.where(found < target / 1.1, 0.5, 1.0))
            return jnp.clip(factor * weight, least, MOST).astype(weight.dtype)

        return Penalties(one(now.beta, KL, kl_target, CUT), one(now.sigma, root, nm_target, sigma))

    def send_parameters(
        kept: Penalties, own: Own, theta: Theta, oracle: Oracle, key: RngKey
    ) -> tuple[Penalties, Own, Theta, Info]:
        def local(carry: Any, l: Any) -> Any:
            x, own, kept, info = carry
            drawn = jax.random.fold_in(key, l)
            batch, own = oracle.sample(x, own, drawn, None)
            new, KL, root = fit(oracle, theta, x, own, batch, kept, jax.random.fold_in(drawn, PARTS))
            info = Info(info.drift + squared_norm(x - theta), info.steps + oracle.steps(batch))
            return (new, own, adapted(kept, KL, root), info), None

        info = Info(jnp.zeros((), theta.dtype), jnp.zeros((), count_dtype()))
        (x, own, kept, info), _ = lax.scan(local, (theta, own, kept, info), jnp.arange(H, dtype=jnp.int32))
        return kept, own, x, info

    def init(theta: Theta, N: int) -> tuple[Theta, Theta, Penalties]:
        return theta, theta, Penalties(*(jnp.full(N, weight, theta.dtype) for weight in (beta, sigma)))

    average = lambda theta, x, share, key: (x, x)
    exchange = Exchange("local", send_parameters, average)
    return Algorithm(init, (exchange,), policy=lambda theta: theta, needs=("log_prob", "credit", "kl"))


def penalties(x: Theta, oracle: Oracle, anchor: Theta, old: Theta, batch: Batch, part: Any) -> tuple[Any, Any]:
    """mean KL(pi_old || pi_x) and mean sqrt KL(pi_anchor || pi_x) over the steps of a part of the trajectories."""
    assert oracle.kl is not None
    KL, far = oracle.kl(old, x, batch), oracle.kl(anchor, x, batch)
    share = part[:, None] / (jnp.sum(part) * KL.shape[1])
    return jnp.sum(share * KL), jnp.sum(share * jnp.sqrt(jnp.maximum(far, CUT)))


def surrogate(
    x: Theta, oracle: Oracle, anchor: Theta, old: Theta, batch: Batch, credit: Any, part: Any, beta: Any, sigma: Any
) -> Any:
    """L(x) on a part of the trajectories."""
    assert oracle.log_prob is not None
    ratio = jnp.exp(oracle.log_prob(x, batch) - lax.stop_gradient(oracle.log_prob(old, batch)))
    gain = jnp.sum(jnp.where(part[:, None], jnp.minimum(ratio, CAP) * credit, 0)) / jnp.sum(part)
    KL, root = penalties(x, oracle, anchor, old, batch, part)
    return gain + beta * KL + sigma * root
