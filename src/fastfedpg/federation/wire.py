"""What travels: a few words about a message, and named arrays. Safetensors inside, so nothing is ever unpickled.

Neither this file nor `unix_socket` nor `flower` imports JAX: below Flower's own node they live for one message.
"""

import json
import struct
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from fastfedpg.errors import InputError, printable

ROOM = 16 * 1024
"""Bytes that a message may have beyond its arrays: the words, the names and the shapes."""

T = TypeVar("T")
Form: TypeAlias = dict[str, tuple[tuple[int, ...], str]]
"""Names, shapes and dtypes of the arrays that a message must have."""


class Malformed(InputError):
    """A message that is not what it should be, and why."""


class Message(NamedTuple):
    """`about` is words and numbers as in JSON."""

    about: dict[str, Any]
    arrays: dict[str, np.ndarray]


def pack(about: Mapping[str, Any], arrays: Mapping[str, Any] | None = None) -> bytes:
    """A message as bytes."""
    plain = {name: np.ascontiguousarray(x).reshape(np.shape(x)) for name, x in (arrays or {}).items()}
    return save(plain, metadata={"about": json.dumps(about, separators=(",", ":"))})


def about(data: bytes) -> dict[str, Any]:
    """What a message says of itself, without its arrays."""
    return _readable(data, lambda: _about(data))


def unpack(data: bytes) -> Message:
    """The message that the bytes hold."""
    return _readable(data, lambda: Message(_about(data), load(data)))


def _about(data: bytes) -> dict[str, Any]:
    (length,) = struct.unpack_from("<Q", data)
    said = json.loads(json.loads(data[8 : 8 + length])["__metadata__"]["about"])
    if not isinstance(said, dict):
        raise Malformed("what it says of itself is no table")
    return said


def _readable(data: bytes, read: Callable[[], T]) -> T:
    try:
        return read()
    except (struct.error, ValueError, KeyError, TypeError, RecursionError, OverflowError, SafetensorError) as error:
        if isinstance(error, Malformed):
            raise
        raise Malformed(f"{len(data):,} bytes that are no message ({type(error).__name__}: {error})") from None


def plain(said: Any, longest: int = 500) -> str:
    """Somebody else's words, made fit for a log: no line breaks, no escape codes, not too many."""
    text = printable(said)
    return text if len(text) <= longest else f"{text[:longest]}…"


def size(form: Form) -> int:
    """The bytes of the arrays themselves."""
    return sum(int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize for shape, dtype in form.values())


def limit(*forms: Form) -> int:
    """No message that has one of these forms is larger."""
    return ROOM + max((size(form) + 256 * len(form) for form in forms), default=0)


def form_of(arrays: Mapping[str, Any]) -> Form:
    """Names, shapes and dtypes of arrays."""
    return {name: (tuple(x.shape), str(x.dtype)) for name, x in arrays.items()}


def check(arrays: Mapping[str, np.ndarray], form: Form, largest: float | None = None) -> None:
    """Refuse arrays that have another form, that are not finite, or whose norm is beyond the limit."""
    missing, extra = sorted(form.keys() - arrays.keys()), sorted(arrays.keys() - form.keys())
    if missing or extra:
        raise Malformed(f"it {_names('lacks', missing)}{' and ' * bool(missing and extra)}{_names('has', extra)}")
    for name, (shape, dtype) in form.items():
        x = arrays[name]
        if x.shape != shape or str(x.dtype) != dtype:
            raise Malformed(f"{name} is {x.dtype}{list(x.shape)}; it must be {dtype}{list(shape)}")
        if x.dtype.kind == "f" and not np.isfinite(x).all():
            raise Malformed(f"{name} has {int((~np.isfinite(x)).sum())} entries that are not finite")
        if largest is None:
            continue
        with np.errstate(over="ignore"):
            norm = float(np.linalg.norm(x.astype(np.float64)))
        if norm > largest:
            raise Malformed(f"{name} has norm {norm:.4g}; the limit is {largest:g}")


def _names(verb: str, names: list[str]) -> str:
    return f"{verb} {', '.join(repr(n) for n in names)}" if names else ""
