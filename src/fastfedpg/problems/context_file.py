"""The context of agents from a file: a row of numbers for each."""

from pathlib import Path
from typing import Any

import numpy as np

from fastfedpg.errors import InputError
from fastfedpg.files import read_text
from fastfedpg.problems.npz import read_npz

LONGEST = 1 << 26
"""Bytes of a .csv file."""


def is_context_file(name: str) -> bool:
    """Whether a name is that of such a file."""
    return name.endswith((".npz", ".csv"))


def read_context(path: str) -> Any:
    """An .npz file's `context` (N, c), or the lines of a .csv file, numbers with commas between; # begins a comment."""
    if path.endswith(".npz"):
        found = read_npz(path, ("context",))["context"]
        if found.ndim != 2 or found.dtype.kind not in "fiub":
            raise InputError(
                f"{path}: context has type {found.dtype} and shape {found.shape}; it must hold a row of numbers for "
                "each agent, (N, c)"
            )
        return found.astype(np.float64)
    if not path.endswith(".csv"):
        raise InputError(f"context = {path!r}; it must be a .csv or an .npz file with a row of numbers for each agent")
    try:
        text = read_text(Path(path), "utf-8-sig", at_most=LONGEST)
    except OSError as error:
        raise InputError(f"{path}: {str(error.strerror).lower()}") from None
    except ValueError as error:
        raise InputError(f"{path}: not a .csv file that can be read ({error})") from None
    lines = [(k, line.partition("#")[0].strip()) for k, line in enumerate(text.splitlines(), 1)]
    return [[_number(path, k, cell) for cell in line.split(",")] for k, line in lines if line]


def _number(path: str, line: int, cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        raise InputError(
            f"{path}, line {line}: {cell.strip()!r} is no number; a line is one agent's, as in 0.5, 1 (# begins a "
            "comment)"
        ) from None
