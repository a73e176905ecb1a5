"""What an `.npz` file says that it holds, looked at before any of it is taken into memory."""

import math
import zipfile
from typing import Any

import numpy as np

from fastfedpg.errors import InputError
from fastfedpg.memory import check_fits

LONGEST = 10_000
"""Bytes of an array's header, NumPy's own limit; NumPy reads it whole before it looks."""
COPIES = 2
"""Of the arrays in memory: as they are read, and as they are checked."""


def look(path: Any, file: "np.lib.npyio.NpzFile") -> dict[str, np.ndarray]:
    """Arrays of the shapes and kinds in a file that take no memory; what would not fit into it is refused."""
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
        total += math.prod(shape) * kind.itemsize
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
