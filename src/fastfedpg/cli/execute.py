"""What `run`, `resume` and `server` have in common: doing it, and saying how it ended."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import jax
import numpy as np
from rich.console import Console
from rich.table import Table

from fastfedpg.cli.consoles import noting, say
from fastfedpg.errors import EnvironmentFailed, Stopped
from fastfedpg.experiment import Interrupted, Plan, run_folder
from fastfedpg.experiment.checkpoints import Checkpoint
from fastfedpg.experiment.config import Config
from fastfedpg.experiment.journal import Note
from fastfedpg.experiment.progress import OnProgress, progress
from fastfedpg.runtime import Diverged, Result
from fastfedpg.statistics import bootstrap

Work: TypeAlias = Callable[[OnProgress, Note], Result]
"""What is to be done, given where to report."""


def where(planned: Plan, found: Checkpoint | None) -> str:
    """Where a run goes on."""
    return "from the beginning" if found is None else f"from round {found.standing.round} of {planned.config.rounds}"


def run_and_report(planned: Plan, out: Path, work: Work, console: Console, errors: Console) -> int:
    """Run what was planned, and say how it ended."""
    config = planned.config
    note = noting(errors)
    for words in planned.notes:
        note(words)
    try:
        with progress(errors, f"{config.algorithm} on {planned.name}", config.rounds) as report:
            result = work(report, note)
    except Diverged as error:
        return say(errors, f"{error} Metrics until then are in {out}", 1)
    except Interrupted as error:
        return say(errors, f"{error}; {run_folder.kept(out)}", 130)
    except Stopped as error:
        return say(errors, f"stopped: {error}; {run_folder.kept(out)}", 1)
    except (OSError, MemoryError, EnvironmentFailed, jax.errors.JaxRuntimeError) as error:
        return say(errors, f"failed: {error}; {run_folder.kept(out)}", 1)
    console.print(_results(config, result))
    if planned.known is not None and not planned.known.played:
        console.print(planned.standpoint.words, soft_wrap=True, highlight=False, markup=False)
    console.print(f"results: {out}", soft_wrap=True, highlight=False, markup=False)
    return 0


def _results(config: Config, result: Result) -> Table:
    seeds = f"{config.seeds} seeds" if config.seeds > 1 else "1 seed"
    table = Table(title=f"{config.algorithm} after {result.rounds[-1]} rounds ({seeds})", title_justify="left")
    for column in ("", "mean", "95% interval over seeds"):
        table.add_column(column, justify="left" if not column else "right")
    rows = {
        "gap to the best common policy": "gap",
        "squared gradient norm": "grad_norm_sq",
        "mean return of the agents": "return_mean",
        "worst agent's return": "return_worst",
        "environment steps, all agents": "env_steps",
        "bytes sent per agent": "bytes_up",
        "synchronisations": "syncs",
    }
    if (result.final("gap") != result.final("gap")).any():
        played = np.isnan(result.final("grad_norm_sq")).all()
        why = "discounted" if played else "no gap: kernels or starts differ"
        rows = {f"J, the mean cost ({why})": "J", **rows}
        del rows["gap to the best common policy"]
        if played:
            del rows["squared gradient norm"]
    for label, name in rows.items():
        mean, low, high = bootstrap(result.final(name))
        counted = name in ("env_steps", "bytes_up", "syncs")
        show = (lambda x: "not sent" if x != x else f"{x:,.0f}") if counted else (lambda x: f"{x:.4g}")
        table.add_row(
            label, show(mean), "" if counted or low != low else f"[{low:.4g}, {high:.4g}]".replace("[", r"\[")
        )
    return table
