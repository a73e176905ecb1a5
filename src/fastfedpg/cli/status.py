"""`fastfedpg status`: a deployed run as its server sees it."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from fastfedpg.cli.consoles import print_lines, room
from fastfedpg.cli.parse_flags import own_flags
from fastfedpg.columns import Column, lay_out
from fastfedpg.errors import printable
from fastfedpg.experiment import run_folder, run_index
from fastfedpg.federation import watch

EXAMPLE = "fastfedpg status runs/first"


@dataclass(frozen=True)
class StatusFlags:
    """Say of deployed runs who is there, which round they are in, and what exchanges take."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """The folders of deployed runs, of `fastfedpg server` or `federate`; they may be under way."""


def status(arguments: list[str], console: Console, errors: Console) -> int:
    """Say of a deployed run who is there, which round it is in, and what exchanges take."""
    asked = own_flags(StatusFlags, "fastfedpg status", arguments, EXAMPLE)
    for folder in asked.runs:
        found, entry = watch.read(folder / run_folder.FEDERATION), run_index.entry(folder)
        said = entry.state if entry.state != "running" else f"in round {found.round} ({found.exchange})"
        clock = lambda seconds: time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
        done = f"{entry.done:,} of {found.rounds:,} rounds are done"
        for words in (
            f"{folder}: {entry.algorithm} on {entry.problem}, {said}; {done}",
            f"counted from {clock(found.began)} to {clock(found.at)}",
        ):
            console.print(printable(words), highlight=False, soft_wrap=True, markup=False)
        print_lines(console, _agents(found, room(console)))
        print_lines(console, _exchanges(found, room(console)))
    return 0


def _agents(found: watch.Status, width: int) -> list[str]:
    rows = sorted(found.peers.items(), key=lambda each: (len(each[0]), each[0]))
    lacks = [peer.lack for _, peer in rows]
    count = lambda name: Column(name.replace("_", " "), [f"{getattr(peer, name):,}" for _, peer in rows])
    return lay_out(
        [
            Column("agent", [name for name, _ in rows], whole=True, right=False),
            Column("here", ["yes" if peer.here else "no" for _, peer in rows], right=False),
            *(count(name) for name in ("asked", "answered", "failed", "bytes_down", "bytes_up")),
            Column("last answer", [f"{peer.seconds:.3f} s" if peer.heard else "" for _, peer in rows], whole=True),
            *([Column("failure", lacks, right=False)] if any(lacks) else []),
        ],
        width,
    )


def _exchanges(found: watch.Status, width: int) -> list[str]:
    rows = [*found.phases.items()]
    return lay_out(
        [
            Column("exchange", [name for name, _ in rows], whole=True, right=False),
            Column("times", [f"{phase.count:,}" for _, phase in rows]),
            Column("seconds, mean", [f"{phase.seconds / phase.count:.3f}" for _, phase in rows]),
            Column("last", [f"{phase.last:.3f}" for _, phase in rows]),
        ],
        width,
    )
