"""The compiled simulation: agents, seeds and settings by vmap, local steps and rounds inside one XLA program."""

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fastfedpg.core import Algorithm, Problem
from fastfedpg.errors import InputError
from fastfedpg.runtime import program
from fastfedpg.runtime.diagnosis import in_own_words
from fastfedpg.runtime.fits_in_memory import check_memory
from fastfedpg.runtime.loop import continued, one_round, tasks_of
from fastfedpg.runtime.placement import TASKS, Layout, layout_of
from fastfedpg.runtime.program import Counts, Maker, algorithm_of
from fastfedpg.runtime.result import Diverged, Record, Result, checked, extras, gather
from fastfedpg.runtime.run_state import Parts, Standing, Tick, at_home, unheard
from fastfedpg.runtime.schedule import Order, Schedule
from fastfedpg.runtime.walk import counting_oracle, message_sizes, walk

RESPONSE_SECONDS = 0.5
"""The compiled program comes up for air about this often, for progress and Ctrl-C."""


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
    agent_batch: int | None = None,
    shards: int | None = None,
    order: Order = "random",
    speeds: Sequence[float] | None = None,
    tick: Tick = unheard,
) -> Result:
    """Run all seeds at once, compiled; a second call with the same objects compiles nothing.

    Args:
        problem: from `problems.with_oracle`, or your own.
        algorithm: an Algorithm; or, with `sweep`, a function from one setting to an Algorithm.
        rounds, seeds, metrics_every, participants, theta0, first_seed: see `Schedule`.
        agent_batch, shards, order, speeds: see `Schedule`.
        sweep: settings to vmap over, for example step sizes (E,); results then have the leading axes (E, seeds).
        tick: hears about twice a second how many rounds are done.

    Examples:
        >>> from fastfedpg import fast_fedpg, problems, simulate
        >>> p = problems.with_oracle(problems.compromise(), "exact")
        >>> result = simulate(p, lambda eta: fast_fedpg(eta, H=10), rounds=5, sweep=[0.1, 0.5])
        >>> result.metrics["gap"].shape
        (2, 1, 6)
    """
    schedule = Schedule(
        rounds, seeds, metrics_every, participants, theta0, first_seed, agent_batch, shards, order, speeds
    )
    example, settings, _, schedule = _checked(problem, algorithm, schedule, sweep)
    sizes = message_sizes(problem, example, schedule.starts(problem)[0], schedule)
    shape = (seeds,) if sweep is None else (len(jax.tree.leaves(settings)[0]), seeds)
    return gather(simulate_records(problem, algorithm, schedule, tick, sweep=sweep), sizes, shape, first_seed)


