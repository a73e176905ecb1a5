"""What is refused before a comparison begins, and what goes wrong on its way."""

import errno
import os
from pathlib import Path

import pytest

from commands import command
from compared import EXACT, FLAGS, THREE, TWO, column, compare, notes, refused, resumed, table, times
from fastfedpg import Config, InputError
from fastfedpg.comparison import presented, run_cells
from fastfedpg.comparison.spec import Comparison
from fastfedpg.draw import curves
from fastfedpg.experiment import resume, run, run_index
from fastfedpg.experiment.config import Settings

pytestmark = pytest.mark.usefixtures("fresh_folder")


# Comparisons that were stopped


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("algorithms = 3", "algorithms is 3; it must be a list of names"),
        ('algorithms = ["fedavg"]', "unknown algorithm 'fedavg'"),
        ('budget = "bits"', "unknown budget 'bits'; did you mean 'bytes'?"),
        ('eta = "x"', "eta of all is 'x'; it must be a number"),
        ("tune = 1", "tune is 1; it must be true or false"),
        ("algorithm = 'fedavg_pg'", "has an algorithm, as the file of a run; a comparison has algorithms, a list"),
        ("[algorithm]\nname = 'fedavg_pg'", "compare.toml: it has an algorithm, as the file of a run"),
        ("H = 0", "H = 0; it must be at least 1"),
    ],
)
def test_wrong_files(text, why, capsys):
    Path("compare.toml").write_text(text)
    assert why in refused(capsys, "--config", "compare.toml", "--out", "out")
    assert not Path("out").exists()


@pytest.mark.parametrize("methods", [("fast_fedpg", "pavg"), ("pavg", "fast_fedpg")])
def test_it_is_said_which_method_can_not_be(methods, capsys):
    """Whichever comes first; and of what all have in common it is not said that it were one method's."""
    oracle = ("--problem", "compromise", "--oracle", "gpomdp")
    said = refused(capsys, *oracle, "--algorithms", *methods, "--out", "out")
    assert said.startswith("fastfedpg: pavg: the algorithm needs tabular, which the problem's oracle does not answer")
    same = refused(capsys, "--problem", "compromise", "--oracle", "gpomd", "--algorithms", *methods, "--out", "out")
    assert same.startswith("fastfedpg: unknown oracle 'gpomd'")
    text = f'algorithms = {[*methods]}\noracle = "gpomdp"\n[problems.one]\nproblem = "compromise"\n'
    Path("mine.toml").write_text(text)
    assert command("study", "mine.toml", "--out", "out") == 2
    assert "fastfedpg: problems.one: pavg: the algorithm needs tabular" in capsys.readouterr().err
    assert not Path("out").exists()


def test_a_folder_that_holds_something(finished, capsys):
    why = "the folder is not empty; choose another --out, or give --overwrite"
    before = times(finished)
    assert why in refused(capsys, *EXACT, *TWO, "--out", finished)
    assert why in refused(capsys, finished / "fast_fedpg", "--out", finished)
    assert times(finished) == before
    Path("foreign").mkdir()
    Path("foreign/thesis.tex").write_text("dear")
    assert why in refused(capsys, *EXACT, *TWO, "--out", "foreign")
    assert command("compare", *EXACT, *TWO, "--out", finished, "--overwrite") == 0
    assert list(table(finished)) == list(TWO[1:])
    assert not (finished / "scaffold_pg").exists(), "nothing of the earlier comparison is left"
    assert len(column(finished / "fedavg_pg", "gap")) == 1
    assert "nothing in it is replaced" in refused(capsys, *EXACT, *TWO, "--out", "foreign", "--overwrite")
    assert [p.name for p in Path("foreign").iterdir()] == ["thesis.tex"]


# What goes wrong on the way


def diverging(monkeypatch, *names):
    """These methods diverge in their first round."""
    real = run_cells.execute

    def execute(planned, cell, *rest):
        if planned.config.algorithm not in names:
            return real(planned, cell, *rest)
        (cell / "summary.json").write_text('{"state": "diverged"}')
        raise run_cells.Diverged(1, "local", 0, 3, ". Try a smaller eta.")

    monkeypatch.setattr(run_cells, "execute", execute)


