"""Local steps of an agent, by any optimiser."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Int

from fastfedpg.answers import Batch, Carried, Oracle, Own, Replay, RngKey, Scalar, Theta
from fastfedpg.definitions import Info, count_dtype, squared_norm


class Optimiser(NamedTuple):
    """How a direction becomes a step: `init(theta)`, then `update(v, state, theta) -> (change of theta, state)`.

    These are the two functions of an `optax.GradientTransformation`. One that divides by the size of what it has seen
    may have a third, `corrected(v, g, state, theta)`: it is told the agent's own gradient g, of which an algorithm has
    made v, and divides by the size of that too. Near a common optimum v is small, and g need not be.
    """

    init: Callable[[Theta], Any]
    update: Callable[[Theta, Any, Theta], tuple[Theta, Any]]
    corrected: Callable[[Theta, Theta, Any, Theta], tuple[Theta, Any]] | None = None


MakeOptimiser: TypeAlias = Callable[[Scalar], Any]
"""From a step size to an Optimiser, or to one of optax."""


def sgd(eta: Scalar) -> Optimiser:
    """theta - eta v: the paper's."""
    return Optimiser(lambda theta: (), lambda v, state, theta: (-eta * v, state))


class AtServer(NamedTuple):
    """theta, and what the server's optimiser keeps."""

    theta: Theta
    kept: Any


def at_server(theta: Theta, kept: Any) -> Any:
    """The state of a server that has an optimiser: theta alone, where that keeps nothing."""
    return theta if kept == () else AtServer(theta, kept)


def theta_of(state: Any) -> Theta:
    """theta, of such a state."""
    theta: Theta = state.theta if isinstance(state, AtServer) else state
    return theta


def server_step(optimiser: Optimiser, state: Any, g: Theta) -> Any:
    """Such a state after a step against g."""
    theta, kept = state if isinstance(state, AtServer) else (state, ())
    change, kept = optimiser.update(g, kept, theta)
    return at_server(theta + change, kept)


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
    batch: Batch | None = None,
) -> tuple[Theta, Own, Info]:
    """Lines 4-8: theta_{l+1} = theta_l - eta direction(theta_l, g_i(theta_l)), l = 0, …, H-1, from theta_0 = theta_bar.

    Another optimiser than `sgd(eta)` starts afresh here, unless `own` has what it kept from the round before. With
    `first` given, it is used as g_i(theta_bar) and local step 0 samples nothing; with `batch`, played at theta_bar,
    local step 0 takes that. H may be traced, and each agent's own: then agents that are computed together wait for the
    last of them. `note` makes scalars of each step's theta and batch; their means over the steps are in `Info.extra`,
    where H is not traced.

    Where the oracle's batches serve several steps (`Oracle.replay`) a local step is all that its batch serves:
    corrected epochs, theta <- theta - eta direction(theta, g_i(theta; part)), and drift is added up over all of them.
    An oracle that bounds its steps (`Replay.bounded`) is given each direction first; where it says how much of a
    correction counts (`Replay.free`), the direction is g + free (direction - g).
    """

    corrected = getattr(optimiser, "corrected", None)  # optax's have two functions

    def step(theta: Theta, state: Any, g: Theta, bounded: Bounded = lambda v: v) -> tuple[Theta, Any]:
        v = bounded(direction(theta, g))
        change, state = optimiser.update(v, state, theta) if corrected is None else corrected(v, g, state, theta)
        return theta + change.astype(theta.dtype), state

    def serve(carry: Served, own: Own, batch: Batch, key: RngKey) -> tuple[Served, dict[str, Any]]:
        """What one batch serves."""
        theta, state, drift = carry
        if oracle.replay is None:
            new, state = step(theta, state, oracle.gradient(theta, own, batch))
            return Served(new, state, drift + squared_norm(theta - theta_bar)), note(theta, batch)
        served, logged = _replayed(oracle, step, carry, theta_bar, own, batch, key)
        return served, {**note(theta, batch), **logged}

    def body(carry: tuple[Served, Own, Any], l: Int[Array, ""]) -> tuple[tuple[Served, Own, Any], Any]:
        served, own, steps = carry
        drawn = jax.random.fold_in(key, l)
        batch, own = oracle.sample(served.theta, own, drawn, None)
        served, noted = serve(served, own, batch, drawn)
        return (served, own, steps + oracle.steps(batch)), noted

    if isinstance(H, int) and H < 1:
        raise ValueError(f"H = {H}; there must be at least 1 local step")
    served = Served(theta_bar, _kept(own, optimiser, theta_bar), jnp.zeros((), theta_bar.dtype))
    if first is not None:
        if oracle.replay is not None and oracle.replay.bounded is not None:
            raise ValueError("its first step is by a gradient alone, which this oracle can't bound without its batch")
        served = Served(*step(theta_bar, served.state, first), served.drift)
    elif batch is not None:
        served, noted = serve(served, own, batch, jax.random.fold_in(key, 0))
    carry = (served, own, jnp.zeros((), count_dtype()))
    sampled, extra = 0 if first is None and batch is None else 1, dict[str, Any]()
    if isinstance(H, int) and sampled < H:
        carry, noted = lax.scan(body, carry, jnp.arange(sampled, H, dtype=jnp.int32))
        extra = jax.tree.map(lambda x: jnp.mean(x), noted)
    elif isinstance(H, int):
        extra = {} if batch is None else noted
    else:
        carry = lax.fori_loop(sampled, H, lambda l, carry: body(carry, l)[0], carry)
    (theta, state, drift), own, steps = carry
    own = own._replace(optimiser=state) if isinstance(own, Carried) else own
    return theta, own, Info(drift, steps, extra)


