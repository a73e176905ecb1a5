"""The processes that play Gymnasium's environments: started when needed, watched, and ended with their owner."""

import mmap
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections import deque
from collections.abc import Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

import numpy as np

from fastfedpg import children
from fastfedpg.errors import EnvironmentFailed, InputError
from fastfedpg.gym_workers import shared_memory
from fastfedpg.gym_workers.worker_handle import Job, Member, Sent, end

ONE_THREAD = {f"{x}_NUM_THREADS": "1" for x in ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "VECLIB")}
QUIET = {"PYGAME_HIDE_SUPPORT_PROMPT": "1"}
PAGE = 4096
LARGEST = sys.float_info.max
START = 60.0
"""Seconds a process may take to start and to build an environment, where patience with its steps is less."""


PROGRAM = "import sys; sys.path[:] = {}; from fastfedpg.gym_workers.worker import main; main(*map(int, sys.argv[1:]))"
"""What a process runs: it finds modules where its parent does."""


def _free(members: list[Member], files: list[int], owner: int) -> None:
    if os.getpid() == owner:
        end(members, owner)
        while files:
            os.close(files.pop())


def _memory() -> int:
    """A file that is in memory where the system has such, and has no name."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("episodes")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def cores() -> int:
    """The cores this process may use, or where the system does not say, those there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_POOLS: "weakref.WeakSet[Pool]" = weakref.WeakSet()


def close_all() -> None:
    """Close every environment that there is, where the interpreter ends without doing so itself."""
    for pool in list(_POOLS):
        pool.close()


