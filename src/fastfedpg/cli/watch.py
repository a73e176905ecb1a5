"""`fastfedpg watch`: the page of a run that is under way, on loopback, and a panel in the terminal."""

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console, Group
from rich.live import Live as Screen
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from fastfedpg.cli.clock_flag import Seconds, clock_of
from fastfedpg.cli.consoles import say
from fastfedpg.cli.parse_flags import own_flags
from fastfedpg.errors import InputError, printable
from fastfedpg.experiment.run_index import Entry

EXAMPLE = "fastfedpg watch runs/first"
LOOK = 1.0
"""Seconds between two looks."""
MOST = 12
"""Runs that the panel has, those under way first."""


@dataclass(frozen=True)
class WatchFlags:
    """Serve the page of a run, a comparison or a study on this machine while it goes on, until Ctrl-C."""

    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")]
    """The folder of a run (a deployed one too), a comparison or a study, which may be under way."""
    port: int = 8350
    """The port of 127.0.0.1 at which the page is; 0 is one that is free."""
    clock: Seconds = field(default_factory=dict)
    """What a network takes, for simulated seconds, as for `fastfedpg compare`: latency=0.1 bandwidth=1e6 and so on."""


def watch(arguments: list[str], console: Console, errors: Console) -> int:
    """Serve the page of a run that is under way on this machine, and show how far it is."""
    asked = own_flags(WatchFlags, "fastfedpg watch", arguments, EXAMPLE)
    from fastfedpg.pages import plotted, watched
    from fastfedpg.pages.serving import served

    plotted.library()
    shown = watched.Watched(asked.folder, clock_of(asked.clock))
    if not 0 <= asked.port <= 65535:
        raise InputError(f"port = {asked.port}; it must be between 0 and 65535")
    try:
        with served(asked.port, shown.page, shown.stamp) as url:
            follow(asked.folder, url, console)
    except KeyboardInterrupt:
        return say(errors, f"no longer watched; nothing in {asked.folder} was changed", 130)
    return 0


def follow(folder: Path, url: str, console: Console, looks: int | None = None) -> None:
    """A panel on a terminal, elsewhere a line for each change, until Ctrl-C or after so many looks."""
    from fastfedpg.pages import watched

    console.print(
        f"{url} has the page of {printable(folder)}; Ctrl-C ends", soft_wrap=True, highlight=False, markup=False
    )
    said, count = "", 0
    if not console.is_terminal:
        while looks is None or count < looks:
            now = line(watched.live(folder))
            if now != said:
                console.print(now, soft_wrap=True, highlight=False, markup=False)
            said, count = now, count + 1
            time.sleep(LOOK)
        return
    with Screen(panel(watched.live(folder), url), console=console, auto_refresh=False) as screen:
        while looks is None or count < looks:
            screen.update(panel(watched.live(folder), url), refresh=True)
            count += 1
            time.sleep(LOOK)


def line(found: "watched.Live") -> str:  # type: ignore[name-defined]
    """One line about everything."""
    said = [f"{entry.folder.name}: {_how(entry)}" for entry in _first(found.runs)]
    if (status := found.status) is not None:
        here = sum(peer.here for peer in status.peers.values())
        said.append(f"{here} of {status.agents} agents are here, exchange {status.exchange or 'none yet'}")
    return printable("; ".join(said) or "no run has begun")


def panel(found: "watched.Live", url: str) -> Panel:  # type: ignore[name-defined]
    """Every run with its bar; of a deployed one who is here, and what its exchanges take."""
    rows = Table.grid(padding=(0, 2))
    for entry in _first(found.runs):
        bar = ProgressBar(total=max(1, entry.rounds), completed=entry.done, width=24)
        rows.add_row(Text(printable(entry.folder.name)), bar, Text(_how(entry)))
    if len(found.runs) > MOST:
        rows.add_row(Text(f"and {len(found.runs) - MOST} more"))
    parts = [rows]
    if (status := found.status) is not None:
        peers = Table("agent", "here", "answered", "failed", "last answer", box=None, padding=(0, 2))
        for name, peer in sorted(status.peers.items(), key=lambda each: (len(each[0]), each[0]))[:MOST]:
            took = f"{peer.seconds:.3f} s" if peer.heard else ""
            peers.add_row(
                Text(printable(name)), "yes" if peer.here else "no", f"{peer.answered:,}", f"{peer.failed:,}", took
            )
        kinds = Table("exchange", "times", "seconds, mean", "last", box=None, padding=(0, 2))
        for name, phase in status.phases.items():
            mean = phase.seconds / max(1, phase.count)
            kinds.add_row(Text(printable(name)), f"{phase.count:,}", f"{mean:.3f}", f"{phase.last:.3f}")
        parts += [peers, kinds]
    return Panel(Group(*parts), title=Text(url), title_align="left")


def _first(runs: list[Entry]) -> list[Entry]:
    return sorted(runs, key=lambda entry: entry.state != "running")[:MOST]


def _how(entry: Entry) -> str:
    value = f", gap {entry.gap:.4g}" if entry.gap is not None else ""
    value = value or (f", return {entry.returned:.4g}" if entry.returned is not None else "")
    return f"{entry.done:,} of {entry.rounds:,} rounds, {entry.state}{f' ({entry.why})' if entry.why else ''}{value}"
