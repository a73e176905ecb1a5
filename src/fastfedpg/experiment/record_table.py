"""A run's records on disk, column by column: memory does not grow with rounds, and a checkpoint adds only what is new.

The file has room for every record that is to come, of which the disk holds what was written. A column is an array
(seeds, records), and the returns (seeds, records, agents), of which each seed's part lies in one piece.
"""

import hashlib
import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fastfedpg.files import open_regular
from fastfedpg.runtime import Result

FILE = "records.bin"
PIECE = 1 << 20
"""Bytes read at a time."""
ACROSS = 1 << 24
"""Bytes read at a time where all seeds' parts are needed at once."""

Read: TypeAlias = Callable[[str, int, int, int], np.ndarray]
"""One seed's part of a column, from one record to another, or to the last: read(name, part, first, stop)."""


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


class Written(NamedTuple):
    """How far the records go: one value, so that an interruption at any moment leaves the old one or the new one."""

    records: int = 0
    last: int = -1  # the round of the last record
    theta: np.ndarray | None = None  # after it
    sums: dict[str, Any] = {}  # noqa: RUF012 # of each column


class RecordTable:
    """The records of one run, in a file that it alone writes."""

    def __init__(self, path: Path, capacity: int) -> None:
        self.path, self.capacity = path, capacity
        self.form: Form | None = None
        self.columns: dict[str, Column] = {}
        self.written = Written()

    @property
    def count(self) -> int:
        """Records."""
        return self.written.records

    @property
    def theta(self) -> np.ndarray | None:
        """The policies after the last record."""
        return self.written.theta

    def append(self, block: Result) -> None:
        """Add records; if that fails or is interrupted none of them counts, and they can be added again."""
        if self.form is None:
            runs, _, agents = block.returns.shape
            kinds = [[name, values.dtype.str] for name, values in block.metrics.items()]
            self._begin(Form(self.capacity, runs, agents, block.returns.dtype.str, kinds))
        rounds, before = block.rounds.astype("<i8"), self.written
        if before.records + len(rounds) > self.capacity or (np.diff(rounds, prepend=before.last) <= 0).any():
            raise AssertionError(f"rounds {rounds} after {before.last}, {before.records} records of {self.capacity}")
        added = {"rounds": rounds[None], "returns": block.returns, **block.metrics}
        added = {name: np.ascontiguousarray(added[name], column.dtype) for name, column in self.columns.items()}
        # Neither "w", which would empty the file, nor "a", which writes at its end only.
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        try:
            for name, column in self.columns.items():
                for part, values in enumerate(added[name]):
                    _write(file, values, self._at(column, part, before.records))
        finally:
            os.close(file)
        sums = _summed(before.sums, added)
        self.written = Written(before.records + len(rounds), int(rounds[-1]), block.theta, sums)

    def _begin(self, form: Form) -> None:
        self.columns = form.columns()
        self.form = form  # after them, should it be interrupted here

    def _at(self, column: Column, part: int, record: int) -> int:
        return column.start + (part * self.capacity + record) * column.width

    def describe(self) -> dict[str, Any]:
        """What a checkpoint says of the records that it belongs to."""
        if self.form is None:
            return {"count": 0, "capacity": self.capacity}
        return {"count": self.count, "sha256": self._digest(), **self.form._asdict()}

    def _digest(self) -> str:
        """Of the form and all columns as far as they are written, however many records were added at a time."""
        sums = [repr(self.form).encode(), *(self.written.sums[name].digest() for name in self.columns)]
        return hashlib.sha256(b"".join(sums)).hexdigest()

    @classmethod
    def restored(cls, path: Path, said: dict[str, Any], theta: np.ndarray | None) -> "RecordTable":
        """The table as it was when a checkpoint was written; ValueError where the file is not what it was then."""
        table = cls(path, int(said["capacity"]))
        if int(said["count"]) == 0:
            return table
        table._begin(Form(*(said[name] for name in Form._fields)))
        sums: dict[str, Any] = {}
        table.written = Written(int(said["count"]))
        with table.reading() as read:
            for name, column in table.columns.items():
                step = max(1, ACROSS // (column.parts * column.width))
                for first in range(0, table.count, step):
                    rows = [read(name, part, first, first + step) for part in range(column.parts)]
                    sums[name] = _summed(sums, {name: np.stack(rows)})[name]
            last = int(read("rounds", 0, table.count - 1, table.count)[0])
        table.written = Written(table.count, last, theta, sums)
        if table._digest() != said["sha256"]:
            raise ValueError(f"{path.name} is not what was written")
        return table

    @contextmanager
    def reading(self) -> Iterator[Read]:
        """The file is opened once, however often it is read."""
        with open_regular(self.path) as file:

            def read(name: str, part: int, first: int, stop: int) -> np.ndarray:
                column, stop = self.columns[name], min(stop, self.count)
                size, at = (stop - first) * column.width, self._at(column, part, first)
                data = _read(file.fileno(), size, at)
                if len(data) < size:
                    raise ValueError(f"{self.path.name} is cut off")
                return np.frombuffer(data, column.dtype).reshape(stop - first, *column.tail)

            yield read

    def last(self, name: str) -> np.ndarray:
        """A column after the last record, for each seed."""
        with self.reading() as read:
            return np.stack([read(name, p, self.count - 1, self.count)[0] for p in range(self.columns[name].parts)])

    def pieces(self, name: str) -> Iterator[np.ndarray]:
        """A column, one seed after another, each from its beginning to its end."""
        column = self.columns[name]
        step = max(1, PIECE // column.width)
        with self.reading() as read:
            for part in range(column.parts):
                for first in range(0, self.count, step):
                    yield read(name, part, first, first + step)

    def shape(self, name: str) -> tuple[int, ...]:
        """Of a column as an array."""
        column = self.columns[name]
        return (*((column.parts,) if name != "rounds" else ()), self.count, *column.tail)


def _summed(sums: dict[str, Any], added: dict[str, np.ndarray]) -> dict[str, Any]:
    """New sums of columns, record by record, so that it does not matter how many come at a time."""
    found = {}
    for name, values in added.items():
        found[name] = sums[name].copy() if name in sums else hashlib.sha256()
        found[name].update(np.ascontiguousarray(np.swapaxes(values, 0, 1)).data)
    return found


def _read(file: int, size: int, at: int) -> bytes:
    data = os.pread(file, size, at)
    while 0 < len(data) < size and (more := os.pread(file, size - len(data), at + len(data))):
        data += more
    return data


def _write(file: int, values: np.ndarray, at: int) -> None:
    data = memoryview(values.tobytes())
    while data:
        written = os.pwrite(file, data, at)
        data, at = data[written:], at + written
