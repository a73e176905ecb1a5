"""What a server needs of an engine: who is there, and bytes to each and back. Another engine is one more file."""

import time
from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol

SHORTEST, LONGEST = 0.02, 2.0
"""Seconds between two looks, while a run goes on and between runs."""


class Failure(str):
    """Why there is no answer, in words."""


class Answer(NamedTuple):
    """What came back from a node."""

    node: int
    content: bytes | Failure


class Seen(NamedTuple):
    """A node that is connected."""

    agent: int | None  # whose key it has; None where there are no keys
    since: str = ""  # when it came: another time is another process, which knows nothing of older questions


class EngineLost(OSError):
    """The engine has gone; a new one may come."""


class Engine(Protocol):
    """Carries bytes to nodes and back."""

    def nodes(self) -> dict[int, Seen]:
        """Who is there."""
        ...

    def ask(self, questions: Mapping[int, bytes], seconds: float) -> Iterator[Answer]:
        """Every answer as it comes, until all are here or the time is over."""
        ...

    def close(self) -> None:
        """Let it go."""
        ...


class Pace:
    """When to look again: soon after something came, and then the later the longer nothing does."""

    def __init__(self) -> None:
        self.began = time.monotonic()

    def begin(self) -> None:
        """Something is waited for from now on."""
        self.began = time.monotonic()

    def pause(self) -> float:
        """Seconds until the next look: a fifth of what was waited."""
        return max(SHORTEST, min(LONGEST, 0.2 * (time.monotonic() - self.began)))
