"""Shapes in signatures are checked at run time in tests, and all tests run in 64-bit mode, as the command line does."""

import os
import signal
from pathlib import Path

# Tests compile many small programs once each: most of their time is LLVM's, and level 1 halves it.
os.environ["XLA_FLAGS"] = (
    f"{os.environ.get('XLA_FLAGS', '')} --xla_backend_optimization_level=1 --xla_llvm_disable_expensive_passes=true"
).strip()
# Compiled programs are shared by workers, by the processes that tests start, and by one run of the tests and the next.
os.environ["JAX_COMPILATION_CACHE_DIR"] = str(Path(__file__).parents[1] / ".pytest_cache" / "programs")
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"

import jax
import pytest
from jaxtyping import install_import_hook

# A shell starts background jobs with these ignored; the tests of Ctrl-C and their child processes would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

jax.config.update("jax_enable_x64", True)

MAPPINGS = 20_000
"""Of the 65,530 that the system gives a process: compiled programs take hundreds, and without any XLA crashes."""


@pytest.fixture(autouse=True)
def room_for_compiled_programs():
    """Forget compiled programs before there are too many of them."""
    yield
    if Path("/proc/self/maps").read_bytes().count(b"\n") > MAPPINGS:
        jax.clear_caches()


with install_import_hook("fastfedpg", "typecheck.check"):
    import fastfedpg
    import fastfedpg.cli  # noqa: F401
