"""`fastfedpg report`: one HTML file about runs, comparisons, studies and verifications."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from fastfedpg.cli.clock_flag import Seconds, clock_of
from fastfedpg.cli.consoles import noting
from fastfedpg.cli.parse_flags import OptionalPath, own_flags
from fastfedpg.errors import InputError, printable

EXAMPLE = "fastfedpg report my-comparison"


@dataclass(frozen=True)
class ReportFlags:
    """Make one HTML file, which opens without a network, of runs, comparisons, studies and verifications."""

    folders: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="DIR")]
    """The folders of runs (deployed ones too), comparisons, studies, or of `fastfedpg verify`."""
    out: OptionalPath = None
    """The page; report.html in the folder unless given, or of several folders in the current one."""
    overwrite: bool = False
    """Replace a page that is already there under the name given with --out."""
    replay_seconds: float = 60.0
    """Policies over rounds are in no folder: on a grid a run that took at most so many seconds is played again; 0 is
    never."""
    clock: Seconds = field(default_factory=dict)
    """What a network takes, for simulated seconds, as for `fastfedpg compare`: latency=0.1 bandwidth=1e6 and so on."""


def report(arguments: list[str], console: Console, errors: Console) -> int:
    """Make one HTML file, which opens without a network, of runs, comparisons, studies and verifications."""
    asked = own_flags(ReportFlags, "fastfedpg report", arguments, EXAMPLE)
    from fastfedpg.pages import known_folders, plotted, written_page

    if not asked.folders:
        raise InputError("name a folder, as in fastfedpg report runs/first")
    if not asked.replay_seconds >= 0:
        raise InputError(f"replay_seconds = {asked.replay_seconds:g}; it must be at least 0")
    makers = [known_folders.part_of(folder) for folder in asked.folders]
    page = asked.out or (asked.folders[0] if len(asked.folders) == 1 else Path()) / written_page.FILE
    written_page.check_place(page, asked.overwrite, asked.out is None)
    if not os.access(page.parent, os.W_OK):
        raise InputError(
            f"{page}: no permission to write in {page.parent}; give another place, as in --out {page.name}"
        )
    plotted.library()
    clock, note = clock_of(asked.clock), noting(errors)
    parts = [
        make(folder, clock, asked.replay_seconds, note) for make, folder in zip(makers, asked.folders, strict=True)
    ]
    written_page.write(page, written_page.render(parts))
    for part in parts:
        console.print(printable(part.verdict), soft_wrap=True, highlight=False, markup=False)
    console.print(f"written: {printable(page)}", soft_wrap=True, highlight=False, markup=False)
    return 0
