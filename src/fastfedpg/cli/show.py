"""`fastfedpg show`: a problem, in words, numbers and a picture."""

import inspect
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from fastfedpg.cli.parse_flags import OptionalInt, OptionalPath, own_flags
from fastfedpg.draw import style
from fastfedpg.draw.problem_picture import portrait
from fastfedpg.errors import InputError, printable
from fastfedpg.experiment.problem import is_file
from fastfedpg.experiment.words import Pairs
from fastfedpg.problems import (
    PROBLEMS,
    TabularProblem,
    make,
)

EXAMPLE = "fastfedpg show compromise-grid --problem-args n=7"


@dataclass(frozen=True)
class ShowFlags:
    """Draw a problem and say what it is."""

    problem: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="PROBLEM")]
    """A problem's name (see `fastfedpg list`), or the path of an .npz file with P (or next, p), reward, rho, gamma; or,
    for a linear-quadratic regulator, with A, B, Q, R, Sigma0, gamma. It may also hold name, states, actions, agents,
    reward_range and grid (docs/problems.md)."""
    problem_args: Pairs = field(default_factory=dict)
    """Parameters of the problem's maker, as in n=7 mid=.6."""
    agents: OptionalInt = None
    """The number of agents N; the problem's own unless given."""
    reward_range: Annotated[tuple[float, float] | None, tyro.conf.arg(metavar="LO HI", help_behavior_hint="")] = None
    """LO HI of the rewards in a file that does not say so itself, if not 0 1."""
    out: OptionalPath = None
    """The picture's name, with or without .png or .svg (both are written); the problem's name unless given."""
    overwrite: bool = False
    """Replace a picture that is already there."""


def show(arguments: list[str], console: Console, errors: Console) -> int:
    """Draw a problem and say what it is."""
    asked = own_flags(ShowFlags, "fastfedpg show", arguments, EXAMPLE)
    problem = make(asked.problem, asked.problem_args, asked.agents, asked.reward_range)
    table = problem.as_table()
    stem = None if table is None else _stem(asked)
    _print(console, *_definition(asked), "", *_rows(problem.describe()))
    why = problem.no_picture if stem is None else _in_the_way(stem, asked.overwrite)
    if table is None or stem is None or why:
        _print(console, f"\nno picture: {printable(why)}")
        return 0
    try:
        stem.parent.mkdir(parents=True, exist_ok=True)
        written = portrait(stem, table, _title(table))
    except OSError as error:
        raise InputError(f"{stem.parent}: the picture can't be written there ({error.strerror})") from None
    _print(console, f"\npicture: {', '.join(map(printable, written))}")
    return 0


def _print(console: Console, *lines: str) -> None:
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def _stem(asked: ShowFlags) -> Path:
    """Where the picture goes, without suffix."""
    stem = asked.out or Path(Path(asked.problem).name.removesuffix(".npz"))
    if asked.out is not None and stem.is_dir():
        raise InputError(f"{stem} is a folder; give the picture's name, as in --out {stem / 'picture'}")
    return stem.with_suffix("") if stem.suffix in (".png", ".svg") else stem


def _title(problem: TabularProblem) -> str:
    last = "how states follow each other" if problem.grid is None else "the best common policy"
    drawn = problem.S > 1 if problem.grid is None else problem.shared
    return f"{problem.name}: what each agent is paid for{f', and {last}' if drawn else ''}"


def _in_the_way(stem: Path, overwrite: bool) -> str:
    """What is there already in the picture's place, and how to have it all the same; nothing if it can be drawn."""
    there = [str(file) for file in style.files(stem) if file.exists()]
    if not there or overwrite:
        return ""
    return f"{' and '.join(there)} already there; give --overwrite to replace, or another --out"


def _definition(asked: ShowFlags) -> Iterator[str]:
    maker = PROBLEMS.get(asked.problem)
    if maker is None:
        yield f"{printable(asked.problem)}: a problem from {'a file' if is_file(asked.problem) else 'elsewhere'}"
        return
    defaults = {k: p.default for k, p in inspect.signature(maker).parameters.items()}
    given = {**defaults, **asked.problem_args, **({} if asked.agents is None else {"agents": asked.agents})}
    yield f"{asked.problem} ({', '.join(f'{k}={v}' for k, v in given.items())})\n"
    yield inspect.getdoc(maker) or ""


def _rows(rows: dict[str, str]) -> Iterator[str]:
    width = max(map(len, rows))
    for name, value in rows.items():
        yield f"{name:<{width}}  {printable(value)}"
