"""Ctrl-C and SIGTERM at random moments of runs in Gymnasium's environments, as processes of their own."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import noted_envs
from stopped_runs import SCRIPT, state

MOMENTS = 40
LIMIT = 60.0
WORDS = [
    *("--problem", "noted_envs:make", "--agents", "2", "--policy", "linear", "--oracle", "gpomdp", "--B", "2", "--K"),
    *(
        "3",
        "--H",
        "1",
        "--eta",
        "0.01",
        "--evaluation-episodes",
        "2",
        "--rounds",
        "100000",
        "--checkpoint-rounds",
        "50",
    ),
]


@pytest.mark.kills
def test_interrupted_at_40_random_moments_it_says_one_line_and_closes_everything(tmp_path, monkeypatch):
    """While it starts, compiles, evaluates, resets and plays, with one to three workers; all but the first are resumed.

    In `make test`: a signal at five given moments, from inside the environment (test_ends.py).
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(noted_envs.BOOK, str(tmp_path / "book"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    moments, begun = random.Random(0), 0
    for k in range(MOMENTS):
        Path("book").write_text("")
        resumed = k % 10 and Path("out/config.toml").exists()
        workers = ["--problem-args", f"workers={moments.randint(1, 3)}"]
        words = ["resume", "out"] if resumed else ["run", *WORDS, *workers, "--out", "out", "--overwrite"]
        with Path("said").open("w") as said:
            process = subprocess.Popen([SCRIPT, *words], stdout=subprocess.DEVNULL, stderr=said)
        until = time.monotonic() + LIMIT
        wait = "made" if k % 4 == 0 else "step"  # from when on it is interrupted
        while not any(line.startswith(wait) for line in Path("book").read_text().splitlines()):
            assert process.poll() is None, Path("said").read_text()
            assert time.monotonic() < until
            time.sleep(0.005)
        time.sleep(moments.choice((0.05, 0.5, 3)) * moments.random())
        process.send_signal(moments.choice((signal.SIGINT, signal.SIGTERM)))
        assert process.wait(LIMIT) == 130, Path("said").read_text()
        lines = Path("said").read_text().splitlines()
        lines = [line for line in lines if not line.startswith(("fast_fedpg on ", "note: from "))]
        assert len(lines) == 1, lines
        assert lines[0].startswith("fastfedpg: interrupted ")
        made, closed = noted_envs.lives()
        assert sorted(made) == sorted(closed)
        assert made
        if "before anything was done" not in lines[0]:
            begun += 1
            assert state("out") == "interrupted"
    assert begun > MOMENTS / 2
