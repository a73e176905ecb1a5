"""`fastfedpg compare`: several methods on one problem, or runs that are there already."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import jax
import tyro
from rich.console import Console

from fastfedpg.cli.consoles import noting, say
from fastfedpg.cli.flags import folder_name, new_name, value_of
from fastfedpg.comparison import run_cells, table
from fastfedpg.comparison.run_cells import Report
from fastfedpg.comparison.spec import Comparison, from_file
from fastfedpg.errors import EnvironmentFailed
from fastfedpg.experiment import Interrupted
from fastfedpg.experiment.progress import progress


@dataclass(frozen=True)
class Compare:
    """Compare methods on one problem and one budget, or finished runs."""

    comparison: Comparison
    folders: tyro.conf.Positional[tuple[Path, ...]] = ()
    """Folders of finished runs to compare, instead of running anything."""
    config: Path | None = None
    """A TOML file with any of these settings; flags given beside it win."""
    out: Path | None = None
    """The folder for the results; a new one under runs/ unless given."""
    overwrite: bool = False
    """Replace an earlier comparison in that folder."""


def compare(arguments: list[str], console: Console, errors: Console) -> int:
    """Compare methods on one problem and one budget, or finished runs."""
    base = Comparison()
    if (file := value_of("--config", arguments)) is not None:
        base = from_file(Path(file))
    parsed = tyro.cli(
        tyro.conf.OmitArgPrefixes[Compare],
        prog="fastfedpg compare",
        args=arguments,
        default=Compare(base),
        console_outputs=True,
    )
    comparison, note = parsed.comparison, noting(errors)
    show = lambda title, rounds: progress(errors, title, rounds)
    out = parsed.out or new_name(Path("runs") / f"compare-{folder_name(comparison.settings.problem)}")
    if parsed.folders:
        out = parsed.out or new_name(Path("runs") / "compare-runs")
        work = lambda: run_cells.compare_runs(parsed.folders, out, parsed.overwrite, note)
    else:
        work = lambda: run_cells.compare(comparison, out, parsed.overwrite, show, note)
    return carry_out(work, out, console, errors)


def carry_out(work: Callable[[], Report], out: Path, console: Console, errors: Console) -> int:
    """Do it, and say how it ended."""
    try:
        report = work()
    except Interrupted as error:
        return say(errors, f"{error}; fastfedpg resume {out} goes on", 130)
    except KeyboardInterrupt:
        return say(errors, f"interrupted; {run_cells.kept(out)}", 130)
    except (OSError, MemoryError, EnvironmentFailed, jax.errors.JaxRuntimeError) as error:
        return say(errors, f"failed: {error}; {run_cells.kept(out)}", 1)
    wide = max(console.width, 32 + 16 * len(report.lines))  # a narrow terminal wraps lines; numbers are never cut
    console.print(table.show(report.lines, report.title, report.shared), width=wide, crop=False)
    for words in table.footnotes(report.lines, report.shared):
        console.print(words, soft_wrap=True, highlight=False, markup=False)
    for file in report.files:
        if file.suffix != ".svg":
            console.print(f"written: {file}", soft_wrap=True, highlight=False, markup=False)
    return 0
