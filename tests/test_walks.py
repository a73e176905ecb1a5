"""The four walks through the house: which files a run, a comparison, a deployed run and one in Gymnasium pass.

docs/design.md lists them; a file that a walk passes newly, or no longer, is noticed here.
"""

import gc
import re
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import jax
import pytest

import fastfedpg
from commands import command
from fastfedpg import Config
from fastfedpg.cli import execute
from fastfedpg.experiment import made_once
from fastfedpg.federation import deployment, site
from fastfedpg.federation.agent import Agent
from fastfedpg.federation.terms import Address, Deployment, Terms
from grid import engine_of, grid_of

PACKAGE = Path(fastfedpg.__file__).parent
PAGE = Path(__file__).parents[1] / "docs" / "design.md"
WATCHED = ("compare", "federate", "gymnasium")
"""Walks that take long to watch: they are looked at with the pages."""
SMALL = ("--problem", "compromise", "--rounds", 2, "--H", 2)


@contextmanager
def walking():
    """The files of the package whose functions are called, in the order of the first call."""
    passed: dict[str, None] = {}

    def note(frame, event, argument):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(PACKAGE)):
            passed.setdefault(Path(code.co_filename).relative_to(PACKAGE).as_posix().removesuffix(".py"))

    gc.collect()  # what an earlier test left is ended now, and not on the way
    gc.disable()
    sys.setprofile(note)
    threading.setprofile(note)
    try:
        yield passed
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
        gc.enable()


def listed(name: str) -> list[str]:
    """What the page says of one walk: rooms, each with the files that are passed in it."""
    block = re.search(rf"^{name} \(\d+ files\)\n(.+?)\n(?=\n|```)", PAGE.read_text(), flags=re.M | re.S)
    files = []
    for line in block.group(1).splitlines():
        room, _, names = line.strip().partition(": ")
        files += [name if room == "top" else f"{room}/{name}" for name in names.split()]
    assert f"{name} ({len(files)} files)" in PAGE.read_text()
    return files


def walk(name, folder):
    """One of the four, into a folder of its own."""
    if name == "run":
        assert command("run", *SMALL, "--out", folder) == 0
    elif name == "compare":
        assert command("compare", *SMALL, "--algorithms", "fast_fedpg", "fedavg_pg", "--seeds", 1, "--out", folder) == 0
    elif name == "gymnasium":
        words = ("--problem", "gym:CartPole-v1", "--policy", "linear", "--oracle", "gpomdp", "--B", 2, "--K", 4)
        assert command("run", *words, "--rounds", 1, "--H", 1, "--evaluation-episodes", 2, "--out", folder) == 0
    else:
        config = Config("compromise", rounds=1, H=2)
        agents = [Agent(site.build(config, i), Path(f"{folder}-{i}")) for i in range(2)]
        how = Deployment(Terms(), Address(insecure=True))
        unheard = lambda done, record=None: None
        with grid_of(agents) as grid, deployment.begin_deployed(config, Path(folder), False, how) as (planned, how):
            deployment.run_deployed(planned, how, Path(folder), unheard, None, lambda words: None, engine_of(grid))


@pytest.mark.parametrize("name", ["run", *(pytest.param(x, marks=pytest.mark.docs) for x in WATCHED)])
def test_a_walk_passes_the_files_that_the_page_lists(name, tmp_path, monkeypatch, drawing):
    """Walked twice: the first time classes and constants are made too, as modules are imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(execute, "_picture", drawing)
    walk(name, "first")
    made_once.forget()
    jax.clear_caches()
    with walking() as passed:
        walk(name, "second")
    assert sorted(passed) == sorted(listed(name))
