"""Local steps of an agent, by any optimiser."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Int

from fastfedpg.definitions import Batch, Info, Oracle, Own, RngKey, Scalar, Theta, count_dtype, squared_norm


class Optimiser(NamedTuple):
    """How a direction becomes a step: `init(theta)`, then `update(v, state, theta) -> (change of theta, state)`.

    These are the two functions of an `optax.GradientTransformation`.
    """

    init: Callable[[Theta], Any]
    update: Callable[[Theta, Any, Theta], tuple[Theta, Any]]


MakeOptimiser: TypeAlias = Callable[[Scalar], Any]
"""From a step size to an Optimiser, or to one of optax."""


def sgd(eta: Scalar) -> Optimiser:
    """theta - eta v: the paper's."""
    return Optimiser(lambda theta: (), lambda v, state, theta: (-eta * v, state))


def local_steps(
    oracle: Oracle,
    direction: Callable[[Theta, Theta], Theta],
    optimiser: Optimiser,
    theta_bar: Theta,
    own: Own,
    key: RngKey,
    H: int | Int[Array, ""],
    first: Theta | None = None,
    note: Callable[[Theta, Batch], dict[str, Any]] = lambda theta, batch: {},
) -> tuple[Theta, Own, Info]:
    """Lines 4-8: theta_{l+1} = theta_l - eta direction(theta_l, g_i(theta_l)), l = 0, …, H-1, from theta_0 = theta_bar.

    Another optimiser than `sgd(eta)` starts afresh here, so that nothing of it outlives the round. With `first` given,
    it is used as g_i(theta_bar) and local step 0 samples nothing. H may be traced, and each agent's own: then agents
    that are computed together wait for the last of them. `note` makes scalars of each step's theta and batch; their
    means over the steps are in `Info.extra`, where H is not traced.
    """

    def step(theta: Theta, state: Any, g: Theta) -> tuple[Theta, Any]:
        change, state = optimiser.update(direction(theta, g), state, theta)
        return theta + change.astype(theta.dtype), state

    def body(carry: tuple[Theta, Any, Own, Info], l: Int[Array, ""]) -> tuple[tuple[Theta, Any, Own, Info], Any]:
        theta, state, own, info = carry
        batch, own = oracle.sample(theta, own, jax.random.fold_in(key, l), None)
        new, state = step(theta, state, oracle.gradient(theta, own, batch))
        drift, steps = info.drift + squared_norm(theta - theta_bar), info.steps + oracle.steps(batch)
        return (new, state, own, Info(drift, steps)), note(theta, batch)

    if isinstance(H, int) and H < 1:
        raise ValueError(f"H = {H}; there must be at least 1 local step")
    theta, state = theta_bar, optimiser.init(theta_bar)
    if first is not None:
        theta, state = step(theta, state, first)
    carry = (theta, state, own, Info(jnp.zeros((), theta.dtype), jnp.zeros((), count_dtype())))
    sampled, extra = 0 if first is None else 1, dict[str, Any]()
    if isinstance(H, int):
        carry, noted = lax.scan(body, carry, jnp.arange(sampled, H, dtype=jnp.int32))
        extra = jax.tree.map(lambda x: jnp.mean(x), noted)
    else:
        carry = lax.fori_loop(sampled, H, lambda l, carry: body(carry, l)[0], carry)
    theta, _, own, info = carry
    return theta, own, info._replace(extra=extra)


def check_share(name: str, value: Scalar) -> None:
    """Refuse a number outside (0, 1]; what is traced has no value yet."""
    if isinstance(value, int | float) and not 0 < value <= 1:
        raise ValueError(f"{name} = {value:g}; it must lie in (0, 1]")


def check_positive(name: str, value: Scalar | None) -> None:
    """Refuse a number that is not positive and finite; what is not given or traced has no value yet."""
    if isinstance(value, int | float) and not 0 < value < math.inf:
        raise ValueError(f"{name} = {value:g}; it must be positive and finite")
