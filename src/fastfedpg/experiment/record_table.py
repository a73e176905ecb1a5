"""A run's records on disk, column by column: memory does not grow with rounds, and a checkpoint adds only what is new.

The file has room for every record that is to come, of which the disk holds what was written. A column is an array
(seeds, records), and the returns (seeds, records, agents), of which each seed's part lies in one piece.
"""

import hashlib
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fastfedpg.files import open_regular
from fastfedpg.runtime import Result

FILE = "records.bin"
PIECE = 1 << 20
"""Bytes read at a time."""


class Column(NamedTuple):
    """Where a column lies: each of its parts is `width` bytes a record."""

    start: int
    parts: int  # one for each seed; one alone for the rounds
    width: int
    dtype: np.dtype[Any]
    tail: tuple[int, ...]


class Form(NamedTuple):
    """What the file has room for."""

    capacity: int  # records
    runs: int  # one for each seed
    agents: int
    returns: str  # their type
    metrics: list[list[str]]  # names and types

    def columns(self) -> dict[str, Column]:
        """Where everything is."""
        kinds = {"rounds": (1, "<i8", ()), "returns": (self.runs, self.returns, (self.agents,))}
        kinds |= {name: (self.runs, kind, ()) for name, kind in self.metrics}
        found, start = {}, 0
        for name, (parts, kind, tail) in kinds.items():
            dtype = np.dtype(kind)
            found[name] = Column(start, parts, dtype.itemsize * math.prod(tail), dtype, tail)
            start += parts * self.capacity * found[name].width
        return found


class RecordTable:
    """The records of one run, in a file that it alone writes."""

    def __init__(self, path: Path, capacity: int) -> None:
        self.path, self.capacity, self.count = path, capacity, 0
        self.form: Form | None = None
        self.columns: dict[str, Column] = {}
        self.theta: np.ndarray | None = None  # after the last record
        self._sums: dict[str, Any] = {}

    def append(self, block: Result) -> None:
        """Add records; if that fails none of them counts, and they can be added again."""
        if self.form is None:
            runs, _, agents = block.returns.shape
            kinds = [[name, values.dtype.str] for name, values in block.metrics.items()]
            self._begin(Form(self.capacity, runs, agents, block.returns.dtype.str, kinds))
        added = {"rounds": block.rounds.astype("<i8")[None], "returns": block.returns, **block.metrics}
        # Neither "w", which would empty the file, nor "a", which writes at its end only.
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        try:
            for name, column in self.columns.items():
                for part, values in enumerate(added[name]):
                    _write(file, np.ascontiguousarray(values), self._at(column, part, self.count))
        finally:
            os.close(file)
        for name, values in added.items():
            self._sums[name].update(_by_record(values))
        self.count += len(block.rounds)
        self.theta = block.theta

    def _begin(self, form: Form) -> None:
        self.form, self.columns = form, form.columns()
        self._sums = {name: hashlib.sha256() for name in self.columns}

    def _at(self, column: Column, part: int, record: int) -> int:
        return column.start + (part * self.capacity + record) * column.width

    def describe(self) -> dict[str, Any]:
        """What a checkpoint says of the records that it belongs to."""
        if self.form is None:
            return {"count": 0, "capacity": self.capacity}
        return {"count": self.count, "sha256": self._digest(), **self.form._asdict()}

    def _digest(self) -> str:
        """Of the form and all columns as far as they are written, however many records were added at a time."""
        sums = [repr(self.form).encode(), *(total.digest() for total in self._sums.values())]
        return hashlib.sha256(b"".join(sums)).hexdigest()

    @classmethod
    def restored(cls, path: Path, said: dict[str, Any], theta: np.ndarray | None) -> "RecordTable":
        """The table as it was when a checkpoint was written; ValueError where the file is not what it was then."""
        table = cls(path, int(said["capacity"]))
        if int(said["count"]) == 0:
            return table
        table._begin(Form(*(said[name] for name in Form._fields)))
        table.count, table.theta = int(said["count"]), theta
        for name, column in table.columns.items():
            step = max(1, PIECE // (column.parts * column.width))
            for first in range(0, table.count, step):
                rows = [table.read(name, part, first, first + step) for part in range(column.parts)]
                table._sums[name].update(_by_record(np.stack(rows)))
        if table._digest() != said["sha256"]:
            raise ValueError(f"{path.name} is not what was written")
        return table

    def read(self, name: str, part: int, first: int, stop: int) -> np.ndarray:
        """One seed's part of a column, from one record to another, or to the last."""
        column = self.columns[name]
        stop = min(stop, self.count)
        with open_regular(self.path) as file:
            file.seek(self._at(column, part, first))
            data = file.read((stop - first) * column.width)
        if len(data) < (stop - first) * column.width:
            raise ValueError(f"{self.path.name} is cut off")
        return np.frombuffer(data, column.dtype).reshape(stop - first, *column.tail)

    def last(self, name: str) -> np.ndarray:
        """A column after the last record, for each seed."""
        parts = range(self.columns[name].parts)
        return np.stack([self.read(name, part, self.count - 1, self.count)[0] for part in parts])

    def pieces(self, name: str) -> Iterator[np.ndarray]:
        """A column, one seed after another, each from its beginning to its end."""
        column = self.columns[name]
        step = max(1, PIECE // column.width)
        for part in range(column.parts):
            for first in range(0, self.count, step):
                yield self.read(name, part, first, first + step)

    def shape(self, name: str) -> tuple[int, ...]:
        """Of a column as an array."""
        column = self.columns[name]
        return (*((column.parts,) if name != "rounds" else ()), self.count, *column.tail)


def _by_record(values: np.ndarray) -> bytes:
    """So that it does not matter how many records come at a time."""
    return np.ascontiguousarray(np.swapaxes(values, 0, 1)).tobytes()


def _write(file: int, values: np.ndarray, at: int) -> None:
    data = memoryview(values.tobytes())
    while data:
        written = os.pwrite(file, data, at)
        data, at = data[written:], at + written
