"""The sampled oracles' inner loops in C, for CPUs: compiled where they run, when they are first needed.

Without a C compiler everything works without them, more slowly; then it says so, once.
"""

import ctypes
import functools
import logging
import os
import subprocess
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fastfedpg.errors import printable
from fastfedpg.kernels import library

SWITCH = "FASTFEDPG_KERNELS"
"""An environment variable: `off` does without."""

_LOADED: list[ctypes.CDLL] = []


@functools.cache
def available() -> bool:
    """Whether the compiled loops are there; if not, why not has been said."""
    if os.environ.get(SWITCH) == "off":
        return False
    try:
        loops = library.load(lambda words: logging.getLogger("fastfedpg").warning("%s", printable(words)))
    except (OSError, RuntimeError, LookupError, subprocess.SubprocessError) as error:  # RuntimeError: no home
        why = printable(error)
        logging.getLogger("fastfedpg").warning("sampling runs without its compiled loops, more slowly: %s", why)
        return False
    for name in library.NAMES:
        jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(getattr(loops, name)), platform="cpu")
    _LOADED[:] = [loops]
    return True


@functools.cache
def build() -> str:
    """Which implementation sampling uses here: `plain`, or `c` and a short hash of source, flags and compiler.

    Asks for the compiled loops, and hence compiles them where that was never done: ask where something is sampled.
    """
    return f"c {library.build()}" if available() else "plain"


def play(next: Any, first: Any, below: Any, g: Any, K: int) -> Any:
    """As many trajectories as generators, of K steps: `oracles.sampled.play`."""
    form = jax.ShapeDtypeStruct((len(g), K), jnp.int32)
    fill = -below.shape[1] % 4 or 4 * (below.shape[1] == 0)  # rows of four, or of eight, …
    below = jnp.pad(below, ((0, 0), (0, fill)), constant_values=2**31 - 1)
    return jax.ffi.ffi_call("fastfedpg_play", form, vmap_method="expand_dims")(next, first, below, g)


def weigh(which: int, visited: Any, r: Any, discount: Any) -> Any:
    """Each pair's total weight, by the weights that have this number: `oracles.sampled.weigh`, to the bit."""
    form = jax.ShapeDtypeStruct(r.shape, r.dtype)
    called = jax.ffi.ffi_call("fastfedpg_weigh", form, vmap_method="expand_dims")
    return called(visited, r, discount, weights=np.int32(which))


def set_host(host: Any) -> bool:
    """Have `fastfedpg_call_host` call this function (of ctypes); whether it can be called."""
    there = available()
    if there:
        _LOADED[0].fastfedpg_set_host(host)
    return there
