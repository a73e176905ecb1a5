"""The command line: `fastfedpg run`, `fastfedpg list`."""

import inspect
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import jax
import tyro
from rich.console import Console
from rich.table import Table

from fastfedpg import __version__
from fastfedpg.algorithms import ALGORITHMS
from fastfedpg.config import Config, from_toml
from fastfedpg.errors import InputError, unknown
from fastfedpg.oracles import ORACLES
from fastfedpg.problems import PROBLEMS
from fastfedpg.runtime import Diverged, Result
from fastfedpg.study import Interrupted, begin, bootstrap, execute, output
from fastfedpg.study.progress import progress


@dataclass(frozen=True)
class Run:
    """Run one algorithm on one problem."""

    settings: Config
    config: Path | None = None
    """A TOML file with any of these settings; flags given beside it win."""
    out: Path | None = None
    """The folder for the results; a new one under runs/ unless given."""
    overwrite: bool = False
    """Replace the results of an earlier run in that folder."""


def run(arguments: list[str], console: Console, errors: Console) -> int:
    """Run one algorithm on one problem, and leave a folder with everything about it."""
    base = Config()
    if (file := _value_of("--config", arguments)) is not None:
        base = from_toml(file)
    parsed = tyro.cli(
        tyro.conf.OmitArgPrefixes[Run], prog="fastfedpg run", args=arguments, default=Run(base), console_outputs=True
    )
    config = parsed.settings
    out = parsed.out or _new_name(Path("runs") / f"{Path(config.problem).stem}-{config.algorithm}")
    planned = begin(config, out, parsed.overwrite)
    for note in planned.notes:
        errors.print(f"note: {note}", soft_wrap=True, highlight=False)
    try:
        with progress(errors, f"{config.algorithm} on {planned.tabular.name}", config.rounds) as report:
            result = execute(planned, out, report)
    except Diverged as error:
        return _say(errors, f"{error} Metrics until then are in {out}", 1)
    except Interrupted as error:
        return _say(errors, f"{error}; what was done so far is in {out}", 130)
    except (OSError, MemoryError, jax.errors.JaxRuntimeError) as error:
        return _say(errors, f"failed: {error}. What was kept is in {out}", 1)
    console.print(_results(config, result))
    console.print(f"results: {out}", soft_wrap=True, highlight=False, markup=False)
    return 0


def list_everything(arguments: list[str], console: Console, errors: Console) -> int:
    """Show the problems, algorithms and oracles, a line each."""
    if arguments and arguments[0] in ("-h", "--help"):
        console.print(
            "usage: fastfedpg list\n\nShow the problems, algorithms and oracles, a line each.", highlight=False
        )
        return 0
    if arguments:
        raise InputError(f"list takes no arguments, but was given {' '.join(arguments)}")
    parts: tuple[tuple[str, dict[str, Callable[..., Any]]], ...] = (
        ("problems", PROBLEMS),
        ("algorithms", ALGORITHMS),
        ("oracles", {name: kind.make for name, kind in ORACLES.items()}),
    )
    width = max(len(name) for _, entries in parts for name in entries)
    for title, entries in parts:
        console.print(f"[bold]{title}[/bold]")
        for name, function in entries.items():
            first = (function.__doc__ or "").strip().split("\n\n")[0]
            console.print(
                f"  {name:<{width}}  {' '.join(first.split())}", highlight=False, markup=False, soft_wrap=True
            )
            if title == "problems":
                given = [f"{k}={p.default}" for k, p in inspect.signature(function).parameters.items() if k != "agents"]
                words = f"  {'':<{width}}  --problem-args {' '.join(given)}"
                console.print(words, highlight=False, markup=False, soft_wrap=True, style="dim")
    return 0


COMMANDS: dict[str, Callable[[list[str], Console, Console], int]] = {"run": run, "list": list_everything}


def main(arguments: list[str] | None = None) -> int:
    """The entry point; returns the exit code: 0 done, 1 diverged, 2 wrong input, 130 interrupted."""
    arguments = sys.argv[1:] if arguments is None else arguments
    console, errors = _Console(), _Console(stderr=True)
    try:
        if not arguments or arguments[0] in ("-h", "--help"):
            console.print(_help(), highlight=False, markup=False, soft_wrap=True)
            return 0 if arguments else 2
        if arguments[0] == "--version":
            console.print(output.versions(), highlight=False)
            return 0
        if arguments[0] not in COMMANDS:
            raise unknown("command", arguments[0], COMMANDS)
        return COMMANDS[arguments[0]](arguments[1:], console, errors)
    except InputError as error:
        return _say(errors, str(error), 2)
    except KeyboardInterrupt:
        return _say(errors, "interrupted before anything was done", 130)


def _say(errors: Console, message: str, code: int) -> int:
    errors.print(f"fastfedpg: {message}", soft_wrap=True, highlight=False, markup=False)
    return code


def _help() -> str:
    lines = [f"  {name:<6} {(f.__doc__ or '').splitlines()[0]}" for name, f in COMMANDS.items()]
    return (
        f"fastfedpg {__version__}: federated and multi-task policy gradients\n\nusage: fastfedpg COMMAND …\n\n"
        + "\n".join(lines)
        + "\n\n`fastfedpg COMMAND --help` says more about each."
    )


def _new_name(stem: Path) -> Path:
    """A folder that no other run has: the time, and the process."""
    return stem.with_name(f"{stem.name}-{datetime.now().strftime('%Y%m%d-%H%M%S')}-{os.getpid()}")


def _value_of(flag: str, arguments: list[str]) -> str | None:
    value = None
    for k, word in enumerate(arguments):
        if word == flag and k + 1 < len(arguments):
            value = arguments[k + 1]
        if word.startswith(flag + "="):
            value = word.split("=", 1)[1]
    return value


def _results(config: Config, result: Result) -> Table:
    seeds = f"{config.seeds} seeds" if config.seeds > 1 else "1 seed"
    table = Table(title=f"{config.algorithm} after {result.rounds[-1]} rounds ({seeds})", title_justify="left")
    for column in ("", "mean", "95% interval over seeds"):
        table.add_column(column, justify="left" if not column else "right")
    rows = {
        "gap to the best common policy": "gap",
        "squared gradient norm": "grad_norm_sq",
        "mean return of the agents": "return_mean",
        "worst agent's return": "return_worst",
        "environment steps, all agents": "env_steps",
        "bytes sent per agent": "bytes_up",
        "synchronisations": "syncs",
    }
    if (result.final("gap") != result.final("gap")).any():
        rows = {"J, the mean cost (no gap: kernels or starts differ)": "J", **rows}
        del rows["gap to the best common policy"]
    for label, name in rows.items():
        mean, low, high = bootstrap(result.final(name))
        counted = name in ("env_steps", "bytes_up", "syncs")
        show = (lambda x: f"{x:,.0f}") if counted else (lambda x: f"{x:.4g}")
        table.add_row(
            label, show(mean), "" if counted or low != low else f"[{low:.4g}, {high:.4g}]".replace("[", r"\[")
        )
    return table


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """A reader that has gone away is no reason to stop: go on without a word."""
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), (sys.stderr if self.stderr else sys.stdout).fileno())
