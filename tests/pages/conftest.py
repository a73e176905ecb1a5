"""One small comparison on a grid, without noise, and a page of it: all tests of pages look at these."""

import shutil
from pathlib import Path

import pytest

from commands import command

SMALL = ("--problem", "compromise-grid", "--problem-args", "n=3", "--H", 2, "--eta", 2, "--rounds", 4, "--seeds", 1)
TWO = ("--algorithms", "fast_fedpg", "fedavg_pg")
CLOCK = ("--clock", "latency=0.5", "bandwidth=inf", "step_seconds=0")


@pytest.fixture(scope="session")
def made(tmp_path_factory) -> Path:
    """The folder `out`; it is only read."""
    folder = tmp_path_factory.mktemp("pages") / "out"
    assert command("compare", *SMALL, *TWO, *CLOCK, "--out", folder) == 0
    assert command("report", folder) == 0
    return folder


@pytest.fixture
def out(made, tmp_path, monkeypatch) -> Path:
    """A copy of it."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(made, tmp_path / "out")
    return Path("out")
