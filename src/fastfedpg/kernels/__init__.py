"""The sampled oracles' inner loops in C, for CPUs: compiled where they run, when they are first needed.

Without a C compiler everything works without them, more slowly; then it says so, once.
"""

import contextlib
import ctypes
import functools
import hashlib
import logging
import os
import platform
import shutil
import subprocess
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

SOURCES = tuple(Path(__file__).with_name(name) for name in ("rollouts.c", "weigh.h"))
FLAGS = ("-std=c11", "-O3", "-march=native", "-ffp-contract=off", "-fPIC", "-shared")
SWITCH = "FASTFEDPG_KERNELS"
"""An environment variable: `off` does without."""


@functools.cache
def available() -> bool:
    """Whether the compiled loops are there; if not, why not has been said."""
    if os.environ.get(SWITCH) == "off":
        return False
    try:
        library = _load()
    except (OSError, RuntimeError, LookupError, subprocess.SubprocessError) as error:  # RuntimeError: no home
        logging.getLogger("fastfedpg").warning("sampling runs without its compiled loops, more slowly: %s", error)
        return False
    for name in ("play", "weigh"):
        handler = jax.ffi.pycapsule(getattr(library, f"fastfedpg_{name}"))
        jax.ffi.register_ffi_target(f"fastfedpg_{name}", handler, platform="cpu")
    return True


def play(given: tuple[Any, ...], B: int, K: int) -> Any:
    """B trajectories of K steps: `oracles.sampled.play`."""
    form = jax.ShapeDtypeStruct((B, K), jnp.int32)
    return jax.ffi.ffi_call("fastfedpg_play", form, vmap_method="expand_dims")(*given)


def weigh(which: int, visited: Any, r: Any, discount: Any) -> Any:
    """Each pair's total weight, by the weights that have this number: `oracles.sampled.weigh`."""
    form = jax.ShapeDtypeStruct(r.shape, r.dtype)
    called = jax.ffi.ffi_call("fastfedpg_weigh", form, vmap_method="expand_dims")
    return called(visited, r, discount, weights=np.int32(which))


def _load() -> ctypes.CDLL:
    """The library, from the user's cache or freshly compiled."""
    compiler = next((found for name in (os.environ.get("CC"), "cc", "gcc", "clang") if (found := _which(name))), None)
    if compiler is None:
        raise LookupError("no C compiler (cc, gcc or clang) was found")
    with tempfile.TemporaryDirectory(prefix="fastfedpg-") as folder:
        fresh, kept = Path(folder) / "rollouts.so", _cache() / f"rollouts-{_fingerprint(compiler)}.so"
        with contextlib.suppress(OSError):  # there is none yet, or it is damaged
            return ctypes.CDLL(str(kept))
        _compile(compiler, fresh)
        with contextlib.suppress(OSError):  # no home, or no room in it
            _keep(fresh, kept)
            return ctypes.CDLL(str(kept))  # from there, since nothing may be executed in some systems' /tmp
        return ctypes.CDLL(str(fresh))


def _keep(fresh: Path, kept: Path) -> None:
    """Put a whole file in its place: others load it at the same time, on this machine or on another."""
    kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=kept.parent, delete=False) as half:
        try:
            half.write(fresh.read_bytes())
            half.flush()
            os.fsync(half.fileno())
            Path(half.name).replace(kept)
        except OSError:
            Path(half.name).unlink()
            raise


def _compile(compiler: str, to: Path) -> None:
    words = [compiler, *FLAGS, "-I", jax.ffi.include_dir(), str(SOURCES[0]), "-o", str(to)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["no word why"])[0]
        raise LookupError(f"{compiler} failed: {said}")


def _which(name: str | None) -> str | None:
    return shutil.which(name) if name else None


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fastfedpg"


def _fingerprint(compiler: str) -> str:
    """Of all that the library depends on: its source, the compiler, XLA's interface and this processor."""
    made_by = subprocess.run([compiler, "--version"], capture_output=True, timeout=20, check=True).stdout
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        processor = {line for line in lines if line.lower().startswith(("flags", "features", "model name", "cpu part"))}
    except OSError:
        processor = {platform.processor()}
    sources = [file.read_bytes() for file in SOURCES]
    parts = (*sources, made_by, version("jaxlib"), platform.machine(), sorted(processor), *FLAGS)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
