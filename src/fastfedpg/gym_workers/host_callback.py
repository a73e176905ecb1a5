"""A JAX operation whose work is done by a Python function on NumPy arrays.

`jax.pure_callback` copies its arguments into JAX arrays first, on XLA's own threads: where there is one core there is
one thread, it is the one that waits for the callback, and the program stands still (jax-ml/jax#24255). Here the
function is given XLA's buffers as NumPy arrays, and nothing waits.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

Host = Callable[..., Sequence[np.ndarray]]
"""Arrays with the same leading axes, one for each vmap, to results with these axes; pure."""

call_host_p = Primitive("call_host")
call_host_p.multiple_results = True


def call_host(host: Host, results: Sequence[jax.ShapeDtypeStruct], *args: Any) -> list[Any]:
    """The host's answer to the arguments, under jit and vmap; it has no derivative."""
    # On XLA's threads the caller's 64-bit mode is not known, and JAX would round: float64 travels as two words.
    words = [jax.ShapeDtypeStruct((*x.shape, 2), jnp.uint32) if x.dtype == jnp.float64 else x for x in results]
    found = call_host_p.bind(*map(jax.lax.stop_gradient, args), host=Worded(host), results=tuple(words))
    return [
        jax.lax.bitcast_convert_type(x, jnp.float64) if wanted.dtype == jnp.float64 else x
        for x, wanted in zip(found, results, strict=True)
    ]


class Worded(NamedTuple):
    """A host whose float64 results are pairs of 32-bit words."""

    host: Host

    def __call__(self, *args: np.ndarray) -> list[np.ndarray]:
        """The host's results."""
        return [
            np.ascontiguousarray(x)[..., None].view(np.uint32) if x.dtype == np.float64 else x for x in self.host(*args)
        ]


def _shapes(*args: Any, host: Host, results: Sequence[jax.ShapeDtypeStruct]) -> list[ShapedArray]:
    return [ShapedArray(x.shape, x.dtype) for x in results]


def _now(*args: Any, host: Host, results: Sequence[jax.ShapeDtypeStruct]) -> list[Any]:
    return [jnp.asarray(x) for x in host(*map(np.asarray, args))]


def _lower(ctx: Any, *args: Any, host: Host, results: Any) -> Any:
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
