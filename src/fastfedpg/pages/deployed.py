"""Who took part in a deployed run, and what its exchanges took, as its server saw it."""

from pathlib import Path

from fastfedpg.errors import InputError
from fastfedpg.experiment import run_folder
from fastfedpg.federation import watch
from fastfedpg.pages.blocks import Block, Section, Table, Words


def sections(folder: Path) -> list[Section]:
    """The run's status; nothing where it was not deployed."""
    if not run_folder.is_deployed(folder):
        return []
    try:
        found = watch.read(folder / run_folder.FEDERATION)
    except InputError as error:
        return [Section("Who took part", [Words([f"{error}."])])]
    blocks: list[Block] = [agents(found), exchanges(found)]
    return [Section("Who took part, and what exchanges took", blocks)]


def agents(found: watch.Status) -> Table:
    """A row for each agent."""
    peers = sorted(found.peers.items(), key=lambda each: (len(each[0]), each[0]))
    heads = ["agent", "here", "asked", "answered", "failed", "bytes down", "bytes up", "last answer", "failure"]
    rows = [
        [
            name,
            "yes" if peer.here else "no",
            *(f"{x:,}" for x in (peer.asked, peer.answered, peer.failed)),
            f"{peer.bytes_down:,}",
            f"{peer.bytes_up:,}",
            f"{peer.seconds:.3f} s" if peer.heard else "",
            peer.lack,
        ]
        for name, peer in peers
    ]
    return Table(heads, rows, ["bad" if peer.failed else "" for _, peer in peers])


def exchanges(found: watch.Status) -> Table:
    """A row for each kind of exchange."""
    heads = ["exchange", "times", "seconds, mean", "last"]
    rows = [
        [name, f"{x.count:,}", f"{x.seconds / max(1, x.count):.3f}", f"{x.last:.3f}"]
        for name, x in found.phases.items()
    ]
    return Table(heads, rows)
