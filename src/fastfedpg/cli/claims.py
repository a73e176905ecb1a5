"""`fastfedpg study claims`: what the paper says about others, as verdicts."""

from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from fastfedpg.cli.consoles import print_lines, room, tell_of_report
from fastfedpg.cli.verify import stages
from fastfedpg.errors import printable
from fastfedpg.verify.options import Show
from fastfedpg.verify.others import claims_study
from fastfedpg.verify.others.claims_study import Claims
from fastfedpg.verify.others.statements import parts
from fastfedpg.verify.report import Verification, summary


def claims(asked: Claims, out: Path, overwrite: bool, console: Console, errors: Console) -> int:
    """Measure everything, and say what holds."""
    work = lambda show: claims_study.begin(asked, out, overwrite, show)
    return _report(work, asked, out, console, errors)


def resume(out: Path, console: Console, errors: Console) -> int:
    """Go on with a study of claims."""
    return _report(lambda show: claims_study.resume(out, show), claims_study.read(out), out, console, errors)


def _report(
    work: Callable[[Show], Verification], asked: Claims, out: Path, console: Console, errors: Console
) -> int:  # fmt: skip
    from fastfedpg.cli.compare import attempt  # with what comparisons need, which is not needed before

    def staged() -> Verification:
        with stages(errors, len(parts(asked.quick)), "claims") as show:
            return work(show)

    found, code = attempt(staged, out, claims_study.words_of, errors)
    if found is None:
        return code
    print_lines(console, claims_study.table(found.rows, room(console)))
    for words in [*summary(found.rows), *(f"written: {printable(file)}" for file in found.files)]:
        console.print(words, soft_wrap=True, highlight=False, markup=False)
    tell_of_report(out, console)
    return 0 if found.good else 1
