"""A checkpoint runs no code when it is read; and what there is to go on with."""

import ast
import pickle
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import fastfedpg
from commands import command
from fastfedpg import Config, InputError, files
from fastfedpg.experiment import recorded_run as run
from fastfedpg.experiment import run_folder
from fastfedpg.runtime import Diverged
from stopped_runs import CONFIG, edit, killed, newest, numbers, rounds_kept, state

pytestmark = pytest.mark.usefixtures("fresh_folder")


# Nothing that runs code when it is read


def test_a_checkpoint_is_arrays_and_words():
    folder = newest(killed())
    assert {p.name for p in folder.iterdir()} == {"state.safetensors", "checkpoint.toml"}
    said = tomllib.loads((folder / "checkpoint.toml").read_text(encoding="utf-8"))
    assert (said["round"], said["recorded"], said["versions"]) == (8, 4, run_folder.versions())
    assert said["config"]["algorithm"]["eta"] == 0.5
    assert said["records"]["count"] == 2
    assert {p.name for p in folder.parent.iterdir()} == {"000000006", "000000008", "records.bin"}
    assert np.fromfile(folder.parent / "records.bin", "<i8", 2).tolist() == [0, 4], "the rounds, its first column"
    arrays = load_file(folder / "state.safetensors")
    assert any(x.shape == (2, 4, 5) and np.abs(x).max() > 0 for x in arrays.values()), "the agents' control variates"


def test_no_pickle_anywhere(monkeypatch, never_stopped):
    for path in Path(fastfedpg.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            names += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
            if path.parent.name == "gym_workers":  # a process and those that it started itself
                names = [name for name in names if name not in ("pickle", "cloudpickle")]
            assert not {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"} & {*names}
            if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
                assert isinstance(node.value, ast.Constant), path
                assert node.value.value is False, path

    def refuse(*args, **more):
        raise AssertionError("pickle was used")

    for name in ("dump", "dumps", "load", "loads", "Pickler", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)
    assert command("resume", killed()) == 0
    assert numbers("out") == never_stopped


# What there is to go on with


def contents(out: str = "out") -> dict[str, tuple[bytes, int]]:
    return {str(p): (p.read_bytes(), p.stat().st_mtime_ns) for p in Path(out).rglob("*") if p.is_file()}


def test_a_finished_run_is_left_alone(capsys):
    fastfedpg.run(CONFIG, "out")
    before = contents()
    assert command("resume", "out") == 0
    assert "out: the run has finished; its picture was missing: out/curve.png" in capsys.readouterr().out
    drawn = contents()
    assert {name: drawn[name] for name in before if name != "out/.written"} == {
        name: what for name, what in before.items() if name != "out/.written"
    }, "its list alone has two lines more"
    before = drawn
    assert command("resume", "out") == 0
    assert "out: the run has finished; there is nothing to do" in capsys.readouterr().out
    assert contents() == before


def test_a_diverged_run_would_diverge_again(capsys):
    """A first step of 1e308 is beyond float64; the checkpoint would be of a round before."""
    config = Config("compromise", eta=1e308, rounds=4, checkpoint_rounds=1)
    with pytest.raises(Diverged):
        fastfedpg.run(config, "out")
    before = contents()
    assert command("resume", "out") == 2
    said = capsys.readouterr().err
    assert said == "fastfedpg: out: the run diverged, and would again; start a new one, with a smaller eta\n"
    assert contents() == before


@pytest.mark.parametrize("there", ["nothing", "a file", "an empty folder", "another folder"])
def test_where_there_is_no_run(there, capsys):
    if there == "a file":
        Path("out").write_text("not a folder")
    elif there != "nothing":
        Path("out").mkdir()
    if there == "another folder":
        Path("out/thesis.tex").write_text("years of work")
    before = sorted(Path().rglob("*"))
    assert command("resume", "out") == 2
    assert capsys.readouterr().err == "fastfedpg: out: no run to go on with: there is no config.toml in it\n"
    assert sorted(Path().rglob("*")) == before


def test_a_configuration_that_makes_no_sense_is_said_and_nothing_touched(capsys):
    out = killed()
    edit(out / "config.toml", "eta = 0.5", "eta = -0.5")
    before = contents()
    assert command("resume", out) == 2
    assert "eta = -0.5; a step size must be positive" in capsys.readouterr().err
    assert {k: v for k, v in contents().items() if files.LOCK not in k} == before


def test_a_run_that_was_killed_before_its_first_checkpoint_starts_again(never_stopped, capsys):
    out = killed(at=1)
    assert rounds_kept(out) == []
    assert command("resume", out) == 0
    said = capsys.readouterr().err
    assert "note: from the beginning" in said
    assert "no checkpoint can be used" not in said
    assert numbers(out) == never_stopped


def test_a_run_that_failed_can_go_on(never_stopped, monkeypatch, capsys):
    """Whatever it was that ended it, where it stood was put away."""

    def report(done: int, record=None) -> None:
        if done == 6:
            raise MemoryError("all of it")

    with pytest.raises(MemoryError):
        fastfedpg.run(replace(CONFIG, checkpoint_rounds=3), "out", report=report)
    assert state("out") == "failed"
    assert command("resume", "out") == 0
    assert "note: from round 6 of 11" in capsys.readouterr().err
    assert numbers("out") == never_stopped


def test_two_that_begin_at_once_leave_each_other_alone(monkeypatch):
    """The second one looks, and sees no folder, a moment before the first one makes it."""
    real = Path.mkdir

    def late(path, *args, **more):
        monkeypatch.setattr(Path, "mkdir", real)
        first.__enter__()
        return real(path, *args, **more)

    first, second = run.begin(CONFIG, Path("out")), run.begin(CONFIG, Path("out"))
    monkeypatch.setattr(Path, "mkdir", late)
    with pytest.raises(InputError, match="another process is at work"):
        second.__enter__()
    assert Path("out/config.toml").exists(), "the first one's"
    first.__exit__(None, None, None)
