"""A run that was killed at any moment and taken up again is, to the bit, one that never was."""

import os
import random
import re
import shutil
import signal
import subprocess
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

import fastfedpg
from commands import command
from fastfedpg import files
from fastfedpg.experiment import checkpoints, run_folder
from stopped_runs import CONFIG, DRAWN, FILES, OFTEN, SCRIPT, flags, killed, last_round, numbers, rounds_kept, state

pytestmark = pytest.mark.usefixtures("fresh_folder")


def test_the_copy_that_stands_for_a_killed_run_is_one(never_stopped):
    out = killed()
    assert {p.name for p in out.iterdir()} == {".written", "config.toml", "checkpoints"}
    assert rounds_kept(out) == [8, 6]
    assert run_folder.state(out) == "interrupted"


KILLS = 20

STARTING = 4  # of them fall into the first seconds, in which Python and JAX are imported and compiled programs loaded

AHEAD = 3  # the others wait for 1 to this many new checkpoints first

JITTER = 0.04  # and then for up to so many seconds: a few checkpoints' time, so that it ends anywhere inside of one

LONG = replace(CONFIG, rounds=400, metrics_every=7, checkpoint_rounds=1)  # 16 times 3 and what 40 ms hold: 13 at most

LIMIT = 60.0  # seconds for one child process; it needs about three


