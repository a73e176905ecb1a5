"""Compiled programs, shared by workers, by processes that tests start, and by one run of the tests and the next.

They are named by all that they are made of, so copies of the repository share them too.
"""

import os
import threading
import time
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from fastfedpg.cache import NotOurs, private_folder

JAXLIB = tuple(map(int, version("jaxlib").split(".")[:2]))
FLAGS = (
    # Tests compile many small programs once each: without optimisation, by the older emitters and in one piece that
    # takes a sixth of the time.
    "--xla_backend_optimization_level=0",
    "--xla_cpu_parallel_codegen_split_count=1",
    "--xla_llvm_disable_expensive_passes=true",
    *(["--xla_cpu_use_fusion_emitters=false"] if JAXLIB < (0, 11) else []),  # which later ones don't know
)
AT_MOST = 400_000_000
"""Bytes of programs; one run of all tests makes about 50 million."""
ABANDONED = 600
"""Seconds after which nobody is at work any more in a file that is empty."""


def folder(otherwise: Path) -> Path:
    """Where programs are kept: in the user's cache, or where that is not the user's alone in the folder `otherwise`."""
    try:
        return private_folder("tests")
    except (NotOurs, OSError, RuntimeError):
        return otherwise


def environment(folder: Path) -> dict[str, str]:
    """What JAX is told, here and in child processes."""
    return {
        "XLA_FLAGS": " ".join((os.environ.get("XLA_FLAGS", ""), *FLAGS)).strip(),
        "JAX_COMPILATION_CACHE_DIR": str(folder),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        "JAX_TRACEBACK_IN_LOCATIONS_LIMIT": "0",
    }


def tidy(folder: Path) -> None:
    """Remove what a killed process left of a program, and the oldest ones beyond AT_MOST."""
    kept, abandoned, files = 0, time.time() - ABANDONED, []
    for path in folder.glob("*"):
        with suppress(FileNotFoundError):  # another copy's tests tidy up too
            files.append((path.stat().st_mtime, path.stat().st_size, path))
    for written, size, path in sorted(files, reverse=True):
        kept += size
        if kept > AT_MOST or (size == 0 and written < abandoned):
            path.unlink(missing_ok=True)


def write_whole() -> None:
    """JAX writes a program under its own name, where another worker may read half of it: write it aside first."""
    from jax._src.lru_cache import LRUCache

    def put(cache, key: str, value: bytes) -> None:
        path = Path(str(cache.path)) / f"{key}-cache"
        part = path.with_name(f"{os.getpid()}.part")
        part.write_bytes(value)
        part.replace(path)

    LRUCache.put = put


def keep_context(modules: int = 200) -> None:
    """JAX makes a context with all its dialects for every program, 4 ms each: a thread keeps one for so many of them.

    It is renewed, since it holds whatever constants its programs had.
    """
    from jax._src.interpreters import mlir

    make, here = mlir.make_ir_context, threading.local()

    def kept():
        uses, context = getattr(here, "kept", (0, None))
        if uses % modules == 0:
            context = make()
        here.kept = uses + 1, context
        return context

    mlir.make_ir_context = kept
