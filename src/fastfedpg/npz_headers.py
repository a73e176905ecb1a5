"""What an `.npz` file says that it holds, looked at before any of it is taken into memory."""

import math
import zipfile
from collections.abc import Container
from typing import Any

import numpy as np

from fastfedpg.errors import InputError
from fastfedpg.memory import check_fits, said

LONGEST = 10_000
"""Bytes of an array's header, NumPy's own limit; NumPy reads it whole before it looks."""
MOST, BYTES = 10_000_000, 2**26
"""Of any array that is a number, two, or names; a text can be long though there is one of it."""
COPIES = 2
"""Of the arrays in memory: as they are read, and as they are checked."""


def look(path: Any, file: "np.lib.npyio.NpzFile", large: Container[str]) -> dict[str, np.ndarray]:
    """Arrays of the shapes and kinds in a file that take no memory; what would not fit into it is refused.

    So is one that is not of the `large` and has millions of entries, or takes as many bytes in few.
    """
    found: dict[str, np.ndarray] = {}
    total = 0
    archive: zipfile.ZipFile = file.zip  # type: ignore[assignment]
    for info in archive.infolist():
        name = info.filename.removesuffix(".npy")
        with archive.open(info) as member:
            shape, _, kind = read_header(member)
        if kind.hasobject:
            raise InputError(
                f"{path}: {name} holds Python objects, which need pickle; save it as a plain numeric array"
            )
        entries, size = math.prod(max(1, n) for n in shape), math.prod(shape) * kind.itemsize  # (10^10, 0) is nothing
        if name not in large and entries > MOST:
            raise InputError(f"{path}: {name} has shape {shape}; it can't have more than {MOST:,} entries")
        if name not in large and size > BYTES:
            raise InputError(f"{path}: {name} takes {said(size)}; it can't take more than {said(BYTES)}")
        total += size
        check_fits(f"{path}: {name}, of shape {shape},", COPIES * total, "give it fewer or smaller arrays")
        found[name] = np.broadcast_to(np.zeros((), kind if kind.kind in "fiubc" else "U1"), shape)
    return found


def read_header(member: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """The shape, whether it is in Fortran's order, and the type of an array; no more than `LONGEST` bytes are read."""
    version = np.lib.format.read_magic(member)
    size = {(1, 0): 2, (2, 0): 4}.get(version)
    if size is None:
        raise ValueError(f"an array of version {version[0]}.{version[1]}, which plain numbers never need")
    start = member.read(size)
    if int.from_bytes(start, "little") > LONGEST:
        raise ValueError(f"an array's header is longer than {LONGEST} bytes")
    read = np.lib.format.read_array_header_1_0 if size == 2 else np.lib.format.read_array_header_2_0
    return read(_Again(start, member))


class _Again:
    """A file whose first bytes have been read already."""

    def __init__(self, start: bytes, rest: Any) -> None:
        self.start, self.rest = start, rest

    def read(self, size: int = -1, /) -> bytes:
        """The next bytes."""
        now, self.start = self.start[:size], self.start[size:]
        return now or bytes(self.rest.read(size))