def children(tmp_path: Path) -> dict[str, str]:
    """Children share compiled programs, which saves half of their time; the numbers don't know."""
    shared = {
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    return {**os.environ, **shared, "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1"}


@contextmanager
def child(*words, environment=None):
    """`fastfedpg …` as a process of its own, with its stderr in a file; it does not outlive the test."""
    with Path("stderr").open("w") as said:
        process = subprocess.Popen([SCRIPT, *words], stdout=subprocess.DEVNULL, stderr=said, env=environment)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def until(condition, process: subprocess.Popen) -> None:
    """Wait for something that a running child does."""
    end = time.monotonic() + LIMIT
    while not condition():
        assert process.poll() is None, "the process ended before: " + Path("stderr").read_text()
        assert time.monotonic() < end, "the process takes too long: " + Path("stderr").read_text()
        time.sleep(0.001)


@pytest.mark.kills
def test_killed_at_20_random_moments_it_ends_in_the_same_bytes(tmp_path):
    """Each start but the first goes on from the newest checkpoint of the one before, which was whole at every kill.

    In `make test`: a kill between any two system calls, below, and one of a whole comparison (test_stopped.py).
    """
    environment, moments = children(tmp_path), random.Random(0)
    start = ["run", *flags(LONG), "--out", "out"]
    with child("run", *flags(replace(LONG, checkpoint_rounds=None)), "--out", "whole", environment=environment) as p:
        assert p.wait(LIMIT) == 0
    codes, reached, from_round, refused = [], [], [], 0
    for k in range(KILLS):
        before = last_round()
        with child(*start, environment=environment) as process:
            if k % (KILLS // STARTING) == 0:
                time.sleep(moments.uniform(0.2, 2.2) if k else 0.2)  # the first comes before there is a folder
            else:
                wanted = before + moments.randint(1, AHEAD)
                until(lambda: last_round() >= wanted, process)
                time.sleep(moments.uniform(0, JITTER))
            process.send_signal(signal.SIGKILL)
            codes.append(process.wait(LIMIT))
        said = Path("stderr").read_text()
        assert "refused" not in said, said
        if start[0] == "resume" and (found := re.search(r"note: from round (\d+) of 400", said)):
            from_round.append(int(found[1]))
            assert from_round[-1] == before, "the newest of all"
        reached.append(last_round())
        if Path("out/config.toml").exists():
            start = ["resume", "out"]
        else:
            assert command("resume", "out") == 2, "there is no run yet"
            refused += 1
            start = ["run", *flags(LONG), "--out", "out", "--overwrite"]
    assert codes == KILLS * [-signal.SIGKILL], "every one was at work when it was killed"
    assert refused >= 1
    assert reached == sorted(reached), "no round that was kept is lost"
    assert len(set(reached)) >= KILLS - STARTING
    assert len(from_round) >= KILLS - STARTING - 2, "all but the first, and perhaps those killed while starting"
    assert reached[-1] < LONG.rounds
    with child("resume", "out", environment=environment) as process:
        assert process.wait(LIMIT) == 0, Path("stderr").read_text()
    assert f"from round {reached[-1]} of 400" in Path("stderr").read_text()
    assert numbers("out") == numbers("whole")
    assert {p.name for p in Path("out").iterdir()} == FILES | DRAWN


def test_between_any_two_system_calls_a_kill_does_no_harm(monkeypatch, never_stopped, capsys):
    """The folder is copied before and after each call that changes or syncs a name: every copy is a killed run.

    What a kill leaves of a file that is being written is still under another name then, and never read.
    """
    copies = 0

    def copying(name: str) -> None:
        real = getattr(os, name)

        def copy() -> None:
            nonlocal copies
            if Path("running/config.toml").exists():
                with monkeypatch.context() as plain:
                    for other, function in originals.items():
                        plain.setattr(os, other, function)
                    shutil.copytree("running", f"copy-{copies}", ignore=shutil.ignore_patterns(files.LOCK))
                copies += 1

        def called(*args, **more):
            copy()
            result = real(*args, **more)
            copy()
            return result

        patch.setattr(os, name, called)

    originals = {name: getattr(os, name) for name in ("fsync", "rename", "replace", "unlink", "rmdir", "mkdir")}
    with monkeypatch.context() as patch:
        for name in originals:
            copying(name)
        fastfedpg.run(replace(CONFIG, checkpoint_rounds=3), "running")
    assert numbers("running") == never_stopped
    seen = set()
    for k in range(copies):
        out = Path(f"copy-{k}")
        there = sorted(out.rglob("*"))
        content = tuple((str(p.relative_to(out)), p.read_bytes() if p.is_file() else None) for p in there)
        if content in seen:
            continue
        seen.add(content)
        assert command("resume", out) == 0
        assert numbers(out) == never_stopped, content
        assert state(out) == "finished"
    assert "refused" not in capsys.readouterr().err, "what has a checkpoint's name is whole"
    assert len(seen) > 20, "three checkpoints of about five steps, a third one's removal, four files at the end"


def test_what_a_killed_process_was_writing_is_cleared_away(never_stopped, capsys):
    out = killed()
    (out / f"{files.PART}1-metrics.csv").write_text("seed,rou")
    (out / f"checkpoints/{files.PART}9-000000009").mkdir()
    (out / "checkpoints/000000002").mkdir()  # whose files are removed already
    (out / f"checkpoints/{files.PART}9-000000009/{checkpoints.ARRAYS}").write_bytes(b"half")
    assert command("resume", out) == 0
    assert "from round 8 of 11" in capsys.readouterr().err
    assert numbers(out) == never_stopped
    assert {p.name for p in out.iterdir()} == FILES | DRAWN


def test_a_kill_before_there_is_a_configuration_leaves_no_run(capsys):
    Path("out").mkdir()
    Path("out", files.LOCK).touch()
    Path("out", f"{files.PART}1-config.toml").write_text("problem = ")
    assert command("resume", "out") == 2
    assert "out: no run to go on with: there is no config.toml in it" in capsys.readouterr().err
    assert command("run", *flags(CONFIG), "--out", "out", "--overwrite") == 0
    assert {p.name for p in Path("out").iterdir()} == FILES | DRAWN


def test_a_folder_belongs_to_one_process_until_that_is_killed(tmp_path, capsys):
    long = replace(OFTEN, rounds=10**6)
    with child("run", *flags(long), "--out", "out", environment=children(tmp_path)) as process:
        until(lambda: last_round() > 0, process)
        assert command("resume", "out") == 2
        assert "out: another process is at work in this folder" in capsys.readouterr().err
        assert command("run", *flags(CONFIG), "--out", "out", "--overwrite") == 2
        assert "out: another process is at work in this folder" in capsys.readouterr().err
        assert run_folder.state(Path("out")) == "running"
        assert process.poll() is None, "and that one heard nothing of it"
        before = last_round()
        until(lambda: last_round() > before, process)
        process.kill()
        process.wait()
    assert run_folder.state(Path("out")) == "interrupted"
    with files.hold(Path("out")):
        pass
