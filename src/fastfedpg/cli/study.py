"""`fastfedpg study`: comparisons that belong together, run one after the other and shown together."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.console import Console

from fastfedpg.cli.consoles import noting, print_lines, room, tell_of_report
from fastfedpg.cli.new_folder import new_folder
from fastfedpg.cli.parse_flags import OptionalPath, own_flags
from fastfedpg.errors import InputError, printable

if TYPE_CHECKING:
    from fastfedpg.comparison.study_spec import Shown

EXAMPLE = "fastfedpg study suite --quick --algorithms fast_fedpg scaffold_pg --out runs/suite"


@dataclass(frozen=True)
class StudyFlags:
    """Run a study: comparisons on many problems, or at many values of one setting, shown together."""

    study: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="STUDY")]
    """One of ours: claims, suite, rivals, phases, heterogeneity, speedup, local-steps, communication, momentum,
    participation; or a file of your own, as in my_suite.toml (docs/suite.md and docs/studies.md say what it holds)."""
    algorithms: Annotated[tuple[str, ...], tyro.conf.arg(help_behavior_hint="(default: the study's own)")] = ()
    """Methods in the place of the study's own, as for `fastfedpg compare`; differences are to the first."""
    quick: bool = False
    """The smaller form that the study's file declares: to see whether all works, and not who is better."""
    out: OptionalPath = None
    """The folder for the results; a new one under runs/ unless given."""
    overwrite: bool = False
    """Replace an earlier study in that folder."""


def study(arguments: list[str], console: Console, errors: Console) -> int:
    """Run comparisons on many problems, or at many values of one setting, and show them together."""
    asked = own_flags(StudyFlags, "fastfedpg study", arguments, EXAMPLE)
    from fastfedpg.comparison import run_study, study_spec  # with JAX and SciPy's tests, which --help can do without
    from fastfedpg.experiment.progress import progress

    if asked.study == study_spec.CLAIMS:
        return _claims(asked, console, errors)
    found = study_spec.read(study_spec.find(asked.study), asked.quick, asked.algorithms)
    out = asked.out or new_folder("study", found.name)
    show = lambda title, rounds: progress(errors, title, rounds)
    work = lambda: run_study.study(found, out, asked.overwrite, show, noting(errors), saying(errors))
    return study_and_report(work, out, console, errors)


def _claims(asked: StudyFlags, console: Console, errors: Console) -> int:
    from fastfedpg.cli.claims import claims
    from fastfedpg.verify.others.claims_study import Claims

    if asked.algorithms:
        raise InputError("the claims are about the methods that the paper names; leave --algorithms out")
    return claims(Claims(asked.quick), asked.out or new_folder("study", asked.study), asked.overwrite, console, errors)


def saying(errors: Console) -> Callable[[str], None]:
    """Says on stderr which comparison begins."""
    return lambda words: errors.print(printable(words), soft_wrap=True, highlight=False, markup=False)


def study_and_report(work: "Callable[[], Shown]", out: Path, console: Console, errors: Console) -> int:
    """Do it, and say how it ended."""
    from fastfedpg.cli.compare import attempt
    from fastfedpg.comparison import run_study

    shown, code = attempt(work, out, run_study.kept, errors)
    if shown is None:
        return code
    for lines in shown.tables(room(console)):
        print_lines(console, lines)
    for words in shown.footnotes:
        console.print(words, soft_wrap=True, highlight=False, markup=False)
    for file in shown.files:
        if file.suffix != ".svg":
            console.print(f"written: {printable(file)}", soft_wrap=True, highlight=False, markup=False)
    tell_of_report(out, console)
    return 0
