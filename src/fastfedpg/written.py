"""The list of what was written in a folder: a line for each file, with its sum, before the file takes its place.

So whoever is killed in between leaves a line too many, and never a file that is not listed. A file may have several
lines: each is of something that was written there.
"""

import errno
import hashlib
import os
import stat
from pathlib import Path

LIST = ".written"
HEAD = "# fastfedpg wrote these files, each before it took its place: sha256 and name"


def enter(path: Path, part: Path) -> None:
    """Add the file `part`, which is to be called `path`, to the list in its folder, if one is kept there."""
    if part.is_dir():
        return
    try:
        opened = os.open(path.parent / LIST, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:  # there is none, or something else is in its place
        return
    try:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            return
        line = f"\n{sum_of(part)}  {path.name}".encode()  # on a line of its own, after whatever was cut off
        with os.fdopen(os.dup(opened), "rb") as file:
            there = file.read() + b"\n"
        if line + b"\n" not in there:  # what is written again is listed already
            if os.write(opened, line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path.parent / LIST))
            os.fsync(opened)
    finally:
        os.close(opened)


def sum_of(path: Path) -> str:
    """The sum of a file, piece by piece; of what is no file "", and of a link, which may lead anywhere."""
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    with os.fdopen(opened, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() if stat.S_ISREG(os.fstat(opened).st_mode) else ""


def entries(text: str) -> set[tuple[str, str]] | None:
    """Sums and names of a list; None where it is no such list. A line that is damaged lists nothing."""
    head, *lines = text.split("\n")
    return {(line[:64], line[66:]) for line in lines} if head == HEAD else None
