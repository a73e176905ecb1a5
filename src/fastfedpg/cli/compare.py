"""`fastfedpg compare`: several methods on one problem, or runs that are there already."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import tyro
from rich.console import Console

from fastfedpg.cli.clock_flag import Seconds
from fastfedpg.cli.consoles import noting, print_lines, room, say, tell_of_report
from fastfedpg.cli.flags import flags_of
from fastfedpg.cli.new_folder import new_folder
from fastfedpg.cli.parse_flags import PRESET, base_file, option, parse
from fastfedpg.comparison import printed, run_cells, table
from fastfedpg.comparison.presented import Report
from fastfedpg.comparison.spec import Comparison, from_file
from fastfedpg.errors import printable
from fastfedpg.experiment import Interrupted
from fastfedpg.experiment.own_code import culprit, failure
from fastfedpg.experiment.progress import progress
from fastfedpg.experiment.words import words_of
from fastfedpg.kinds import ANYTHING
from fastfedpg.parameters import LETTERS

Found = TypeVar("Found")


def parse_etas(words: list[str]) -> dict[str, float]:
    """2 is the step size of all methods, name=2 that of one."""
    pairs = [(name or "all", float(value)) for name, _, value in (word.rpartition("=") for word in words)]
    if len(dict(pairs)) < len(pairs):
        raise ValueError("one step size for all, and one for each method that has its own")
    return dict(pairs)


def parse_lists(words: list[str]) -> dict[str, tuple[Any, ...]]:
    """H=5,10,20 B=8,32 is what to try of each."""
    found = {}
    for word in words:
        name, equals, values = word.partition("=")
        if not (name and equals and values):
            raise ValueError(f"'{word}' is not of the form setting=value,value")
        found[name] = tuple(ANYTHING.read(value) for value in values.split(","))
    return found


Etas = Annotated[dict[str, float], words_of("ETA|NAME=ETA …", parse_etas)]
Lists = Annotated[dict[str, tuple[Any, ...]], words_of("SETTING=VALUE,VALUE …", parse_lists)]


@dataclass(frozen=True)
class CompareFlags:
    """Compare methods on one problem and one budget, or finished runs."""

    folders: tyro.conf.Positional[tuple[Path, ...]] = option(
        (), "Folders of finished runs to compare, instead of running anything.", "problem"
    )
    algorithms: tuple[str, ...] = option(
        Comparison.algorithms,
        "Methods to compare: algorithms, each perhaps with settings of its own and a label, as in fast_fedpg "
        "reused=fast_fedpg,reuse=true mine.py:fedprox_pg,mu=0.1. Differences are to the first, and --rounds are the "
        "rounds of the first.",
        "algorithm",
    )
    eta: Etas = option(
        {"all": LETTERS["eta"].usual},
        "One step size for all, or by method, as in fast_fedpg=2 fedavg_pg=.5; with --tune the middle of the grid.",
        "algorithm",
    )
    budget: Literal["samples", "rounds", "bytes", "clock"] = option(
        "samples", "What all methods may spend alike: as much as the first does in --rounds rounds.", "run"
    )
    clock: Seconds = option(
        {},
        "What a network takes, for simulated seconds and --budget clock: latency=0.1 bandwidth=1e6 step_seconds=1e-4 "
        "straggle=0.5 are seconds of a synchronisation, bytes per second, seconds of an environment step, and by how "
        "much an agent is late on average.",
        "run",
    )
    tune: bool = option(
        False, "Choose every method's step size on seeds that are not reported; eta is the middle of the grid.", "run"
    )
    candidates: int = option(7, "Step sizes to try for each method when tuning, each twice the one before.", "run")
    tune_seeds: int = option(4, "Seeds to tune on: those that follow the reported ones.", "run")
    tune_over: Lists = option(
        {},
        "Further settings to try when tuning, as in H=5,10,20 B=8,32: every combination, for those who have it.",
        "run",
    )
    margin: float | None = option(
        None,
        "Differences up to this do not matter: 0.25, as usual, is a factor of 1.25 between gaps; where there are no "
        "gaps it is a share of what the first method improved J by, 0.01 as usual.",
        "run",
    )
    config: Path | None = option(None, "A TOML file with any of these settings; flags given beside it win.")
    preset: str | None = option(None, PRESET)
    out: Path | None = option(None, "The folder for the results; a new one under runs/ unless given.")
    overwrite: bool = option(False, "Replace an earlier comparison in that folder.")


EXAMPLE = (
    "fastfedpg compare --problem compromise --algorithms fast_fedpg reused=fast_fedpg,reuse=true --eta 0.5 --rounds 50"
)


def compare(arguments: list[str], console: Console, errors: Console) -> int:
    """Compare methods on one problem and one budget, or finished runs."""
    file = base_file(arguments)
    base = Comparison() if file is None else from_file(file)
    comparison, parsed = read_flags(base, CompareFlags, "fastfedpg compare", arguments, EXAMPLE)
    note = noting(errors)
    show = lambda title, rounds: progress(errors, title, rounds)
    out = parsed.out or new_folder("compare", comparison.settings.problem)
    if parsed.folders:
        out = parsed.out or new_folder("compare", "runs")
        given = comparison.margin, comparison.time
        work = lambda: run_cells.compare_runs(parsed.folders, out, parsed.overwrite, note, *given)
    else:
        work = lambda: run_cells.compare(comparison, out, overwrite=parsed.overwrite, show=show, note=note)
    return compare_and_report(work, out, console, errors)


def read_flags(
    base: Comparison, kind: type, program: str, arguments: list[str], example: str
) -> tuple[Comparison, Any]:
    """A comparison from its flags; a configuration file, if there is one, gives the defaults."""
    words = methods_in(arguments)
    methods = replace(base, algorithms=tuple(words or base.algorithms)).methods
    flags = flags_of(base.settings, arguments, ("problem", "oracle", "policy"), methods=methods)
    usual = {name: value for name, value in vars(base).items() if name not in ("settings", "cells")}
    settings, (parsed,) = parse((kind,), program, arguments, base.settings, flags, usual, example, methods)
    return replace(base, settings=settings, **{name: getattr(parsed, name) for name in usual}), parsed


def methods_in(arguments: list[str]) -> list[str]:
    """The words that follow --algorithms."""
    if "--algorithms" not in arguments:
        return []
    rest = arguments[arguments.index("--algorithms") + 1 :]
    return rest[: next((k for k, word in enumerate(rest) if word.startswith("--")), len(rest))]


def attempt(
    work: Callable[[], Found], out: Path, kept: Callable[[Path], str], errors: Console
) -> tuple[Found | None, int]:
    """What the work comes to; or nothing, if it was ended before, and the exit code that goes with what is said."""
    logging.getLogger("jax._src.callback").setLevel(logging.CRITICAL)  # we say it ourselves, without a traceback
    try:
        return work(), 0
    except Interrupted as error:
        return None, say(errors, f"{error}; fastfedpg resume {out} goes on", 130)
    except KeyboardInterrupt:
        return None, say(errors, f"interrupted; {kept(out)}", 130)
    except (Exception, SystemExit) as error:
        if not (why := failure(error, culprit(error))):
            raise
        return None, say(errors, f"failed: {why}; {kept(out)}", 1)


def compare_and_report(work: Callable[[], Report], out: Path, console: Console, errors: Console) -> int:
    """Do it, and say how it ended."""
    report, code = attempt(work, out, run_cells.kept, errors)
    if report is None:
        return code
    for shown in printed.tables(report.lines, report.title, report.shared, room(console), report.played):
        print_lines(console, shown)
    for words in table.footnotes(report.lines, report.shared):
        console.print(words, soft_wrap=True, highlight=False, markup=False)
    for file in report.files:
        if file.suffix != ".svg":
            console.print(f"written: {printable(file)}", soft_wrap=True, highlight=False, markup=False)
    tell_of_report(out, console)
    return 0
