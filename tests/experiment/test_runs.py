"""`fastfedpg runs`: every run folder with its problem, algorithm, gap and state; filtered and sorted."""

import json
import os
from pathlib import Path

import pytest

from commands import command
from fastfedpg import Config, cli, files
from fastfedpg.experiment import checkpoints, run_index


@pytest.fixture(autouse=True)
def _fresh_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")


def a_run(name: str, state: str | None = "finished", gap: float | None = 0.5, done: int = 100, **settings) -> Path:
    """A folder with the small files of a run; without a state it was killed."""
    folder = Path("runs") / name
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(Config(**{"problem": "compromise", **settings}).to_toml())
    if state:
        said = {"state": state, "rounds_done": done, "final": {"gap": {"mean": gap}}}
        (folder / "summary.json").write_text(json.dumps(said))
    return folder


def listed(capsys, *words) -> tuple[list[list[str]], list[str]]:
    """The cells of every row, and the lines below the rows."""
    assert command("runs", *words) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    lines = captured.out.splitlines()
    heads = ["problem", "algorithm", "eta", "seeds", "rounds", "gap", "state", "last change", "folder"]
    if lines and lines[0].startswith("problem"):
        at = [lines[0].index(head) for head in ("problem", "algorithm", "state", "last change", "folder")]
        assert [head for head in heads if head in lines[0]] == heads
        rows = [line for line in lines[1:] if "runs/" in line and " below " not in line]
        cut = lambda line: [line[a:b].strip() for a, b in zip(at, [*at[1:], None], strict=True)]
        return [cut(row) for row in rows], lines[1 + len(rows) :]
    return [], lines


def names(capsys, *words) -> list[str]:
    return [row[-1].removeprefix("runs/") for row in listed(capsys, *words)[0]]


def test_problem_algorithm_gap_and_state(capsys):
    a_run("a", eta=0.25, seeds=3)
    a_run("b", "interrupted", 0.125, 40, algorithm="scaffold_pg", problem="compromise-grid")
    rows, below = listed(capsys)
    assert [row[0] for row in rows] == ["compromise", "compromise-grid"]
    assert rows[0][1].split() == ["fast_fedpg", "0.25", "3", "100", "0.5"]
    assert rows[1][1].split() == ["scaffold_pg", "0.1", "1", "40", "of", "100", "0.125"]
    assert [row[2] for row in rows] == ["finished", "interrupted"]
    assert [row[4] for row in rows] == ["runs/a", "runs/b"]
    assert below == ["2 runs below runs", "fastfedpg resume FOLDER goes on with one that was interrupted"]


def test_every_state(capsys):
    for state in ("finished", "interrupted", "failed", "diverged"):
        a_run(state, state)
    a_run("killed", None)
    with files.hold(a_run("running", None)):
        found = {row[-1].removeprefix("runs/"): row[2] for row in listed(capsys)[0]}
        assert names(capsys, "--state", "running") == ["running"]
    assert found == {
        "finished": "finished", "interrupted": "interrupted", "failed": "failed", "diverged": "failed: diverged",
        "killed": "interrupted", "running": "running",
    }  # fmt: skip
    assert names(capsys, "--state", "interrupted") == ["interrupted", "killed", "running"], "the lock is let go of"
    assert names(capsys, "--state", "failed") == ["diverged", "failed"]
    assert names(capsys, "--state", "finished") == ["finished"]


def test_a_real_run(capsys):
    """One that finished, and one that was killed: how far it came is in its checkpoint."""
    words = ("--problem", "compromise", "--H", 2, "--eta", 0.5, "--algorithm", "centralised_pg", "--out", "runs/real")
    assert command("run", *words, "--rounds", 4) == 0
    gap = json.loads(Path("runs/real/summary.json").read_text())["final"]["gap"]["mean"]
    capsys.readouterr()
    ((*_, cells, state, _, folder),) = listed(capsys)[0]
    assert cells.split() == ["centralised_pg", "0.5", "1", "4", f"{gap:.4g}"]
    assert (state, folder) == ("finished", "runs/real")


def test_a_killed_run_is_known_from_its_checkpoint(monkeypatch):
    folder = a_run("killed", None)
    monkeypatch.setattr(checkpoints, "present", lambda f: [folder / "b", folder / "a"])
    (folder / "b").mkdir()

    def about(path):
        if path.name == "b":
            raise checkpoints.UnusableCheckpoint("damaged")
        return {"round": 7, "gap": 0.25}

    monkeypatch.setattr(checkpoints, "about", about)
    found = run_index.entry(folder)
    assert (found.state, found.done, found.gap) == ("interrupted", 7, 0.25)


def test_filters(capsys):
    a_run("a", problem="compromise", algorithm="fast_fedpg")
    a_run("b", problem="compromise-grid", algorithm="fedavg_pg")
    a_run("c", problem="compromise-grid", algorithm="fast_fedpg", state="failed")
    a_run("d", problem="random", algorithm="scaffold_pg")
    assert names(capsys, "--problem", "compromise") == ["a"]
    assert names(capsys, "--problem", "compromise*") == ["a", "b", "c"]
    assert names(capsys, "--algorithm", "f*_*pg") == ["a", "b", "c"]
    assert names(capsys, "--algorithm", "????????_pg") == ["d"]
    assert names(capsys, "--problem", "*grid", "--algorithm", "fast*", "--state", "failed") == ["c"]
    rows, below = listed(capsys, "--problem", "*grid")
    assert len(rows) == 2
    assert below == ["2 of 4 runs below runs"]
    assert listed(capsys, "--problem", "taxi") == ([], ["0 of 4 runs below runs"])
    assert command("runs", "--state", "lost") == 2


