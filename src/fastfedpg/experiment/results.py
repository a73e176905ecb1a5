"""A run's results: one file of arrays that is read back, and exports of it for people and other programs.

results.npz, and not the safetensors of checkpoints: NumPy alone opens it, and zip's checksums tell a damaged file.
"""

import csv
import math
import os
import struct
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from fastfedpg.errors import InputError
from fastfedpg.experiment.record_table import PIECE, RecordTable
from fastfedpg.files import open_regular, write_atomically
from fastfedpg.npz_headers import read_header
from fastfedpg.runtime import Result

FILE = "results.npz"
EXPORTS = ("metrics.csv", "final.npz", "agents.npz")
METRIC = "metrics/"
"""Before a metric's name, so that it may have any."""

ROWS = 4096
"""Rows of a table that are put into words at a time."""

LARGE = 1 << 24
"""Bytes of a file from which on its arrays stay on disk, and are read where they are looked at."""


CONFIG = "config"
"""What the run ran with, as the bytes of TOML: config.toml beside it may be edited later."""


class Stored(NamedTuple):
    """What a run recorded, the seeds along its arrays' first axis, and what it ran with ("" of an older version)."""

    result: Result
    seeds: tuple[int, ...]
    config: str = ""


def write(out: Path, table: RecordTable, first_seed: int, shape: tuple[int, ...], config: str) -> None:
    """results.npz with everything, and after it the exports; nothing of it is in memory as a whole."""
    assert table.theta is not None
    theta = table.theta
    seeds = first_seed + np.arange(len(theta))
    metrics = [name for name in table.columns if name not in ("rounds", "returns")]
    column = lambda name: Streamed(table.shape(name), table.columns[name].dtype, table.pieces(name))
    recorded = {METRIC + name: column(name) for name in metrics}
    ran_with = np.frombuffer(config.encode(), np.uint8)
    first = {CONFIG: streamed(ran_with), "seeds": streamed(seeds)}
    first |= {"rounds": column("rounds"), "returns": column("returns")}
    _save(out / FILE, {**first, "theta": streamed(theta), **recorded})
    _save(out / "final.npz", {"theta": streamed(theta.reshape(theta.shape[:-1] + shape))})
    _save(out / "agents.npz", {"returns": column("returns"), "round": column("rounds")})
    with write_atomically(out / "metrics.csv") as part, part.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["seed", "round", *metrics])
        with table.reading() as read:
            for s, seed in enumerate(seeds):
                for first_row in range(0, table.count, ROWS):
                    piece = [read(name, s, first_row, first_row + ROWS).tolist() for name in metrics]
                    numbers = read("rounds", 0, first_row, first_row + ROWS).tolist()
                    rows.writerows([seed, t, *map(_cell, row)] for t, *row in zip(numbers, *piece, strict=True))


class Streamed(NamedTuple):
    """An array that is written piece by piece, in C order."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    pieces: Iterable[np.ndarray]


def streamed(x: np.ndarray) -> Streamed:
    """An array that is there as a whole."""
    return Streamed(x.shape, x.dtype, [x])


def read(path: Path) -> Stored:
    """Everything that a run recorded; arrays that do not fit together are refused."""
    try:
        with open_regular(path) as opened:
            arrays = _arrays(opened)
        config = arrays.pop(CONFIG, np.zeros(0, np.uint8)).tobytes().decode()
        seeds, rounds, returns, theta = (arrays.pop(name) for name in ("seeds", "rounds", "returns", "theta"))
        metrics = {name.removeprefix(METRIC): values for name, values in arrays.items()}
        shape = seeds.shape + rounds.shape
        fits = returns.shape[:2] == shape and theta.shape[:1] == seeds.shape
        if len(shape) != 2 or not fits or "J" not in metrics or any(x.shape != shape for x in metrics.values()):
            raise ValueError("its arrays do not fit together")
        if 0 in shape:
            raise ValueError("no seed or no round is in it")
        if any(x.dtype.kind not in "iu" for x in (seeds, rounds)):
            raise ValueError("its seeds and rounds are not whole numbers")
        if any(x.dtype.kind not in "fiu" for x in (returns, theta, *metrics.values())):
            raise ValueError("its measurements are not real numbers")
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except Exception as error:  # numpy, zipfile and zlib each have their own for a damaged file
        raise InputError(f"{path}: not the results of a run ({error})") from None
    return Stored(Result(rounds, metrics, returns, theta, int(seeds[0])), tuple(map(int, seeds)), config)


def _arrays(file: BinaryIO) -> dict[str, np.ndarray]:
    """The arrays of an .npz, compared with their checksums; large ones stay on disk, where no change to them gets."""
    found, small = {}, os.fstat(file.fileno()).st_size < LARGE
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            if member.compress_type != zipfile.ZIP_STORED:  # and may be a thousand times what the file is
                raise ValueError(f"{member.filename} is compressed, and a run's results never are")
            with archive.open(member) as data:
                shape, fortran, dtype = read_header(data)
                if dtype.hasobject:
                    raise ValueError(f"{member.filename} has objects in it")
                before, size = data.tell(), dtype.itemsize * math.prod(shape)
                if member.file_size != before + size:
                    raise ValueError(f"{member.filename} is cut off")
                whole = bytearray()
                while piece := data.read(PIECE):  # to the end, where the checksum is compared
                    whole += piece if small else b""
            order: Any = "F" if fortran else "C"
            if len(whole) == size:
                x = np.frombuffer(whole, dtype).reshape(shape, order=order)
            else:
                file.seek(member.header_offset + 26)
                start = member.header_offset + 30 + sum(struct.unpack("<HH", file.read(4)))
                x = np.asarray(np.memmap(file, dtype, "c", start + before, shape, order))
            found[member.filename.removesuffix(".npy")] = x
    return found


def _save(path: Path, arrays: dict[str, Streamed]) -> None:
    with write_atomically(path) as part, zipfile.ZipFile(part, "w") as archive:
        for name, x in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                about = {"descr": x.dtype.str, "fortran_order": False, "shape": x.shape}
                np.lib.format.write_array_header_1_0(member, about)
                for piece in x.pieces:
                    member.write(np.ascontiguousarray(piece).tobytes())


def _cell(x: Any) -> str:
    if math.isnan(x):
        return ""
    return str(int(x)) if float(x).is_integer() and abs(x) < 2**53 else repr(float(x))
