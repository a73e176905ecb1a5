"""The weights in a graph's file: read without unpickling anything, and refused where they are no real numbers."""

import math
from pathlib import Path
from typing import BinaryIO

import numpy as np

from fastfedpg import npz_headers
from fastfedpg.errors import InputError
from fastfedpg.files import open_regular
from fastfedpg.memory import check_fits

KINDS = {"c": "complex numbers", "U": "text", "S": "text", "O": "Python objects", "b": "true and false"}
"""What weights can't be, by NumPy's letters."""


def read(path: str) -> np.ndarray:
    """The weights in a file."""
    try:
        opened = open_regular(Path(path))
    except OSError as error:
        raise InputError(f"graph: {path}: {str(error.strerror).lower()}") from None
    with opened:
        try:
            found = _read(path, opened)
        except InputError as error:
            raise InputError(f"graph: {error}") from None
        except Exception:  # numpy, zipfile, zlib and tokenize each have their own for a damaged file
            raise InputError(
                f"graph: {path}: damaged, or neither .npy nor .npz; save the weights with numpy.save(FILE, W)"
            ) from None
    return real(path, found)


def _read(path: str, file: BinaryIO) -> np.ndarray:
    """The array of a file that has one, or W; nothing is read of what can't be weights, or does not fit."""
    single = file.read(len(np.lib.format.MAGIC_PREFIX)) == np.lib.format.MAGIC_PREFIX
    file.seek(0)
    if single:
        shape, _, kind = npz_headers.read_header(file)
        size = math.prod(shape) * kind.itemsize
        check_fits(f"{path}, of shape {shape},", npz_headers.COPIES * size, "take fewer agents")
        if kind.hasobject:
            raise InputError(f"{path} holds Python objects; weights must be real numbers")
        file.seek(0)
        return np.asarray(np.load(file, allow_pickle=False))
    loaded = np.load(file, allow_pickle=False)
    npz_headers.look(path, loaded, loaded.files)
    if "W" not in loaded.files and len(loaded.files) != 1:
        raise InputError(f"{path} has {', '.join(loaded.files) or 'no arrays'}, and none is W")
    return np.asarray(loaded["W" if "W" in loaded.files else loaded.files[0]])


def real(what: str, W: np.ndarray) -> np.ndarray:
    """Weights as they are, if they are real numbers and finite."""
    if W.dtype.kind not in "fiu":
        raise InputError(f"graph: {what} has {KINDS.get(W.dtype.kind, W.dtype)}; weights must be real numbers")
    with np.errstate(over="ignore"):
        W = W.astype(np.float64)
    if not np.isfinite(W).all():
        at = tuple(map(int, np.argwhere(~np.isfinite(W))[0]))
        raise InputError(f"graph: {what}: W{[*at]} = {W[at]:g}; weights must be finite")
    return W
