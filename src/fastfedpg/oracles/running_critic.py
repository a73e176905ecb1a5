"""A critic that takes many steps on each batch, in units that follow what it sees."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from fastfedpg.core import RngKey, Scalar
from fastfedpg.errors import InputError
from fastfedpg.oracles.critic import moments

LEAST = 1e-8
"""A spread below this is none: what differs so little is not scaled up."""

SLOWEST = 0.1
"""How fast the critic's units follow the last batch, at least; the first batches count alike."""


class Kept(NamedTuple):
    """What an agent keeps: its critic, in which units that speaks, and the scales of advantages."""

    network: Any
    optimiser: Any
    batches: Any  # how many the critic has seen
    centre: Any
    scale: Any
    spread: Any  # of this agent's last advantages
    common: Any  # what gradients are divided by; 0 before there is any


def shuffled(key: RngKey, n: int, epochs: int, parts: int, what: str = "B K") -> Int[Array, "steps part"]:
    """The numbers 0, …, n - 1 in a random order for each epoch, in parts."""
    if n % parts:
        raise InputError(f"minibatches = {parts} does not divide {what} = {n}: take a number that does")
    every = jax.vmap(lambda e: jax.random.permutation(jax.random.fold_in(key, e), n))(jnp.arange(epochs))
    return every.reshape(epochs * parts, n // parts)


def rescaled(own: Kept, scale: Scalar) -> Kept:
    """What an agent keeps, with the scale of all agents, if there is one."""
    return own._replace(common=jnp.where(scale > 0, scale, own.common).astype(own.common.dtype))


def fitted(
    adam: Any,
    own: Kept,
    value: Callable[[Any, Any], Any],
    seen: Float[Array, "n o"],
    target: Float[Array, " n"],
    alive: Bool[Array, " n"],
    order: Int[Array, "steps part"],
) -> Kept:
    """The critic after its steps towards the target, in units that follow the targets."""
    mean, spread, _ = moments(target[None], alive[None])
    rate = jnp.maximum(1 / (own.batches + 1), SLOWEST)
    first = own.batches == 0
    centre = own.centre + rate * (mean - own.centre)
    square = (1 - rate) * own.scale**2 + rate * (spread**2 + (mean - own.centre) * (mean - centre))
    scale = jnp.where(first, spread, jnp.sqrt(square))
    scale = jnp.where(scale > LEAST, scale, own.scale)
    *layers, (W, b) = own.network
    kept = W * own.scale / scale, (own.scale * b + own.centre - centre) / scale
    network = jax.tree.map(lambda x, y: x.astype(y.dtype), [*layers, kept], own.network)
    goal = (target - centre) / scale

    def improve(carry: Any, part: Any) -> tuple[Any, None]:
        network, state = carry

        def error(network: Any) -> Any:
            off = value(network, seen[part]) - goal[part]
            return jnp.sum(jnp.where(alive[part], off**2, 0)) / len(part)

        change, state = adam.update(jax.grad(error)(network), state, network)
        return (jax.tree.map(lambda x, d: x + d, network, change), state), None

    (network, state), _ = lax.scan(improve, (network, own.optimiser), order)
    real = own.centre.dtype
    return own._replace(
        network=network,
        optimiser=state,
        batches=own.batches + 1,
        centre=centre.astype(real),
        scale=scale.astype(real),
    )
