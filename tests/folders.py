"""What is in a folder, put there again; and a process that is killed, interrupted or out of disk at any system call."""

import builtins
import errno
import io
import os
import shutil
import signal
import stat
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from unittest.mock import patch

FOLDER, PIPE = "a folder", "a pipe"


def contents(out: Path) -> dict[str, bytes | str]:
    """Everything below a folder by its path: the bytes of files, and what else there is by name."""
    found = {}
    for path in sorted(out.rglob("*")) if out.is_dir() else ():
        kind = path.lstat().st_mode
        what = path.read_bytes() if stat.S_ISREG(kind) else FOLDER if stat.S_ISDIR(kind) else PIPE
        found[path.relative_to(out).as_posix()] = what
    return found


def remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)


def put(path: Path, what: bytes | str) -> None:
    """One thing in the place of what is there."""
    remove(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    if what == FOLDER:
        path.mkdir()
    elif what == PIPE:
        os.mkfifo(path)
    else:
        path.write_bytes(what)


def restore(out: Path, found: dict[str, bytes | str] | None) -> None:
    """A folder as it was; None is no folder at all."""
    remove(out)
    if found is not None:
        out.mkdir()
        for name, what in found.items():
            put(out / name, what)


class Killed(BaseException):
    """The process is gone: nothing that it would have done after this is on the disk."""


CALLS = ("open", "replace", "rename", "unlink", "mkdir", "rmdir", "pwrite", "fsync")


class Ending:
    """How a process ends that works in a folder: by its own, or at its `number`-th system call that concerns files."""

    def __init__(self, out: Path, how: str | None, number: int):
        self.out, self.how, self.left = out, how, number
        self.on_disk: dict[str, bytes | str] | None = None
        self.happened = False

    def at_call(self) -> None:
        """Before each of them."""
        if self.happened and self.how == "full disk":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if self.happened or self.how is None:
            return
        self.left -= 1
        if self.left > 0:
            return
        self.happened = True
        if self.how == "kill":
            with self.paused():
                self.on_disk = contents(self.out) if self.out.is_dir() else None
            raise Killed
        if self.how == "full disk":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.kill(os.getpid(), signal.SIGINT)

    @contextmanager
    def paused(self):
        how, self.how = self.how, None
        try:
            yield
        finally:
            self.how = how


WRITES = ("open", "pwrite", "mkdir", "replace", "rename")


@contextmanager
def ending(out: Path, how: str | None = None, number: int = 1):
    """Work that may end before its end; a kill leaves the folder as it was at that moment. It does not sync."""
    end = Ending(out, how, number)

    def before(name, function):
        def call(*arguments, **names):
            if name == "fsync":
                return end.at_call()
            writes = name != "open" or _writes(arguments, names)
            if writes and (how != "full disk" or name in WRITES):
                end.at_call()
            return function(*arguments, **names)

        return call

    with ExitStack() as stack:
        for name in CALLS:
            stack.enter_context(patch.object(os, name, before(name, getattr(os, name))))
        for module in (io, builtins):
            stack.enter_context(patch.object(module, "open", before("open", io.open)))
        with suppress(Killed):
            yield end
    if end.happened and how == "kill":
        restore(out, end.on_disk)


def _writes(arguments, names) -> bool:
    how = names.get("mode", names.get("flags", arguments[1] if len(arguments) > 1 else "r"))
    if isinstance(how, int):
        return bool(how & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
    return any(letter in how for letter in "wax+")


SECONDS = 30


@contextmanager
def in_time():
    """What hangs is ended, again and again if it must be, and fails."""

    def hangs(*_):
        raise AssertionError(f"nothing has come for {SECONDS} s")

    before = signal.signal(signal.SIGALRM, hangs)
    signal.setitimer(signal.ITIMER_REAL, SECONDS, 1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
