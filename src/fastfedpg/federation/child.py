"""Runs a command that ends when the process that started it ends, however that happens."""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def words(command: list[str]) -> list[str]:
    """The command, started so."""
    return [sys.executable, "-m", __name__, str(os.getpid()), *command]


def main() -> None:
    """Ask the system for a signal at the parent's end, and become the command."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it ended before it could be asked for
        sys.exit(1)
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
