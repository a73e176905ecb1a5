"""Where commands print."""

import logging
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from rich.console import Console

from fastfedpg.errors import printable


def say(errors: Console, message: str, code: int) -> int:
    """One line of plain words on stderr, and the exit code that goes with it."""
    errors.print(f"fastfedpg: {printable(message)}", soft_wrap=True, highlight=False, markup=False)
    return code


def noting(errors: Console) -> Callable[[str], None]:
    """Says on stderr what a person should know but what stops nothing."""
    return lambda words: errors.print(f"note: {printable(words)}", soft_wrap=True, highlight=False, markup=False)


def tell_of_report(out: Path, console: Console) -> None:
    """How to have a page of it. It is not made at the end of each run: it has 5 MB, and takes seconds."""
    words = f"a page of it: fastfedpg report {shlex.quote(str(out))}"
    console.print(printable(words), soft_wrap=True, highlight=False, markup=False)


UNBROKEN = 100_000
"""Columns of a page on which no line is ever broken."""


def room(console: Console) -> int:
    """The columns there are: a terminal's, those that COLUMNS asks for, and as many as needed in a pipe or a file."""
    return console.width if console.is_terminal or "COLUMNS" in os.environ else UNBROKEN


def print_lines(console: Console, lines: Sequence[str]) -> None:
    """The lines of a table, as they are; what stands above the rule in bold."""
    rule = next((k for k, line in enumerate(lines) if line.startswith("─")), 0)
    for k, line in enumerate(lines):
        console.print(line, style="bold" if k < rule else "", soft_wrap=True, highlight=False, markup=False)
    console.print()


class QuietConsole(Console):
    """A console that outlives its reader, and leaves names such as my:ok: alone.

    What can't be written to stdout, as on a full disk, is an error; on stderr it is nothing that a run should end for.
    """

    def __init__(self, **how: Any) -> None:
        super().__init__(emoji=False, **how)

    def print(self, *objects: Any, **how: Any) -> None:
        """Print, or say once why that is not possible."""
        try:
            super().print(*(_seen(x) if isinstance(x, str) else x for x in objects), **how)
        except OSError as error:
            self.on_broken_pipe()
            if not self.stderr:
                raise OSError(error.errno, error.strerror, "standard output") from None

    def on_broken_pipe(self) -> None:
        """A reader that has gone away is no reason to stop: go on without a word."""
        self.quiet = True
        discard(sys.stderr if self.stderr else sys.stdout)


class LogFormatter(logging.Formatter):
    """A log in which every record is one line, and what it quotes of an exception is indented below it."""

    def format(self, record: logging.LogRecord) -> str:
        """The record's line."""
        record.msg, record.args = printable(record.getMessage()), ()
        return super().format(record)

    def formatException(self, ei: Any) -> str:
        """A traceback, with the message that it quotes."""
        return "\n".join(f"  {printable(line)}" for line in super().formatException(ei).split("\n"))


def _seen(text: str) -> str:
    """Text whose lines are our own, and may quote what is not."""
    return "\n".join(map(printable, text.split("\n")))


def discard(stream: Any) -> None:
    """What is still to be written to a stream, and what follows, goes nowhere; no complaint at the very end either."""
    with suppress(OSError, ValueError):  # a stream of Python's own has no descriptor
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