Bounded: TypeAlias = Callable[[Theta], Theta]
"""What is taken in a direction's place."""


class Served(NamedTuple):
    """Where an agent is, what its optimiser keeps, and its drift so far."""

    theta: Theta
    state: Any
    drift: Any


SHUFFLE = 2**31 - 1
"""Folded into a batch's key for its parts: no trajectory's number."""


def _kept(own: Own, optimiser: Optimiser, theta: Theta) -> Any:
    return own.optimiser if isinstance(own, Carried) else optimiser.init(theta)


def _bound(replay: Replay, theta: Theta, own: Own, part: Batch, g: Theta) -> Bounded:
    """What is taken in the place of a direction v that was made of g."""
    if replay.bounded is not None:
        return partial(replay.bounded, theta, own, part, g)
    if replay.free is None:
        return lambda v: v
    free = jnp.asarray(replay.free(theta, part), g.dtype)
    return lambda v: g + free * (v - g)


def _replayed(
    oracle: Oracle,
    step: Callable[..., tuple[Theta, Any]],
    carry: Served,
    theta_bar: Theta,
    own: Own,
    batch: Batch,
    key: RngKey,
) -> tuple[Served, dict[str, Any]]:
    """All steps that a batch serves, and what is logged of them."""
    replay = oracle.replay
    assert replay is not None

    def again(carry: tuple[Served, Any], row: Any) -> tuple[tuple[Served, Any], Any]:
        (theta, state, drift), near = carry
        part = replay.part(batch, row)
        near = near & ~jnp.asarray(replay.far(theta, part))
        g = oracle.gradient(theta, own, part)
        new, after = step(theta, state, g, _bound(replay, theta, own, part, g))

        def keep(a: Any, b: Any) -> Any:
            return jnp.where(near, a, b)

        moved = Served(keep(new, theta), jax.tree.map(keep, after, state), drift + squared_norm(theta - theta_bar))
        return (moved, near), near

    order = replay.order(batch, jax.random.fold_in(key, SHUFFLE))
    (served, _), taken = lax.scan(again, (carry, jnp.bool_(True)), order)
    share = jnp.mean(taken.astype(carry.theta.dtype))
    return served, {"steps_taken": share, **replay.note(served.theta, batch)}


def check_share(name: str, value: Scalar) -> None:
    """Refuse a number outside (0, 1]; what is traced has no value yet."""
    if isinstance(value, int | float) and not 0 < value <= 1:
        raise ValueError(f"{name} = {value:g}; it must lie in (0, 1]")


def check_positive(name: str, value: Scalar | None) -> None:
    """Refuse a number that is not positive and finite; what is not given or traced has no value yet."""
    if isinstance(value, int | float) and not 0 < value < math.inf:
        raise ValueError(f"{name} = {value:g}; it must be positive and finite")
