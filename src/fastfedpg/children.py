"""Child processes: started so that they end with their parent, however it ends, and ended with all that they started.

Without JAX: the processes that play environments import it, and those that Flower starts.
"""

import ctypes
import fcntl
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, TypeAlias

import psutil

Child: TypeAlias = "subprocess.Popen[bytes]"
PR_SET_PDEATHSIG = 1
END_SECONDS = 5.0
"""What a process has to end by itself once it was asked to."""
MARK = "FASTFEDPG_STARTED_BY"
"""In the environment of a process and of all that it starts, directly or not: the marks of those that started it."""


def start(command: list[str], environment: Mapping[str, str], **how: Any) -> Child:
    """A process in a session of its own: Ctrl-C is for the parent, and the group can be ended as one."""
    return subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, start_new_session=True, **how)


def end(children: Iterable[Child], seconds: float | None = None) -> None:
    """Ask children to end, and kill those that do not in time, with all that they have started; with 0 s at once."""
    children = [*children]
    running = [child for child in children if child.poll() is None]
    # Noted before anybody ends: an orphan is nobody's descendant any more.
    everyone = family(child.pid for child in running)
    seconds = END_SECONDS if seconds is None else seconds
    for child in running if seconds else ():
        child.terminate()
    limit = time.monotonic() + seconds
    while time.monotonic() < limit and any(map(_alive, everyone)):
        time.sleep(0.05)
    for process in filter(_alive, everyone):
        with suppress(psutil.Error):
            process.kill()
    for child in children:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)  # an orphan stays in its group, even if its parent ended long before
        child.wait()


def family(roots: Iterable[int]) -> list[psutil.Process]:
    """Processes and all that they started, directly or not."""
    found = []
    for pid in roots:
        with suppress(psutil.NoSuchProcess):
            root = psutil.Process(pid)
            found += [root, *root.children(recursive=True)]
    return found


def _alive(process: psutil.Process) -> bool:
    """Whether it is there, under its number, and not only waited for."""
    with suppress(psutil.Error):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False


def end_with_parent(number: int = signal.SIGKILL) -> None:
    """Ask the system for a signal at the end of the thread that started this process; if it has ended already, end."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, number)
    if os.getppid() == 1:
        os.kill(os.getpid(), number)


def end_with_line(lifeline: int) -> None:
    """Kill this process and its group when nobody holds the other end, even if its own code never returns."""
    group = os.getpgrp()
    if hasattr(fcntl, "F_SETSIG"):  # the kernel's doing: no interpreter lock is in its way
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, -group)
        fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)

    def wait() -> None:
        select.select([lifeline], [], [])  # a thread that reads would be woken in the signal's stead
        os.killpg(group, signal.SIGKILL)

    threading.Thread(target=wait, daemon=True).start()


def tie(command: list[str]) -> list[str]:
    """A command, asked to end when the process that starts it does."""
    return [sys.executable, "-m", __name__, str(os.getpid()), *command]


def mark_environment(environment: Mapping[str, str], mark: str) -> dict[str, str]:
    """An environment by which `guard` knows a process again."""
    return {**environment, MARK: f"{environment.get(MARK, '')}:{mark}"}


def guard(mark: str) -> Child:
    """A process that outlives this one, and then kills those so marked that do not end although they were asked to.

    A node that says goodbye to a SuperLink which was killed with it would try for minutes.
    """
    own = {name: value for name, value in os.environ.items() if name != MARK}
    command = [sys.executable, "-m", __name__, "--guard", mark]
    quiet = subprocess.DEVNULL  # who reads our output must not wait for the guard
    return subprocess.Popen(command, env=own, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet, start_new_session=True)


def dismiss(guarding: Child) -> None:
    """The marked processes have ended: so does their guard."""
    with suppress(OSError, subprocess.TimeoutExpired):
        guarding.communicate(timeout=2 * END_SECONDS)


def _marked(mark: str) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        with suppress(psutil.Error):  # it has ended, or is another user's
            if f":{mark}" in process.environ().get(MARK, ""):
                yield process


def _guard(mark: str) -> None:
    sys.stdin.buffer.read()  # until the other end of the pipe has gone
    limit = time.monotonic() + END_SECONDS
    empty = 0
    while empty < 2:  # one that forks and ends while it is looked for could be missed once
        left = [*_marked(mark)]
        empty = 0 if left else empty + 1
        for process in left if time.monotonic() > limit else ():
            with suppress(psutil.Error):
                process.kill()
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
