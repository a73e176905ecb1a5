"""From C to a library that can be called: compiled for this machine, kept in the user's cache, loaded if whole."""

import contextlib
import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from importlib.metadata import version
from pathlib import Path

import jax

from fastfedpg.files import write_atomically

SOURCES = tuple(Path(__file__).with_name(name) for name in ("rollouts.c", "weigh.h"))
NAMES = ("fastfedpg_play", "fastfedpg_weigh")
FLAGS = ("-std=c11", "-O3", "-march=native", "-ffp-contract=off", "-fPIC", "-shared")
SECONDS = 60.0
"""A compiler that takes longer is done without."""


def load() -> ctypes.CDLL:
    """The library, from the cache or freshly compiled."""
    names = (os.environ.get("CC"), "cc", "gcc", "clang")
    compiler = next((found for name in names if name and (found := shutil.which(name))), None)
    if compiler is None:
        raise LookupError("no C compiler (cc, gcc or clang) was found")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fastfedpg"
    stem = f"rollouts-{_fingerprint(compiler)}"
    with contextlib.suppress(OSError):  # none that is whole, or one that can't be loaded
        return _open_library(
            next((file for file in sorted(cache.glob(f"{stem}-*.so")) if _is_whole(file)), cache / stem)
        )
    with tempfile.TemporaryDirectory(prefix="fastfedpg-") as folder:
        fresh = Path(folder) / "rollouts.so"
        _compile(compiler, fresh)
        with contextlib.suppress(OSError):  # nothing may be executed there, on some systems
            opened = _open_library(fresh)
            with contextlib.suppress(OSError):  # no home, or no room in it
                _keep(fresh, cache / f"{stem}-{_digest(fresh.read_bytes())}.so")
            return opened
        return _open_library(_keep(fresh, cache / f"{stem}-{_digest(fresh.read_bytes())}.so"))


def _open_library(file: Path) -> ctypes.CDLL:
    """A library with all that is called."""
    library = ctypes.CDLL(str(file))
    missing = [name for name in NAMES if not hasattr(library, name)]
    if missing:
        raise OSError(f"{file} has no {', '.join(missing)}")
    return library


def _keep(fresh: Path, kept: Path) -> Path:
    """Put a whole file in its place: others load it at the same time, on this machine or on another."""
    kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with write_atomically(kept) as part:
        shutil.copyfile(fresh, part)
    return kept


def _is_whole(file: Path) -> bool:
    """Whether a file is what its name says; part of a library would not be refused, but end the process."""
    return file.is_file() and file.stem.endswith(f"-{_digest(file.read_bytes())}")


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def _compile(compiler: str, to: Path) -> None:
    done = _run([compiler, *FLAGS, "-I", jax.ffi.include_dir(), str(SOURCES[0]), "-o", str(to)])
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
    sources = [file.read_bytes() for file in SOURCES]
    parts = (*sources, _run([compiler, "--version"]).stdout, version("jaxlib"), platform.machine(), sorted(processor))
    return _digest(repr((*parts, *FLAGS)).encode())


def _run(words: list[str]) -> "subprocess.CompletedProcess[bytes]":
    try:
        return subprocess.run(words, capture_output=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        raise LookupError(f"{words[0]} took longer than {SECONDS:g} s") from None
