"""`fastfedpg film`: what a learned policy does, as a moving picture."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from fastfedpg.cli.parse_flags import OptionalInt, OptionalPath, own_flags
from fastfedpg.errors import InputError, printable

EXAMPLE = "fastfedpg film runs/carts --agent 3 --every 2"


@dataclass(frozen=True)
class FilmFlags:
    """Draw what a learned policy does, as a moving picture."""

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """The folder of a run in environments, or of a comparison: then every method is filmed."""
    agent: int = 0
    """In whose environment."""
    seed: int = 0
    """Which of the run's seeds, counted from its first; it is the episode's seed too."""
    steps: OptionalInt = None
    """At most so many steps; those of an episode unless given."""
    every: int = 1
    """One picture for so many steps."""
    deterministic: bool = False
    """Show the likeliest actions, or the means, instead of random ones."""
    out: OptionalPath = None
    """The GIF; agent-I.gif in the run's folder unless given. Of a comparison, the folder of METHOD-agent-I.gif."""
    overwrite: bool = False
    """Replace what is already there under the name given with --out."""


def film(arguments: list[str], console: Console, errors: Console) -> int:
    """Draw what a learned policy does, as a moving picture."""
    asked = own_flags(FilmFlags, "fastfedpg film", arguments, EXAMPLE)
    from fastfedpg.draw import film as films

    for name in ("steps", "every"):
        if (value := getattr(asked, name)) is not None and value < 1:
            raise InputError(f"{name} = {value}; it must be at least 1")
    runs = films.methods(asked.run)
    name = f"agent-{asked.agent}.gif"
    work = {run: (asked.out or asked.run) / f"{run.name}-{name}" for run in runs}
    work = work or {asked.run: asked.out or asked.run / name}
    for out in work.values():
        _check_place(out, asked)
    for k, (run, out) in enumerate(work.items()):
        if runs:
            errors.print(
                f"film {k + 1} of {len(runs)}: {printable(run.name)}", soft_wrap=True, highlight=False, markup=False
            )
        number = films.film(run, out, asked.agent, asked.seed, asked.steps, asked.every, asked.deterministic)
        console.print(f"{number} pictures: {printable(out)}", soft_wrap=True, highlight=False, markup=False)
    return 0


def _check_place(out: Path, asked: FilmFlags) -> None:
    """Refuse, before anything is played, to replace what may be somebody's; in a run's folder the name is its own."""
    if out.is_dir():
        raise InputError(f"{out} is a folder; give the film's name, as in --out {out / 'film.gif'}")
    if asked.out is not None and not asked.overwrite and (out.exists() or out.is_symlink()):
        raise InputError(f"{out} already there; give --overwrite to replace it, or another --out")
