"""A study is its comparisons: run, stopped, gone on with and shown together; and what is refused before it begins."""

import csv
import errno
import os
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import trim_mean

import fastfedpg
from commands import command
from compared import numbers, times, without_seconds
from fastfedpg import files, problems
from fastfedpg.comparison import run_cells, run_study, study_spec
from fastfedpg.draw import curves, profiles
from fastfedpg.experiment import own_files, run_folder
from fastfedpg.statistics import fewest_seeds
from fastfedpg.tables import ALGORITHMS

pytestmark = pytest.mark.usefixtures("fresh_folder")

# Two comparisons that compile to one program, that of other tests of this room, and one without noise.
COMMON = """
algorithms = ["fast_fedpg", "fedavg_pg"]
seeds = 6
rounds = 6
H = 2
problem = "compromise"
eta = 0.5
checkpoint_rounds = 2
"""
ONE = '[problems.one]\noracle = "gpomdp"\nB = 2\nK = 3\n'
TWO = '[problems.two]\noracle = "gpomdp"\nB = 2\nK = 3\nfirst_seed = 50\n'
STILL = "[problems.still]\nrounds = 4\n"
TEXT = COMMON + ONE + TWO + STILL
MEMBERS = ("one", "two", "still")
METHODS = ("fast_fedpg", "fedavg_pg")

STUDIED = ("suite", False), ("rivals", False), ("rivals", True)
LEFT_OUT = {"centralised_pg", "independent_pg", "personal_heads", "pavg", "qavg", "fednpg"}
"""A method without local steps, policies of one's own, and those for tables that each agent knows (docs/rivals.md)."""


@pytest.fixture(autouse=True)
def _undrawn(monkeypatch, request):
    if "pictures" not in request.fixturenames:
        monkeypatch.setattr(profiles, "profiles", lambda *args: [])


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A study that was never interrupted; not to be written to."""
    folder = tmp_path_factory.mktemp("study")
    (folder / "my.toml").write_text(TEXT)
    with pytest.MonkeyPatch.context() as patch:
        for module, names in ((curves, ("curves", "policies", "agents")), (profiles, ("profiles",))):
            for name in names:
                patch.setattr(module, name, lambda *args, **more: [])
        run_study.study(study_spec.read(folder / "my.toml"), folder / "out")
    return folder / "out"


@pytest.fixture
def copied(whole) -> Path:
    return Path(shutil.copytree(whole, "out"))


def write(text: str = TEXT, name: str = "my.toml") -> str:
    Path(name).write_text(text)
    return name


def study(*words) -> int:
    return command("study", write(), "--out", "out", *words)


def table(name: str, folder: Path | str = "out") -> list[dict[str, str]]:
    with (Path(folder) / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def same(out: Path | str, whole: Path) -> None:
    """All numbers are those of a study that was never stopped."""
    for label in MEMBERS:
        assert numbers(Path(out) / label) == numbers(whole / label)
        assert without_seconds(Path(out) / label) == without_seconds(whole / label)
    for name in ("study.toml", "study.csv", "scores.csv"):
        assert (Path(out) / name).read_bytes() == (whole / name).read_bytes()


@contextmanager
def stopping(monkeypatch, stop, title: str, at: int):
    """Something happens in the middle of one cell."""
    from fastfedpg.experiment import progress

    real = progress.progress

    @contextmanager
    def shown(console, name, rounds):
        with real(console, name, rounds) as report:

            def heard(done, record=None):
                report(done, record)
                if name == title and done == at and record is not None:
                    stop()

            yield heard

    with monkeypatch.context() as patch:
        patch.setattr(progress, "progress", shown)
        yield


def test_a_study_is_its_comparisons(whole):
    """Each in a folder of its own, number for number what `fastfedpg compare` makes of that folder's file."""
    assert {path.name for path in whole.iterdir()} == {".written", *MEMBERS, "study.toml", "study.csv", "scores.csv"}
    assert command("compare", "--config", whole / "two" / "compare.toml", "--out", "alone") == 0
    assert numbers("alone") == numbers(whole / "two")
    assert without_seconds("alone") == without_seconds(whole / "two")


