"""A comparison that was stopped goes on where it was, and ends in the same bytes."""

import json
import math
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from commands import command
from compared import (
    COMPARISON,
    EXACT,
    FLAGS,
    THREE,
    TWO,
    compare,
    edit,
    fake_try,
    numbers,
    resumed,
    table,
    times,
    tried,
    without_seconds,
)
from fastfedpg import files
from fastfedpg.comparison import run_cells, tuning
from fastfedpg.comparison.spec import from_file

pytestmark = pytest.mark.usefixtures("fresh_folder")


@contextmanager
def stopping(monkeypatch, stop, title="fedavg_pg", at=4):
    """Something happens in the middle of one cell."""
    from fastfedpg.cli import compare

    real = compare.progress

    @contextmanager
    def shown(console, name, rounds):
        with real(console, name, rounds) as report:

            def heard(done, record=None):
                report(done, record)
                if name.startswith(title) and done == at and record is not None:
                    stop()

            yield heard

    with monkeypatch.context() as patch:
        patch.setattr(compare, "progress", shown)
        yield


def test_ctrl_c_and_resume(original, monkeypatch, capsys):
    with stopping(monkeypatch, lambda: os.kill(os.getpid(), signal.SIGINT)):
        assert command("compare", *FLAGS, "--out", "out") == 130
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("fastfedpg: interrupted after round ")
    assert said.endswith("fastfedpg resume out goes on")
    assert json.loads(Path("out/fedavg_pg/summary.json").read_text())["state"] == "interrupted"
    assert not Path("out/scaffold_pg").exists()
    resumed(original, capsys)


def test_ctrl_c_while_tuning(monkeypatch, capsys):
    """What was tried until then is kept, and it must not say that nothing was done."""
    calls = []
    fake_try(monkeypatch, lambda name, e: abs(math.log2(e) - 0.25), calls)
    kept = tuning._try

    def stop(name, *rest):
        if name == "fedavg_pg":
            raise KeyboardInterrupt
        return kept(name, *rest)

    monkeypatch.setattr(tuning, "_try", stop)
    assert command("compare", *EXACT, *TWO, "--tune", "--out", "out") == 130
    said = capsys.readouterr().err
    assert "before anything was done" not in said
    assert said.splitlines()[-1].endswith("fastfedpg resume out goes on")
    assert {*tried()} == {"fast_fedpg"}


KILLED = """
import os, signal, sys
from contextlib import contextmanager
from fastfedpg import cli
from fastfedpg.cli import compare
@contextmanager
def shown(console, name, rounds):
    yield lambda done, record=None: os.kill(os.getpid(), signal.SIGKILL) if (name, done) == ("fedavg_pg", 5) else None
compare.progress = shown
cli.main(sys.argv[1:])
"""


def test_sigkill_and_resume(original, capsys):
    words = [sys.executable, "-c", KILLED, "compare", *map(str, FLAGS), "--out", "out"]
    done = subprocess.run(words, capture_output=True, timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert not Path("out/fedavg_pg/summary.json").exists()
    assert Path("out/fedavg_pg/checkpoints/000000004").is_dir()
    resumed(original, capsys)


def test_nothing_is_run_again(finished, monkeypatch, capsys):
    monkeypatch.setattr(run_cells, "execute", None)
    before = times(finished / "fast_fedpg") | times(finished / "fedavg_pg") | times(finished / "scaffold_pg")
    (finished / "table.csv").unlink()
    assert command("resume", finished) == 0
    assert before == {k: v for k, v in times(finished).items() if k in before}
    assert list(table(finished)) == list(THREE)


def test_a_cell_of_another_configuration(finished, capsys):
    edit(finished / "fedavg_pg", eta=0.25)
    assert command("resume", finished) == 2
    assert "a run of another configuration (eta is 0.25 there and 0.5 here)" in capsys.readouterr().err


def test_two_processes_do_not_work_in_one_folder(finished, capsys):
    with files.hold(finished):
        assert command("resume", finished) == 2
    assert "another process is at work in this folder" in capsys.readouterr().err


def test_a_comparison_repeats_from_its_file(original):
    assert from_file(original / "compare.toml") == COMPARISON
    text = (original / "compare.toml").read_text()
    assert "fastfedpg compare --config THIS_FILE --out ANOTHER_FOLDER" in text
    out = compare("--config", original / "compare.toml")
    assert numbers(out) == numbers(original)
    assert without_seconds(out) == without_seconds(original)
