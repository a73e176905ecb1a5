"""What `run`, `resume` and `server` have in common: doing it, and saying how it ended."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import numpy as np
from rich.console import Console

from fastfedpg.cli.consoles import noting, print_lines, room, say, tell_of_report
from fastfedpg.columns import Column, lay_out
from fastfedpg.draw import style
from fastfedpg.errors import InputError, Stopped, printable
from fastfedpg.experiment import Interrupted, Plan, finished_run, own_files, run_folder
from fastfedpg.experiment.checkpoints import Checkpoint
from fastfedpg.experiment.journal import Note
from fastfedpg.experiment.own_code import failure, own_code
from fastfedpg.experiment.progress import OnProgress, progress
from fastfedpg.runtime import Diverged, Result, views
from fastfedpg.statistics import FEWEST

Work: TypeAlias = Callable[[OnProgress, Note], Result]
"""What is to be done, given where to report."""


def where(planned: Plan, found: Checkpoint | None) -> str:
    """Where a run goes on."""
    return "from the beginning" if found is None else f"from round {found.standing.round} of {planned.config.rounds}"


def run_and_report(planned: Plan, out: Path, work: Work, console: Console, errors: Console) -> int:
    """Run what was planned, and say how it ended."""
    try:
        return _run_and_report(planned, out, work, console, errors)
    except KeyboardInterrupt:
        if run_folder.ended(out) != "finished":
            raise
        help = f"; its picture is missing: fastfedpg resume {out} draws it" if _undrawn(out) else ""
        return say(errors, f"interrupted when the run had finished; its results are in {out}{help}", 130)


def draw_again(out: Path, console: Console, errors: Console) -> int:
    """Of a run that has finished, the picture, if that is missing; and which of its results are other ones now."""
    note, found = noting(errors), list[Path]()
    for path in own_files.changed_results(out):
        note(printable(f"{path}: not what was written there, but changed since, or somebody else's"))
    if _undrawn(out):
        try:
            outcome, planned = finished_run.read(out, "", note)
        except InputError as error:
            note(f"no picture: {error}")
        else:
            title = printable(f"{planned.config.algorithm} on {planned.name}")
            found = _picture(out, title, outcome.result, note)[:1]
            if planned.problem.release is not None:
                planned.problem.release()
    done = f"its picture was missing: {found[0]}" if found else "there is nothing to do"
    words = printable(f"{out}: the run has finished; {done}")
    console.print(words, highlight=False, soft_wrap=True, markup=False)
    return 0


def _undrawn(out: Path) -> bool:
    return not all(file.exists() for file in style.files(out / run_folder.CURVE))


def _run_and_report(planned: Plan, out: Path, work: Work, console: Console, errors: Console) -> int:
    config = planned.config
    note, title = noting(errors), printable(f"{config.algorithm} on {planned.name}")
    for words in planned.notes:
        note(words)
    logging.getLogger("jax._src.callback").setLevel(logging.CRITICAL)  # we say it ourselves, without a traceback
    try:
        with progress(errors, title, config.rounds) as report:
            result = work(report, note)
    except Diverged as error:
        return say(errors, f"{error} Metrics until then are in {out}", 1)
    except Interrupted as error:
        return say(errors, f"{error}; {run_folder.kept(out)}", 130)
    except Stopped as error:
        return say(errors, f"stopped: {error}; {run_folder.kept(out)}", 1)
    except (Exception, SystemExit) as error:
        if not (why := failure(error, own_code(config, error))):
            raise
        return say(errors, f"failed: {why}; {run_folder.kept(out)}", 1)
    pictures = _picture(out, title, result, note)
    print_lines(console, _results(config.algorithm, result, room(console)))
    if planned.theorem is not None:  # asked for, by --schedule; summary.json has it for every run
        console.print(planned.standpoint.words, soft_wrap=True, highlight=False, markup=False)
    console.print(f"results: {printable(out)}", soft_wrap=True, highlight=False, markup=False)
    for file in pictures[:1]:
        console.print(f"picture: {printable(file)}", soft_wrap=True, highlight=False, markup=False)
    tell_of_report(out, console)
    return 0


def _results(title: str, result: Result, width: int) -> list[str]:
    """The last record in words: first the gap, or where there is none J, or in environments the return."""
    found = views.in_the_end(result.metrics)
    seeds = len(result.theta)
    count = lambda x: "not sent" if np.isnan(x) else f"{x:,.0f}"
    none = "–" if seeds > 1 else ""
    columns = [
        Column("", list(found), whole=True, right=False),
        Column("mean", [count(x.mean) if counted else f"{x.mean:.4g}" for counted, x in found.values()]),
        Column(
            "95% interval over seeds",
            [
                "" if counted else none if np.isnan(x.low) else f"[{x.low:.4g}, {x.high:.4g}]"
                for counted, x in found.values()
            ],
        ),
    ]
    few = f"; fewer than {FEWEST} have no interval" if 1 < seeds < FEWEST else ""
    return [
        f"{title} after {result.rounds[-1]} rounds ({seeds} seed{'s' * (seeds > 1)}{few})",
        *lay_out(columns, width),
    ]


def _picture(out: Path, title: str, result: Result, note: Note) -> list[Path]:
    """The leading metric over rounds, as curve.png and curve.svg; where there can be none, that is said."""
    try:
        with style.drawing():
            figure = result.plot()
            axis = figure.axes[0]
            axis.set_title(style.plain(f"{title}: {axis.get_title()}", 5.5), fontsize=style.SMALL)
            return style.save(figure, out / run_folder.CURVE)
    except InputError as error:
        note(f"no picture: {error}")
    except OSError as error:
        note(f"no picture: {error.strerror}")
    return []
