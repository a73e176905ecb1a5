"""Temporary folders that are gone with their process, or if that was killed, with the next one that starts."""

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from fastfedpg.files import move

PREFIX = "fastfedpg-"
HELD = ".held"
"""A file in each, locked for as long as its process lives; the system lets go of it however that ends."""


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A new folder of ours alone (0700), removed at the end."""
    sweep()
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        opened = os.open(folder / f"{HELD}.new", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        stack.callback(os.close, opened)
        fcntl.flock(opened, fcntl.LOCK_EX)
        move(folder / f"{HELD}.new", folder / HELD)  # by that name it has never been unlocked
        yield folder


def sweep() -> None:
    """Remove the folders of ours whose processes are gone, and nothing else: no other user's, no link, no other."""
    with suppress(OSError):
        for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
            with suppress(OSError):  # no such file in it, or locked, or removed by somebody else meanwhile
                _remove_if_left(path)


def _remove_if_left(path: Path) -> None:
    about = path.lstat()
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid():
        return
    opened = os.open(path / HELD, os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(opened)
