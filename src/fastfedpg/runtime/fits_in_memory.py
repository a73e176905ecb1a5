"""Whether a simulation fits into memory, before anything is computed."""

from pathlib import Path
from typing import NamedTuple

import jax

from fastfedpg.core import Algorithm, Problem
from fastfedpg.errors import InputError
from fastfedpg.runtime.run_state import shapes
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
    there = available()
    if there is None or jax.default_backend() != "cpu":
        return
    need = needed(problem, algorithm, schedule, settings)
    if sum(need) <= there:
        return
    batch = f"--agent-batch (now {schedule.agent_batch or 'all at once'}), " if need.played > need.kept / 10 else ""
    runs = f"{schedule.seeds} seed{'s' * (schedule.seeds > 1)}{f' by {settings} settings' if settings > 1 else ''}"
    raise InputError(
        f"{problem.N} agents and {runs} need about {_said(sum(need))}, {_said(need.played)} of it for the roll-outs of "
        f"the agents that are computed at a time, and {_said(there)} are available; {batch}fewer agents or seeds would "
        "help"
    )


def needed(problem: Problem, algorithm: Algorithm, schedule: Schedule, settings: int = 1) -> Need:
    """An estimate, from shapes alone: evaluation, compiler and libraries (about half a GB) are not in it."""
    walked, trajectories = in_form(problem, algorithm, schedule.starts(problem)[0])
    message, one = max(map(size_of, walked.ups)), size_of(problem.tasks) // problem.N
    runs, n = schedule.seeds * settings, schedule.taking_part(problem)
    at_once = n if schedule.agent_batch is None else schedule.agent_batch * (schedule.shards or 1)
    carried = settings * size_of(shapes(problem, algorithm, schedule).parts)
    kept = COPIES * carried + problem.N * one + 2 * runs * n * message
    share = jax.process_count() if schedule.shards is not None else 1
    return Need(kept // share, runs * at_once * WORK * trajectories // share)


def available() -> int | None:
    """Bytes that this process may still take: the machine's, or what its control group leaves; None if not known."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        there = next(1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError):
        return None
    return int(max(min(there, *_left_by_groups()), 0))


def _left_by_groups(system: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> list[float]:
    """What each control group above this process leaves of its limit (version 2); pages that can be dropped count."""
    left = [float("inf")]
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return left
    name = next((line[3:].strip("/") for line in lines if line.startswith("0::")), None)
    if name is None:
        return left
    folder = system / name
    for group in (folder, *folder.parents):
        if not group.is_relative_to(system):
            break
        try:
            limit, used = (int((group / f"memory.{x}").read_text()) for x in ("max", "current"))
            stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
            left.append(limit - used + int(stat.get("inactive_file", 0)))
        except (OSError, ValueError):  # no such file, or no limit: "max"
            continue
    return left


def _said(size: int) -> str:
    return f"{size / 2**30:,.1f} GB" if size >= 2**30 / 10 else f"{size / 2**20:,.0f} MB"
