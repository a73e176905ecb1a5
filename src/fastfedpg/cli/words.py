"""What all commands share: where they print, and how they name folders."""

import importlib.util
import os
import sys
from collections.abc import Callable
from dataclasses import MISSING, fields
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import tyro
from rich.console import Console

from fastfedpg.config import Config, from_toml
from fastfedpg.errors import InputError
from fastfedpg.study import Plan
from fastfedpg.study.checkpoints import Checkpoint

T = TypeVar("T")


def say(errors: Console, message: str, code: int) -> int:
    """One line of plain words on stderr, and the exit code that goes with it."""
    errors.print(f"fastfedpg: {message}", soft_wrap=True, highlight=False, markup=False)
    return code


def noting(errors: Console) -> Callable[[str], None]:
    """Says on stderr what a person should know but what stops nothing."""
    return lambda words: errors.print(f"note: {words}", soft_wrap=True, highlight=False, markup=False)


def settings_for(kind: type[T], program: str, arguments: list[str]) -> T:
    """A command's flags, beside those of a run; a configuration file, if there is one, gives the run's defaults."""
    file = value_of("--config", arguments)
    base = Config() if file is None else from_toml(file)
    default = object.__new__(kind)  # without its checks: flags that must be given are missing in it
    for f in fields(kind):  # type: ignore[arg-type]
        value = tyro.MISSING if f.default is MISSING else f.default
        value = value if f.default_factory is MISSING else f.default_factory()
        object.__setattr__(default, f.name, base if f.name == "settings" else value)
    flags = tyro.conf.OmitArgPrefixes[kind]  # type: ignore[valid-type]
    return tyro.cli(flags, prog=program, args=arguments, default=default, console_outputs=True)


def new_name(stem: Path) -> Path:
    """A folder that no other run has: the time, and the process."""
    return stem.with_name(f"{stem.name}-{datetime.now().strftime('%Y%m%d-%H%M%S')}-{os.getpid()}")


def value_of(flag: str, arguments: list[str]) -> str | None:
    """What follows a flag, before the flags are parsed; the last one counts."""
    value = None
    for k, word in enumerate(arguments):
        if word == flag and k + 1 < len(arguments):
            value = arguments[k + 1]
        if word.startswith(flag + "="):
            value = word.split("=", 1)[1]
    return value


class QuietConsole(Console):
    """A console that outlives its reader."""

    def on_broken_pipe(self) -> None:
        """A reader that has gone away is no reason to stop: go on without a word."""
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), (sys.stderr if self.stderr else sys.stdout).fileno())


def need_flower() -> None:
    """Refuse a command that needs the extra `federation`, where it is not installed."""
    if importlib.util.find_spec("flwr") is None:
        raise InputError("this command needs Flower: pip install 'fastfedpg[federation]'")


def where(planned: Plan, found: Checkpoint | None) -> str:
    """Where a run goes on."""
    return "from the beginning" if found is None else f"from round {found.standing.round} of {planned.config.rounds}"
