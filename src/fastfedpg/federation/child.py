"""Processes that end when the process that started them ends, however that happens."""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def words(command: list[str]) -> list[str]:
    """A command, started so."""
    return [sys.executable, "-m", __name__, str(os.getpid()), *command]


def end_with_parent(number: int = signal.SIGKILL) -> None:
    """Ask the system for a signal at the parent's end; where it has ended already, end."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, number)
    if os.getppid() == 1:
        os.kill(os.getpid(), number)


def main() -> None:
    """Become the command."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    end_with_parent(signal.SIGTERM)
    if os.getppid() != parent:  # it ended before it could be asked for
        sys.exit(1)
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
