"""The compiled simulation: agents, seeds and settings by vmap, local steps and rounds inside one XLA program."""

import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from fastfedpg.core import Algorithm, Down, Memory, Oracle, Own, Problem, State, Task, count_dtype, key_for
from fastfedpg.errors import InputError
from fastfedpg.runtime.record import Diverged, Record, Result, Schedule, checked, gather, message_sizes, participants_of
from fastfedpg.runtime.standing import Standing, Tick, unheard

RESPONSE_SECONDS = 0.5
"""The compiled program comes up for air about this often, for progress and Ctrl-C."""

Maker: TypeAlias = Algorithm | Callable[[Any], Algorithm]
"""An algorithm, or for a sweep a function from one setting to an algorithm."""


def simulate(
    problem: Problem,
    algorithm: Maker,
    rounds: int,
    seeds: int = 1,
    metrics_every: int = 1,
    participants: int | None = None,
    theta0: Any = None,
    first_seed: int = 0,
    sweep: Any = None,
) -> Result:
    """Run all seeds at once, compiled; a second call with the same objects compiles nothing.

    Args:
        problem: from `problems.with_oracle`, or your own.
        algorithm: an Algorithm; or, with `sweep`, a function from one setting to an Algorithm.
        rounds, seeds, metrics_every, participants, theta0, first_seed: see `Schedule`.
        sweep: settings to vmap over, for example step sizes (E,); results then have the leading axes (E, seeds).

    Example:
        >>> from fastfedpg import fast_fedpg, problems, simulate
        >>> p = problems.with_oracle(problems.compromise(), "exact")
        >>> result = simulate(p, lambda eta: fast_fedpg(eta, H=10), rounds=5, sweep=[0.1, 0.5])
        >>> result.metrics["gap"].shape
        (2, 1, 6)
    """
    schedule = Schedule(rounds, seeds, metrics_every, participants, theta0, first_seed)
    example, settings = _checked(problem, algorithm, schedule, sweep)
    sizes = message_sizes(problem, example, schedule.starts(problem)[0])
    shape = (seeds,) if sweep is None else (len(jax.tree.leaves(settings)[0]), seeds)
    return gather(simulate_records(problem, algorithm, schedule, sweep=sweep), sizes, shape)


class Carry(NamedTuple):
    """One run between two rounds. Counters are emptied whenever the host is heard, so that they never grow large."""

    state: State
    down: Down
    memory: Memory
    own: Own
    drift: Any  # of the last round
    steps: Any  # (N,) environment steps of each agent
    taken: Any  # (N,) rounds that each agent took part in
    bad: Any  # (round, exchange, agent) of the first non-finite message; -1 where there is none


def simulate_records(
    problem: Problem,
    algorithm: Maker,
    schedule: Schedule,
    tick: Tick = unheard,
    start: Standing | None = None,
    pause: int | None = None,
    sweep: Any = None,
) -> Iterator[Record]:
    """The run as it goes, record by record; `tick` hears about twice a second how many rounds are done.

    With `start` it goes on from there; with `pause`, `tick` hears of every round that is a multiple of it.

    In a sweep a setting that diverges has NaN from then on and the others go on, as long as there are any.
    """
    if start is not None and sweep is not None:
        raise InputError("a sweep can't go on from a standing; start= and sweep= exclude each other")
    example, settings = _checked(problem, algorithm, schedule, sweep)
    theta, seeds = schedule.starts(problem), schedule.seeds
    E = 1 if sweep is None else len(jax.tree.leaves(settings)[0])
    settings = jax.tree.map(lambda x: jnp.repeat(x, seeds, axis=0), settings)
    number = np.tile(np.arange(schedule.first_seed, schedule.first_seed + seeds, dtype=np.int32), E)
    tasks, ids = jax.tree.map(jnp.asarray, problem.tasks), jnp.asarray(problem.ids)
    program = (algorithm, problem.oracle, schedule.taking_part(problem))
    if start is None:
        carry = _begin(*program, tasks, ids, settings, number, jnp.tile(theta, (E, 1)))
        none = np.zeros(len(number), np.int64)
        now = _standing(carry, Standing(0, -1, (), (), (), (), (), none, none))
    else:
        now = start
    stride = 1

    def standing() -> Standing:
        return now

    def record() -> Record:
        current = np.asarray(_policies(algorithm, settings, now.state))
        noted = Record(
            now.round, current, problem.evaluate(current), np.asarray(now.drift), now.steps, now.taken / problem.N
        )
        return checked(noted, number, all_of_them=sweep is not None)

    for stop in schedule.recorded():
        if stop <= now.recorded:
            continue
        try:
            while now.round < stop:
                began, upto = time.monotonic(), min(stop, now.round + stride, _multiple_after(now.round, pause))
                carry = _carry(now, problem.N)
                new = jax.block_until_ready(_advance(*program, tasks, ids, settings, number, carry, now.round, upto))
                _raise_if_bad(example, np.asarray(new.bad), number, all_of_them=sweep is not None)
                took = max(time.monotonic() - began, 1e-9)
                stride = max(1, min(2 * stride, int((upto - now.round) * RESPONSE_SECONDS / took)))
                now = _standing(new, now._replace(round=upto))
                tick(now.round, standing)
        except KeyboardInterrupt:
            if now.round > now.recorded:
                yield record()
            raise
        noted, now = record(), now._replace(recorded=now.round)
        yield noted


