"""The plain loop: one round after another, one agent after another. The definition of correct."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fastfedpg.core import Algorithm, Exchange, Oracle, Problem, Task, key_for
from fastfedpg.runtime.diagnosis import explain, in_own_words
from fastfedpg.runtime.result import Diverged, Record, Result, checked, extras, gather
from fastfedpg.runtime.round import begun, combined, heard, policies, reply, served
from fastfedpg.runtime.run_state import Standing, Tick, at_home, unheard
from fastfedpg.runtime.schedule import Order, Schedule
from fastfedpg.runtime.walk import message_sizes


def loop(
    problem: Problem,
    algorithm: Algorithm,
    rounds: int,
    seeds: int = 1,
    metrics_every: int = 1,
    participants: int | None = None,
    theta0: Any = None,
    first_seed: int = 0,
    order: Order = "random",
    speeds: Sequence[float] | None = None,
) -> Result:
    """Run in plain Python; arguments (see `Schedule`) and numbers are those of `simulate`."""
    schedule = Schedule(rounds, seeds, metrics_every, participants, theta0, first_seed, None, None, order, speeds)
    schedule = schedule.settled(algorithm)
    schedule.check(problem, algorithm)
    sizes = message_sizes(problem, algorithm, schedule.starts(problem)[0], schedule)
    return gather(loop_records(problem, algorithm, schedule), sizes, (seeds,), first_seed)


class SeedRun(NamedTuple):
    """One seed between two rounds; a round makes a new one, so that it counts as a whole or not at all."""

    seed: int
    state: Any
    down: Any
    memory: tuple[Any, ...]
    own: tuple[Any, ...]
    drift: float = float("nan")
    steps: int = 0
    taken: int = 0
    extra: dict[str, float] = {}  # noqa: RUF012
    lost: bool = False  # whether something was not finite in the last round


@at_home
def loop_records(
    problem: Problem,
    algorithm: Algorithm,
    schedule: Schedule,
    tick: Tick = unheard,
    start: Standing | None = None,
    pause: int | None = None,
) -> Iterator[Record]:
    """The run as it goes, record by record, all seeds side by side; `tick` hears of every round, whatever `pause`."""
    schedule = schedule.settled(algorithm)
    schedule.check(problem, algorithm)
    tasks = tasks_of(problem)
    seeds = range(schedule.first_seed, schedule.first_seed + schedule.seeds)
    if start is None:
        thetas = schedule.starts(problem)
        done, recorded = 0, -1
        runs = [_start(problem, algorithm, theta, seed) for theta, seed in zip(thetas, seeds, strict=True)]
    else:
        done, recorded = start.round, start.recorded
        runs = [continued(problem.N, start, r, seed) for r, seed in enumerate(seeds)]

    def extra() -> dict[str, np.ndarray]:
        return {name: np.array([run.extra[name] for run in runs]) for name in runs[0].extra}

    def standing() -> Standing:
        every = [(run.state, run.down, stack(run.memory), stack(run.own)) for run in runs]
        drift, steps, taken = (np.array([getattr(run, name) for run in runs]) for name in ("drift", "steps", "taken"))
        state, down, memory, own = stack(every)
        drift = drift.astype(schedule.starts(problem).dtype)
        return Standing(done, recorded, state, down, memory, own, drift, steps, taken, extra())

    def record() -> Record:
        theta = np.stack([policies(algorithm, run.state, stack(run.memory)) for run in runs])
        drift, steps, taken = (np.array([getattr(run, name) for run in runs]) for name in ("drift", "steps", "taken"))
        with in_own_words(problem):
            value = problem.evaluate(theta, seeds)
        noted = Record(done, theta, value, drift, steps, taken / problem.N, extra())
        return checked(problem, noted, seeds, schedule.go_on)

    for stop in schedule.recorded():
        if stop <= recorded:
            continue
        try:
            while done < stop:
                new = [one_round(problem, algorithm, tasks, schedule, run, done) for run in runs]
                if all(run.lost for run in new):
                    one_round(problem, algorithm, tasks, replace(schedule, go_on=False), runs[0], done)  # it says why
                runs, done = new, done + 1
                tick(done, standing)
            noted = record()
        except KeyboardInterrupt:
            if done > recorded:
                yield record()
            raise
        recorded = done
        yield noted


def one_round(
    problem: Problem, algorithm: Algorithm, tasks: list[Task], schedule: Schedule, run: SeedRun, t: int
) -> SeedRun:
    """Every exchange in turn: each participant answers, the answers are combined, the server moves on.

    What is not finite is a divergence, unless the schedule lets other seeds go on: then it goes on too, and is marked.
    """
    seed, state, down, memory, own, drift, steps = (
        run.seed,
        run.state,
        run.down,
        [*run.memory],
        [*run.own],
        0.0,
        run.steps,
    )
    lost = False
    who = [int(i) for i in schedule.who(problem, seed, t)]
    extra = dict.fromkeys(run.extra, float("nan"))
    for e in algorithm.in_round(t):
        ups, logged = [], []
        for i in who:
            name = int(problem.ids[i])
            given = at(down, i) if algorithm.per_agent else down
            key = key_for(seed, t, e.name, name)
            asked = (tasks[i], memory[i], own[i], given, key)
            with in_own_words(problem):
                memory[i], own[i], sent, info = jax.block_until_ready(answer(e, problem.oracle, *asked))
            up = heard(e, sent)
            if not finite(up) and schedule.go_on:
                lost = True
            elif not finite(up):
                theta_bar = algorithm.policy(state)
                why = explain(problem, e, *asked, theta_bar[i] if theta_bar.ndim == 2 else theta_bar)
                raise Diverged(t + 1, e.name, name, seed, why=why)
            drift, steps = drift + float(info.drift), steps + int(info.steps)
            ups.append(up)
            logged.append(info.extra)
        extra |= {name: float(np.mean([each[name] for each in logged])) for name in logged[0]}
        key = key_for(seed, t, e.name)
        ids = problem.ids[np.array(who)] if algorithm.per_agent else None
        with in_own_words(problem):
            up = combined(e, problem.N, stack(ups), jnp.asarray(who), key)
            state, down = jax.block_until_ready(moved(e, len(who) / problem.N, state, down, up, key, who, ids))
    if not finite(algorithm.policy(state)):
        if not schedule.go_on:
            raise Diverged(t + 1, None, None, seed)
        lost = True
    return SeedRun(seed, state, down, tuple(memory), tuple(own), drift, steps, run.taken + len(who), extra, lost)


def tasks_of(problem: Problem) -> list[Task]:
    """Each agent's own task."""
    return [at(problem.tasks, i) for i in range(problem.N)]


