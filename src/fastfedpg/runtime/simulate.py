"""The compiled simulation: agents, seeds and settings by vmap, local steps and rounds inside one XLA program."""

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from fastfedpg.core import Algorithm, Down, Memory, Own, Problem, State, key_for
from fastfedpg.runtime.record import (
    Diverged,
    Record,
    Result,
    check_arguments,
    collect,
    message_sizes,
    participants_of,
    recorded_rounds,
    starting_points,
)

RESPONSE_SECONDS = 0.5
"""The compiled program comes up for air about this often, for progress and Ctrl-C."""


class Carry(NamedTuple):
    """One run between two rounds. Counters are since the last record, so that int32 suffices for any run."""

    state: State
    down: Down
    memory: Memory
    own: Own
    drift: Any  # of the last round
    steps: Any  # (N,) environment steps of each agent
    taken: Any  # (N,) rounds that each agent took part in
    bad: Any  # (round, exchange, agent) of the first non-finite message; -1 where there is none


def simulate(
    problem: Problem,
    algorithm: Algorithm | Callable[[Any], Algorithm],
    rounds: int,
    seeds: int = 1,
    every: int = 1,
    participants: int | None = None,
    theta0: Any = None,
    first_seed: int = 0,
    sweep: Any = None,
) -> Result:
    """Run all seeds at once, compiled.

    Args:
        problem: from `problems.with_oracle`, or your own.
        algorithm: an Algorithm; or, with `sweep`, a function from one setting to an Algorithm.
        rounds: communication rounds T.
        seeds: how many seeds, counted from `first_seed`.
        every: record metrics after every so many rounds (and at the start and the end).
        participants: how many agents take part in a round; all, unless given.
        theta0: (d,), or (seeds, d); the problem's own start, the uniform policy, unless given. Its dtype decides.
        sweep: settings to vmap over, for example step sizes (E,); results then have the leading axes (E, seeds).

    Example:
        >>> from fastfedpg import fast_fedpg, problems, simulate
        >>> p = problems.with_oracle(problems.compromise(), "exact")
        >>> result = simulate(p, lambda eta: fast_fedpg(eta, H=10), rounds=5, sweep=[0.1, 0.5])
        >>> result.metrics["gap"].shape
        (2, 1, 6)
    """
    shape = (seeds,) if sweep is None else (len(jax.tree.leaves(_settings(sweep, float))[0]), seeds)
    records = simulate_records(problem, algorithm, rounds, seeds, every, participants, theta0, first_seed, sweep)
    theta = starting_points(problem, theta0, seeds)[0]
    return collect(records, message_sizes(problem, _first(algorithm, _settings(sweep, theta.dtype)), theta), shape)


def simulate_records(
    problem: Problem,
    algorithm: Algorithm | Callable[[Any], Algorithm],
    rounds: int,
    seeds: int = 1,
    every: int = 1,
    participants: int | None = None,
    theta0: Any = None,
    first_seed: int = 0,
    sweep: Any = None,
    tick: Callable[[int], None] = lambda done: None,
) -> Iterator[Record]:
    """The run as it goes, record by record; `tick` hears about twice a second how many rounds are done."""
    m = check_arguments(problem, rounds, every, participants)
    theta = starting_points(problem, theta0, seeds)
    settings = _settings(sweep, theta.dtype)
    E = 1 if sweep is None else len(jax.tree.leaves(settings)[0])
    number = np.tile(np.arange(first_seed, first_seed + seeds, dtype=np.int32), E)
    settings = jax.tree.map(lambda x: jnp.repeat(x, seeds, axis=0), settings)
    make = (lambda setting: algorithm) if isinstance(algorithm, Algorithm) else algorithm

    @jax.jit
    def start(tasks: Any, settings: Any, theta: Any, seed: Any) -> Carry:
        return jax.vmap(lambda c, x, s: _start(problem, make(c), tasks, x, s))(settings, theta, seed)

    @jax.jit
    def advance(tasks: Any, settings: Any, seed: Any, carry: Carry, first: Any, stop: Any) -> Carry:
        def one(setting: Any, seed: Any, carry: Carry) -> Carry:
            body = lambda t, carry: _round(problem, make(setting), tasks, m, seed, t, carry)
            return lax.fori_loop(first, stop, body, carry)

        return jax.vmap(one)(settings, seed, carry)

    example = _first(algorithm, settings)
    policy = jax.jit(lambda settings, state: jax.vmap(lambda c, s: make(c).policy(s))(settings, state))
    tasks = jax.tree.map(jnp.asarray, problem.tasks)
    carry = start(tasks, settings, jnp.tile(theta, (E, 1)), number)
    steps, taken = np.zeros(E * seeds, np.int64), np.zeros(E * seeds)

    def record(done: int, carry: Carry) -> tuple[Record, Carry]:
        nonlocal steps, taken
        steps = steps + np.asarray(carry.steps, np.int64).sum(axis=1)
        taken = taken + np.asarray(carry.taken).mean(axis=1)
        current = np.asarray(policy(settings, carry.state))
        noted = Record(done, current, problem.evaluate(current), np.asarray(carry.drift), steps, taken)
        return noted, carry._replace(steps=jnp.zeros_like(carry.steps), taken=jnp.zeros_like(carry.taken))

    done, recorded, stride = 0, 0, 1
    for stop in recorded_rounds(rounds, every):
        try:
            while done < stop:
                began, upto = time.monotonic(), min(stop, done + stride)
                following = jax.block_until_ready(advance(tasks, settings, number, carry, done, upto))
                _raise_if_bad(example, np.asarray(following.bad), number)
                stride = max(1, min(2 * stride, int((upto - done) * RESPONSE_SECONDS / (time.monotonic() - began))))
                carry, done = following, upto
                tick(done)
        except KeyboardInterrupt:
            if done > recorded:
                yield record(done, carry)[0]
            raise
        noted, carry = record(done, carry)
        recorded = done
        yield noted


