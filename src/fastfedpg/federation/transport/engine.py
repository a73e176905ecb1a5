"""What a server needs of an engine: who is there, and bytes to each and back. Another engine is one more file."""

import math
import time
from collections import deque
from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol

SHORTEST, LONGEST = 0.02, 2.0
"""Seconds between two looks, while a run goes on and between runs."""

QUEUE, SHARE = 0.05, 20
"""Seconds that a look may take beyond the quickest; of what is more, so many times as long there is none."""


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
    """When to look again: after a tenth of the time that is waited now, or was both of the last two times.

    So looking costs some ten requests for whatever is waited for, on a quick machine and on one that is busy. The last
    two: in a round of two exchanges a long wait comes with a short one, and must not make that a long one. Where all of
    the last looks were held up behind what others ask, there are fewer: what is asked comes first. The quickest look
    says how far away the other end is.
    """

    def __init__(self) -> None:
        self.began, self.last, self.before, self.usual = time.monotonic(), 0.0, 0.0, 0.0
        self.least, self.delays = math.inf, deque([0.0], maxlen=4)

    def begin(self) -> None:
        """Something is waited for from now on."""
        self.began, self.usual, self.before = time.monotonic(), min(self.last, self.before), self.last

    def came(self) -> None:
        """It has come."""
        self.last = time.monotonic() - self.began

    def looked(self, seconds: float) -> None:
        """A look took so long."""
        self.least = min(self.least, seconds)
        self.delays.append(max(0.0, seconds - self.least - QUEUE))

    def pause(self) -> float:
        """Seconds until the next look."""
        waited = max(time.monotonic() - self.began, min(self.usual, 5 * LONGEST))
        return max(SHORTEST, min(LONGEST, max(0.1 * waited, SHARE * min(self.delays))))
