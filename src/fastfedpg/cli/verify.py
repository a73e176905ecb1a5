"""`fastfedpg verify`: do the paper's claims hold on a problem; or, for a deployed run, does it equal its simulation?"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from fastfedpg.cli.consoles import noting, print_lines, room, say, tell_of_report
from fastfedpg.cli.new_folder import new_folder
from fastfedpg.cli.parse_flags import OptionalPath, own_flags
from fastfedpg.errors import InputError, printable
from fastfedpg.verify.options import Show, VerifySettings

SECONDS = 5.0
"""After which a part that goes on is told of again, and how far it is."""
EXAMPLE = "fastfedpg verify --problem compromise --tau 0.1 --quick"


@dataclass(frozen=True)
class VerifyFlags:
    """Check the paper's claims on a problem; or compare a deployed run with the simulation of its configuration."""

    settings: VerifySettings
    folder: Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER", help_behavior_hint="")] = None
    """The folder of a finished deployed run: it is compared with its simulation, and nothing else is done."""
    seeds: int = 199
    """For a folder whose sites drew their own random numbers: simulated runs that it is compared with."""
    out: OptionalPath = None
    """The folder for verify.json and the pictures; a new one under runs/ unless given."""
    overwrite: bool = False
    """Replace an earlier report in that folder."""
    mutants: bool = False
    """Check the checks instead: break the algorithm and its oracles, one thing at a time, and say which row notices."""


def verify(arguments: list[str], console: Console, errors: Console) -> int:
    """Check every claim of the paper on a problem, or compare a deployed run with its simulation."""
    kind, usual = tyro.conf.OmitArgPrefixes[VerifyFlags], VerifyFlags(VerifySettings())
    given = own_flags(kind, "fastfedpg verify", arguments, EXAMPLE, usual)
    if given.folder is not None:
        return _deployed(given, console, errors)
    if given.seeds != VerifyFlags.seeds:
        raise InputError("seeds are for the folder of a deployed run; a report on the theory has --first-seed")
    return (_mutants if given.mutants else _claims)(given, console, errors)


def _deployed(given: VerifyFlags, console: Console, errors: Console) -> int:
    from fastfedpg.experiment.progress import progress
    from fastfedpg.federation import equals_simulation

    assert given.folder is not None
    if given.settings != VerifySettings() or given.out is not None or given.overwrite or given.mutants:
        raise InputError(f"{given.folder} is a deployed run, which says everything itself: leave the other flags out")
    show = lambda title, rounds: progress(errors, title, rounds)
    found = equals_simulation.verify(given.folder, given.seeds, show, noting(errors))
    console.print(found.words, soft_wrap=True, highlight=False, markup=False)
    return 0 if found.good else 1


def _mutants(given: VerifyFlags, console: Console, errors: Console) -> int:
    from fastfedpg.verify import hunt, mutants

    seed = given.settings.first_seed
    if given.settings != VerifySettings(first_seed=seed) or given.out is not None or given.overwrite:
        raise InputError("mutants have a problem of their own and write no files: give --first-seed alone with them")
    subject = hunt.small(seed)
    with stages(errors, 1 + len(mutants.MUTANTS)) as show:
        usual, found = hunt.hunt(subject, mutants.MUTANTS, show)
    print_lines(console, hunt.table(found, room(console)))
    console.print(hunt.summary(usual, found), soft_wrap=True, highlight=False, markup=False)
    return 0 if hunt.good(usual, found) else 1


def _claims(given: VerifyFlags, console: Console, errors: Console) -> int:
    from fastfedpg.experiment import run_folder
    from fastfedpg.files import clear_parts
    from fastfedpg.verify import agenda as parts
    from fastfedpg.verify import report

    out = given.out or new_folder("verify")
    begun = report.goes_on(given.settings, out)
    earlier = report.is_there(out) or bool(report.part_files(out))
    if not run_folder.check_place(out, given.overwrite or begun) and not earlier:
        raise InputError(f"{out}: no report of fastfedpg verify, so nothing in it is replaced; choose another --out")
    for file in report.names(out):
        if file.is_dir():
            raise InputError(f"{file}: a folder where a file of the report belongs")
    work = parts.parts(given.settings)
    try:
        with run_folder.open_folder(out, lambda: clear_parts(out), lambda: None), stages(errors, len(work)) as show:
            found = report.verify(given.settings, out, work=work, show=show, note=noting(errors))
    except KeyboardInterrupt:
        if n := len(report.part_files(out)):
            words = f"interrupted after {n} of {len(work)} parts; they are kept in {printable(out)}"
            return say(errors, f"{words}, and the same command with --out {printable(out)} goes on", 130)
        with suppress(OSError):
            out.rmdir()  # if nothing is in it
        return say(errors, f"interrupted before anything was decided; no report was written to {out}", 130)
    print_lines(console, report.table(found.rows, room(console)))
    for words in report.summary(found.rows):
        console.print(words, soft_wrap=True, highlight=False, markup=False)
    for file in found.files:
        if file.suffix != ".svg":
            console.print(f"written: {printable(file)}", soft_wrap=True, highlight=False, markup=False)
    tell_of_report(out, console)
    return 0 if found.good else 1


@contextmanager
def stages(errors: Console, parts: int, what: str = "verify") -> Iterator[Show]:
    """A bar on a terminal; elsewhere a line for each part that begins, and every few seconds one for how far it is."""
    began = time.monotonic()
    if not errors.is_terminal:
        now: dict[str, Any] = {"part": -1, "title": ""}
        over = threading.Event()

        def tell() -> None:
            words = (
                f"{what}: part {now['part'] + 1} of {parts}, {now['title']} ({time.monotonic() - began:.0f} s so far)"
            )
            errors.print(words, soft_wrap=True, highlight=False, markup=False)

        def remind() -> None:
            while not over.wait(SECONDS):
                tell()

        def show(part: int, title: str) -> None:
            begins = part != now["part"]
            now.update(part=part, title=title)
            if begins:
                tell()

        reminder = threading.Thread(target=remind, daemon=True)
        reminder.start()
        try:
            yield show
        finally:
            over.set()
            reminder.join()
        return
    with Progress(
        SpinnerColumn(), MofNCompleteColumn(), BarColumn(), TextColumn("{task.description}", markup=False),
        TimeElapsedColumn(), console=errors,
    ) as bar:  # fmt: skip
        task = bar.add_task("", total=parts)
        yield lambda part, title: bar.update(task, completed=part, description=title)
        bar.update(task, completed=parts, description="done")