class Pool:
    """At most `count` processes for the environments of some agents: there from their first job until their `release`.

    Args:
        agents: for each agent what its environment is made of, pickled.
        count: the number of processes.
        patience: the seconds an environment may take for a step.
        first: the number of the first agent, as errors have it.
        more: environment variables of the processes.
    """

    def __init__(self, agents: Sequence[Sent], count: int, patience: float, first: int = 0, **more: str) -> None:
        self.agents, self.count, self.patience, self.first = list(agents), count, patience, first
        self.variables = {**os.environ, **QUIET, **more, **ONE_THREAD}
        self.members: list[Member] = []
        self.files: list[int] = []  # the shared memory's, while there is one
        self.shared: tuple[Any, dict[str, np.ndarray]] = (None, {})  # the last call's arrays in it
        self.beats = memoryview(b"")
        self.front = -(-16 * count // PAGE) * PAGE
        self.owner = os.getpid()
        self.lock = threading.Lock()
        self.hosts: dict[Any, Any] = {}  # what plays in compiled programs, by how it is to be played
        self.failed: EnvironmentFailed | InputError | None = None
        self.over = False
        self.free = weakref.finalize(self, _free, self.members, self.files, self.owner)
        _POOLS.add(self)

    def release(self) -> None:
        """End the processes and give their memory back; the next job starts them anew."""
        with self.lock:
            self.shared = None, {}
            _free(self.members, self.files, self.owner)

    def close(self) -> None:
        """End the processes for good: what is still being computed somewhere can't start new ones."""
        self.over = True
        self.release()

    def host_error(self) -> EnvironmentFailed | InputError | None:
        """What ended the last call, if it failed; asked again, nothing."""
        failed, self.failed = self.failed, None
        return failed

    def work(self, jobs: Sequence[Job]) -> list[Any]:
        """The answers to jobs, which go to whoever is free; after a failure the next call begins with new processes."""
        with self.lock:
            return self._work(jobs)

    def _work(self, jobs: Sequence[Job]) -> list[Any]:
        try:
            return self._share(jobs)
        except BaseException as why:
            end(self.members, self.owner)
            if isinstance(why, EnvironmentFailed | InputError):
                self.failed = why
            raise

    def _share(self, jobs: Sequence[Job]) -> list[Any]:
        while len(self.members) < min(self.count, len(jobs)):
            self.members.append(self._start(len(self.members)))
        answers: list[Any] = [None] * len(jobs)
        left = deque(range(len(jobs)))
        idle = list(self.members)
        busy: dict[Any, Member] = {}
        pause, looked = min(self.patience / 4, 0.5), time.monotonic()
        while left or busy:
            if self.over:
                raise EnvironmentFailed("the environments are closed, since the program is about to end")
            while left and idle:
                member, number = idle.pop(), left.popleft()
                member.give(number, jobs[number], self.agents[jobs[number].agent])
                busy[member.talk] = member
            for talk in wait(list(busy), timeout=pause):
                member = busy.pop(talk)
                assert member.job is not None
                answers[member.job] = self._answer(member, jobs[member.job])
                idle.append(member)
            if time.monotonic() - looked > pause:  # by the clock: some may be silent while others answer
                looked = time.monotonic()
                for member in busy.values():
                    self._watch(member, jobs[member.job or 0])
        return answers

    def _answer(self, member: Member, job: Job) -> Any:
        try:
            kind, answer = member.talk.recv()
        except (EOFError, OSError):
            raise self._died(member, job) from None
        if kind == "refused":
            raise InputError(f"{self._whose(job)}: {answer}")
        if kind == "failed":
            raise EnvironmentFailed(f"{self._whose(job)}, {self._place(member, job)}: {answer}")
        return answer

    def _watch(self, member: Member, job: Job) -> None:
        if member.process.poll() is not None and not member.talk.poll():
            raise self._died(member, job)
        patience = max(self.patience, START) if member.beat[0] <= shared_memory.BUILDING else self.patience
        if member.silent() > patience and not member.talk.poll():
            member.stuck = True
            raise EnvironmentFailed(
                f"{self._whose(job)}, {self._place(member, job)}: no sign of life for {patience:g} "
                "s; its process was ended (patience=… allows it more)"
            )

    def _died(self, member: Member, job: Job) -> EnvironmentFailed:
        try:
            code = member.process.wait(timeout=1)  # it hung up, and is about to end
        except subprocess.TimeoutExpired:
            children.end([member.process], seconds=0)
            code = member.process.wait()
        how = f"ended with exit code {code}"
        if code < 0:
            how = f"was killed by signal {-code} ({signal.strsignal(-code)})"
        return EnvironmentFailed(f"{self._whose(job)}, {self._place(member, job)}: its process {how}")

    def _whose(self, job: Job) -> str:
        return f"the environment of agent {self.first + job.agent}"

    def _place(self, member: Member, job: Job) -> str:
        return member.place(job.args[1] if job.what == "play" else 0)

    def _file(self) -> int:
        """The shared memory's file, new where there is none."""
        if not self.files:
            self.files.append(_memory())
            os.truncate(self.files[0], self.front)
            self.beats = memoryview(mmap.mmap(self.files[0], self.front)).cast("q")
        return self.files[0]

    def _arrays(self, call: Any) -> dict[str, np.ndarray]:
        """A call's arrays: where it is as the last one, the same, since every page of a new mapping is a fault."""
        file = self._file()
        if self.shared[0] != (file, call):
            where = shared_memory.layout(*call)
            if os.fstat(file).st_size < where["end"]:
                os.truncate(file, where["end"])
            self.shared = (file, call), shared_memory.views(mmap.mmap(file, where["end"]), where)
        return self.shared[1]

    def _start(self, number: int) -> Member:
        ours, theirs = socket.socketpair()
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(START), 0))
        line, end_of_line = socket.socketpair()
        fds = (theirs.fileno(), end_of_line.fileno(), self._file())
        beat = self.beats[2 * number : 2 * number + 2]
        beat[0] = shared_memory.STARTING
        with theirs, end_of_line:
            program = PROGRAM.format([*map(str, sys.path)])
            command = [sys.executable, "-P", "-c", program, *map(str, (*fds, self.front, number))]
            process = children.start(command, self.variables, pass_fds=fds)
        return Member(process, Connection(ours.detach()), line, beat)

    def play(
        self,
        policy: Sent,
        limits: tuple[float, float],
        parts: tuple[int, ...],
        K: int,
        widths: tuple[int, int],
        restart: bool,
        *given: np.ndarray,
    ) -> tuple[np.ndarray, ...]:
        """The fields of Episodes, of theta, agent, seeds and noise with any leading axes in common."""
        theta, agent, seeds, noise = map(np.asarray, given)
        axes, (B, d) = agent.shape, (seeds.shape[-1], theta.shape[-1])
        lanes = agent.reshape(-1)
        call = (len(lanes), B, K, d, noise.shape[-1], *widths, theta.dtype.name, self.front)
        jobs = [
            Job(int(i), "play", (lane, first, call, limits, restart), policy)
            for lane, i in enumerate(lanes)
            for first in range(0, B, shared_memory.part(B, parts[i]))
        ]
        with self.lock:
            shared = self._arrays(call)
            for name, x in (("theta", theta), ("seeds", seeds), ("noise", noise)):
                shared[name][:] = x.reshape(shared[name].shape)
            self._work(jobs)
            return tuple(shared[x].reshape(*axes, *shared[x].shape[1:]).copy() for x in shared_memory.RESULTS)
