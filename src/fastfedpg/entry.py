"""The console script: a guard around the second in which JAX is imported, then the command line."""

import contextlib
import io
import os
import signal
import sys
from pathlib import Path
from types import FrameType

CACHE = 2**30
"""Bytes of compiled programs that are kept: JAX's own limit needs a further package."""


def open_streams() -> None:
    """What was closed by whoever started this (`>&-`) goes nowhere; a file would else get its number, and our words."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest number that is free: this one
    sys.stdin = sys.stdin or Path(os.devnull).open()  # noqa: SIM115
    sys.stdout = sys.stdout or Path(os.devnull).open("w")  # noqa: SIM115
    sys.stderr = sys.stderr or Path(os.devnull).open("w")  # noqa: SIM115


def _leave(number: int, frame: object) -> None:
    # Imports of compiled modules swallow a KeyboardInterrupt or abort on it; nothing has been done that could be lost.
    os.write(2, b"fastfedpg: interrupted before anything was done\n")
    os._exit(130)


def _interrupt(number: int, frame: FrameType | None) -> None:
    while frame is not None:
        if frame.f_code.co_name == "_xla_gc_callback":  # JAX's, in which whatever is raised is lost
            _interrupt_later()
            return
        frame = frame.f_back
    raise KeyboardInterrupt


def _interrupt_later() -> None:
    signal.signal(signal.SIGALRM, _interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.05)


def _lost(what: "sys.UnraisableHookArgs") -> None:
    """Ctrl-C in a finaliser, or in whatever else Python calls on its own account, would be told and forgotten."""
    if what.exc_type is KeyboardInterrupt:
        _interrupt_later()
    else:
        sys.__unraisablehook__(what)


def _forget_oldest(folder: Path) -> None:
    """Of the compiled programs; another process may be doing the same."""
    files = []
    for file in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):
            about = file.lstat()
            if about.st_uid != os.geteuid():  # put there before the folder was ours alone
                file.unlink()
                continue
            files.append((about.st_mtime, about.st_size, file))
    total = 0
    for _, size, file in sorted(files, reverse=True):
        total += size
        if total > CACHE:
            file.unlink(missing_ok=True)


def keep_programs() -> None:
    """JAX keeps compiled programs in the user's cache folder, so that the same command compiles only once.

    JAX_COMPILATION_CACHE_DIR says where instead; empty, it keeps none. Where nothing can be written nothing is kept,
    and nothing where somebody else could write: a program is code.
    """
    if "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return
    from fastfedpg.cache import NotOurs, private_folder
    from fastfedpg.errors import printable

    try:
        private_folder()
        folder = private_folder("programs")
        if not os.access(folder, os.W_OK):
            return
        _forget_oldest(folder)
    except NotOurs as error:
        sys.stderr.write(f"fastfedpg: note: compiled programs are not kept: {printable(error)}\n")
        return
    except (OSError, RuntimeError):  # RuntimeError: nobody knows where home is
        return
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder)
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")


def _flushed(code: int) -> int:
    """The exit code, when all that was printed has been written; if it can't be, that is said here and not at the end.

    The interpreter itself would say it with a traceback, in a code of its own.
    """
    from fastfedpg.cli.consoles import discard

    for stream, name in ((sys.stdout, "standard output"), (sys.stderr, "")):
        try:
            stream.flush()
        except BrokenPipeError:
            discard(stream)
        except OSError as error:
            discard(stream)
            if name:
                sys.stderr.write(f"fastfedpg: {name}: {error.strerror}\n")
                code = code or 1
    return code


def main() -> None:
    """Run the command line. A request to end, from a batch system or a closed terminal, is treated like Ctrl-C."""
    open_streams()
    every = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    requests = [n for n in every if signal.getsignal(n) is not signal.SIG_IGN]  # nohup and shells mean it
    for number in requests:
        signal.signal(number, _leave)
    # For all threads: a callback of somebody's own environment runs in one of JAX's, which would round to float32.
    os.environ["JAX_ENABLE_X64"] = "1"
    keep_programs()
    from fastfedpg import cli, scratch

    cli.prepare(sys.argv[1:])
    scratch.sweep()
    sys.unraisablehook = _lost
    for number in requests:
        signal.signal(number, _interrupt)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    code = cli.main()
    code = _flushed(code)
    if code == 130:  # interrupted: a second Ctrl-C must not reach the interpreter while it takes JAX apart
        for number in requests:
            signal.signal(number, signal.SIG_IGN)
        if pools := sys.modules.get("fastfedpg.gym_workers.pool"):
            pools.close_all()
        os._exit(code)
    sys.exit(code)
