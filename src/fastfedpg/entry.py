"""The console script: a guard around the second in which JAX is imported, then the command line."""

import io
import os
import signal
import sys


def _leave(number: int, frame: object) -> None:
    # Imports of compiled modules swallow a KeyboardInterrupt or abort on it; nothing has been done that could be lost.
    os.write(2, b"fastfedpg: interrupted before anything was done\n")
    os._exit(130)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def main() -> None:
    """Run the command line. A request to end, from a batch system or a closed terminal, is treated like Ctrl-C."""
    every = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    requests = [n for n in every if signal.getsignal(n) is not signal.SIG_IGN]  # nohup and shells mean it
    for number in requests:
        signal.signal(number, _leave)
    from fastfedpg import cli

    for number in requests:
        signal.signal(number, _interrupt)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    code = cli.main()
    if code == 130:  # interrupted: a second Ctrl-C must not reach the interpreter while it takes JAX apart
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)
