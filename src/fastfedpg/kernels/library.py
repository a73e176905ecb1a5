"""From C to a library that can be called: compiled for this machine, kept in the user's cache, loaded if it is ours."""

import contextlib
import ctypes
import functools
import hashlib
import os
import platform
import shutil
import subprocess
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import jax

from fastfedpg.cache import NotOurs, is_ours, private_folder
from fastfedpg.files import write_atomically
from fastfedpg.scratch import scratch_folder

SOURCES = tuple(Path(__file__).with_name(name) for name in ("rollouts.c", "host_call.c", "weigh.h", "ffi.h"))
NAMES = ("fastfedpg_play", "fastfedpg_weigh", "fastfedpg_call_host")
FLAGS = ("-std=c11", "-O3", "-march=native", "-ffp-contract=off", "-fPIC", "-shared")
SECONDS = 60.0
"""A compiler that takes longer is done without."""


def load(note: Callable[[str], None]) -> ctypes.CDLL:
    """The library, from the cache or freshly compiled; what it can't be kept for is noted."""
    compiler = _compiler()
    stem = f"rollouts-{_fingerprint(compiler)}"
    cache = _cache(note)
    with contextlib.suppress(OSError):  # none that is ours and whole, or one that can't be loaded
        for file in sorted(cache.glob(f"{stem}-*.so")) if cache else ():
            if is_ours(file) and _is_whole(file):
                return _open_library(file)
    with scratch_folder() as folder:
        fresh = folder / "rollouts.so"
        _compile(compiler, fresh)
        with contextlib.suppress(OSError):  # nothing may be executed there, on some systems
            opened = _open_library(fresh)
            with contextlib.suppress(OSError):  # no room in it
                _keep(fresh, stem, cache)
            return opened
        return _open_library(_keep(fresh, stem, cache))


def build() -> str:
    """Of what the numbers of the compiled loops can depend on: their source, the flags and the compiler."""
    return _digest(repr((_sources(), FLAGS, _version(_compiler()))).encode())[:12]


def _compiler() -> str:
    names = (os.environ.get("CC"), "cc", "gcc", "clang")
    compiler = next((found for name in names if name and (found := shutil.which(name))), None)
    if compiler is None:
        raise LookupError("no C compiler (cc, gcc or clang) was found")
    return compiler


def _cache(note: Callable[[str], None]) -> Path | None:
    """Where libraries are kept, or nowhere: then each process compiles its own."""
    try:
        return private_folder()
    except NotOurs as error:
        note(f"compiled loops are not kept, and none is taken from there: {error}")
    except (OSError, RuntimeError):  # RuntimeError: nobody knows where home is
        pass
    return None


def _open_library(file: Path) -> ctypes.CDLL:
    """A library with all that is called."""
    library = ctypes.CDLL(str(file))
    missing = [name for name in NAMES if not hasattr(library, name)]
    if missing:
        raise OSError(f"{file} has no {', '.join(missing)}")
    return library


def _keep(fresh: Path, stem: str, cache: Path | None) -> Path:
    """Put a whole file in its place: others of our processes load it at the same time, here or on another machine."""
    if cache is None:
        raise OSError("there is no folder to keep it in")
    kept = cache / f"{stem}-{_digest(fresh.read_bytes())}.so"
    with write_atomically(kept) as part:
        part.touch(0o600, exist_ok=False)
        shutil.copyfile(fresh, part)
    return kept


def _is_whole(file: Path) -> bool:
    """Whether a file is what was compiled; part of a library would not be refused, but end the process."""
    return file.stem.endswith(f"-{_digest(file.read_bytes())}")


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _compile(compiler: str, to: Path) -> None:
    compiled = [str(file) for file in SOURCES if file.suffix == ".c"]
    done = _run([compiler, *FLAGS, "-I", jax.ffi.include_dir(), *compiled, "-o", str(to)])
    if done.returncode or not to.exists():
        said = (done.stderr.decode(errors="replace").strip().splitlines() or ["no word why"])[0]
        raise LookupError(f"{compiler} failed: {said}")


def _fingerprint(compiler: str) -> str:
    """Of all that the library depends on: its source, the compiler, XLA's interface and this processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        processor = {line for line in lines if line.lower().startswith(("flags", "features", "model name", "cpu part"))}
    except OSError:
        processor = {platform.processor()}
    parts = (_sources(), _version(compiler), version("jaxlib"), platform.machine(), sorted(processor), FLAGS)
    return _digest(repr(parts).encode())[:16]


def _sources() -> list[bytes]:
    return [file.read_bytes() for file in SOURCES]


@functools.cache
def _version(compiler: str) -> bytes:
    return _run([compiler, "--version"]).stdout


def _run(words: list[str]) -> "subprocess.CompletedProcess[bytes]":
    try:
        return subprocess.run(words, capture_output=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        raise LookupError(f"{words[0]} took longer than {SECONDS:g} s") from None