def _multiple_after(round: int, pause: int | None) -> int:
    return sys.maxsize if pause is None else (round // pause + 1) * pause


def _carry(now: Standing, N: int) -> Carry:
    state, down, memory, own, drift = jax.tree.map(jnp.asarray, now[2:7])
    runs = len(now.steps)
    none = jnp.zeros((runs, N), count_dtype())
    return Carry(state, down, memory, own, drift, none, none, jnp.full((runs, 3), -1, jnp.int32))


def _standing(new: Carry, before: Standing) -> Standing:
    """One new value: an interruption leaves either the old one or the new one, and never a mixture."""
    steps = before.steps + np.asarray(new.steps, np.int64).sum(axis=1)
    taken = before.taken + np.asarray(new.taken, np.int64).sum(axis=1)
    state, down, memory, own, drift = new[:5]
    return Standing(before.round, before.recorded, state, down, memory, own, drift, steps, taken)


# Compiled once for the same algorithm, oracle and shapes; the cache keeps those objects alive.


@partial(jax.jit, static_argnums=(0, 1, 2))
def _begin(
    make: Maker, oracle: Callable[[Task], Oracle], m: int, tasks: Any, ids: Any, settings: Any, seeds: Any, thetas: Any
) -> Carry:
    def one(setting: Any, seed: Any, theta: Any) -> Carry:
        state, down, memory = _algorithm(make, setting).init(theta, len(ids))
        own = jax.vmap(lambda task, i: oracle(task).init(key_for(seed, 0, "own", i)))(tasks, ids)
        none, nan = jnp.zeros(len(ids), count_dtype()), jnp.full((), jnp.nan, theta.dtype)
        return Carry(state, down, memory, own, nan, none, none, jnp.full(3, -1, jnp.int32))

    return jax.vmap(one)(settings, seeds, thetas)


@partial(jax.jit, static_argnums=(0, 1, 2))
def _advance(
    make: Maker,
    oracle: Callable[[Task], Oracle],
    m: int,
    tasks: Any,
    ids: Any,
    settings: Any,
    seeds: Any,
    carry: Carry,
    first: Any,
    stop: Any,
) -> Carry:
    def one(setting: Any, seed: Any, carry: Carry) -> Carry:
        body = partial(_round, _algorithm(make, setting), oracle, m, tasks, ids, seed)
        return lax.fori_loop(first, stop, body, carry)

    return jax.vmap(one)(settings, seeds, carry)


@partial(jax.jit, static_argnums=0)
def _policies(make: Maker, settings: Any, states: Any) -> Any:
    return jax.vmap(lambda setting, state: _algorithm(make, setting).policy(state))(settings, states)


def _round(
    algorithm: Algorithm,
    oracle: Callable[[Task], Oracle],
    m: int,
    tasks: Any,
    ids: Any,
    seed: Any,
    t: Any,
    carry: Carry,
) -> Carry:
    """One communication round: gather the participants, vmap over them, combine, serve, scatter back."""
    N, per_agent = len(ids), algorithm.per_agent
    who = participants_of(seed, t, N, m)
    take = lambda tree: tree if m == N else jax.tree.map(lambda x: x[who], tree)
    put = lambda tree, new: new if m == N else jax.tree.map(lambda x, v: x.at[who].set(v), tree, new)
    tasks, ids = take(tasks), take(ids)
    state, down, memory, own, _, steps, taken, bad = carry
    drift = jnp.zeros_like(carry.drift)
    for number, e in enumerate(algorithm.exchanges):

        def agent(task: Any, memory: Any, own: Any, down: Any, i: Any, e: Any = e) -> Any:
            return e.agent(memory, own, down, oracle(task), key_for(seed, t, e.name, i))

        given = take(down) if per_agent else down
        new_memory, new_own, ups, info = jax.vmap(agent, in_axes=(0, 0, 0, 0 if per_agent else None, 0))(
            tasks, take(memory), take(own), given, ids
        )
        memory, own = put(memory, new_memory), put(own, new_own)
        drift = drift + jnp.sum(info.drift)
        steps = put(steps, take(steps) + info.steps)
        bad = _note(bad, t, number, ids, _finite(ups))
        up, key = e.combine.merge(ups), key_for(seed, t, e.name)
        if per_agent:

            def server(state: Any, up: Any, i: Any, e: Any = e, key: Any = key) -> Any:
                return e.server(state, up, m / N, jax.random.fold_in(key, i))

            new = jax.vmap(server, in_axes=(0, 0 if e.combine.per_agent else None, 0))(take(state), up, ids)
            state, down = put(state, new[0]), put(down, new[1])
        else:
            state, down = e.server(state, up, m / N, key)
    bad = _note(bad, t, -1, ids, jnp.isfinite(algorithm.policy(state)).all()[None])
    return Carry(state, down, memory, own, drift.astype(carry.drift.dtype), steps, put(taken, take(taken) + 1), bad)


def _algorithm(make: Maker, setting: Any) -> Algorithm:
    return make if isinstance(make, Algorithm) else make(setting)


def _checked(problem: Problem, make: Maker, schedule: Schedule, sweep: Any) -> tuple[Algorithm, Any]:
    """The algorithm (of the first setting), and the settings in theta's own dtype, which they then leave as it is."""
    if isinstance(make, Algorithm) and sweep is not None:
        raise InputError("sweep= needs a function from one setting to an Algorithm, not an Algorithm")
    settings: Any = ()
    if sweep is not None:
        dtype = schedule.starts(problem).dtype
        settings = jax.tree.map(lambda x: jnp.asarray(x, dtype), sweep, is_leaf=lambda x: isinstance(x, list))
        make = _algorithm(make, jax.tree.map(lambda x: x[0], settings))
    schedule.check(problem, make)  # type: ignore[arg-type]
    return make, settings  # type: ignore[return-value]


def _finite(tree: Any) -> Any:
    """For each agent, whether all of its message is finite."""
    flags = [jnp.isfinite(x).reshape(x.shape[0], -1).all(axis=1) for x in jax.tree.leaves(tree)]
    return jnp.stack(flags).all(axis=0)


def _note(bad: Any, t: Any, exchange: int, ids: Any, finite: Any) -> Any:
    seen = jnp.stack([jnp.int32(t), jnp.int32(exchange), jnp.int32(ids[jnp.argmin(finite)])])
    return jnp.where((bad[0] < 0) & ~finite.all(), seen, bad)


def _raise_if_bad(algorithm: Algorithm, bad: np.ndarray, seeds: np.ndarray, all_of_them: bool) -> None:
    """Name the earliest non-finite message of all runs, if there is one; in a sweep, if no run is left without one."""
    rows = np.flatnonzero(bad[:, 0] >= 0)
    if len(rows) >= (len(bad) if all_of_them else 1):
        run = rows[np.argmin(bad[rows, 0])]
        t, exchange, agent = (int(x) for x in bad[run])
        name = algorithm.exchanges[exchange].name if exchange >= 0 else None
        raise Diverged(t + 1, name, agent if name else None, int(seeds[run]))
