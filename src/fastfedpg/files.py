"""Files that are written whole or not at all, and folders that one process at a time works in."""

import errno
import fcntl
import hashlib
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader, BufferedWriter
from pathlib import Path

from fastfedpg.errors import InputError
from fastfedpg.written import HEAD, LIST, enter

PART = ".part-"
LOCK = ".lock"
ATTEMPTS = 5


@contextmanager
def write_atomically(path: Path) -> Iterator[Path]:
    """A name beside `path` for a new file or folder, which takes its place at once, when it is safe on disk."""
    part = path.with_name(f"{PART}{secrets.randbits(32)}-{path.name}")
    try:
        yield part
        for each in (*sorted(part.rglob("*"), reverse=True), part):  # what is in a folder before the folder
            sync(each)
        if part.is_dir() and path.is_dir():
            shutil.rmtree(path)
        enter(path, part)
        part.replace(path)
        sync(path.parent)
    except BaseException:
        _remove(part)
        raise


def _remove(part: Path) -> None:
    with suppress(OSError):  # what went wrong before says more than that nothing can be removed either
        shutil.rmtree(part) if part.is_dir() else part.unlink()


def write_text(path: Path, text: str) -> None:
    """A text file, whole or not at all."""
    with write_atomically(path) as part:
        part.write_text(text, encoding="utf-8")


def begin_list(folder: Path) -> None:
    """From here on what is written in this folder is listed in it."""
    write_text(folder / LIST, HEAD)


def write_secret(path: Path, data: bytes) -> None:
    """A file, whole or not at all, that its owner alone can read from the first moment."""
    with write_atomically(path) as part:
        part.touch(0o600, exist_ok=False)
        part.write_bytes(data)


def open_regular(path: Path) -> BufferedReader:
    """A file to be read, and nothing that only looks like one: a pipe would never end, nor a device."""
    return os.fdopen(_opened(path, os.O_RDONLY), "rb")


def append_regular(path: Path) -> BufferedWriter:
    """A file, or a new one, to be written on at its end; a pipe would wait for somebody who reads."""
    return os.fdopen(_opened(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "ab")


def _opened(path: Path, how: int) -> int:
    opened = os.open(path, how | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    kind = os.fstat(opened).st_mode
    if not stat.S_ISREG(kind):
        os.close(opened)
        if stat.S_ISDIR(kind):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        raise OSError(errno.EINVAL, "not a file but something else", str(path))
    return opened


def read_bytes(path: Path) -> bytes:
    """A file, whole."""
    with open_regular(path) as file:
        return file.read()


SMALL = 1 << 26
"""Bytes of the largest text that is read whole, where no other limit is given."""


def read_text(path: Path, encoding: str = "utf-8", errors: str = "strict", at_most: int = SMALL) -> str:
    """A text file, whole, with line breaks as they are."""
    with open_regular(path) as file:
        if os.fstat(file.fileno()).st_size > at_most:
            raise OSError(errno.EFBIG, f"larger than {at_most >> 20} MB", str(path))
        return file.read().decode(encoding, errors)


SEAL = "# sha256 of what follows: "


def seal(text: str) -> str:
    """The text under a line with its sum, which TOML takes for a comment."""
    return f"{SEAL}{hashlib.sha256(text.encode()).hexdigest()}\n{text}"


def is_sealed(text: str, unless: bool = False) -> bool:
    """Whether a text is what it was when it was sealed, below the line that says so; `unless` there is none.

    Above that line only comments count for nothing.
    """
    above, line, rest = text.partition(SEAL)
    if not line:
        return unless
    head, _, rest = rest.partition("\n")
    commented = all(words.startswith("#") for words in above.splitlines() if words.strip())
    return commented and head == hashlib.sha256(rest.encode()).hexdigest()


def unused(path: Path) -> Path:
    """The path, with a number after it if something is there."""
    number, free = 1, path
    while free.exists() or free.is_symlink():
        number, free = number + 1, path.with_name(f"{path.name}-{number + 1}")
    return free


def move(path: Path, to: Path) -> None:
    """Give a file or a folder another name, on the same disk."""
    path.rename(to)


def sync(path: Path) -> None:
    """Wait until a file, or a folder's list of names, is on the disk itself."""
    opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # should a pipe be there by now
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def clear_parts(folder: Path) -> None:
    """Remove what a killed process was in the middle of writing."""
    for part in folder.glob(f"{PART}*"):
        if re.match(rf"{re.escape(PART)}\d+-", part.name):  # as `write_atomically` names them
            _remove(part)


@contextmanager
def hold(folder: Path) -> Iterator[None]:
    """Work in a folder as the only process; the system lets go of it however the process ends."""
    opened = _lock(folder)
    try:
        yield
    finally:
        with suppress(OSError):  # on a disk that has become read-only it stays, and holds nobody up
            (folder / LOCK).unlink()
        os.close(opened)


def _lock(folder: Path) -> int:
    for attempt in range(ATTEMPTS):
        try:
            opened = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
        except OSError as error:
            if error.errno in (errno.EISDIR, errno.ELOOP):
                raise InputError(f"{folder / LOCK}: not a file, as the lock of a folder is; remove it") from None
            raise
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(opened), (folder / LOCK).stat()):
                return opened
        except (BlockingIOError, FileNotFoundError):
            pass  # held, or looked at for a moment, or removed by its last holder before it was locked here
        except OSError:
            os.close(opened)
            raise
        os.close(opened)
        time.sleep(0.02 * (attempt + 1))
    raise InputError(f"{folder}: another process is at work in this folder")


def is_held(folder: Path) -> bool:
    """Whether a process is at work in a folder."""
    try:
        opened = os.open(folder / LOCK, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(opened)
    return False
