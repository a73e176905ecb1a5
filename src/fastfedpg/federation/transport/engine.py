"""What a server needs of an engine: who is there, and bytes to each and back. Another engine is one more file."""

import math
import time
from collections import deque
from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol

SHORTEST, LONGEST = 0.02, 2.0
"""Seconds between two looks, while a run goes on and between runs."""

NEAR, FAR, SELDOM = 0.02, 0.25, 0.25
"""The time between two looks is at least NEAR of what is waited; at most FAR of it, or SELDOM seconds."""

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
    """When to look again: after half of what is left to the nearest of the last four waits, or has passed since.

    So looks are close together where it has ended of late, and elsewhere a quarter of the wait apart, or a quarter of a
    second: some eight for a short wait that is as usual, and for one that can't be foretold four in a second, which is
    two hundredths of a SuperLink's time. Four waits, since they take turns in a round of two exchanges, or three with
    an evaluation. Where all of the last looks were held up behind what others ask, there are fewer: what is asked comes
    first. The quickest look says how far away the other end is.
    """

    def __init__(self) -> None:
        self.began, self.last = time.monotonic(), 0.0
        self.usual = deque([0.0], maxlen=4)
        self.least, self.delays = math.inf, deque([0.0], maxlen=4)

    def begin(self) -> None:
        """Something is waited for from now on."""
        self.began = time.monotonic()
        self.usual.append(self.last)

    def came(self) -> None:
        """It has come."""
        self.last = time.monotonic() - self.began

    def looked(self, seconds: float) -> None:
        """A look took so long."""
        self.least = min(self.least, seconds)
        self.delays.append(max(0.0, seconds - self.least - QUEUE))

    def pause(self) -> float:
        """Seconds until the next look."""
        waited = time.monotonic() - self.began
        size, apart = max(waited, min(self.usual)), min(abs(waited - usual) for usual in self.usual)
        pause = max(NEAR * size, min(FAR * size, apart / 2, SELDOM), SHARE * min(self.delays))
        return max(SHORTEST, min(LONGEST, pause))
