"""`fastfedpg list`: what there is, by name."""

import inspect
from collections.abc import Callable
from typing import Any

from rich.console import Console

from fastfedpg.algorithms import ALGORITHMS
from fastfedpg.errors import InputError
from fastfedpg.oracles import ORACLES
from fastfedpg.policies import POLICIES
from fastfedpg.problems import PLAYED, PROBLEMS


def list_everything(arguments: list[str], console: Console, errors: Console) -> int:
    """Show the problems, algorithms, oracles and policies, a line each."""
    if arguments and arguments[0] in ("-h", "--help"):
        console.print(
            "usage: fastfedpg list\n\nShow the problems, algorithms, oracles and policies, a line each.",
            highlight=False,
        )
        return 0
    if arguments:
        raise InputError(f"list takes no arguments, but was given {' '.join(arguments)}")
    parts: tuple[tuple[str, dict[str, Callable[..., Any]]], ...] = (
        ("problems", PROBLEMS),
        ("algorithms", ALGORITHMS),
        ("oracles", {name: kind.make for name, kind in ORACLES.items()} | {"actor_critic": PLAYED["actor_critic"]}),
        ("policies", POLICIES),
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
