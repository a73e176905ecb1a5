"""`fastfedpg resume`: go on with what was interrupted or killed."""

from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.console import Console

from fastfedpg.cli import compare, server, study
from fastfedpg.cli import execute as ending
from fastfedpg.cli.consoles import noting
from fastfedpg.cli.parse_flags import own_flags
from fastfedpg.comparison import run_cells
from fastfedpg.errors import InputError
from fastfedpg.experiment import execute, own_files, reopen, run_folder
from fastfedpg.experiment.progress import progress

EXAMPLE = "fastfedpg resume runs/first"


@dataclass(frozen=True)
class ResumeFlags:
    """Go on with a run that was interrupted or killed, to the same end, but for rounding on another machine."""

    folder: tyro.conf.Positional[Path]
    """The folder of a run, of a comparison, or of a study."""

    restart: bool = False
    """Begin anew where no checkpoint can be used; what is there is kept in a folder before-restart."""


def resume(arguments: list[str], console: Console, errors: Console) -> int:
    """Go on with a run, a comparison or a study that was interrupted or killed."""
    given = own_flags(ResumeFlags, "fastfedpg resume", arguments, EXAMPLE)
    folder, restart = given.folder, given.restart
    show = lambda title, rounds: progress(errors, title, rounds)
    if (folder / own_files.STUDY[0]).is_file():
        from fastfedpg.comparison import run_study  # with SciPy's tests, which nothing else waits for

        on = lambda: run_study.resume(folder, show, noting(errors), study.saying(errors), restart)
        return study.study_and_report(on, folder, console, errors)
    if (folder / own_files.CLAIMS).is_file():
        from fastfedpg.cli import claims  # as above

        return claims.resume(folder, console, errors)
    if (folder / run_cells.FILE).is_file():
        again = lambda: run_cells.resume(folder, show, noting(errors), restart)
        return compare.compare_and_report(again, folder, console, errors)
    state = run_folder.state(folder)
    if state == "finished":
        return ending.draw_again(folder, console, errors)
    if state == "diverged":
        raise InputError(f"{folder}: the run diverged, and would again; start a new one, with a smaller eta")
    if run_folder.is_deployed(folder):
        if restart:
            raise InputError(
                f"{folder}: a deployed run's agents stand elsewhere, and can't begin anew; start another run"
            )
        return server.resume(folder, console, errors)
    note = noting(errors)
    with reopen(folder, note, restart=restart) as (planned, found):
        note(ending.where(planned, found))
        work = lambda report, note: execute(planned, folder, report, found, note)
        return ending.run_and_report(planned, folder, work, console, errors)
