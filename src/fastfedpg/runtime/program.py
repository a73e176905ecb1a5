"""The compiled part of a simulation: runs and agents by vmap, devices by shard_map, rounds by a loop inside XLA.

Programs are compiled once for the same algorithm, oracle, layout and shapes; the cache keeps those objects alive.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import NamedSharding

from fastfedpg import memory
from fastfedpg.core import (
    Algorithm,
    Exchange,
    Oracle,
    Task,
    Up,
    count_dtype,
    key_for,
)
from fastfedpg.runtime.placement import AGENTS, AXIS, EVERYWHERE, TASKS, Layout
from fastfedpg.runtime.round import begun, combined, heard, reply, served
from fastfedpg.runtime.round import policies as policies_of
from fastfedpg.runtime.run_state import Parts
from fastfedpg.runtime.schedule import participants_of

Maker: TypeAlias = Algorithm | Callable[[Any], Algorithm]
"""An algorithm, or for a sweep a function from one setting to an algorithm."""


MAPPINGS = 20_000
"""Compiled programs take dozens each of the 65,530 that a process is given, and without any XLA crashes."""


SECONDS = 5.0
"""To count mappings takes 10 ms; in so many seconds no process compiles what would use up all that are left."""

_looked = [-SECONDS]


def make_room(most: int = MAPPINGS) -> None:
    """Forget what was compiled before, where it is so much that the next program might find no room."""
    now = time.monotonic()
    if now - _looked[0] < SECONDS:
        return
    _looked[0] = now
    if memory.mappings() > most:
        jax.clear_caches()


class Counts(NamedTuple):
    """What happened in some rounds; the host adds it up, so that it never grows large."""

    drift: Any  # (N,) each agent's part in the last round
    steps: Any  # (N,) environment steps of each agent
    taken: Any  # (N,) rounds that each agent took part in
    extra: dict[str, Any]  # each (N,) what else was logged in the last round: 0 where an agent took no part
    bad: Any  # (shards, 3) round, exchange and agent of each shard's first non-finite message; -1 where there is none


def algorithm_of(make: Maker, setting: Any) -> Algorithm:
    """The algorithm itself, for one setting of a sweep."""
    return make if isinstance(make, Algorithm) else make(setting)


def specs(per_agent: bool) -> Parts:
    """What of a run is split over the devices, and what is the same on all of them."""
    server = AGENTS if per_agent else EVERYWHERE
    return Parts(server, server, AGENTS, AGENTS)


def _specs(make: Maker, settings: Any) -> Parts:
    return specs(algorithm_of(make, jax.tree.map(lambda x: x[0], settings)).per_agent)


@partial(jax.jit, static_argnums=(0, 1, 2))
def begin(
    make: Maker,
    oracle: Callable[[Task], Oracle],
    layout: Layout,
    tasks: Any,
    ids: Any,
    settings: Any,
    seeds: Any,
    thetas: Any,
) -> Parts:
    """All runs before their first round."""

    def one(setting: Any, seed: Any, theta: Any) -> Parts:
        algorithm = algorithm_of(make, setting)
        state, down, memory = algorithm.init(theta, len(ids))
        begin = lambda task, i, memory: begun(algorithm, oracle(task), theta, memory, key_for(seed, 0, "own", i))
        return Parts(state, down, *jax.vmap(begin)(tasks, ids, memory))

    parts = jax.vmap(one)(settings, seeds, thetas)
    if layout.mesh is None:
        return parts
    where = Parts(*(NamedSharding(layout.mesh, spec) for spec in _specs(make, settings)))
    return lax.with_sharding_constraint(parts, where)


@partial(jax.jit, static_argnums=(0, 1, 2), static_argnames="extras")
def advance(
    make: Maker,
    oracle: Callable[[Task], Oracle],
    layout: Layout,
    tasks: Any,
    ids: Any,
    settings: Any,
    seeds: Any,
    parts: Parts,
    first: Any,
    stop: Any,
    extras: tuple[str, ...] = (),
) -> tuple[Parts, Counts]:
    """All runs from one round to another. The only thing that devices tell each other is what `combine` needs.

    `extras` are the names of what the agents log beside drift and steps.
    """

    def every(
        tasks: Any, ids: Any, settings: Any, seeds: Any, parts: Parts, first: Any, stop: Any
    ) -> tuple[Parts, Counts]:
        def one(setting: Any, seed: Any, parts: Parts) -> tuple[Parts, Counts]:
            algorithm = algorithm_of(make, setting)
            none = jnp.zeros(len(ids), count_dtype())
            drift = jnp.zeros(len(ids), algorithm.policy(parts.state).dtype)
            counts = Counts(drift, none, none, dict.fromkeys(extras, drift), jnp.full(3, -1, jnp.int32))
            body = partial(_round, algorithm, oracle, layout, tasks, ids, seed)
            parts, counts = lax.fori_loop(first, stop, body, (parts, counts))
            return parts, counts._replace(bad=counts.bad[None])

        return jax.vmap(one)(settings, seeds, parts)

    if layout.mesh is not None:
        where = _specs(make, settings)
        given = (TASKS, TASKS, EVERYWHERE, EVERYWHERE, where, EVERYWHERE, EVERYWHERE)
        every = jax.shard_map(every, mesh=layout.mesh, in_specs=given, out_specs=(where, AGENTS), check_vma=False)
    return every(tasks, ids, settings, seeds, parts, first, stop)


@partial(jax.jit, static_argnums=0)
def policies(make: Maker, settings: Any, states: Any, memories: Any) -> Any:
    """Each run's policy, or its agents' own."""
    one = lambda setting, state, memory: policies_of(algorithm_of(make, setting), state, memory)
    return jax.vmap(one)(settings, states, memories)


def _round(
    algorithm: Algorithm,
    oracle: Callable[[Task], Oracle],
    layout: Layout,
    tasks: Any,
    ids: Any,
    seed: Any,
    t: Any,
    carry: tuple[Parts, Counts],
) -> tuple[Parts, Counts]:
    """One communication round: the participants answer, their answers are combined, the server moves on."""
    per_agent, share = algorithm.per_agent, layout.m / (len(ids) * layout.shards)
    some = _taking_part(layout, seed, t, len(ids))
    tasks, ids = some.take(tasks), some.take(ids)

    def exchange(number: int, e: Exchange, carry: tuple[Parts, Counts]) -> tuple[Parts, Counts]:
        (state, down, memory, own), (moved, steps, taken, extra, bad) = carry
        ask = partial(_answer, e, oracle, seed, t, None if per_agent else down)
        given = (tasks, ids, some.take(memory), some.take(own), some.take(down) if per_agent else ())
        new_memory, new_own, ups, info = _in_batches(ask, layout.batch, given)
        memory, own = some.put(memory, new_memory), some.put(own, new_own)
        moved = some.put(moved, some.take(moved) + jnp.asarray(info.drift).astype(moved.dtype))
        steps = some.put(steps, some.take(steps) + info.steps)
        said = {name: jnp.asarray(x).astype(moved.dtype) for name, x in info.extra.items()}
        extra = {**extra, **some.put({name: jnp.zeros_like(moved) for name in said}, said)}
        bad = _note(bad, t, number, ids, some.absent | _finite(ups))
        key = key_for(seed, t, e.name)
        up = _combined(e, layout, some, ups, key)
        if per_agent:
            new = served(e, share, some.take(state), up, key, ids)
            state, down = some.put(state, new[0]), some.put(down, new[1])
        else:
            state, down = served(e, share, state, up, key)
        return Parts(state, down, memory, own), Counts(moved, steps, taken, extra, bad)

    parts, counts = carry
    nothing = jnp.zeros_like(counts.drift)
    carry = parts, counts._replace(drift=nothing, extra=dict.fromkeys(counts.extra, nothing + jnp.nan))
    for number, e in enumerate(algorithm.exchanges):
        ask = partial(exchange, number, e)
        carry = ask(carry) if number >= algorithm.opening else lax.cond(t == 0, ask, lambda same: same, carry)
    parts, counts = carry
    bad = _note(counts.bad, t, -1, ids, jnp.isfinite(algorithm.policy(parts.state)).all()[None])
    return parts, counts._replace(bad=bad, taken=some.put(counts.taken, some.take(counts.taken) + 1))


def _answer(
    e: Exchange, oracle: Callable[[Task], Oracle], seed: Any, t: Any, common: Any, task: Any, i: Any, *rest: Any
) -> Any:
    memory, own, given = rest
    down = given if common is None else common
    memory, own, sent, info = reply(e, memory, own, down, oracle(task), key_for(seed, t, e.name, i))
    return memory, own, heard(e, sent), info


def _in_batches(f: Callable[..., Any], batch: int | None, given: tuple[Any, ...]) -> Any:
    """vmap, or as many vmaps of so many agents, one after the other."""
    if batch is None:
        return jax.vmap(f)(*given)
    blocks = jax.tree.map(lambda x: x.reshape(len(x) // batch, batch, *x.shape[1:]), given)
    answers = lax.map(lambda block: jax.vmap(f)(*block), blocks)
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), answers)


class Some(NamedTuple):
    """Who of a device's n agents takes part in a round: `take` picks those that are computed, `put` puts them back."""

    who: Any  # (m,) positions of all participants
    take: Callable[[Any], Any]
    put: Callable[[Any, Any], Any]
    absent: Any  # of those that are computed, which do not take part
    n: int  # of all on this device