def test_scores_are_those_of_the_runs(whole):
    """(J_0 - J)/(J_0 - J*) of each seed; without noise all seeds are alike, and one counts."""
    rows = table("scores.csv", whole)
    assert [sum(row["problem"] == label for row in rows) for label in MEMBERS] == [12, 12, 2]
    for row in rows:
        found = table("metrics.csv", whole / row["problem"] / row["label"])
        gaps = [float(x["gap"]) for x in found if x["seed"] == row["seed"]]
        assert float(row["score"]) == pytest.approx(1 - gaps[-1] / gaps[0], rel=1e-12)
    every = [[float(r["score"]) for r in rows if (r["problem"], r["label"]) == (p, "fedavg_pg")] for p in MEMBERS]
    assert len(every[2]) == 1
    alike = [*every[0], *every[1], *every[2] * 6]  # so that problems count alike
    row = next(r for r in table("study.csv", whole) if r["label"] == "fedavg_pg")
    assert float(row["score"]) == pytest.approx(trim_mean(alike * 2, 0.25))  # 36 of them: a quarter is nine
    assert float(row["score_low"]) < float(row["score"]) < float(row["score_high"])


def test_ctrl_c_in_the_middle_of_the_second_comparison(whole, monkeypatch, capsys):
    with stopping(monkeypatch, lambda: os.kill(os.getpid(), signal.SIGINT), "2 of 3, two: fedavg_pg", 4):
        assert study() == 130
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("fastfedpg: interrupted after round ")
    assert said.endswith("fastfedpg resume out goes on")
    assert not Path("out/study.csv").exists()
    assert Path("out/one/table.csv").exists()
    assert not Path("out/two/table.csv").exists()
    assert Path("out/still/compare.toml").exists(), "every comparison is described before the first is run"
    assert command("runs", "out") == 0
    assert (
        "study out: interrupted, 1 of 3 comparisons are there; fastfedpg resume out goes on" in capsys.readouterr().out
    )
    before = times(Path("out/one/fast_fedpg"))
    assert command("resume", "out") == 0
    said = capsys.readouterr()
    assert times(Path("out/one/fast_fedpg")) == before
    assert "1 of 3, one" not in said.err, "which has come to its end"
    assert "2 of 3, two" in said.err
    same("out", whole)
    assert command("runs", "out") == 0
    assert "study out: finished, 3 of 3 comparisons are there\n" in capsys.readouterr().out


def test_a_request_to_end_while_a_run_s_files_are_written_is_heard_when_they_are(whole, monkeypatch, capsys):
    """It was lost there: the comparison went on with its next method, and the study to its end."""
    real = run_folder.write_summary

    def asked_to_end(out, summary):
        if out.parts[-2:] == ("one", "fast_fedpg"):
            signal.raise_signal(signal.SIGTERM)
        real(out, summary)

    before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # as the console script has it
    try:
        with monkeypatch.context() as patch:
            patch.setattr(run_folder, "write_summary", asked_to_end)
            assert study() == 130
    finally:
        signal.signal(signal.SIGTERM, before)
    assert "interrupted; kept in out: 0 of 3 comparisons; fastfedpg resume out goes on" in capsys.readouterr().err
    assert run_folder.state(Path("out/one/fast_fedpg")) == "finished"
    assert not Path("out/one/fedavg_pg").exists()
    assert command("resume", "out") == 0
    same("out", whole)


