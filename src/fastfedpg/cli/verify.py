"""`fastfedpg verify`: does a deployed run equal its simulation?"""

from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.console import Console

from fastfedpg.cli.consoles import noting
from fastfedpg.study.progress import progress


@dataclass(frozen=True)
class Verify:
    """Compare a finished deployed run with the simulation of the same configuration."""

    folder: tyro.conf.Positional[Path]
    """The folder of a deployed run."""
    seeds: int = 199
    """Where sites drew their own random numbers: simulated runs that the deployed one is compared with."""


def verify(arguments: list[str], console: Console, errors: Console) -> int:
    """Compare a deployed run with its simulation: number by number, or in distribution."""
    given = tyro.cli(Verify, prog="fastfedpg verify", args=arguments, console_outputs=True)
    from fastfedpg.federation import verification

    show = lambda title, rounds: progress(errors, title, rounds)
    found = verification.verify(given.folder, given.seeds, show, noting(errors))
    console.print(found.words, soft_wrap=True, highlight=False, markup=False)
    return 0 if found.good else 1
