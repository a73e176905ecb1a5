"""A process that plays, as its parent sees it, and what it is sent."""

import contextlib
import hashlib
import inspect
import io
import os
import socket
import time
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from types import FunctionType
from typing import Any, NamedTuple

from fastfedpg import children
from fastfedpg.errors import InputError
from fastfedpg.gym_workers import shared_memory


class Sent(NamedTuple):
    """Something pickled, and its digest: it is sent to a process once."""

    digest: bytes
    blob: bytes


NOTHING = Sent(b"", b"")


class Job(NamedTuple):
    """What a worker is asked to do for an agent: one of its methods, with a policy where it takes one, and the rest."""

    agent: int
    what: str
    args: tuple[Any, ...] = ()
    policy: Sent = NOTHING


@dataclass(eq=False)
class Member:
    """A worker process, as its parent sees it."""

    process: children.Child
    talk: "Connection[Any, Any]"
    lifeline: socket.socket
    beat: Any  # what it is at: (step, trajectory)
    known: set[bytes] = field(default_factory=set)
    job: int | None = None
    seen: tuple[int, int] = (0, 0)
    since: float = 0.0
    stuck: bool = False  # it has been given up, and is asked for nothing more

    def give(self, number: int, job: Job, environment: Sent) -> None:
        """Hand it a job, with what it has not been sent before."""
        self.job, self.since = number, time.monotonic()
        news = [x if x.digest not in self.known else x._replace(blob=b"") for x in (environment, job.policy)]
        self.known |= {environment.digest, job.policy.digest}
        names = [x.digest for x in news if x.digest]
        with contextlib.suppress(OSError):  # a process that is gone or stuck is noticed where its answer is awaited
            self.talk.send(((*news[0], *news[1]), job.what, (*names, *job.args)))

    def silent(self) -> float:
        """Seconds since it last moved."""
        now = time.monotonic()
        if (seen := (self.beat[0], self.beat[1])) != self.seen:
            self.seen, self.since = seen, now
        return now - self.since

    def place(self, first: int = 0) -> str:
        """Where it is, in words."""
        step, trajectory = self.beat
        if step == shared_memory.STARTING:
            return "before its environment was built"
        if step == shared_memory.BUILDING:
            return "while its environment was built"
        where = "reset" if step == shared_memory.RESETTING else f"step {step}"
        return (
            f"{where}, the policy's choice"
            if trajectory == shared_memory.POLICY
            else f"{where} of trajectory {first + trajectory}"
        )


CLOSE_SECONDS = 3.0
"""What the processes have to close their environments, once they are asked to."""


def end(members: list[Member], owner: int) -> None:
    """End the processes, which close their environments first; one that was forked off the owner leaves them alone."""
    if os.getpid() != owner or not members:
        return
    processes = [member.process for member in members]
    try:
        children.end([member.process for member in members if not member.stuck], CLOSE_SECONDS)
    finally:  # also if there is no time to wait for it
        children.end(processes, seconds=0)
        for member in members:
            member.talk.close()
            member.lifeline.close()
        members.clear()


def pickled(x: Any, what: str) -> Sent:
    """Something for the processes, with what is defined in the main program by value."""
    import cloudpickle  # comes with Gymnasium

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        """Leaves out what tests put around functions of ours to check shapes, which can't be sent."""

        def reducer_override(self, x: Any) -> Any:
            """How an object is pickled."""
            local = isinstance(x, FunctionType) and "<locals>" in x.__qualname__
            if local and f"{x.__module__}".startswith("fastfedpg."):
                x = inspect.unwrap(x)
            return super().reducer_override(x)

    sent = io.BytesIO()
    try:
        Pickler(sent).dump(x)
    except Exception as why:
        raise InputError(f"{what} can't be sent to the processes that play: {type(why).__name__}: {why}") from why
    return Sent(hashlib.sha256(sent.getvalue()).digest(), sent.getvalue())