def _taking_part(layout: Layout, seed: Any, t: Any, n: int) -> Some:
    """One device gathers the participants; several compute all of theirs, and forget what the others have said."""
    N, none = n * layout.shards, jnp.zeros((), bool)
    who = participants_of(seed, t, N, layout.m, layout.order, layout.speeds)
    if _all_in_order(layout, N):
        return Some(who, lambda tree: tree, lambda tree, new: new, none, n)
    if layout.mesh is None:
        take = lambda tree: jax.tree.map(lambda x: x[who], tree)
        return Some(who, take, lambda tree, new: jax.tree.map(lambda x, v: x.at[who].set(v), tree, new), none, n)
    here = _own(jnp.zeros(N, bool).at[who].set(True), n)
    keep = lambda x, v: jnp.where(here.reshape(n, *(1,) * (x.ndim - 1)), v, x)
    return Some(who, lambda tree: tree, lambda tree, new: jax.tree.map(keep, tree, new), ~here, n)


def _all_in_order(layout: Layout, N: int) -> bool:
    return layout.m == N and layout.order != "arrival"


def _own(x: Any, n: int) -> Any:
    """A device's own n agents, of all N."""
    return lax.dynamic_slice_in_dim(x, lax.axis_index(AXIS) * n, n)


def _combined(e: Exchange, layout: Layout, some: Some, ups: Up, key: Any) -> Up:
    """What the server sees. Where a device has a power-of-two block of agents that can be summed, only sums travel."""
    n = some.n
    N, combine = n * layout.shards, e.combine.of(n * layout.shards)
    if layout.mesh is None or not combine.sent:
        return combined(e, N, ups, some.who, key)
    gather = lambda tree: jax.tree.map(lambda x: lax.all_gather(x, AXIS, tiled=True), tree)
    if combine.block is not None and combine.finish is not None and _all_in_order(layout, N) and n & (n - 1) == 0:
        return combine.finish(gather(combine.block(ups)), ups, N)
    up = combined(e, N, jax.tree.map(lambda x: x[some.who], gather(ups)), some.who, key)
    if combine.per_agent:
        up = jax.tree.map(lambda x: _own(jnp.zeros((N, *x.shape[1:]), x.dtype).at[some.who].set(x), n), up)
    return up


def _finite(tree: Any) -> Any:
    """For each agent, whether all of its message is finite."""
    flags = [jnp.isfinite(x).reshape(x.shape[0], -1).all(axis=1) for x in jax.tree.leaves(tree)]
    return jnp.stack(flags).all(axis=0)


def _note(bad: Any, t: Any, exchange: int, ids: Any, finite: Any) -> Any:
    seen = jnp.stack([jnp.int32(t), jnp.int32(exchange), jnp.int32(ids[jnp.argmin(finite)])])
    return jnp.where((bad[0] < 0) & ~finite.all(), seen, bad)
