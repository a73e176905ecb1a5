"""Child processes: started so that they end with their parent, however it ends, and ended with all that they started.

Without JAX: the processes that play environments import it, and those that Flower starts.
"""

import fcntl
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, TypeAlias

import psutil

Child: TypeAlias = "subprocess.Popen[bytes]"
END_SECONDS = 5.0
"""What a process has to end by itself once it was asked to."""


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


def end_with_line(lifeline: int) -> None:
    """Kill this process and its group when nobody holds the other end, even if its own code never returns."""
    _ask_kernel(lifeline)
    group = os.getpgrp()

    def wait() -> None:
        select.select([lifeline], [], [])  # a thread that reads would be woken in the signal's stead
        os.killpg(group, signal.SIGKILL)

    threading.Thread(target=wait, daemon=True).start()


def _ask_kernel(lifeline: int) -> None:
    """A signal to the group at the end of the line, by the system: no interpreter lock is in its way."""
    if hasattr(fcntl, "F_SETSIG"):
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)


def tie(command: list[str], lifeline: int) -> list[str]:
    """A command that is killed, with its group, when nobody holds the other end of the line any more."""
    return [sys.executable, "-m", __name__, str(lifeline), *command]


def main() -> None:
    """Become the command: what was asked of the system outlives that."""
    lifeline, command = int(sys.argv[1]), sys.argv[2:]
    _ask_kernel(lifeline)
    if select.select([lifeline], [], [], 0)[0]:  # it has ended before it could be asked for
        sys.exit(1)
    os.set_inheritable(lifeline, True)
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
