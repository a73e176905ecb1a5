"""`fastfedpg sweep`: one algorithm with several values of its settings, each combination a run, side by side."""

from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Literal

from rich.console import Console

from fastfedpg.cli.compare import compare_and_report
from fastfedpg.cli.consoles import noting
from fastfedpg.cli.flags import value_of
from fastfedpg.cli.new_folder import new_folder
from fastfedpg.cli.parse_flags import PRESET, base_file, option, settings_for
from fastfedpg.comparison import run_cells
from fastfedpg.comparison.spec import Comparison
from fastfedpg.errors import InputError
from fastfedpg.experiment.progress import progress
from fastfedpg.experiment.run_settings import SETTINGS

EXAMPLE = "fastfedpg sweep --problem compromise --H 5 10 20 --eta 0.1 0.5 --reuse true false --rounds 50"


@dataclass(frozen=True)
class SweepFlags:
    """Run one algorithm with every combination of several values, of any flag; without noise one seed unless given."""

    budget: Literal["samples", "rounds", "bytes"] = option(
        "samples", "What all combinations may spend alike: as much as the first does in --rounds rounds.", "run"
    )
    config: Path | None = option(None, "A TOML file with any of these settings; flags given beside it win.")
    preset: str | None = option(None, PRESET)
    out: Path | None = option(None, "The folder for the results; a new one under runs/ unless given.")
    overwrite: bool = option(False, "Replace an earlier comparison in that folder.")


SEVERAL = ("problem_args", "policy_args", *(name for name, p in SETTINGS.items() if " " in p.kind.metavar))
"""Flags with several words of their own."""


EXACT = {"exact", "truncated"}
"""Oracles that sample nothing."""

TRUTHS = {"true", "false", "yes", "no"}


def sweep(arguments: list[str], console: Console, errors: Console) -> int:
    """Run one algorithm with every combination of several values of its settings, and compare them."""
    once, swept = split(arguments)
    usual = Comparison().settings
    config, (parsed,) = settings_for((SweepFlags,), "fastfedpg sweep", once, example=EXAMPLE, usual=usual)
    if not swept:
        raise InputError("sweep over what? Give a flag several values, as in --H 5 10 20")
    tables = [dict(zip(swept, values, strict=True)) for values in product(*swept.values())]
    cells = {
        ",".join(f"{k}={v}" for k, v in table.items()): {"algorithm": config.algorithm, **table} for table in tables
    }
    left_open = value_of("--seeds", arguments) is None and base_file(arguments) is None
    drawn = {config.oracle, *swept.get("oracle", ())} - EXACT or config.participants or config.theta0
    if left_open and not drawn:  # more would be copies
        config = config.but(seeds=1)
    comparison = Comparison(config, (), {"all": config.eta}, parsed.budget, cells=cells)
    note, show = noting(errors), lambda title, rounds: progress(errors, title, rounds)
    out = parsed.out or new_folder("sweep", config.problem)
    work = lambda: run_cells.compare(comparison, out, overwrite=parsed.overwrite, show=show, note=note)
    return compare_and_report(work, out, console, errors)


def split(arguments: list[str]) -> tuple[list[str], dict[str, list[str]]]:
    """The flags that have one value, and those that have several, with them; the first value stands for them all.

    A switch is swept as in --reuse true false.
    """
    once: list[str] = []
    swept: dict[str, list[str]] = {}
    k = 0
    while k < len(arguments):
        end = k + 1
        while end < len(arguments) and not arguments[end].startswith("--"):
            end += 1
        flag, values = arguments[k], arguments[k + 1 : end]
        name = flag[2:].replace("-", "_")
        if flag.startswith("--") and name not in SEVERAL and len(values) > 1:
            if len({*values}) < len(values):
                raise InputError(f"{flag} {' '.join(values)}: each value once")
            swept[name] = values
            if {value.lower() for value in values} <= TRUTHS:  # a switch, which has no value on a command line
                k = end
                continue
            values = values[:1]
        once += [flag, *values]
        k = end
    return once, swept