def _settings(sweep: Any, dtype: Any) -> Any:
    """The settings in theta's own dtype, so that a sweep in float64 leaves a float32 theta as it is."""
    if sweep is None:
        return ()
    return jax.tree.map(lambda x: jnp.asarray(x, dtype), sweep, is_leaf=lambda x: isinstance(x, list))


def _first(algorithm: Algorithm | Callable[[Any], Algorithm], settings: Any) -> Algorithm:
    return algorithm if isinstance(algorithm, Algorithm) else algorithm(jax.tree.map(lambda x: x[0], settings))


def _start(problem: Problem, algorithm: Algorithm, tasks: Any, theta: Any, seed: Any) -> Carry:
    state, down, memory = algorithm.init(theta, problem.N)
    init = lambda task, i: problem.oracle(task).init(key_for(seed, 0, "own", i))
    own = jax.vmap(init)(tasks, jnp.asarray(problem.ids))
    none = jnp.zeros(problem.N, jnp.int32)
    return Carry(state, down, memory, own, jnp.full((), jnp.nan, theta.dtype), none, none, jnp.full(3, -1, jnp.int32))


def _round(problem: Problem, algorithm: Algorithm, tasks: Any, m: int, seed: Any, t: Any, carry: Carry) -> Carry:
    """One communication round: gather the participants, vmap over them, combine, serve, scatter back."""
    N, ids, per_agent = problem.N, jnp.asarray(problem.ids), algorithm.per_agent
    who = participants_of(seed, t, N, m)
    take = lambda tree: tree if m == N else jax.tree.map(lambda x: x[who], tree)
    put = lambda tree, new: new if m == N else jax.tree.map(lambda x, v: x.at[who].set(v), tree, new)
    tasks, ids = take(tasks), take(ids)
    state, down, memory, own, _, steps, taken, bad = carry
    drift = jnp.zeros_like(carry.drift)
    for number, e in enumerate(algorithm.exchanges):

        def agent(task: Any, memory: Any, own: Any, down: Any, i: Any, e: Any = e) -> Any:
            return e.agent(memory, own, down, problem.oracle(task), key_for(seed, t, e.name, i))

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
    theta = algorithm.policy(state)
    bad = _note(bad, t, -1, ids, jnp.isfinite(theta).all()[None])
    return Carry(state, down, memory, own, drift.astype(carry.drift.dtype), steps, put(taken, take(taken) + 1), bad)


def _finite(tree: Any) -> Any:
    """For each agent, whether all of its message is finite."""
    flags = [jnp.isfinite(x).reshape(x.shape[0], -1).all(axis=1) for x in jax.tree.leaves(tree)]
    return jnp.stack(flags).all(axis=0)


def _note(bad: Any, t: Any, exchange: int, ids: Any, finite: Any) -> Any:
    seen = jnp.stack([jnp.int32(t), jnp.int32(exchange), jnp.int32(ids[jnp.argmin(finite)])])
    return jnp.where((bad[0] < 0) & ~finite.all(), seen, bad)


def _raise_if_bad(algorithm: Algorithm, bad: np.ndarray, seeds: np.ndarray) -> None:
    """Name the earliest non-finite message of all runs, if there is one."""
    rows = np.flatnonzero(bad[:, 0] >= 0)
    if len(rows):
        run = rows[np.argmin(bad[rows, 0])]
        t, exchange, agent = (int(x) for x in bad[run])
        name = algorithm.exchanges[exchange].name if exchange >= 0 else None
        raise Diverged(t + 1, name, agent if name else None, int(seeds[run]))
