"""Output to a full device is one message, to a reader that has gone none; `python -m fastfedpg` is the command."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import fastfedpg

FULL = Path("/dev/full")
RUN = "run --problem compromise --H 2 --rounds 2 --out out --overwrite"


@pytest.fixture(autouse=True)
def _fresh_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def shell(words: str, rest: str) -> subprocess.CompletedProcess:
    """`python -m fastfedpg` with the shell's own redirections."""
    line = f"{sys.executable} -m fastfedpg {words} {rest}"
    return subprocess.run(["bash", "-o", "pipefail", "-c", line], capture_output=True, text=True, timeout=60)


def test_python_m_is_the_command():
    done = shell("--version", "")
    assert done.returncode == 0
    assert done.stdout.startswith(f"fastfedpg {fastfedpg.__version__}, jax ")


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("words", ["list", "--help", "run --help", RUN])
def test_a_full_device_is_one_message(words):
    done = shell(words, ">/dev/full")
    assert done.returncode == 1
    *progress, said = done.stderr.splitlines()
    assert said.startswith("fastfedpg: " if words == "run --help" else "fastfedpg: standard output: ")
    assert said.endswith(": No space left on device")
    assert all(line.startswith("fast_fedpg on compromise") for line in progress)
    if words == RUN:
        assert json.loads(Path("out/summary.json").read_text())["state"] == "finished"


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
def test_messages_that_nobody_can_read_end_no_run():
    assert shell(RUN, "2>/dev/full").returncode == 0
    assert json.loads(Path("out/summary.json").read_text())["state"] == "finished"
    assert shell("nonsense", "2>/dev/full").returncode == 2


def test_a_reader_that_has_gone_hears_nothing_of_it():
    done = shell("list", "| head -1")
    assert (done.returncode, done.stdout, done.stderr) == (0, "problems\n", "")
    done = shell("run --help", "| (sleep 0; exit 0)")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("words", "rest", "code"), [("list", ">&-", 0), ("nonsense", "2>&-", 2), (RUN, "<&- >&- 2>&-", 0)]
)
def test_a_stream_that_is_closed_is_none_that_anybody_misses(words, rest, code):
    """Nor does a file that is opened later get its number, and what is printed."""
    done = shell(words, rest)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "")
    if words == RUN:
        assert json.loads(Path("out/summary.json").read_text())["state"] == "finished"
