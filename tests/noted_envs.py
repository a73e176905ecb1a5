"""Environments that write down when they are made, reset, played and closed, and send a signal when told to."""

import fcntl
import os
import signal
from pathlib import Path

import own_envs

BOOK = "FASTFEDPG_TEST_BOOK"
"""The variable that names the file; the other says at which line of which kind the parent is sent a signal."""
WHEN = "FASTFEDPG_TEST_WHEN"
TOP = "FASTFEDPG_TEST_PARENT"


def note(kind, name=""):
    """One more line; where it is the one that was asked for, a SIGINT for the process that owns the environments."""
    with Path(os.environ[BOOK]).open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # several processes write: each counts up to its own line
        file.write(f"{kind} {name}\n")
        file.seek(0)
        count = sum(line.startswith(f"{kind} ") for line in file)
    wanted, _, number = os.environ.get(WHEN, "").partition(" ")
    if wanted == kind and count == int(number):
        os.kill(int(os.environ[TOP]), signal.SIGINT)


class Noted(own_envs.Line):
    """A line whose life is written down."""

    def __init__(self, fault=None):
        super().__init__(fault)
        self.name = f"{os.getpid()}-{id(self)}"
        note("made", self.name)

    def reset(self, seed=None, options=None):
        note("reset")
        return super().reset(seed=seed)

    def step(self, action):
        note("step")
        return super().step(action)

    def close(self):
        note("closed", self.name)
        if self.fault == "closing":
            raise OSError("it does not close")


def make(number):
    """An agent's environment."""
    return Noted()


def second_raises(number):
    """One whose second agent's fails on its third step."""
    return Noted("raises" if number == 1 else None)


def second_hangs(number):
    """One whose second agent's hangs on its third step."""
    return Noted("hangs" if number == 1 else None)


def closing_raises(number):
    """One that can't be closed without a word."""
    return Noted("closing")


def built(number):
    """Built ones in a list, which is refused."""
    return [Noted(), Noted()]


def second_unbuilt(number):
    """One whose second agent's can't be built."""
    if number == 1:
        raise SystemExit(3)
    return Noted()


def lives():
    """The names of those that were made, and of those that were closed, in order."""
    lines = [line.split() for line in Path(os.environ[BOOK]).read_text().splitlines()]
    return tuple([line[1] for line in lines if line[0] == kind] for kind in ("made", "closed"))