@pytest.mark.parametrize("where", ["_describe", "_finish"])
def test_ctrl_c_between_comparisons(where, whole, monkeypatch, capsys):
    """While the second is described, before any is run, and while the second begins to run."""
    real, calls = getattr(run_cells, where), []

    def stop(*args, **more):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*args, **more)

    with monkeypatch.context() as patch:
        patch.setattr(run_cells, where, stop)
        assert study() == 130
    done = 1 if where == "_finish" else 0
    assert f"interrupted; kept in out: {done} of 3 comparisons; fastfedpg resume out goes on" in capsys.readouterr().err
    assert command("resume", "out") == 0
    same("out", whole)


@pytest.mark.parametrize(("file", "done"), [("two/fedavg_pg/results.npz", 1), ("study.csv", 3)])
@pytest.mark.long
def test_a_disk_that_is_full(file, done, whole, monkeypatch, capsys):
    """While a run of the second comparison, or the study itself, is written down: one line says so and how to go on,
    nothing half is left, and what goes on ends as if there had always been room."""
    real = os.replace

    def full(a, b, *rest, **more):
        if Path(b).resolve() == Path("out", file).resolve():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(a, b, *rest, **more)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        assert study() == 1
    said = capsys.readouterr().err
    assert "Traceback" not in said
    assert "No space left on device" in said.splitlines()[-1]
    assert said.splitlines()[-1].endswith("fastfedpg resume out goes on")
    assert not [*Path("out").rglob(f"{files.PART}*")]
    assert [label for label in MEMBERS if Path("out", label, "table.csv").exists()] == [*MEMBERS[:done]]
    assert command("resume", "out") == 0
    same("out", whole)


KILLED = """
import os, signal, sys
from contextlib import contextmanager
from fastfedpg import cli
from fastfedpg.experiment import progress
@contextmanager
def shown(console, name, rounds):
    at = ("2 of 3, two: fedavg_pg", 5)
    yield lambda done, record=None: os.kill(os.getpid(), signal.SIGKILL) if (name, done) == at else None
progress.progress = shown
cli.main(sys.argv[1:])
"""


