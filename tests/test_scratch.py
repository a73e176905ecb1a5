"""Temporary folders: gone with their process, or after SIGKILL with the next start; nothing else is touched."""

import errno
import os
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from fastfedpg import scratch
from stopped_runs import SCRIPT

HOLDS = """
import sys, time
from fastfedpg.scratch import scratch_folder
with scratch_folder() as folder:
    (folder / "socket").write_text("x")
    print(folder, flush=True)
    time.sleep(1000)
"""


@pytest.fixture(autouse=True)
def _place(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield
    tempfile.tempdir = None


@pytest.fixture
def holder():
    """A process with such a folder, and the folder."""
    with subprocess.Popen([sys.executable, "-c", HOLDS], stdout=subprocess.PIPE, text=True) as process:
        yield process, Path(process.stdout.readline().strip())
        process.kill()


def test_it_is_ours_alone_and_gone_at_the_end(tmp_path):
    def work():
        with scratch.scratch_folder() as folder:
            assert folder.parent == tmp_path
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
            (folder / "file").write_text("x")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    assert not any(tmp_path.iterdir())


def test_on_a_full_disk_no_folder_stays_that_nothing_would_ever_sweep(tmp_path, monkeypatch):
    real = os.open

    def full(path, flags, *rest, **more):
        if scratch.HELD in str(path):
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(path, flags, *rest, **more)

    monkeypatch.setattr(os, "open", full)
    with pytest.raises(OSError, match="No space left"), scratch.scratch_folder():
        pytest.fail("there is none")
    assert not any(tmp_path.iterdir())


def test_after_a_kill_it_is_gone_with_the_next_one_and_not_before(holder):
    process, folder = holder
    scratch.sweep()
    assert (folder / "socket").exists(), "its process lives"
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert folder.exists()
    with scratch.scratch_folder():
        assert not folder.exists()


def test_a_command_sweeps_when_it_starts(holder):
    process, folder = holder
    process.kill()
    process.wait()
    done = subprocess.run([SCRIPT, "--version"], capture_output=True, env=dict(os.environ))
    assert done.returncode == 0
    assert not folder.exists()


def test_nothing_else_is_touched(tmp_path, monkeypatch, holder):
    """Another name, a folder of ours without the mark of one, a file, a link to a left one, and another user's."""
    process, left = holder
    process.kill()
    process.wait()
    aside = tmp_path / "elsewhere"
    left.rename(aside)
    (tmp_path / "fastfedpg-link").symlink_to(aside)
    (tmp_path / "fastfedpg-file").write_text("x")
    (tmp_path / "fastfedpg-unmarked").mkdir()
    (tmp_path / "fastfedpg-marked").mkdir()
    (tmp_path / "fastfedpg-marked" / scratch.HELD).symlink_to(aside / scratch.HELD)
    names = sorted(path.name for path in tmp_path.iterdir())
    scratch.sweep()
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    assert (aside / "socket").exists()
    theirs = tmp_path / "fastfedpg-theirs"
    aside.rename(theirs)
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: theirs.stat().st_uid + 1)
        scratch.sweep()
    assert theirs.exists()
    scratch.sweep()
    assert not theirs.exists(), "only whose it is was in the way"
