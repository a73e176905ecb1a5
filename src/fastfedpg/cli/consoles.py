"""Where commands print."""

import os
import sys
from collections.abc import Callable
from typing import Any

from rich.console import Console


def say(errors: Console, message: str, code: int) -> int:
    """One line of plain words on stderr, and the exit code that goes with it."""
    errors.print(f"fastfedpg: {message}", soft_wrap=True, highlight=False, markup=False)
    return code


def noting(errors: Console) -> Callable[[str], None]:
    """Says on stderr what a person should know but what stops nothing."""
    return lambda words: errors.print(f"note: {words}", soft_wrap=True, highlight=False, markup=False)


class QuietConsole(Console):
    """A console that outlives its reader, and leaves names such as my:ok: alone."""

    def __init__(self, **how: Any) -> None:
        super().__init__(emoji=False, **how)

    def on_broken_pipe(self) -> None:
        """A reader that has gone away is no reason to stop: go on without a word."""
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), (sys.stderr if self.stderr else sys.stdout).fileno())
