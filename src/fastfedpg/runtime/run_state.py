"""A run between two rounds, as a value: it can be put away, and any runtime can go on from it."""

import os
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

import jax
import numpy as np

from fastfedpg.core import Algorithm, Down, Memory, Own, Problem, State, key_for
from fastfedpg.runtime.result import extras
from fastfedpg.runtime.round import begun
from fastfedpg.runtime.schedule import Schedule


class Parts(NamedTuple):
    """What a round changes: of one run, or with an axis for runs."""

    state: State
    down: Down
    memory: Memory
    own: Own


class Standing(NamedTuple):
    """All that the runs' future depends on, beside problem, algorithm and schedule; arrays have an axis for runs."""

    round: int  # rounds done
    recorded: int  # the round of the last record, -1 before the first
    state: State
    down: Down
    memory: Memory  # (runs, N, …)
    own: Own  # (runs, N, …)
    drift: Any  # (runs,) of the last round
    steps: Any  # (runs,) environment steps, all agents together
    taken: Any  # (runs,) rounds that agents took part in, all agents together
    extra: dict[str, Any] = {}  # noqa: RUF012 # each (runs,) what else was logged in the last round

    @property
    def parts(self) -> Parts:
        """What a round changes."""
        return Parts(self.state, self.down, self.memory, self.own)


Tick: TypeAlias = Callable[[int, Callable[[], Standing]], None]
"""Called as tick(rounds done, where the run stands) between two rounds, about twice a second or after each."""


def unheard(done: int, standing: Callable[[], Standing]) -> None:
    """Nobody listens."""


Runtime = TypeVar("Runtime", bound=Callable[..., Iterator[Any]])


def at_home(records: Runtime) -> Runtime:
    """A runtime from whose rounds we come back to where we were, wherever an algorithm goes while it is traced.

    Relative names mean that place to whoever hears of a round or takes a record.
    """

    @wraps(records)
    def kept(
        problem: Problem, algorithm: Any, schedule: Schedule, tick: Tick = unheard, *rest: Any, **more: Any
    ) -> Any:
        home = os.open(".", os.O_RDONLY)  # the folder itself, which may be renamed or removed meanwhile

        def heard(done: int, standing: Callable[[], Standing]) -> None:
            os.fchdir(home)
            tick(done, standing)

        running = records(problem, algorithm, schedule, heard, *rest, **more)
        try:
            while True:
                try:
                    record = next(running)
                except StopIteration:
                    return
                finally:
                    os.fchdir(home)
                yield record
        finally:
            os.close(home)

    return cast(Runtime, kept)


def shapes(problem: Problem, algorithm: Algorithm, schedule: Schedule) -> Standing:
    """The form of a run's standing, with shapes and dtypes in the place of arrays; nothing is computed."""

    def begin(theta: Any, tasks: Any) -> tuple[Any, ...]:
        def one(theta: Any) -> tuple[Any, ...]:
            state, down, memory = algorithm.init(theta, problem.N)
            begin = lambda task, i, memory: begun(
                algorithm, problem.oracle(task), theta, memory, key_for(0, 0, "own", i)
            )
            return state, down, *jax.vmap(begin)(tasks, problem.ids, memory)

        return jax.vmap(one)(theta)

    theta = schedule.starts(problem)
    state, down, memory, own = jax.eval_shape(begin, theta, problem.tasks)
    count = jax.ShapeDtypeStruct((schedule.seeds,), np.int64)
    drift = jax.ShapeDtypeStruct((schedule.seeds,), theta.dtype)
    extra = {name: jax.ShapeDtypeStruct(drift.shape, np.float64) for name in extras(problem, algorithm, theta[0])}
    return Standing(0, -1, state, down, memory, own, drift, count, count, extra)
