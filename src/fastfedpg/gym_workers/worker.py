"""A process that plays: it is given environments and policies once, then parts of batches, until its parent is gone.

Arrays are in memory shared with the parent; over the connection come small messages.
"""

import mmap
import os
import pickle
import signal
import sys
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from fastfedpg import children
from fastfedpg.gym_workers import render
from fastfedpg.gym_workers.faults import Refused, Wrong, blamed
from fastfedpg.gym_workers.flatten import described
from fastfedpg.gym_workers.lanes import Singles, Vector
from fastfedpg.gym_workers.make_env import build, is_together
from fastfedpg.gym_workers.rollout import play
from fastfedpg.gym_workers.shared_memory import ANY, BUILDING, RESULTS, layout, part, views


class Ended(BaseException):
    """The parent asks for the end, whatever is being done."""


class Worker:
    """What is kept between messages: environments, policies, and the view of the shared memory."""

    def __init__(self, memory: int, beat: Any) -> None:
        self.memory, self.beat = memory, beat
        self.given: dict[bytes, Any] = {}
        self.built: list[Any] = []  # every environment, to be closed at the end
        self.building, self.asked = False, False
        self.first: dict[bytes, Any] = {}
        self.envs: dict[Any, Any] = {}
        self.policies: dict[bytes, Any] = {}
        self.shared: tuple[Any, dict[str, np.ndarray]] = (None, {})

    def know(self, environment: bytes, blob: bytes, policy: bytes, code: bytes) -> None:
        """Keep what came with a message for the first time; agents made of the same have the same digest."""
        self.beat[1], self.beat[0] = 0, BUILDING
        if blob:
            self.given[environment] = pickle.loads(blob)
        if code:
            self.policies[policy] = pickle.loads(code)

    def build(self, environment: bytes, count: int = 0) -> Any:
        """A new environment, which is remembered; a request to end waits for it, since half of one can't be closed."""
        self.building = True
        try:
            self.built.append(build(self.given[environment], count))
        finally:
            self.building = False
        if self.asked:
            raise Ended
        return self.built[-1]

    def end(self, number: int, frame: object) -> None:
        """What a request to end does."""
        self.asked = True
        if not self.building:
            raise Ended

    def close(self) -> None:
        """Close every environment once, whatever the others make of it."""
        for env in {id(env): env for env in self.built}.values():
            with suppress(BaseException):
                env.close()
        self.built.clear()

    def described(self, environment: bytes) -> dict[str, Any]:
        """See `described`; what was built for it is played in later."""
        self.first[environment] = self.build(environment)
        return described(self.first[environment])

    def made(self, environment: bytes, B: int) -> Any:
        """An agent's environments for B trajectories, built when they are first asked for."""
        count = part(B, ANY) if is_together(self.given[environment][0]) else 0
        if (environment, count) not in self.envs:
            if count:
                return self.envs.setdefault((environment, count), Vector(self.build(environment, count)))
            rest = [self.first.pop(environment, None) or self.build(environment)]
            several = hasattr(rest[0], "single_observation_space")
            envs = Vector(rest[0]) if several else Singles(lambda: rest.pop() if rest else self.build(environment))
            self.envs[environment, count] = envs
        return self.envs[environment, count]

    def play(
        self, environment: bytes, policy: bytes, lane: int, first: int, call: Any, limits: Any, restart: bool
    ) -> None:
        """The part of a batch that begins with a trajectory."""
        if self.shared[0] != call:
            where = layout(*call)
            self.shared = call, views(mmap.mmap(self.memory, where["end"]), where)
        arrays, B = self.shared[1], self.shared[1]["seeds"].shape[1]
        envs = self.made(environment, B)
        these = slice(first, first + envs.get_ready(B, first))
        seeds = arrays["seeds"][lane, these].tolist()
        theta, noise = arrays["theta"][lane], arrays["noise"][lane, these]
        out = [arrays[x][lane, these] for x in RESULTS]
        play(envs, self.policies[policy], theta, noise, seeds, out, limits, self.beat, restart)

    def frames(self, environment: bytes, policy: bytes, *how: Any) -> list[np.ndarray]:
        """One episode as pictures."""
        return render.frames(self.given[environment], self.policies[policy], self.beat, *how)


def main(connection: int, lifeline: int, memory: int, front: int, number: int) -> None:
    """Answer the parent's messages."""
    children.end_with_line(lifeline)
    talk: Connection[Any, Any] = Connection(connection)
    beat = memoryview(mmap.mmap(memory, front)).cast("q")[2 * number : 2 * number + 2]
    worker = Worker(memory, beat)
    signal.signal(signal.SIGTERM, worker.end)
    try:
        while not worker.asked:  # an environment's code may have raised something else since, or swallowed `Ended`
            talk.send(_answer(worker, *talk.recv()))
    except (Ended, EOFError, OSError):  # OSError: nobody listens any more
        pass
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        worker.close()
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(0)  # at once: the parent waits for it


def _answer(worker: Worker, news: Any, name: str, args: Any) -> tuple[str, Any]:
    """What comes of one message, whatever the environment's code raises."""
    try:
        worker.know(*news)
        return "done", getattr(worker, name)(*args)
    except Ended:
        raise
    except Refused as why:
        return "refused", f"{why}"
    except Wrong as why:
        return "failed", f"{why}"
    except BaseException as why:
        return "failed", f"raised {blamed(why)}"
