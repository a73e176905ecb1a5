"""Somebody's own code that goes elsewhere, hangs, leaves or says what can't be said: one line, and nothing is lost."""

import time
from pathlib import Path

import pytest

from commands import command
from fastfedpg.errors import printable

pytest.importorskip("gymnasium")

OWN = """
import os, time
import gymnasium, numpy as np
from fastfedpg import algorithms

os.chdir("/")

class Env(gymnasium.Env):
    observation_space, action_space = gymnasium.spaces.Box(-1, 1, (2,)), gymnasium.spaces.Discrete(2)
    paid = 1.0
    def reset(self, seed=None, options=None):
        return np.zeros(2, np.float32), {}
    def step(self, action):
        return np.zeros(2, np.float32), self.paid, False, False, {}

class BadClose(Env):
    def close(self):
        raise SystemExit("close \\x1b[31m\\nx")

class HangClose(Env):
    def close(self):
        time.sleep(1000)

class Text(Env):
    paid = "1.0"

class Unsaid(Env):
    def step(self, action):
        class Error(Exception):
            def __str__(self):
                raise RuntimeError
        raise Error

def goes(eta=0.1, H=2, odd=object()):
    os.chdir("/")
    return algorithms.fedavg_pg(eta, H)

def goes_in():
    os.chdir("/")
    return Env()
"""
PLAYED = ("--oracle", "gpomdp", "--B", 2, "--K", 3, "--H", 1, "--evaluation-episodes", 2, "--policy", "linear")


@pytest.fixture
def own(tmp_path, monkeypatch):
    """The file's name, another in each test: a module of its name may be known already."""
    monkeypatch.chdir(tmp_path)
    Path(f"{tmp_path.name}.py").write_text(OWN)
    return f"{tmp_path.name}.py"


def played(problem: str, out: str = "out") -> int:
    return command("run", "--problem", problem, *PLAYED, "--rounds", 1, "--out", out)


def test_wherever_it_goes_we_stay_where_this_was_started(own, capsys, tmp_path):
    """Its file and its folder are found again; a default that can't be written down stays the function's own."""
    assert command("run", "--problem", "compromise", "--algorithm", f"{own}:goes", "--rounds", 2, "--out", "a") == 0
    assert Path.cwd() == tmp_path
    assert command("run", "--config", "a/config.toml", "--out", "b") == 0
    assert Path("a/metrics.csv").read_bytes() == Path("b/metrics.csv").read_bytes()
    assert "odd" not in Path("a/config.toml").read_text()
    assert played(f"{own}:goes_in") == 0
    assert Path.cwd() == tmp_path
    assert Path("out/summary.json").exists()


def test_close_may_leave_and_may_hang(own, capsys, monkeypatch):
    monkeypatch.setattr("fastfedpg.gym_workers.worker_handle.CLOSE_SECONDS", 0.2)
    began = time.monotonic()
    for number, name in enumerate(("BadClose", "HangClose")):
        assert played(f"{own}:{name}", f"{number}") == 0
    said = capsys.readouterr()
    assert "close \\x1b" not in printable(said.out + said.err)
    assert time.monotonic() - began < 100  # of the 1,000 s that it hangs


WORDS = {
    "Text": "the reward is '1.0', a str; it must be a number",
    "Unsaid": "raised Error: (what it says is not known: its own __str__ raised RuntimeError)",
}


@pytest.mark.parametrize("name", WORDS)
def test_an_environment_that_says_what_it_cannot_say(name, own, capsys):
    assert played(f"{own}:{name}") == 1
    said = capsys.readouterr().err.splitlines()[-1]
    assert WORDS[name] in said
    assert printable(said) == said
    assert "exit code" not in said
