"""Whether a simulation fits into memory, before anything is computed."""

from typing import NamedTuple

import jax

from fastfedpg import memory
from fastfedpg.core import Algorithm, Problem
from fastfedpg.errors import InputError
from fastfedpg.memory import said
from fastfedpg.runtime.schedule import Schedule
from fastfedpg.runtime.walk import in_form, size_of

COPIES = 3
"""Of what the runs carry: where they stand, where they will stand, and what the loop over rounds works on."""

WORK = 6
"""Bytes that an estimate works with for each byte of its trajectories: random numbers, costs, weights, indices."""


class Need(NamedTuple):
    """Bytes, in the process that asks."""

    kept: int  # what the runs carry from round to round, the agents' tasks and their messages
    played: int  # what roll-outs need, of as many agents as are computed at a time


def check_memory(problem: Problem, algorithm: Algorithm, schedule: Schedule, settings: int = 1) -> None:
    """Refuse what this machine can't hold. Nothing is said where its memory isn't known, or is not the devices'."""
    there = memory.available()
    if there is None or jax.default_backend() != "cpu":
        return
    need = needed(problem, algorithm, schedule, settings)
    if sum(need) <= there:
        return
    batch = f"--agent-batch (now {schedule.agent_batch or 'all at once'}), " if need.played > need.kept / 10 else ""
    runs = f"{schedule.seeds} seed{'s' * (schedule.seeds > 1)}{f' by {settings} settings' if settings > 1 else ''}"
    raise InputError(
        f"{problem.N} agents and {runs} need about {said(sum(need))}, {said(need.played)} of it for the roll-outs of "
        f"the agents that are computed at a time, and {said(there)} are available; {batch}fewer agents or seeds would "
        "help"
    )


def needed(problem: Problem, algorithm: Algorithm, schedule: Schedule, settings: int = 1) -> Need:
    """An estimate, from shapes alone: evaluation, compiler and libraries (about half a GB) are not in it."""
    walked, trajectories = in_form(problem, algorithm, schedule.starts(problem)[0])
    message, one = max(map(size_of, walked.ups)), size_of(problem.tasks) // problem.N
    runs, n = schedule.seeds * settings, schedule.taking_part(problem)
    at_once = n if schedule.agent_batch is None else schedule.agent_batch * (schedule.shards or 1)
    state, down, *own = walked.began or ((), ())  # nothing where all it has is an opening
    servers = problem.N if algorithm.per_agent else 1
    carried = runs * (servers * size_of((state, down)) + problem.N * size_of(own))
    kept = COPIES * carried + problem.N * one + 2 * runs * n * message
    share = jax.process_count() if schedule.shards is not None else 1
    return Need(kept // share, runs * at_once * WORK * trajectories // share)
