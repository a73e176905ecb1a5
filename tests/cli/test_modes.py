"""Modes of what a run leaves: results are as the umask has them, for whoever may read them; nobody else may write."""

import os
from pathlib import Path

import pytest

from commands import command


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_results_are_as_the_umask_has_them(mask, tmp_path, monkeypatch):
    """Private keys, secrets and agents' memory: tests/federation/test_kit.py, test_agent.py and test_wire.py."""
    monkeypatch.chdir(tmp_path)
    before = os.umask(mask)
    try:
        words = ("--problem", "compromise", "--rounds", 2, "--checkpoint-rounds", 1)
        assert command("run", *words, "--out", "out") == 0
    finally:
        os.umask(before)
    found = {path.is_dir(): path.stat().st_mode & 0o777 for path in (Path("out"), *Path("out").rglob("*"))}
    assert found == {True: 0o777 & ~mask, False: 0o666 & ~mask}
    modes = {path.stat().st_mode & 0o777 for path in Path("out").rglob("*") if path.is_file()}
    assert modes == {0o666 & ~mask}
