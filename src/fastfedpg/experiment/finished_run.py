"""Runs as a comparison sees them: read from their folders, one outcome for each."""

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fastfedpg.envs.environments import CONTEXT
from fastfedpg.errors import InputError
from fastfedpg.experiment import budgets, exported, own_files, results, run_folder
from fastfedpg.experiment.config import Config, from_toml
from fastfedpg.experiment.copies import described
from fastfedpg.experiment.journal import Note
from fastfedpg.experiment.plan import Plan, plan
from fastfedpg.files import read_text
from fastfedpg.problems import AnyProblem
from fastfedpg.runtime import Result
from fastfedpg.runtime.result import METRICS

SAME = ("problem", "problem_args", "agents", "reward_range", "tau")
"""Settings in which runs must agree to be compared."""


INSTEAD = "metrics.csv is read instead, which has no sum: whether it was edited can't be told"


class Outcome(NamedTuple):
    """A run that has come to its end, under the name that tables and legends give it."""

    label: str
    config: Config
    seeds: tuple[int, ...]
    result: Result  # arrays with the leading axis of the seeds
    samples: np.ndarray  # (records,): all agents together, from the start
    unit: str  # what the samples are: "environment steps", or "gradient estimates" where nothing is played
    seconds: float


def read(folder: Path, label: str, note: Note, like: Plan | None = None) -> tuple[Outcome, Plan]:
    """A finished run from its folder; `note` hears of what is damaged and left out."""
    if not (folder / "config.toml").is_file():
        known = (folder / run_folder.COMPARISON).is_file()
        study = own_files.is_ours(folder / own_files.STUDY[0])
        what = "a comparison" if known else "a study" if study else ""
        hint = f"it is {what}, which fastfedpg resume {folder} shows; name runs in it" if what else ""
        raise InputError(f"{folder}: not a run: {hint or 'there is no config.toml in it'}")
    state = run_folder.state(folder)
    if state != "finished":
        raise InputError(f"{folder}: the run is {state}, not finished{_help(folder, state)}")
    planned = like or plan(from_toml(folder / "config.toml"))
    config = planned.config
    result, seeds, _ = _results(folder, planned, note)
    played = budgets.plays(planned)
    samples = result.metrics["env_steps"].mean(axis=0) if played else result.rounds * float(budgets.samples(planned))
    seconds = _seconds(folder / "summary.json")
    return Outcome(label, config, seeds, result, samples, budgets.unit(planned), seconds), planned


def read_lost(folder: Path, label: str, planned: Plan) -> Outcome:
    """A run that diverged: what it had spent by then, and no value for any seed."""
    config, seeds, known = planned.config, planned.config.seeds, dict[str, np.ndarray]()
    spent = {"env_steps", "floats_up", "floats_down", "bytes_up", "bytes_down", "syncs"}
    nothing = np.full((seeds, 1), np.nan)
    try:
        found = results.read(folder / results.FILE).result
        rounds, known = found.rounds, found.metrics
    except (InputError, OSError):
        rounds = np.zeros(1, int)
    metrics = {name: known[name][:, -1:] if name in spent & {*known} else nothing for name in METRICS}
    samples = metrics["env_steps"].mean(axis=0) if budgets.plays(planned) else rounds[-1:] * budgets.samples(planned)
    theta = np.full((seeds, np.shape(planned.problem.theta0)[-1]), np.nan)
    result = Result(rounds[-1:], metrics, np.full((seeds, 1, planned.problem.N), np.nan), theta, config.first_seed)
    numbers = tuple(range(config.first_seed, config.first_seed + seeds))
    seconds = _seconds(folder / "summary.json")
    return Outcome(label, config, numbers, result, samples, budgets.unit(planned), seconds)


def check_same_problem(folders: Sequence[Path], plans: Sequence[Plan]) -> None:
    """Refuse runs of different problems, and say what differs."""
    for (a, p), (b, q) in pairwise(zip(folders, plans, strict=True)):
        here, there = described(p.config), described(q.config)
        unequal = _unequal(p.here, q.here)
        if p.here.played and q.here.played:
            unequal += [name for name, x, y in _played(p, q) if x != y]
        if here.tau == there.tau and p.here.scale == q.here.scale and not unequal:
            continue  # one problem, whatever words it was asked for in
        differ = [name for name in SAME if getattr(here, name) != getattr(there, name)]
        said = [f"{name} is {getattr(here, name)} in {a} and {getattr(there, name)} in {b}" for name in differ]
        if not said and unequal:
            said = [f"{', '.join(unequal)} of {a} and {b} differ"]
        if said:
            raise InputError(f"runs of different problems can't be compared: {'; '.join(said)}")


def _played(p: Plan, q: Plan) -> list[tuple[str, Any, Any]]:
    """What J is measured with, where it is measured by playing."""
    episodes = p.config.evaluation_episodes, q.config.evaluation_episodes
    one, other = (x.config.evaluate_by.replace("both", "sampled") for x in (p, q))  # with both, J is of the first
    return [("K", p.episode, q.episode), ("evaluation_episodes", *episodes), ("evaluate_by", one, other)]


def _unequal(one: AnyProblem, other: AnyProblem) -> list[str]:
    """The arrays in which two problems differ, but for what policies alone are told: J is of the same environments."""
    here, there = one.arrays(), other.arrays()
    names = [n for n in {**here, **there} if n != CONTEXT]
    return [n for n in names if n not in here or n not in there or not np.array_equal(here[n], there[n])]


def labels(folders: Sequence[Path], plans: Sequence[Plan]) -> list[str]:
    """The algorithm's name where that is enough, else with the folder's."""
    names = [p.config.algorithm for p in plans]
    own = [n if names.count(n) == 1 else f"{n} ({f.name or f})" for n, f in zip(names, folders, strict=True)]
    return own if len({*own}) == len(own) else [str(f) for f in folders]


def _results(folder: Path, planned: Plan, note: Note) -> results.Stored:
    """From results.npz; where that is missing or damaged, from what was exported beside it, and that is said."""
    file = folder / results.FILE
    try:
        found, config = results.read(file), planned.config
    except InputError as error:
        note(f"{error}; {INSTEAD}")
        return exported.read(folder, planned, note)
    run_folder.check_config(folder, found, config)
    seeds = tuple(range(config.first_seed, config.first_seed + config.seeds))
    if (found.seeds, found.result.rounds.tolist()) == (seeds, list(planned.schedule.recorded())):
        return found
    note(f"{file}: its seeds or rounds are not those of config.toml; {INSTEAD}")
    return exported.read(folder, planned, note)


def _seconds(path: Path) -> float:
    try:
        return float(json.loads(read_text(path))["seconds"])
    except run_folder.UNREADABLE:
        return float("nan")


def _help(folder: Path, state: str) -> str:
    return f"; fastfedpg resume {folder} goes on with it" if state in ("interrupted", "failed") else ""
