"""Comparisons are made in folders of their own, and one of them that was never interrupted is made once."""

import shutil
from pathlib import Path

import pytest

from compared import COMPARISON, PICTURES
from fastfedpg.comparison import run_cells
from fastfedpg.draw import curves


@pytest.fixture
def fresh_folder(tmp_path, monkeypatch, request):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    if "pictures" not in request.fixturenames:
        for name in PICTURES:
            monkeypatch.setattr(curves, name, lambda *args, **more: [])


@pytest.fixture
def pictures():
    """This test draws."""


@pytest.fixture(scope="session")
def original(tmp_path_factory) -> Path:
    """A comparison that was never interrupted; not to be written to."""
    out = tmp_path_factory.mktemp("original") / "out"
    with pytest.MonkeyPatch.context() as patch:
        for name in PICTURES:
            patch.setattr(curves, name, lambda *args, **more: [])
        run_cells.compare(COMPARISON, out)
    return out


@pytest.fixture
def finished(original) -> Path:
    """A copy of it as an older version left it, whose runs have no results.npz: all is read from their exports."""
    return Path(shutil.copytree(original, "finished", ignore=shutil.ignore_patterns("results.npz")))
