"""A JAX operation whose work is done by a Python function on NumPy arrays.

`jax.pure_callback` copies its arguments into JAX arrays first, on XLA's own threads: where there is one core there is
one thread, it is the one that waits for the callback, and the program stands still (jax-ml/jax#24255). And a program
with a callback of JAX's in it is not kept for the next process. Here the program knows the function by a number, which
a few lines of C (`kernels/host_call.c`) hand to `_called`, with XLA's buffers. Without them, and elsewhere than on a
CPU, JAX's own callback is taken, with XLA's buffers too, and such programs are compiled by every process.
"""

import ctypes
import functools
import itertools
import math
import traceback
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

from fastfedpg import kernels

Host = Callable[..., Sequence[np.ndarray]]
"""Arrays with the same leading axes, one for each vmap, to results with these axes; pure."""

call_host_p = Primitive("call_host")
call_host_p.multiple_results = True


class Numbered:
    """A host with a number, the least that is free, so that processes agree on it.

    A program knows the number alone, and JAX may have begun to run one that nobody else knows any more: so whoever
    makes this keeps it as long as its results are waited for.
    """

    def __init__(self, host: Host) -> None:
        self.host = host
        self.number = next(n for n in itertools.count() if n not in NUMBERED)
        NUMBERED[self.number] = self

    def __call__(self, *args: np.ndarray) -> Sequence[np.ndarray]:
        """The host's results."""
        return self.host(*args)


NUMBERED: "weakref.WeakValueDictionary[int, Numbered]" = weakref.WeakValueDictionary()


def call_host(host: Numbered, results: Sequence[jax.ShapeDtypeStruct], *args: Any) -> list[Any]:
    """The host's answer to the arguments, under jit and vmap; it has no derivative."""
    args = tuple(map(jax.lax.stop_gradient, args))
    if _compiled_calls():
        return list(call_host_p.bind(*args, host=host, results=tuple(results)))
    # On XLA's threads the caller's 64-bit mode is not known, and JAX would round: float64 travels as two words.
    words = [jax.ShapeDtypeStruct((*x.shape, 2), jnp.uint32) if x.dtype == jnp.float64 else x for x in results]
    found = call_host_p.bind(*args, host=Worded(host), results=tuple(words))
    return [
        jax.lax.bitcast_convert_type(x, jnp.float64) if wanted.dtype == jnp.float64 else x
        for x, wanted in zip(found, results, strict=True)
    ]


@functools.cache
def _compiled_calls() -> bool:
    """Whether hosts can be called by their number."""
    return jax.default_backend() == "cpu" and kernels.set_host(_CALLED)


class Worded(NamedTuple):
    """A host whose float64 results are pairs of 32-bit words."""

    host: Host

    def __call__(self, *args: np.ndarray) -> list[np.ndarray]:
        """The host's results."""
        return [
            np.ascontiguousarray(x)[..., None].view(np.uint32) if x.dtype == np.float64 else x for x in self.host(*args)
        ]


class Given(ctypes.Structure):
    """An array of XLA's, as `kernels/host_call.c` hands it on."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("dims", ctypes.POINTER(ctypes.c_int64)),
        ("rank", ctypes.c_int64),
        ("kind", ctypes.c_int64),
    )

    def array(self) -> np.ndarray:
        """The same memory."""
        shape, dtype = tuple(self.dims[: self.rank]), np.dtype(chr(self.kind))
        if 0 in shape:
            return np.zeros(shape, dtype)
        memory = (ctypes.c_char * (dtype.itemsize * math.prod(shape))).from_address(self.data)
        return np.ndarray(shape, dtype, memory)


def _called(number: int, args: int, given: Any, rets: int, out: Any, words: int, most: int) -> int:
    """Put a host's results into XLA's own memory: 1, or else (also where nothing is returned) it has failed."""
    try:
        found = NUMBERED[number](*(given[i].array() for i in range(args)))
        for i, x in zip(range(rets), found, strict=True):
            to = out[i].array()
            if x.shape != to.shape or x.dtype != to.dtype:
                raise ValueError(f"result {i} is {x.dtype}{list(x.shape)}, and not {to.dtype}{list(to.shape)}")
            to[...] = x
    except BaseException:  # Ctrl-C too: nothing can be raised through C
        told = traceback.format_exc().encode(errors="replace")[1 - most :]
        ctypes.memmove(words, told + b"\0", len(told) + 1)
        return 0
    return 1


_MANY, _ARRAYS = ctypes.c_int64, ctypes.POINTER(Given)
_CALLED = ctypes.CFUNCTYPE(ctypes.c_int, _MANY, _MANY, _ARRAYS, _MANY, _ARRAYS, ctypes.c_void_p, _MANY)(_called)


def _shapes(*args: Any, host: Host, results: Sequence[jax.ShapeDtypeStruct]) -> list[ShapedArray]:
    return [ShapedArray(x.shape, x.dtype) for x in results]


def _now(*args: Any, host: Host, results: Sequence[jax.ShapeDtypeStruct]) -> list[Any]:
    return [jnp.asarray(x) for x in host(*map(np.asarray, args))]


def _lower(ctx: Any, *args: Any, host: Host, results: Any) -> Any:
    if isinstance(host, Numbered):
        ctx.module_context.add_keepalive(host)  # nobody else is given its number as long as there is the program
        return jax.ffi.ffi_lowering("fastfedpg_call_host")(ctx, *args, number=np.int64(host.number))
    avals = ctx.avals_in, ctx.avals_out
    answer, _, _ = mlir.emit_python_callback(
        ctx, host, None, list(args), *avals, has_side_effect=False, returns_token=False
    )
    return answer


def _batch(args: Any, axes: Any, *, host: Host, results: Sequence[jax.ShapeDtypeStruct]) -> Any:
    n = next(x.shape[axis] for x, axis in zip(args, axes, strict=True) if axis is not None)
    first = lambda x, axis: jnp.broadcast_to(x, (n, *x.shape)) if axis is None else jnp.moveaxis(x, axis, 0)
    more = tuple(jax.ShapeDtypeStruct((n, *x.shape), x.dtype) for x in results)
    return call_host_p.bind(*map(first, args, axes), host=host, results=more), [0] * len(more)


call_host_p.def_abstract_eval(_shapes)
call_host_p.def_impl(_now)
mlir.register_lowering(call_host_p, _lower)
batching.primitive_batchers[call_host_p] = _batch