def test_a_method_that_diverges_counts_as_worst(monkeypatch, capsys):
    diverging(monkeypatch, "fast_fedpg")
    out = compare(*EXACT)
    said, instead = notes(capsys)
    assert said.startswith("fast_fedpg counts as worse than all others: ")
    assert instead == "differences are to fedavg_pg instead of fast_fedpg"
    assert "Try a smaller eta" in said
    assert list(table(out)) == ["fast_fedpg", "fedavg_pg", "scaffold_pg"]
    assert [row["verdict"] for row in table(out).values()][:2] == ["worse", ""]
    assert table(out)["fast_fedpg"]["lost"] == "1"
    assert table(out)["scaffold_pg"]["difference"], "to the first that is left"
    monkeypatch.setattr(run_cells, "execute", None)
    assert command("resume", out) == 0, "and it is not tried again"
    assert notes(capsys) == ["fast_fedpg counts as worse than all others: it diverged", instead]


def test_all_diverge(monkeypatch, capsys):
    diverging(monkeypatch, *TWO)
    said = refused(capsys, *EXACT, *TWO, "--out", "out")
    assert "out: every method diverged; try a smaller eta, or --tune" in said


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EROFS])
def test_a_disk_that_is_full_or_read_only_in_the_middle(error, original, monkeypatch, capsys):
    """The second cell can't write its metrics: what was kept is said, with its place, and a resume goes on."""
    real = os.replace

    def fail(a, b, *rest, **more):
        if Path(b).name == "metrics.csv" and Path(b).parent.name == "fedavg_pg":
            raise OSError(error, os.strerror(error))
        return real(a, b, *rest, **more)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", fail)
        assert command("compare", *FLAGS, "--out", "out") == 1
    said = capsys.readouterr().err.splitlines()[-1]
    assert os.strerror(error) in said
    assert "kept in out: " in said
    assert "nothing" not in said
    assert "fast_fedpg" in said, "the cell that has finished is there"
    assert said.endswith("fastfedpg resume out goes on")
    resumed(original, capsys)


def test_a_full_disk_under_a_comparison_of_runs(finished, monkeypatch, capsys):
    """There is nothing to go on with: the runs are where they were."""

    real = presented.write_text

    def fail(path, text):
        if path.name == "table.csv":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(path, text)

    monkeypatch.setattr(presented, "write_text", fail)
    assert command("compare", finished / "fast_fedpg", "--out", "out") == 1
    said = capsys.readouterr().err
    assert "No space left on device" in said
    assert "resume out" not in said


def test_a_folder_that_can_not_be_made(monkeypatch, capsys):
    monkeypatch.setattr(os, "access", lambda *args: False)
    assert "no permission to write" in refused(capsys, *EXACT, *TWO, "--out", "out")


def test_no_figures_without_matplotlib(finished, monkeypatch, capsys):
    def missing(*args):
        raise InputError("matplotlib is not installed")

    monkeypatch.setattr(curves, "curves", missing)
    assert command("resume", finished) == 0
    assert notes(capsys)[-1] == "no figures: matplotlib is not installed"
    assert list(table(finished)) == list(THREE)


def test_overwriting_leaves_one_identity(tmp_path):
    """A run over a comparison is a run, and a comparison over a run a comparison."""
    config = Config(problem="compromise", rounds=2)
    settings = Settings(problem="compromise", rounds=2, seeds=1)
    run(config, tmp_path / "out")
    run_cells.compare(
        Comparison(settings, TWO[1:], eta={"all": 0.05}), tmp_path / "out", overwrite=True, note=lambda words: None
    )
    assert {e.folder.name for e in run_index.find(tmp_path / "out")} == set(TWO[1:])
    run(config, tmp_path / "out", overwrite=True)
    assert not (tmp_path / "out" / run_cells.FILE).exists()
    assert not [p for p in (tmp_path / "out").iterdir() if p.is_dir()], "nor its cells"


def test_python_resume_does_not_repeat_what_has_finished(tmp_path):
    run(Config(problem="compromise", rounds=2), tmp_path / "out")
    with pytest.raises(InputError, match="has finished; there is nothing to go on with"):
        resume(tmp_path / "out")


def test_estimates_and_steps_are_no_common_budget(capsys):
    """1,200 estimates of one method would be compared with 3,520 environment steps of another."""
    Path("c.toml").write_text(
        'problem = "compromise"\nrounds = 2\nseeds = 1\n[compare.exact]\nalgorithm = "fast_fedpg"\n'
        '[compare.noisy]\nalgorithm = "fast_fedpg"\noracle = { name = "gpomdp", B = 2, K = 3 }\n'
    )
    assert command("compare", "--config", "c.toml", "--out", "out") == 2
    said = capsys.readouterr().err
    assert "exact in gradient estimates and noisy in environment steps" in said
    assert "take --budget rounds" in said
    assert not Path("out").exists()
