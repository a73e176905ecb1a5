"""Compiled programs, shared by workers, by processes that tests start, and by one run of the tests and the next."""

import os
import threading
from pathlib import Path

FLAGS = (
    # Tests compile many small programs once each: without optimisation, by the older emitters and in one piece that
    # takes a sixth of the time.
    "--xla_backend_optimization_level=0",
    "--xla_cpu_parallel_codegen_split_count=1",
    "--xla_llvm_disable_expensive_passes=true",
    "--xla_cpu_use_fusion_emitters=false",
)
AT_MOST = 400_000_000
"""Bytes of programs; one run of all tests makes about 50 million."""


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
    kept = 0
    for path in sorted(folder.glob("*"), key=lambda path: path.stat().st_mtime, reverse=True):
        size = path.stat().st_size
        kept += size
        if size == 0 or kept > AT_MOST:
            path.unlink()


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