@at_home
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

    With `start` it goes on from there; with `pause`, `tick` hears of every round that is a multiple of it. Where
    several processes share the agents, all of them must ask for a standing, or none.

    In a sweep a setting that diverges has NaN from then on and the others go on, as long as there are any; so do seeds
    where the schedule says so.
    """
    program.make_room()
    if start is not None and sweep is not None:
        raise InputError("a sweep can't go on from a standing; start= and sweep= exclude each other")
    example, settings, layout, schedule = _checked(problem, algorithm, schedule, sweep)
    theta, seeds = np.asarray(schedule.starts(problem)), schedule.seeds
    E = 1 if sweep is None else len(jax.tree.leaves(settings)[0])
    settings = jax.tree.map(lambda x: np.repeat(np.asarray(x), seeds, axis=0), settings)
    number = np.tile(np.arange(schedule.first_seed, schedule.first_seed + seeds, dtype=np.int32), E)
    given = (*(layout.place(x, TASKS) for x in (problem.tasks, problem.ids)), settings, number)
    what, names = (algorithm, problem.oracle, layout), extras(problem, example, theta[0])
    if start is None:
        nothing, none = np.full(len(number), np.nan, theta.dtype), np.zeros(len(number), np.int64)
        begun = program.begin(*what, *given, np.tile(theta, (E, 1)))
        extra = dict.fromkeys(names, np.full(len(number), np.nan))
        now = Standing(0, -1, begun.state, begun.down, begun.memory, begun.own, nothing, none, none, extra)
    else:
        where = program.specs(example.per_agent)
        placed = {name: layout.place(getattr(start, name), spec) for name, spec in where._asdict().items()}
        now = start._replace(**placed)
    stride, all_of_them = 1, sweep is not None or schedule.go_on

    def standing() -> Standing:
        return now._replace(**layout.whole(now.parts._asdict()))

    def record() -> Record:
        kept = () if example.personalise is None else now.memory
        current = np.asarray(layout.whole(program.policies(algorithm, settings, now.state, kept)))
        with in_own_words(problem):
            value = problem.evaluate(current, number)
        noted = Record(now.round, current, value, now.drift, now.steps, now.taken / problem.N, now.extra)
        return checked(problem, noted, number, all_of_them)

    for stop in schedule.recorded():
        if stop <= now.recorded:
            continue
        try:
            while now.round < stop:
                began, upto = time.monotonic(), min(stop, now.round + stride, _multiple_after(now.round, pause))
                # Not donated: until there is a new standing the old one must stay readable, whatever happens meanwhile.
                with in_own_words(problem):
                    new = program.advance(*what, *given, now.parts, now.round, upto, extras=names)
                    parts, counts = jax.block_until_ready(new)
                counts = jax.tree.map(np.asarray, layout.whole(counts))
                found = _first_bad(example, counts.bad, number, all_of_them)
                if found is not None:
                    if (problem.why_undefined or problem.explain_batch) and sweep is None:
                        with in_own_words(problem):
                            before, _ = program.advance(
                                *what, *given, now.parts, now.round, found.round - 1, extras=names
                            )
                        found = _in_words(problem, example, schedule, layout.whole(before._asdict()), now, found)
                    raise found
                took = max(time.monotonic() - began, 1e-9)
                stride = layout.agreed(max(1, min(2 * stride, int((upto - now.round) * RESPONSE_SECONDS / took))))
                now = _after(now, upto, parts, counts, layout.m)
                tick(now.round, standing)
            noted = record()
        except KeyboardInterrupt:
            if now.round > now.recorded and jax.process_count() == 1:  # others may not have been interrupted
                yield record()
            raise
        now = now._replace(recorded=now.round)
        yield noted


def _multiple_after(round: int, pause: int | None) -> int:
    return sys.maxsize if pause is None else (round // pause + 1) * pause


def _after(before: Standing, round: int, parts: Parts, counts: Counts, m: int) -> Standing:
    """One new value: an interruption leaves either the old one or the new one, and never a mixture."""
    steps, taken = (x.sum(axis=1, dtype=np.int64) for x in (counts.steps, counts.taken))
    drift = counts.drift.sum(axis=1)
    extra = {name: x.sum(axis=1, dtype=np.float64) / m for name, x in counts.extra.items()}
    now = before._replace(round=round, drift=drift, steps=before.steps + steps, taken=before.taken + taken)
    return now._replace(extra=extra, **parts._asdict())


def _checked(problem: Problem, make: Maker, schedule: Schedule, sweep: Any) -> tuple[Algorithm, Any, Layout, Schedule]:
    """The algorithm (of the first setting), and the settings in theta's own dtype, which they then leave as it is."""
    if isinstance(make, Algorithm) and sweep is not None:
        raise InputError("sweep= needs a function from one setting to an Algorithm, not an Algorithm")
    settings: Any = ()
    if sweep is not None:
        dtype = schedule.starts(problem).dtype
        settings = jax.tree.map(lambda x: jnp.asarray(x, dtype), sweep, is_leaf=lambda x: isinstance(x, list))
        first = jax.tree.map(lambda x: x[0], settings)
        _check_traced(make, first, jnp.zeros(np.shape(problem.theta0)[-1:], dtype), problem.N)
        make = algorithm_of(make, first)
    schedule = schedule.settled(make)  # type: ignore[arg-type]
    schedule.check(problem, make)  # type: ignore[arg-type]
    layout = layout_of(problem, schedule)
    number = 1 if sweep is None else len(jax.tree.leaves(settings)[0])
    check_memory(problem, make, schedule, number)  # type: ignore[arg-type]
    return make, settings, layout, schedule  # type: ignore[return-value]


def _check_traced(make: Maker, setting: Any, theta: Any, N: int) -> None:
    """Refuse to sweep over what decides which program it is: a number of steps, or a choice."""
    go = lambda setting, theta: walk(algorithm_of(make, setting), counting_oracle(lambda B: 1, theta.size), theta, N)[2]
    try:
        jax.eval_shape(go, setting, theta)
    except TypeError as error:  # as JAX's own are that say that a traced number has no value
        said = str(error).partition("\n")[0]
        raise InputError(
            "sweep= needs numbers that the compiled program can be given, such as step sizes; what is swept here is "
            f"part of the program itself, as a number of local steps is: run it once for each value ({said})"
        ) from None


def _in_words(
    problem: Problem, algorithm: Algorithm, schedule: Schedule, before: dict[str, Any], now: Standing, found: Diverged
) -> Diverged:
    """The round that diverged once more, in the plain loop, which can say why."""
    run = continued(problem.N, now._replace(**before), found.seed - schedule.first_seed, found.seed)
    try:
        one_round(problem, algorithm, tasks_of(problem), replace(schedule, go_on=False), run, found.round - 1)
    except Diverged as same:
        return same
    return found


def _first_bad(algorithm: Algorithm, bad: np.ndarray, seeds: np.ndarray, all_of_them: bool) -> Diverged | None:
    """Name the earliest non-finite message of all runs, if there is one; in a sweep, if no run is left without one."""
    never = np.iinfo(bad.dtype).max
    when = np.where(bad[..., 0] < 0, never, bad[..., 0])  # (runs, shards)
    first = when.min(axis=1)
    if (first < never).sum() < (len(bad) if all_of_them else 1):
        return None
    run = int(np.argmin(first))
    # Of one round the first exchange, where the server's own, -1, comes last; of one exchange the first agent.
    t, exchange, agent = min(
        (tuple(map(int, row)) for row in bad[run][when[run] == first[run]]), key=lambda row: row[1] % sys.maxsize
    )
    name = algorithm.exchanges[exchange].name if exchange >= 0 else None
    return Diverged(t + 1, name, agent if name else None, int(seeds[run]))
