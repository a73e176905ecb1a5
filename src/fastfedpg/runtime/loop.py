"""The plain loop: one round after another, one agent after another. The definition of correct."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fastfedpg.core import Algorithm, Exchange, Problem, Task, key_for
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


def loop(
    problem: Problem,
    algorithm: Algorithm,
    rounds: int,
    seeds: int = 1,
    every: int = 1,
    participants: int | None = None,
    theta0: Any = None,
    first_seed: int = 0,
) -> Result:
    """Run in plain Python; arguments and result are those of `simulate`, and so are the numbers."""
    records = loop_records(problem, algorithm, rounds, seeds, every, participants, theta0, first_seed)
    return collect(records, message_sizes(problem, algorithm, starting_points(problem, theta0, seeds)[0]))


def loop_records(
    problem: Problem,
    algorithm: Algorithm,
    rounds: int,
    seeds: int = 1,
    every: int = 1,
    participants: int | None = None,
    theta0: Any = None,
    first_seed: int = 0,
    tick: Callable[[int], None] = lambda done: None,
) -> Iterator[Record]:
    """The run as it goes, record by record, all seeds side by side; `tick` hears how many rounds are done."""
    m = check_arguments(problem, rounds, every, participants)
    tasks = [_at(problem.tasks, i) for i in range(problem.N)]
    answer = {e.name: jax.jit(partial(_answer, e, problem)) for e in algorithm.exchanges}
    serve = {e.name: jax.jit(e.server, static_argnums=2) for e in algorithm.exchanges}
    runs = [
        _Run(problem, algorithm, theta, first_seed + r)
        for r, theta in enumerate(starting_points(problem, theta0, seeds))
    ]

    def one_round(run: _Run, t: int) -> None:
        run.drift = 0.0
        who = [int(i) for i in participants_of(run.seed, t, problem.N, m)]
        for e in algorithm.exchanges:
            ups = []
            for i in who:
                down = _at(run.down, i) if algorithm.per_agent else run.down
                key = key_for(run.seed, t, e.name, int(problem.ids[i]))
                run.memory[i], run.own[i], up, info = answer[e.name](tasks[i], run.memory[i], run.own[i], down, key)
                if not _finite(up):
                    raise Diverged(t + 1, e.name, int(problem.ids[i]), run.seed)
                run.drift += float(info.drift)
                run.steps += int(info.steps)
                ups.append(up)
            combined = e.combine.merge(jax.tree.map(lambda *x: jnp.stack(x), *ups))
            if not algorithm.per_agent:
                run.state, run.down = serve[e.name](run.state, combined, m / problem.N, key_for(run.seed, t, e.name))
                continue
            for k, i in enumerate(who):
                key = jax.random.fold_in(key_for(run.seed, t, e.name), int(problem.ids[i]))
                up = _at(combined, k) if e.combine.per_agent else combined
                state, down = serve[e.name](_at(run.state, i), up, m / problem.N, key)
                run.state, run.down = _put(run.state, i, state), _put(run.down, i, down)
        if not _finite(algorithm.policy(run.state)):
            raise Diverged(t + 1, None, None, run.seed)
        run.taken += m

    done = 0
    for stop in recorded_rounds(rounds, every):
        for t in range(done, stop):
            for run in runs:
                one_round(run, t)
            tick(t + 1)
        done = stop
        theta = np.stack([algorithm.policy(run.state) for run in runs])
        yield Record(
            done,
            theta,
            problem.evaluate(theta),
            np.array([run.drift for run in runs]),
            np.array([run.steps for run in runs]),
            np.array([run.taken / problem.N for run in runs]),
        )


def _answer(e: Exchange, problem: Problem, task: Task, memory: Any, own: Any, down: Any, key: Any) -> Any:
    return e.agent(memory, own, down, problem.oracle(task), key)


class _Run:
    """One seed's values between two rounds."""

    def __init__(self, problem: Problem, algorithm: Algorithm, theta: Any, seed: int) -> None:
        self.state, self.down, memory = algorithm.init(theta, problem.N)
        self.memory = [_at(memory, i) for i in range(problem.N)]
        ids = [int(i) for i in problem.ids]
        self.own = [
            problem.oracle(_at(problem.tasks, i)).init(key_for(seed, 0, "own", ids[i])) for i in range(problem.N)
        ]
        self.seed, self.drift, self.steps, self.taken = seed, float("nan"), 0, 0


def _at(tree: Any, i: int) -> Any:
    return jax.tree.map(lambda x: jnp.asarray(x[i]), tree)


def _put(tree: Any, i: int, value: Any) -> Any:
    return jax.tree.map(lambda x, v: x.at[i].set(v), tree, value)


def _finite(tree: Any) -> bool:
    return all(bool(jnp.isfinite(x).all()) for x in jax.tree.leaves(tree))
