"""What all commands share: how they read their flags and name folders. Nothing here imports JAX."""

import importlib.util
import os
from dataclasses import MISSING, fields, replace
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import tyro

from fastfedpg.errors import InputError
from fastfedpg.experiment.config import Config, from_toml

T = TypeVar("T")


def settings_for(kind: type[T], program: str, arguments: list[str], explained: type[Config] = Config) -> T:
    """A command's flags, beside those of a run; a configuration file, if there is one, gives the run's defaults.

    `explained` is a Config that says in the command's own words what some of its settings are; a plain one is returned.
    """
    file = value_of("--config", arguments)
    base = explained(**vars(Config() if file is None else from_toml(file)))
    default = object.__new__(kind)  # without its checks: flags that must be given are missing in it
    for f in fields(kind):  # type: ignore[arg-type]
        value = tyro.MISSING if f.default is MISSING else f.default
        value = value if f.default_factory is MISSING else f.default_factory()
        object.__setattr__(default, f.name, base if f.name == "settings" else value)
    flags = tyro.conf.OmitArgPrefixes[kind]  # type: ignore[valid-type]
    given = tyro.cli(flags, prog=program, args=arguments, default=default, console_outputs=True)
    return replace(given, settings=Config(**vars(given.settings)))


def new_name(stem: Path) -> Path:
    """A folder that no other run has: the time, and the process."""
    return stem.with_name(f"{stem.name}-{datetime.now().strftime('%Y%m%d-%H%M%S')}-{os.getpid()}")


def folder_name(problem: str) -> str:
    """A problem's name, as part of a folder's."""
    return Path(problem).stem.replace(":", "-")


def value_of(flag: str, arguments: list[str]) -> str | None:
    """What follows a flag, before the flags are parsed; the last one counts."""
    value = None
    for k, word in enumerate(arguments):
        if word == flag and k + 1 < len(arguments):
            value = arguments[k + 1]
        if word.startswith(flag + "="):
            value = word.split("=", 1)[1]
    return value


def need_flower() -> None:
    """Refuse a command that needs the extra `federation`, where it is not installed."""
    if importlib.util.find_spec("flwr") is None:
        raise InputError("this command needs Flower: pip install 'fastfedpg[federation]'")
