"""Does a deployed run equal its simulation? To the last digits with counter keys; in distribution with private ones."""

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fastfedpg.errors import InputError
from fastfedpg.experiment import budgets, finished_run, run, run_folder
from fastfedpg.experiment.journal import Note, unsaid
from fastfedpg.experiment.progress import Show, unseen
from fastfedpg.federation.deployment import read
from fastfedpg.runtime import Result

LIMIT_EXACT, LIMIT_SAMPLED = 1e-12, 1e-9
"""Of theta's entries, beside entries of size 1: one definition, compiled in two ways, differs by rounding alone."""

LEVEL = 0.01
"""A deployment that is as it should be fails the test of its distribution at most this often."""


class Verdict(NamedTuple):
    """What was found, in words and numbers."""

    good: bool
    words: str
    value: float  # the largest difference of theta, or the p-value


def verify(out: Path, seeds: int = 199, show: Show = unseen, note: Note = unsaid) -> Verdict:
    """Compare a finished deployed run with the simulation of its own configuration."""
    if not run_folder.is_deployed(out):
        raise InputError(f"{out}: not the folder of a deployed run")
    how = read(out)
    found, planned = finished_run.read(out, "deployed", note)
    part = planned.schedule.taking_part(planned.problem) / planned.problem.N
    took = found.result.final("bytes_up")[0] / max(planned.sizes.bytes_up * planned.config.rounds * part, 1)
    if took < 1 - 1e-9:
        raise InputError(
            f"{out}: agents were missing in some rounds ({took:.1%} of their messages were sent), and the simulation "
            "misses nobody: the two are not the same run"
        )
    sampled = budgets.plays(planned)
    private = how.keys == "private" and sampled
    # The plain loop calls the very functions that agents and server call; the other program's rounding may flip a draw.
    config = replace(planned.config, checkpoint_rounds=None, runtime="simulate" if private else "loop")
    if private:
        if seeds < 1 / LEVEL - 1:
            raise InputError(f"seeds = {seeds}; a test at the level {LEVEL:g} needs at least {1 / LEVEL - 1:.0f}")
        # From the next seed on: which agents take part follows from the seed, and no simulated run may share it.
        config = replace(config, seeds=seeds, first_seed=config.first_seed + 1)
    start = np.asarray(planned.problem.theta0)
    with show(f"simulating {out}", config.rounds) as report:
        simulated = run(config, report=report)
    return distribution(found.result, simulated) if private else equality(found.result, simulated, start, sampled)


def equality(deployed: Result, simulated: Result, start: np.ndarray, sampled: bool) -> Verdict:
    """The largest difference of theta's entries beside their size, or beside theta's way if that was less than 1."""
    limit = LIMIT_SAMPLED if sampled else LIMIT_EXACT
    moved = float(np.max(np.abs(simulated.theta - start)))
    apart = float(np.max(np.abs(deployed.theta - simulated.theta) / np.maximum(min(1, moved), np.abs(simulated.theta))))
    one, other = deployed.metrics["J"][0], simulated.metrics["J"][0]
    J = np.abs(one - other) / np.maximum(1.0, np.abs(other))
    words = f"theta, which moved by up to {moved:.2g}, differs from the simulation's by at most {apart:.2g} of its size"
    if np.isfinite(J).any():
        words += f", J by {np.nanmax(J):.2g} in {len(J)} records"
    if apart <= limit:
        return Verdict(True, f"{words}: equal to {limit:g}", apart)
    first = np.flatnonzero(limit < J)
    since = f"; J parts after round {deployed.rounds[first[0]]}" if len(first) else ""
    return Verdict(False, f"{words}: more than {limit:g}{since}", apart)


def distribution(deployed: Result, simulated: Result) -> Verdict:
    """A permutation test: is the deployed run one of the simulated ones, as far as J's curve and theta can say?

    If it is, all n + 1 runs are exchangeable, and so is their distance from the middle, for which
    T = mean over records of z_J^2 + mean over parameters of z_theta^2, with mean and deviation over all n + 1 runs.
    The share of runs that are at least as far away, the deployed one included, is then a p-value without approximation.
    """
    T = _distance(np.concatenate([deployed.metrics["J"], simulated.metrics["J"]]))
    T = T + _distance(np.concatenate([deployed.theta, simulated.theta]))
    p = float(np.mean(T[0] <= T))
    words = f"as far from the middle of {len(T) - 1} simulated runs as it is, or farther, are {p:.1%} of the runs"
    verdict = "no difference is seen" if p > LEVEL else f"that is at most {LEVEL:.0%}: not the same distribution"
    return Verdict(p > LEVEL, f"{words}: {verdict}", p)


def _distance(values: np.ndarray) -> np.ndarray:
    deviation = values.std(axis=0)
    moving = deviation > 1e-12 * np.maximum(1.0, np.abs(values).max(axis=0))  # the first record is the same for all
    z = (values[:, moving] - values[:, moving].mean(axis=0)) / deviation[moving]
    return (z**2).mean(axis=1) if moving.any() else np.zeros(len(values))