@pytest.mark.kills
def test_sigkill_in_the_middle_of_the_second_comparison(whole, capsys):
    """In `make test`: Ctrl-C there, above, a kill of a comparison (test_stopped.py), and what a kill leaves, below."""
    words = [sys.executable, "-c", KILLED, "study", write(), "--out", "out"]
    done = subprocess.run(words, capture_output=True, timeout=300, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert not Path("out/two/fedavg_pg/summary.json").exists()
    assert Path("out/two/fedavg_pg/checkpoints/000000004").is_dir()
    before = times(Path("out/one/fast_fedpg")) | times(Path("out/two/fast_fedpg"))
    assert command("resume", "out") == 0
    assert times(Path("out/one/fast_fedpg")) | times(Path("out/two/fast_fedpg")) == before
    same("out", whole)


def test_two_processes_do_not_work_in_one_study(copied, capsys):
    """Nor in one of its comparisons: the study says whose folder it is, and goes on when it is asked again."""
    before = times(copied)
    for held, where in ((copied, "out: "), (copied / "two", "problems.two: out/two: ")):
        with files.hold(held):
            assert command("resume", copied) == 2
        assert f"{where}another process is at work in this folder" in capsys.readouterr().err
    changed = {name for name, time in times(copied).items() if before[name] != time}
    assert changed <= {"out/one/table.csv"}, "which is written when it is shown"


def test_nobody_can_begin_in_a_study_while_it_is_removed(copied, monkeypatch):
    """Neither in a comparison nor in one of its runs."""
    places, seen, real = [copied / "one", copied / "one" / "fast_fedpg"], [], own_files.remove

    def spied(out, old):
        seen.append([*map(files.is_held, places)])
        real(out, old)
        seen.append([*map(files.is_held, places)])

    monkeypatch.setattr(own_files, "remove", spied)
    own_files.remove_all(copied)
    assert seen == [[True, True]] * 2
    assert not any(copied.iterdir())


def test_what_a_kill_leaves_of_a_comparison_that_had_not_begun(whole, copied):
    shutil.rmtree("out/still")
    Path("out/still").mkdir()
    Path("out/still/.part-7-compare.toml").write_text("half")
    assert command("resume", "out") == 0
    same("out", whole)


def test_nothing_is_run_or_drawn_again(copied, monkeypatch, capsys):
    monkeypatch.setattr(run_cells, "execute", None)
    monkeypatch.setattr(curves, "curves", None)
    assert command("resume", copied) == 0
    assert "score: the share of what there was to gain" in capsys.readouterr().out


def test_tables_fit_eighty_columns_and_say_what_was_found(copied, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    assert command("resume", copied) == 0
    said = capsys.readouterr().out
    upper, rest = said.split("problem by problem: the gap at the end")
    lower = rest.split("\n\n")[0]
    for line in [*upper.splitlines(), *lower.splitlines()]:
        assert len(line) <= 80
    found = {row["label"]: row for row in table("study.csv")}
    shown = next(line for line in upper.splitlines() if line.startswith("score "))
    assert shown.split()[-2:] == [f"{float(found[label]['score']):.4g}" for label in METHODS]
    for label in METHODS[1:]:
        assert sum(int(found[label][word]) for word in ("better", "worse", "equivalent", "open")) == 3
    assert "no noise on still: one value for each method" in said
    for label in MEMBERS:
        verdicts = [row["verdict"].split()[0] for row in without_seconds(Path("out") / label) if row["verdict"]]
        lines = lower.splitlines()
        at = next(k for k, line in enumerate(lines) if line.split()[:1] == [label])
        assert lines[at + 2].split()[3:] == ["open" if word == "not" else word for word in verdicts]


def test_the_best_of_each_problem_is_counted(copied):
    """The least value is the best one's; another is tied with it unless it is worse."""
    tied = {row["label"]: int(row["best_or_tied"]) for row in table("study.csv")}
    assert max(tied.values()) <= 3
    assert sum(tied.values()) >= 3
    still = {row["label"]: float(row["value"]) for row in without_seconds(Path("out/still"))}
    least = min(still.values())
    near = {label for label, x in still.items() if x / least <= 1.25}
    for label, count in tied.items():
        others = sum(_tied(label, m) for m in ("one", "two"))
        assert count == others + (label in near)


def _tied(label: str, member: str) -> bool:
    """By compare_runs' own verdict beside the best one."""
    rows = {row["label"]: row for row in without_seconds(Path("out") / member)}
    best = min(rows, key=lambda name: float(rows[name]["geometric"]))
    if label == best:
        return True
    rest = [x for x in METHODS if x != best]
    cells = [f"out/{member}/{x}" for x in (best, *rest)]
    assert command("compare", *cells, "--out", f"beside-{member}", "--overwrite") == 0
    return not next(r for r in table("table.csv", f"beside-{member}") if r["label"] == label)["verdict"].startswith(
        "worse"
    )


def test_a_method_that_diverges_on_a_problem_has_the_worst_score_there(monkeypatch, capsys):
    """The first one, on all seeds: it stays the first, and everybody else is better there."""
    real = run_cells.execute

    def execute(planned, cell, *rest):
        if cell.parts[-2:] != ("still", "fast_fedpg"):
            return real(planned, cell, *rest)
        (cell / "summary.json").write_text('{"state": "diverged"}')
        raise run_cells.Diverged(1, "local", 0, 3, ". Try a smaller eta.")

    monkeypatch.setattr(run_cells, "execute", execute)
    assert study() == 0
    row = next(r for r in table("scores.csv") if (r["problem"], r["label"]) == ("still", "fast_fedpg"))
    assert (row["score"], row["end"]) == ("-1.0", "")
    assert all(int(r["better"]) >= 1 for r in table("study.csv")[1:])
    assert "1 seed diverged: it has the score -1" in capsys.readouterr().out


def test_other_methods_and_the_smaller_form():
    quick = '[quick]\nonly = ["still", "one"]\nseeds = 2\nrounds = 3\n[quick.problems.still]\nrounds = 2\n'
    found = study_spec.read(Path(write(TEXT + quick)), True, ("fedavg_pg", "x=fast_fedpg,H=5"))
    assert found.methods == ["fedavg_pg", "x"]
    said = {label: (c.settings.seeds, c.settings.rounds) for label, c in found.comparisons.items()}
    assert said == {"one": (2, 3), "still": (2, 2)}
    assert [*said] == ["one", "still"], "in the order of the file"
    assert study_spec.read(Path("my.toml")) == study_spec.read(Path(write()))


def test_what_is_written_down_is_read_again(whole):
    assert study_spec.read(whole / "study.toml") == study_spec.read(Path(write()))
    assert command("study", whole / "study.toml", "--out", "again") == 0
    same("again", whole)


def test_a_problem_from_a_file_stands_in_its_comparison_s_folder(monkeypatch, capsys):
    """Whatever becomes of the file when the study has begun."""
    problems.compromise(mid=0.7).save(Path("mine.npz"))
    text = COMMON.replace('problem = "compromise"\n', "") + '[problems.mine]\nproblem = "mine.npz"\n'
    write(text + '[problems.other]\nproblem = "compromise"\n')
    with stopping(monkeypatch, lambda: os.kill(os.getpid(), signal.SIGINT), "1 of 2, mine: fedavg_pg", 4):
        assert command("study", "my.toml", "--out", "out") == 130
    Path("mine.npz").unlink()
    assert command("resume", "out") == 0
    assert len(table("study.csv")) == 2


# What is refused, and stays


BEST = '[problems.point]\nproblem = "point-mass"\nagents = 2\npolicy = "linear"\noracle = "gpomdp"\nB = 2\nK = 3\n'


@pytest.mark.parametrize(
    ("text", "words", "why"),
    [
        (TEXT, ("--algorithms", "fast_fedpg"), "my.toml: one method, fast_fedpg, is compared with nothing"),
        (TEXT, ("--algorithms", "fast_fedpg", "fedavg"), "problems.one: unknown algorithm 'fedavg'; did you mean"),
        (TEXT, ("--quick",), "my.toml: it has no [quick]"),
        (COMMON, (), "my.toml: no problems; give each a table of its own"),
        (ONE, (), "my.toml: problems.one names no problem; say which"),
        (TEXT + ONE, (), "my.toml: not a TOML file"),
        (TEXT + "[problems.Two]\n", (), "must differ in more than capitals"),
        (TEXT + '[problems."a/b"]\n', (), "label 'a/b' can't be a folder's name"),
        (TEXT + '[problems.bad]\nH = 0\n', (), "problems.bad: H = 0; it must be at least 1"),
        (TEXT + '[problems.bad]\nrouns = 3\n', (), "problems.bad: unknown setting 'rouns'; did you mean 'rounds'?"),
        (TEXT + '[problems.bad]\nalgorithms = ["fedavg_pg", "fast_fedpg"]\n', (), "problems.bad has methods"),
        (TEXT + "[problems.bad]\nbest = 1.0\n", (), "problems.bad: best = 1 beside J*, which is known of"),
        (TEXT + "[problems.bad]\nbest = inf\n", (), "problems.bad: best = inf; it must be a finite number"),
        (TEXT + BEST, (), "problems.point: problem 'point-mass' has no J*: say what other seeds have reached at best"),
        (TEXT + BEST + "best = 99.0\n", (), "problems.point: best = 99 is no better than J = "),
        (TEXT + "[problems.bad]\nB = 2\noracle = 'gpomdp'\n[problems.gym]\nproblem = 'gym:CartPole-v1'\n", (),
         "problems.gym: problem 'gym:CartPole-v1' is played by a policy"),
        (TEXT + "[quick.problems.none]\nrounds = 1\n", ("--quick",), "quick: unknown problem in problems 'none'"),
        (TEXT + "[quick]\nonly = ['ones']\n", ("--quick",), "my.toml: quick: unknown problem in only 'ones'; did you"),
        ("kind = 'sweet'\n" + TEXT, (), "unknown kind of study 'sweet'"),
        ("problems = 3\n" + COMMON, (), "my.toml: problems is 3; it must be a table"),
    ],
)  # fmt: skip
def test_before_anything_is_run(text, words, why, monkeypatch, capsys):
    monkeypatch.setattr(run_cells, "execute", None)
    assert command("study", write(text), "--out", "out", *words) == 2
    said = capsys.readouterr().err
    assert why in said
    assert "Traceback" not in said
    assert not Path("out").exists()


def test_a_study_that_there_is_not(capsys):
    assert command("study", "suit", "--out", "out") == 2
    assert "unknown study 'suit'; did you mean 'suite'? (known: claims, communication, heter" in capsys.readouterr().err
    assert command("study", "none.toml", "--out", "out") == 2
    assert "none.toml: No such file or directory" in capsys.readouterr().err


def test_an_edited_study_is_noticed(copied, capsys):
    path = copied / "study.toml"
    path.write_text(path.read_text().replace("rounds = 4", "rounds = 5"))
    assert command("resume", "out") == 2
    assert "out/study.toml: not as it was written" in capsys.readouterr().err


def test_another_comparison_in_the_place_of_one_is_noticed(copied, capsys):
    shutil.rmtree("out/two")
    shutil.copytree("out/one", "out/two")
    assert command("resume", "out") == 2
    assert "problems.two: out/two/compare.toml: a comparison of another configuration" in capsys.readouterr().err


SHORT = COMMON.replace("rounds = 6", "rounds = 2").replace("seeds = 6", "seeds = 1")


def test_all_that_a_study_writes_is_its_own_and_nothing_else_is_replaced(copied, capsys):
    """Another study takes its place; what somebody keeps beside it stays, and what is in the way is refused by name."""
    assert {*own_files.listed(copied)} == {p for p in copied.rglob("*") if p.is_file()}
    for name in ("notes.txt", "mine/thesis.tex", "one/notes.txt", "one/fast_fedpg/notes.txt"):
        Path("out", name).parent.mkdir(exist_ok=True)
        Path("out", name).write_text("years of work")
    write(SHORT + "[problems.new]\n[problems.one]\n")
    before = times(copied)
    assert command("study", "my.toml", "--out", "out") == 2
    assert "the folder is not empty" in capsys.readouterr().err
    assert command("study", "my.toml", "--out", "out", "--overwrite") == 2
    assert "out/one/fast_fedpg/notes.txt: in the way" in capsys.readouterr().err
    assert times(copied) == before
    write(SHORT + "[problems.new]\n")
    assert command("study", "my.toml", "--out", "out", "--overwrite") == 0
    kept = {p.relative_to("out").as_posix() for p in Path("out").rglob("*") if p.name in ("notes.txt", "thesis.tex")}
    assert kept == {"notes.txt", "mine/thesis.tex", "one/notes.txt", "one/fast_fedpg/notes.txt"}
    assert {p.name for p in Path("out/one").iterdir()} == {"fast_fedpg", "notes.txt"}
    assert {p.name for p in Path("out").iterdir()} == {
        ".written", "mine", "notes.txt", "one", "new", "study.toml", "study.csv", "scores.csv",
    }  # fmt: skip


def test_a_run_in_the_place_of_a_study(copied, capsys):
    fastfedpg.run(fastfedpg.Config("compromise", H=2, rounds=2), "out", overwrite=True)
    assert not [p for p in Path("out").iterdir() if p.is_dir()]
    assert not Path("out/study.toml").exists()


def test_a_study_that_another_process_works_in_is_not_replaced(copied, capsys):
    before = times(copied)
    with files.hold(copied / "one" / "fedavg_pg"):
        assert study("--overwrite") == 2
        assert "out/one/fedavg_pg: another process is at work in this folder" in capsys.readouterr().err
        assert {k: v for k, v in times(copied).items() if not k.endswith(".lock")} == before


def test_somebody_s_folder_is_not_a_study_s(capsys):
    Path("out").mkdir()
    Path("out/study.toml").write_text(TEXT)
    assert study("--overwrite") == 2
    assert "nothing in it is replaced" in capsys.readouterr().err
    assert Path("out/study.toml").read_text() == TEXT


def test_a_study_is_no_run(copied, capsys):
    assert command("compare", "out", "--out", "new") == 2
    assert "it is a study, which fastfedpg resume out shows" in capsys.readouterr().err


def test_the_suite_of_the_package_can_be_read_and_is_as_the_page_says():
    """At least nine problems of all kinds, every method tuned on four seeds that are not reported, from 60,000 on."""
    found = study_spec.read(study_spec.find("suite"))
    assert len(found.comparisons) >= 9
    assert {"fast_fedpg", "heavy_anchor", "adaptive_anchor", "minibatch_pg", "fedavg_pg", "scaffold_pg", "rc_pg"} <= {
        *found.methods
    }
    for label, comparison in found.comparisons.items():
        exact = comparison.settings.oracle == "exact"
        assert (comparison.tune, comparison.candidates) == (True, 7)
        assert (comparison.settings.seeds, comparison.tune_seeds) == ((1, 1) if exact else (12, 4))
        assert exact or comparison.settings.seeds > fewest_seeds(len(found.methods) - 1)
        assert comparison.settings.first_seed == 60_000
        assert (label in found.best) == (comparison.settings.policy is not None)
    smaller = study_spec.read(study_spec.find("suite"), quick=True)
    assert {"compromise", "lqr", "point-mass"} <= {*smaller.comparisons} <= {*found.comparisons}
    for label, comparison in smaller.comparisons.items():
        assert comparison.settings.rounds <= found.comparisons[label].settings.rounds
    assert np.isfinite([*found.best.values()]).all()


def test_the_study_of_the_rivals_has_the_methods_that_the_suite_has_not():
    """On problems of the suite, tuned likewise, on other seeds; `--quick` looks at none that count."""
    suite, found, quick = (study_spec.read(study_spec.find(n), q) for n, q in STUDIED)
    assert found.methods[:3] == ["fast_fedpg", "adaptive_anchor", "scaffold_pg"]
    assert not {*found.methods[3:]} & {*suite.methods}
    assert {*ALGORITHMS} - {*suite.methods, *found.methods} == LEFT_OUT
    for label, comparison in found.comparisons.items():
        assert comparison.settings.problem == suite.comparisons[label].settings.problem
        assert (comparison.settings.seeds, comparison.settings.first_seed) == (12, 70_000)
        assert comparison.settings.seeds > fewest_seeds(len(found.methods) - 1)
        assert (comparison.tune, comparison.candidates, comparison.tune_seeds) == (True, 7, 4)
        steps = comparison.config("fedlin_pg").get("steps")
        assert np.mean(steps) == comparison.config("fedlin_pg").get("H")
        assert len({*steps}) > 1
    for comparison in quick.comparisons.values():
        assert comparison.settings.first_seed + comparison.settings.seeds + comparison.tune_seeds < 60_000


def test_what_only_the_suites_own_methods_have_is_not_tuned_for_others():
    of = lambda *methods: study_spec.read(study_spec.find("suite"), algorithms=methods).comparisons["mazes"].tune_over
    assert of("fast_fedpg", "fedavg_pg") == {}
    assert of("fast_fedpg", "heavy_anchor") == {"q": (1, 3, 10)}
