"""What something is, in words that change with its code and its numbers, and not from one process to the next."""

import hashlib
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

DEPTH = 10
"""How deep it is looked into things that hold others; below it their type is all that is told."""

INSTALLED = (str(Path(os.__file__).parent), "site-packages", "dist-packages", str(Path(__file__).parents[1]))
PLAIN = (bool, int, float, complex, str, bytes, tuple, np.ndarray)


def told(x: Any, inside: tuple[int, ...] = ()) -> str:
    """A function with its code and all it captures, an object with all it holds, a number as it is.

    Args:
        x: what is told.
        inside: the things x was found in: one that holds itself is not followed for ever.
    """
    if x is None or isinstance(x, bool | int | float | complex | str | bytes | Enum):
        return repr(x)
    if isinstance(x, ModuleType):
        return x.__name__
    if id(x) in inside or len(inside) > DEPTH:
        return type(x).__name__
    deep = partial(told, inside=(*inside, id(x)))
    if isinstance(x, np.ndarray | np.generic | jax.Array):
        return _array(x, deep)
    if isinstance(x, Mapping):
        return f"{{{', '.join(sorted(f'{deep(k)}: {deep(v)}' for k, v in x.items()))}}}"
    if isinstance(x, list | tuple):
        return f"{type(x).__name__}({', '.join(map(deep, x))})"
    if isinstance(x, set | frozenset):
        return f"{type(x).__name__}({', '.join(sorted(map(deep, x)))})"
    if isinstance(x, partial):
        return f"{deep(x.func)} of {deep(x.args)} {deep(x.keywords)}"
    if inspect.ismethod(x):
        return f"{deep(x.__func__)} of {deep(x.__self__)}"
    if inspect.isclass(x):
        return f"{_name(x)}[{_digest(*(_text(c) for c in x.__mro__ if c.__module__ == x.__module__), _beside(x))}]"
    if inspect.isfunction(x):
        return f"{_name(x)}[{_digest(_text(x) or _code(x.__code__), _beside(x))}]{deep(_held(x))}"
    if callable(inner := getattr(x, "__wrapped__", None)):  # such as jax.jit's
        return f"{type(x).__name__} of {deep(inner)}"
    if inspect.isroutine(x) or isinstance(x, np.ufunc):
        return _name(x)
    try:
        state = x.__getstate__()
    except Exception:  # what can't be looked into
        state = None
    return f"{deep(type(x))}{deep(state)}"


def _array(x: Any, deep: Callable[[Any], str]) -> str:
    if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
        x = jax.random.key_data(x)
    x = np.asarray(x)
    if x.dtype.hasobject:
        return f"array{deep(x.tolist())}"
    return f"{x.dtype}{list(x.shape)}[{_digest(np.ascontiguousarray(x).tobytes())}]"


def _held(x: Any) -> dict[str, Any]:
    """What a function was made with: its defaults, what it captures, and the numbers it has from its module."""
    names = (x.__code__.co_freevars, x.__closure__ or ())
    captured = {}
    for name, cell in zip(*names, strict=True):
        try:
            captured[name] = cell.cell_contents
        except ValueError:  # it has not been given a value yet
            captured[name] = None
    numbers = {k: x.__globals__[k] for k in x.__code__.co_names if isinstance(x.__globals__.get(k), PLAIN)}
    held = {"defaults": x.__defaults__, "named": x.__kwdefaults__, "captured": captured, "numbers": numbers}
    return {k: v for k, v in held.items() if v}


def _name(x: Any) -> str:
    return f"{getattr(x, '__module__', '')}.{getattr(x, '__qualname__', getattr(x, '__name__', type(x).__name__))}"


def _text(x: Any) -> str:
    try:
        return inspect.getsource(x)
    except (OSError, TypeError):
        return ""


def _beside(x: Any) -> str:
    """The source of the module of what is not installed: what a function uses may stand beside it."""
    module = sys.modules.get(getattr(x, "__module__", None) or "")
    file = getattr(module, "__file__", None) or INSTALLED[0]
    return "" if any(part in file for part in INSTALLED) else _text(module)


def _code(x: CodeType) -> str:
    """A function whose text is nowhere to be found, by what it was compiled to."""
    parts = [_code(c) if isinstance(c, CodeType) else repr(c) for c in x.co_consts]
    return f"{x.co_code.hex()} {x.co_names} {parts}"


def _digest(*parts: str | bytes) -> str:
    found = hashlib.sha256()
    for part in parts:
        found.update(part if isinstance(part, bytes) else part.encode())
    return found.hexdigest()[:12]
