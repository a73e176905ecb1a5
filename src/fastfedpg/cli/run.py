"""`fastfedpg run`: one algorithm on one problem."""

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from fastfedpg.cli.new_folder import new_folder
from fastfedpg.cli.parse_flags import PRESET, option, settings_for
from fastfedpg.errors import InputError
from fastfedpg.experiment.choices import PRIVATE


@dataclass(frozen=True)
class RunFlags:
    """Run one algorithm on one problem, and leave a folder with everything about it."""

    config: Path | None = option(None, "A TOML file with any of these settings; flags given beside it win.")
    preset: str | None = option(None, PRESET)
    out: Path | None = option(None, "The folder for the results; a new one under runs/ unless given.")
    overwrite: bool = option(False, "Replace the results of an earlier run in that folder.")


EXAMPLE = "fastfedpg run --problem compromise --algorithm fedavg_pg --eta 0.5 --rounds 50 --out runs/first"


def run(arguments: list[str], console: Console, errors: Console) -> int:
    """Run one algorithm on one problem, and leave a folder with everything about it."""
    config, (parsed,) = settings_for((RunFlags,), "fastfedpg run", arguments, example=EXAMPLE)
    from fastfedpg.cli.execute import run_and_report  # with JAX, which --help can do without
    from fastfedpg.experiment import begin, execute

    if config.problem == PRIVATE or config.parameters is not None:
        raise InputError(
            f"problem '{config.problem}' is known at its agents' sites alone; fastfedpg server runs it there"
        )
    out = parsed.out or new_folder(config.problem, config.algorithm)
    with begin(config, out, parsed.overwrite) as planned:
        work = lambda report, note: execute(planned, out, report, note=note)
        return run_and_report(planned, out, work, console, errors)
