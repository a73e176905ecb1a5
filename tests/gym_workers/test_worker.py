"""A worker that is asked to end does so, whatever an environment's code makes of that moment."""

import mmap
import os
import pickle
import signal
import socket
from contextlib import suppress
from multiprocessing import Pipe

import pytest

from fastfedpg.gym_workers import worker

NEWS = (b"environment", pickle.dumps("what it is made of"), b"policy", pickle.dumps("how it acts"))


class Env:
    closed = 0

    def close(self):
        self.closed += 1


def ask_to_end():
    os.kill(os.getpid(), signal.SIGTERM)


def swallow(*args):
    """As a bare `except:` does."""
    with suppress(BaseException):
        ask_to_end()
    return []


def build_and_raise(given):
    ask_to_end()
    raise RuntimeError("no such map")


@pytest.fixture
def answers(monkeypatch):
    """What a worker, here in this process, answers to three messages before it ends."""
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(worker.children, "end_with_line", lambda lifeline: None)
    monkeypatch.setattr(os, "_exit", lambda code: None)
    here, there = Pipe()
    memory = os.memfd_create("beat")
    os.truncate(memory, mmap.PAGESIZE)

    def work(name, *args):
        for _ in range(3):
            here.send((NEWS, name, args))
        with socket.socket(fileno=os.dup(here.fileno())) as end:
            end.shutdown(socket.SHUT_WR)  # nothing follows: one that goes on comes to its end too
        worker.main(os.dup(there.fileno()), -1, memory, mmap.PAGESIZE, 0)
        found = []
        while here.poll():
            found.append(here.recv())
        return found

    yield work
    signal.signal(signal.SIGTERM, before)
    os.close(memory)
    here.close()
    there.close()


def test_it_ends_though_the_environment_that_was_being_built_raises(answers, monkeypatch):
    """The first one stands, and is closed."""
    first, made = Env(), iter([lambda given: None, build_and_raise])
    monkeypatch.setattr(worker, "described", lambda env: {})
    monkeypatch.setattr(worker, "build", lambda given, count: next(made)(given) or first)
    done, failed = answers("described", b"environment")
    assert done == ("done", {})
    assert failed[1].startswith("raised RuntimeError: no such map")
    assert first.closed == 1


def test_it_ends_though_the_environment_swallows_the_request(answers, monkeypatch):
    monkeypatch.setattr(worker.render, "frames", swallow)
    assert answers("frames", b"environment", b"policy") == [("done", [])]
