"""Files with the weights of a graph: which settings name one, and their copies, which have their sum in the name."""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from fastfedpg.files import read_bytes

SETTINGS = ("graph", "algorithm.graph")
"""How a configuration may call the setting."""


def is_file(graph: Any) -> bool:
    """Whether a graph is a file's name."""
    return isinstance(graph, str) and graph.endswith((".npy", ".npz"))


def copy_name(graph: str) -> str:
    """The name of a file's copy, in which its sum is: other weights have another. Its own where it can't be read."""
    try:
        return f"graph-{hashlib.sha256(read_bytes(Path(graph))).hexdigest()[:12]}{Path(graph).suffix}"
    except OSError:
        return graph  # whoever reads the weights says why


def renamed(table: Mapping[str, Any], name: Callable[[str], str]) -> dict[str, Any]:
    """A table of settings in which files of graphs are called otherwise."""
    found = {k: name(v) if k in SETTINGS and is_file(v) else v for k, v in table.items()}
    inner = found.get("algorithm")
    return {**found, "algorithm": renamed(inner, name)} if isinstance(inner, Mapping) else found


def named(table: Mapping[str, Any]) -> Iterator[str]:
    """The files of graphs that a table of settings names."""
    yield from (value for name, value in table.items() if name in SETTINGS and is_file(value))
    if isinstance(inner := table.get("algorithm"), Mapping):
        yield from named(inner)