def test_sorting(capsys):
    for k, (name, gap, state) in enumerate(
        [("a", 0.5, "failed"), ("b", None, "finished"), ("c", 1e-9, "interrupted"), ("d", 0.25, "finished")]
    ):
        folder = a_run(name, state, gap, problem=("random", "taxi", "compromise", "mazes")[k])
        os.utime(folder, (1e9 + 100 * (k % 3), 1e9 + 100 * (k % 3) + k))
    assert names(capsys) == ["a", "b", "c", "d"]
    assert names(capsys, "--reverse") == ["d", "c", "b", "a"]
    assert names(capsys, "--sort", "gap") == ["c", "d", "a", "b"], "what has none comes last"
    assert names(capsys, "--sort", "time") == ["c", "b", "d", "a"], "the latest first"
    assert names(capsys, "--sort", "time", "--reverse") == ["a", "d", "b", "c"]
    assert names(capsys, "--sort", "state") == ["b", "d", "c", "a"]
    assert names(capsys, "--sort", "problem") == ["c", "d", "a", "b"]
    assert names(capsys, "--sort", "algorithm") == ["a", "b", "c", "d"]


def test_folders_inside_folders(capsys):
    a_run("study/compare/fast_fedpg")
    a_run("study/compare/fedavg_pg")
    a_run("study/compare/fedavg_pg/inside")
    Path("runs/empty").mkdir()
    assert names(capsys) == ["study/compare/fast_fedpg", "study/compare/fedavg_pg"]
    assert names(capsys, "runs/study/compare/fedavg_pg") == ["study/compare/fedavg_pg"], "a run itself"


@pytest.mark.parametrize("text", ["= 3", "eta = 'x'", "\x00", "unheard_of = 3"])
def test_a_damaged_configuration(text, capsys):
    a_run("bad")
    a_run("good")
    Path("runs/bad/config.toml").write_text(text)
    rows, below = listed(capsys)
    assert [(row[0], row[2], row[-1]) for row in rows] == [
        ("?", "failed: config.toml can't be read", "runs/bad"),
        ("compromise", "finished", "runs/good"),
    ]
    assert below == ["2 runs below runs"]
    for key in ("gap", "state", "time", "problem"):
        assert len(names(capsys, "--sort", key)) == 2


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "3", "null", '{"state": 3}', '{"state": "finished"}',
        '{"state": "finished", "rounds_done": "x", "final": {}}',
        '{"state": "finished", "rounds_done": null, "final": {}}',
        '{"state": "finished", "rounds_done": 3, "final": []}',
        '{"state": "finished", "rounds_done": 3, "final": {"gap": {"mean": "x"}}}',
        '{"state": "lost", "rounds_done": 3, "final": {"gap": {"mean": 1.0}}}',
    ],
)  # fmt: skip
def test_a_damaged_summary(text, capsys):
    a_run("bad")
    a_run("good")
    Path("runs/bad/summary.json").write_text(text)
    for key in ("folder", "gap", "state"):
        assert {*names(capsys, "--sort", key)} == {"bad", "good"}


def test_a_gap_that_is_not_defined_is_empty(capsys):
    a_run("a", gap=None)
    ((*_, cells, state, _, _),) = listed(capsys)[0]
    assert cells.split() == ["fast_fedpg", "0.1", "1", "100"]
    assert state == "finished"


def test_folders_that_are_not_there(capsys):
    assert command("runs") == 2
    assert capsys.readouterr().err == "fastfedpg: runs: no such folder\n"
    Path("file").touch()
    assert command("runs", "file") == 2
    assert capsys.readouterr().err == "fastfedpg: file: not a folder\n"
    Path("runs").mkdir()
    assert listed(capsys) == ([], ["0 runs below runs"])


def test_one_run_is_one_run(capsys):
    a_run("a")
    assert listed(capsys)[1] == ["1 run below runs"]


def test_a_narrow_terminal_cuts_nothing(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "20")
    a_run("a[b] with a long name")
    assert command("runs") == 0
    assert "runs/a[b] with a long name" in capsys.readouterr().out


@pytest.mark.parametrize(
    "text", ['{"state": "finished", "rounds_done": 1e999, "final": {}}', "[" * 100_000, '{"state": "finished"}']
)
def test_one_damaged_run_does_not_hide_the_others(text, capsys):
    for name in ("good", "bad"):
        assert cli.main(["run", "--problem", "compromise", "--rounds", "1", "--out", name]) == 0
    Path("bad/summary.json").write_text(text)
    capsys.readouterr()
    assert cli.main(["runs", "."]) == 0
    said = capsys.readouterr().out
    assert "good" in said
    assert "bad" in said


def test_a_killed_run_shows_its_newest_checkpoint_although_an_older_summary_stands():
    assert cli.main(["run", "--problem", "compromise", "--rounds", "4", "--out", "out"]) == 0
    summary = json.loads(Path("out/summary.json").read_text())
    Path("out/summary.json").write_text(json.dumps({**summary, "state": "interrupted", "rounds_done": 1}))
    for name, text in (("000000003", "format = 1\nround = 3\ngap = 0.25\n"), ("000000009", "round = inf\n")):
        Path("out/checkpoints", name).mkdir(parents=True)
        Path("out/checkpoints", name, "checkpoint.toml").write_text(text)
    found = run_index.entry(Path("out"))
    assert (found.state, found.done, found.gap) == ("interrupted", 3, 0.25)
