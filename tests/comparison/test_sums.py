"""What tuning and comparisons rest on is what was written: an edited line, or another number of rounds, is noticed."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from commands import command
from fastfedpg import Config, InputError
from fastfedpg.comparison import run_cells, tuning
from fastfedpg.experiment import plan, run_folder
from fastfedpg.files import open_regular, read_text
from stopped_runs import edit

pytestmark = pytest.mark.usefixtures("fresh_folder")

TUNED = ("compare", "--problem", "compromise", "--algorithms", "fast_fedpg", "fedavg_pg", "--rounds", "2", "--H", "2")
WORDS = (*TUNED, "--seeds", "1", "--tune", "--candidates", "6", "--tune-seeds", "1", "--out", "out")


def trials(rounds: int = 4, seeds: int = 2, **more):
    plans = {"a": plan(Config("compromise", rounds=rounds, **more))}
    return tuning.tune(plans, 1.0, 6, seeds, Path("tune.csv"), run_cells.unseen, lambda words: None)


@pytest.fixture
def tuned(monkeypatch):
    """Trials on disk; whoever tries anything else fails."""
    best = trials()
    monkeypatch.setattr(tuning, "_try", lambda *_: pytest.fail("tried again"))
    return best


def test_as_it_was_nothing_is_tried_again(tuned):
    assert trials() == tuned


@pytest.mark.parametrize("changes", [{"rounds": 5}, {"seeds": 3}, {"H": 3}, {"first_seed": 7}, {"agents": 4}])
def test_trials_of_something_else_are_not_taken(changes, tuned):
    with pytest.raises(InputError, match=r"tune\.csv: line 2 is not as it was written .tried with another number of"):
        trials(**changes)


@pytest.mark.parametrize("column", range(7))
def test_an_edited_line_is_noticed(column, tuned):
    lines = Path("tune.csv").read_text().splitlines()
    cells = lines[3].split(",")
    cells[column] = "b" if column == 0 else cells[column] + "1"
    Path("tune.csv").write_text("\n".join([*lines[:3], ",".join(cells), *lines[4:]]) + "\n")
    with pytest.raises(InputError, match=r"tune\.csv: line 4 is not as it was written .*; remove the file, and it is"):
        trials()


def test_trials_of_an_older_version_have_no_sums_and_are_taken_with_a_word(tuned):
    lines = Path("tune.csv").read_text().splitlines()
    Path("tune.csv").write_text("".join(line.rpartition(",")[0].rpartition(",")[0] + "\n" for line in lines))
    heard = []
    plans = {"a": plan(Config("compromise", rounds=4))}
    assert tuning.tune(plans, 1.0, 6, 2, Path("tune.csv"), run_cells.unseen, heard.append) == tuned
    assert "of an older version, without sums" in heard[0]


def test_what_has_no_sums_is_never_given_any(tuned):
    """Were more tried, and all of them written, it would be as if they had been looked at."""
    lines = Path("tune.csv").read_text().splitlines()[:-1]
    Path("tune.csv").write_text("".join(line.rpartition(",")[0].rpartition(",")[0] + "\n" for line in lines))
    before = Path("tune.csv").read_bytes()
    with pytest.raises(
        InputError, match=r"of another version, and it lacks eta = .*; remove the file, and it is tuned"
    ):
        trials()
    assert Path("tune.csv").read_bytes() == before


@pytest.mark.parametrize("text", ["algo\rithm,eta\n", "a" * 200_000 + "\n"])
def test_a_first_line_that_is_none(text, tuned):
    Path("tune.csv").write_text(text, newline="")
    with pytest.raises(InputError, match=r"tune\.csv: line \d+ is not as it was written"):
        trials()


def test_trials_of_another_version_are_not_taken(tuned, monkeypatch):
    monkeypatch.setattr(run_folder, "versions", lambda: "fastfedpg 9")
    with pytest.raises(InputError, match="tried with another number of rounds, other settings or another version"):
        trials()


def test_runs_that_have_ended_can_be_shown_by_another_version(capsys, monkeypatch):
    """What was tried for them stands; an edited line is noticed as before, and nothing is tried or run again."""
    assert command(*WORDS) == 0
    table = Path("out/table.csv").read_bytes()
    monkeypatch.setattr(run_folder, "versions", lambda: "fastfedpg 9")
    monkeypatch.setattr(tuning, "_try", lambda *_: pytest.fail("tried again"))
    capsys.readouterr()
    assert command("resume", "out") == 0
    assert "fast_fedpg, fedavg_pg would be tried with other settings or another version today" in unwrapped(capsys)
    assert Path("out/table.csv").read_bytes() == table
    text = Path("out/tune.csv").read_text()
    Path("out/tune.csv").write_text(text.replace(",finished,", ",finisheD,", 1))
    assert command("resume", "out") == 2
    assert "its sum is another, as of a line that was changed" in unwrapped(capsys)


def test_runs_that_have_not_ended_go_on_only_with_what_they_were_tuned_with(capsys, monkeypatch):
    assert command(*WORDS) == 0
    Path("out/fedavg_pg/summary.json").unlink()
    monkeypatch.setattr(run_folder, "versions", lambda: "fastfedpg 9")
    assert command("resume", "out") == 2
    assert "tried with another number of rounds, other settings or another version" in unwrapped(capsys)


def unwrapped(capsys):
    return " ".join(capsys.readouterr().err.split())


def test_a_comparison_whose_file_was_changed_does_not_go_on(capsys):
    assert command(*WORDS) == 0
    table = Path("out/table.csv").read_bytes()
    edit(Path("out/compare.toml"), "rounds = 2\n", "rounds = 3\n")
    assert command("resume", "out") == 2
    said = capsys.readouterr().err
    assert "out/compare.toml: not as it was written, so its runs would not be of one comparison; put it back" in said
    assert Path("out/table.csv").read_bytes() == table
    edit(Path("out/compare.toml"), "rounds = 3\n", "rounds = 2\n")
    assert command("resume", "out") == 0


def test_a_line_above_the_sum_is_noticed(capsys):
    assert command(*WORDS) == 0
    text = Path("out/compare.toml").read_text()
    Path("out/compare.toml").write_text("participants = 1\n" + text)
    assert command("resume", "out") == 2
    assert "out/compare.toml: not as it was written" in capsys.readouterr().err


def test_one_of_an_older_version_has_no_sum_and_goes_on_with_a_word(capsys):
    assert command(*WORDS) == 0
    lines = Path("out/compare.toml").read_text().splitlines(keepends=True)
    assert sum("sha256" in line for line in lines) == 1
    Path("out/compare.toml").write_text("".join(line for line in lines if "sha256" not in line))
    assert command("resume", "out") == 0
    assert "out/compare.toml: of an older version, without a sum" in capsys.readouterr().err


NAMES = ("config.toml", "summary.json", "results.npz", "metrics.csv", "final.npz", "agents.npz")
GIVEN = ("problem.npz", "theta0.npz")
"""Copies of what the configuration names."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """Two of them, made once: of a problem by its name, and of one from files."""
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        problem = plan(Config("compromise")).known
        problem.save(Path("given.npz"))
        np.savez("start.npz", theta=np.zeros((problem.S, problem.A)))
        for out, given in (("named", ["compromise"]), ("files", ["given.npz", "--theta0", "start.npz"])):
            assert command("run", "--problem", *given, "--rounds", "2", "--out", out) == 0
    return folder


@pytest.mark.parametrize("name", [*NAMES, *GIVEN])
@pytest.mark.parametrize("words", [("resume", "out"), ("runs", "."), ("compare", "out", "--out", "c"), ("film", "out")])
def test_a_pipe_in_the_place_of_a_file_holds_nobody_up(words, name, runs, capsys):
    """It would be waited for, for ever: nobody writes into it."""
    shutil.copytree(runs / ("files" if name in GIVEN else "named"), "out")
    Path("out", name).unlink()
    os.mkfifo(Path("out", name))
    assert command(*words) in (0, 2)
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("name", ["config.toml", "summary.json"])
def test_a_huge_file_takes_no_memory_and_one_run_is_not_all(name, capsys):
    """60 GB that take no room on the disk."""
    for out in ("one", "two"):
        assert command("run", "--problem", "compromise", "--rounds", "2", "--out", out) == 0
    os.truncate(f"one/{name}", 60 << 30)
    capsys.readouterr()
    assert command("runs", ".") == 0
    assert "two" in capsys.readouterr().out
    assert command("run", "--config", "one/config.toml", "--out", "three") == (2 if name == "config.toml" else 0)


def test_the_door_lets_files_in_and_nothing_else():
    os.mkfifo("pipe")
    Path("file").write_bytes(b"a\xc3\xa9\r\n")
    assert read_text(Path("file")) == "aé\r\n"
    for path, says in (("pipe", "not a file"), ("/dev/zero", "not a file"), (".", "Is a directory")):
        with pytest.raises(OSError, match=says):
            open_regular(Path(path))
