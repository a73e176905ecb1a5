"""Processes that end when the process that started them ends, however that happens."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

PR_SET_PDEATHSIG = 1
END_SECONDS = 5.0
"""What a process has to end by itself once it was asked to."""
MARK = "FASTFEDPG_STARTED_BY"
"""In the environment of a process and of all that it starts, directly or not: the marks of those that started it."""


def words(command: list[str]) -> list[str]:
    """A command, asked to end when the process that starts it does."""
    return [sys.executable, "-m", __name__, str(os.getpid()), *command]


def end_with_parent(number: int = signal.SIGKILL) -> None:
    """Ask the system for a signal at the parent's end; where it has ended already, end."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, number)
    if os.getppid() == 1:
        os.kill(os.getpid(), number)


def marked(environment: Mapping[str, str], mark: str) -> dict[str, str]:
    """An environment by which `guard` knows a process again."""
    return {**environment, MARK: f"{environment.get(MARK, '')}:{mark}"}


def guard(mark: str) -> "subprocess.Popen[bytes]":
    """A process that outlives this one, and then kills those so marked that do not end although they were asked to.

    A node that says goodbye to a SuperLink which was killed with it would try for minutes.
    """
    own = {name: value for name, value in os.environ.items() if name != MARK}
    command = [sys.executable, "-m", __name__, "--guard", mark]
    quiet = subprocess.DEVNULL  # who reads our output must not wait for the guard
    return subprocess.Popen(command, env=own, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet, start_new_session=True)


def dismiss(guarding: "subprocess.Popen[bytes]") -> None:
    """The marked processes have ended: so does their guard."""
    with suppress(OSError, subprocess.TimeoutExpired):
        guarding.communicate(timeout=2 * END_SECONDS)


def _marked(mark: str) -> Iterator[int]:
    for entry in Path("/proc").iterdir():
        with suppress(OSError):  # it has ended, or is another user's
            if entry.name.isdecimal() and f":{mark}".encode() in (entry / "environ").read_bytes():
                yield int(entry.name)


def _guard(mark: str) -> None:
    sys.stdin.buffer.read()  # until the other end of the pipe has gone
    limit = time.monotonic() + END_SECONDS
    empty = 0
    while empty < 2:  # one that forks and ends while it is looked for could be missed once
        left = [*_marked(mark)]
        empty = 0 if left else empty + 1
        if time.monotonic() > limit:
            for pid in left:
                with suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)


def main() -> None:
    """Become the command, or the guard."""
    if sys.argv[1] == "--guard":
        _guard(sys.argv[2])
        return
    parent, command = int(sys.argv[1]), sys.argv[2:]
    end_with_parent(signal.SIGTERM)
    if os.getppid() != parent:  # it ended before it could be asked for
        sys.exit(1)
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
