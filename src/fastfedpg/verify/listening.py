"""How far a piece of the work is, for whoever listens: "3 of 12, round 400 of 2,000"."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from fastfedpg import runtime
from fastfedpg.core import Problem
from fastfedpg.runtime import Result

Item = TypeVar("Item")
_tell: ContextVar[Callable[[str], None]] = ContextVar("tell", default=lambda words: None)
_where: ContextVar[tuple[str, ...]] = ContextVar("where", default=())


@contextmanager
def listening(tell: Callable[[str], None]) -> Iterator[None]:
    """While it is open `tell` hears of each step."""
    told, where = _tell.set(tell), _where.set(())
    try:
        yield
    finally:
        _tell.reset(told)
        _where.reset(where)


def say(words: str) -> None:
    """What is being done, after what it is a part of."""
    _tell.get()(", ".join((*_where.get(), words)))


def counted(items: Iterable[Item]) -> Iterator[Item]:
    """Each of them, with its number while it is worked on."""
    items, outer = list(items), _where.get()
    for k, item in enumerate(items):
        say(here := f"{k + 1} of {len(items)}")
        _where.set((*outer, here))
        yield item
        _where.set(outer)


def simulate(problem: Problem, algorithm: Any, rounds: int, *given: Any, **more: Any) -> Result:
    """`runtime.simulate`, heard of while it runs."""
    tick = lambda done, standing: say(f"round {done:,} of {rounds:,}")
    return runtime.simulate(problem, algorithm, rounds, *given, **{**more, "tick": tick})
