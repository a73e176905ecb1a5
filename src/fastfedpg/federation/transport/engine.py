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
    """When to look again: after a tenth of the time that is waited now, or was the last time.

    So looking costs some ten requests for whatever is waited for, on a quick machine and on one that is busy.
    """

    def __init__(self) -> None:
        self.began, self.before = time.monotonic(), 0.0

    def begin(self) -> None:
        """Something is waited for from now on."""
        self.began = time.monotonic()

    def came(self) -> None:
        """It has come."""
        self.before = time.monotonic() - self.began

    def pause(self) -> float:
        """Seconds until the next look."""
        waited = max(time.monotonic() - self.began, min(self.before, 5 * LONGEST))
        return max(SHORTEST, min(LONGEST, 0.1 * waited))
