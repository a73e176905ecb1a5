"""A process that plays: it is given environments and policies once, then parts of batches, until its parent is gone.

Arrays are in memory shared with the parent; over the connection come small messages.
"""

import mmap
import pickle
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from fastfedpg import children
from fastfedpg.gym_workers import render
from fastfedpg.gym_workers.faults import Refused, Wrong, blamed
from fastfedpg.gym_workers.flatten import described
from fastfedpg.gym_workers.make_env import build
from fastfedpg.gym_workers.rollout import Singles, Vector, play
from fastfedpg.gym_workers.shared_memory import BUILDING, RESULTS, layout, views


class Worker:
    """What is kept between messages: environments, policies, and the view of the shared memory."""

    def __init__(self, memory: int, beat: Any) -> None:
        self.memory, self.beat = memory, beat
        self.given: dict[bytes, Any] = {}
        self.first: dict[bytes, Any] = {}
        self.envs: dict[bytes, Any] = {}
        self.policies: dict[bytes, Any] = {}
        self.shared: tuple[Any, dict[str, np.ndarray]] = (None, {})

    def know(self, environment: bytes, blob: bytes, policy: bytes, code: bytes) -> None:
        """Keep what came with a message for the first time; agents made of the same have the same digest."""
        self.beat[1], self.beat[0] = 0, BUILDING
        if blob:
            self.given[environment] = pickle.loads(blob)
        if code:
            self.policies[policy] = pickle.loads(code)

    def described(self, environment: bytes) -> dict[str, Any]:
        """See `described`; what was built for it is played in later."""
        self.first[environment] = build(self.given[environment])
        return described(self.first[environment])

    def made(self, environment: bytes) -> Any:
        """An agent's environments, built when they are first asked for."""
        if environment not in self.envs:
            given = self.given[environment]
            rest = [self.first.pop(environment, None) or build(given)]
            several = hasattr(rest[0], "single_observation_space")
            envs = Vector(rest[0]) if several else Singles(lambda: rest.pop() if rest else build(given))
            self.envs[environment] = envs
        return self.envs[environment]

    def play(self, environment: bytes, policy: bytes, lane: int, first: int, call: Any, limits: Any) -> None:
        """The part of a batch that begins with a trajectory."""
        if self.shared[0] != call:
            where = layout(*call)
            self.shared = call, views(mmap.mmap(self.memory, where["end"]), where)
        arrays, envs = self.shared[1], self.made(environment)
        part = slice(first, first + envs.size)
        seeds = arrays["seeds"][lane, part].tolist()
        theta, noise = arrays["theta"][lane], arrays["noise"][lane, part]
        out = [arrays[x][lane, part] for x in RESULTS]
        play(envs, self.policies[policy], theta, noise, seeds, out, limits, self.beat)

    def frames(self, environment: bytes, policy: bytes, *how: Any) -> list[np.ndarray]:
        """One episode as pictures."""
        return render.frames(self.given[environment], self.policies[policy], self.beat, *how)


def main(connection: int, lifeline: int, memory: int, front: int, number: int) -> None:
    """Answer the parent's messages."""
    children.end_with_line(lifeline)
    talk: Connection[Any, Any] = Connection(connection)
    beat = memoryview(mmap.mmap(memory, front)).cast("q")[2 * number : 2 * number + 2]
    worker = Worker(memory, beat)
    while True:
        news, name, args = talk.recv()
        try:
            worker.know(*news)
            answer = "done", getattr(worker, name)(*args)
        except Refused as why:
            answer = "refused", f"{why}"
        except Wrong as why:
            answer = "failed", f"{why}"
        except Exception as why:
            answer = "failed", f"raised {blamed(why)}"
        talk.send(answer)
