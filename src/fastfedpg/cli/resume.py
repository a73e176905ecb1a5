"""`fastfedpg resume`: go on with what was interrupted or killed."""

from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.console import Console

from fastfedpg.cli.run import carry_out
from fastfedpg.errors import InputError
from fastfedpg.study import output, reopen


@dataclass(frozen=True)
class Resume:
    """Go on with a run that was interrupted or killed, to the same numbers as if it never had been."""

    folder: tyro.conf.Positional[Path]
    """The folder of a run, or of a comparison."""


def resume(arguments: list[str], console: Console, errors: Console) -> int:
    """Go on with a run or a comparison that was interrupted or killed."""
    folder = tyro.cli(Resume, prog="fastfedpg resume", args=arguments, console_outputs=True).folder
    state = output.state(folder)
    if state == "finished":
        console.print(f"{folder}: the run has finished; there is nothing to do", highlight=False, soft_wrap=True)
        return 0
    if state == "diverged":
        raise InputError(f"{folder}: the run diverged, and would again; start a new one, with a smaller eta")
    note = lambda words: errors.print(f"note: {words}", soft_wrap=True, highlight=False, markup=False)
    with reopen(folder, note) as (planned, found):
        note("from the beginning" if found is None else f"from round {found.standing.round} of {planned.config.rounds}")
        return carry_out(planned, folder, found, console, errors)