def _start(problem: Problem, algorithm: Algorithm, theta: Any, seed: int) -> SeedRun:
    state, down, memory = algorithm.init(theta, problem.N)
    kept = [
        begun(algorithm, problem.oracle(task), theta, at(memory, k), key_for(seed, 0, "own", int(problem.ids[k])))
        for k, task in enumerate(tasks_of(problem))
    ]
    extra = dict.fromkeys(extras(problem, algorithm, theta), float("nan"))
    return SeedRun(seed, state, down, tuple(m for m, _ in kept), tuple(own for _, own in kept), extra=extra)


def continued(N: int, standing: Standing, r: int, seed: int) -> SeedRun:
    """The run that stands there as the r-th."""
    state, down, memory, own = (at(part, r) for part in standing.parts)
    each = lambda tree: tuple(at(tree, i) for i in range(N))
    drift, steps, taken = float(standing.drift[r]), int(standing.steps[r]), int(standing.taken[r])
    extra = {name: float(x[r]) for name, x in standing.extra.items()}
    return SeedRun(seed, state, down, each(memory), each(own), drift, steps, taken, extra)


@partial(jax.jit, static_argnums=(0, 1))
def answer(
    e: Exchange, oracle: Callable[[Task], Oracle], task: Task, memory: Any, own: Any, down: Any, key: Any
) -> tuple[Any, Any, Any, Any]:
    """One agent's half of an exchange, compiled once for the same exchange and oracle."""
    return reply(e, memory, own, down, oracle(task), key)


serve = partial(jax.jit, static_argnums=(0, 1))(served)
"""The server's half of an exchange, compiled once."""


def moved(
    e: Exchange, share: float, state: Any, down: Any, up: Any, key: Any, who: Sequence[int], ids: Any = None
) -> tuple[Any, Any]:
    """State and messages after the server's half; with `ids` each agent at the positions `who` is its own server."""
    if ids is None:
        return serve(e, share, state, up, key)
    some = jnp.asarray(who)
    new = serve(e, share, at(state, some), up, key, jnp.asarray(ids))
    return _put(state, some, new[0]), _put(down, some, new[1])


def at(tree: Any, i: Any) -> Any:
    """Of every array the entry, or the entries, at i."""
    return jax.tree.map(lambda x: jnp.asarray(x[i]), tree)


def stack(trees: Sequence[Any]) -> Any:
    """Trees of one form as one tree with a leading axis."""
    return jax.tree.map(lambda *x: jnp.stack(x), *trees)


def _put(tree: Any, i: Any, value: Any) -> Any:
    return jax.tree.map(lambda x, v: x.at[i].set(v), tree, value)


def finite(tree: Any) -> bool:
    """Whether all of it is finite."""
    return all(bool(jnp.isfinite(x).all()) for x in jax.tree.leaves(tree))
