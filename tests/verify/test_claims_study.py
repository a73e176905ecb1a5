"""`fastfedpg study claims` as a command: its parts are kept and not repeated, and its table, file and exit code."""

import csv
import shutil

import numpy as np

from commands import command
from fastfedpg.verify import kept_parts
from fastfedpg.verify.others import claims_study, statements
from fastfedpg.verify.verdict import Estimate, Measured, Row, claim, decided, not_applicable

NOISY = Row(
    "floor in N", "slope", -1.0, -0.8, Estimate(np.array([0.2, 0.2]), np.array([1e-3, 1e-3]), 31), bound=False,
    describes=(False, True), measured=Measured(-1.0, 1e-3, 31), spoken=None,
)  # fmt: skip
SHARE = Measured(0.5, of=8)
SAID = Row("x", "says", 2.0, 1.0, Estimate(np.array([-1.0]), np.zeros(1)), measured=SHARE, spoken=("a", "b"))
ALL = [
    NOISY,
    SAID,
    claim("exact", "a <= b", 1.0, 2.0, measured=Measured(1.0, slack=1e-9)),
    not_applicable("n", "", "why"),
]


class Work:
    """Parts that count how often they are done; the second can be interrupted, or go wrong."""

    def __init__(self, monkeypatch, failing=False):
        self.done, self.stopped, self.wrong = [], False, False
        monkeypatch.setattr(claims_study, "parts", self.parts)
        monkeypatch.setattr("fastfedpg.cli.claims.parts", self.parts)
        self.failing = failing

    def parts(self, quick=False):
        first, second = statements.ZENG, statements.AVERAGING
        return [
            statements._part(first, "here", lambda: self.rows("first", [NOISY])),
            statements._part(second, "there", lambda: self.second()),
        ]

    def rows(self, name, rows):
        self.done.append(name)
        return rows

    def second(self):
        if self.stopped:
            raise KeyboardInterrupt
        if self.wrong:
            raise MemoryError("no room")
        right = 0.5 if self.failing else 2.0
        return self.rows("second", [claim("exact", "a <= b", 1.0, right, bound=False, measured=Measured(1.0))])


def read(folder):
    with (folder / "claims.csv").open() as file:
        return list(csv.DictReader(file))


def test_rows_are_read_as_they_were_written(tmp_path):
    file, about = tmp_path / "01.json", {"part": "one"}
    kept_parts.keep(file, about, ALL)
    found, _ = kept_parts.kept(file, about)
    assert repr(found) == repr(ALL)
    assert kept_parts.kept(file, {"part": "two"}) is None
    file.write_text(file.read_text().replace('"says"', '"sags"'))
    assert kept_parts.kept(file, about) is None
    assert kept_parts.kept(tmp_path / "02.json", about) is None


def test_it_is_stopped_and_goes_on_without_repeating_anything(workplace, monkeypatch, capsys):
    work = Work(monkeypatch)
    work.stopped = True
    assert command("study", "claims", "--quick", "--out", "out") == 130
    assert "kept in out: 1 of 2 parts; fastfedpg resume out goes on" in capsys.readouterr().err
    assert not (workplace / "out" / "claims.csv").exists()
    assert command("runs", ".") == 0
    listed = "study out: interrupted, 1 of its parts are there; fastfedpg resume out goes on"
    assert capsys.readouterr().out.splitlines() == ["0 runs below .", listed]
    work.stopped = False
    assert command("resume", "out") == 0
    assert work.done == ["first", "second"]
    assert command("resume", "out") == 0
    assert work.done == ["first", "second"]
    said = capsys.readouterr().out
    assert command("runs", "out") == 0
    assert "study out: finished, 2 of its parts are there\n" in capsys.readouterr().out
    assert said.index(statements.AVERAGING.title) < said.index(statements.ZENG.title)
    rows = read(workplace / "out")
    assert [(row["row"], row["verdict"], row["comparisons"]) for row in rows] == [
        ("exact", "pass", "0"), ("floor in N", "pass", "2")
    ]  # fmt: skip
    assert "over 2 comparisons with noise in them, 2 rows" in said, "as many as the file has"
    assert [row["about"] for row in rows] == ["methods", "proofs"]
    assert float(rows[1]["low"]) < -1 < float(rows[1]["high"])
    assert rows[1]["where"] == statements.ZENG.where


def test_a_part_that_was_edited_is_done_again(workplace, monkeypatch):
    work = Work(monkeypatch)
    assert command("study", "claims", "--out", "out") == 0
    part = workplace / "out" / "parts" / "01.json"
    part.write_text(part.read_text().replace("-0.8", "-0.9"))
    assert command("resume", "out") == 0
    assert work.done == ["first", "second", "first"]


def test_a_claim_that_fails_is_the_exit_code(workplace, monkeypatch, capsys):
    Work(monkeypatch, failing=True)
    assert command("study", "claims", "--out", "out") == 1
    assert "fail: exact (1 Model averaging is biased)" in capsys.readouterr().out
    assert read(workplace / "out")[0]["verdict"] == "fail"


def test_what_could_not_be_checked_is_said_and_tried_again(workplace, monkeypatch, capsys):
    work = Work(monkeypatch)
    work.wrong = True
    assert command("study", "claims", "--out", "out") == 0
    assert (
        "undecided at this sample size: 1 Model averaging is biased: there (not checked): no room"
        in capsys.readouterr().out
    )
    work.wrong = False
    assert command("resume", "out") == 0
    assert [row["verdict"] for row in read(workplace / "out")] == ["pass", "pass"]


def test_what_is_refused(workplace, monkeypatch, capsys):
    work = Work(monkeypatch)
    for words, why in (
        (("claims", "--algorithms", "fast_fedpg"), "leave --algorithms out"),
        (("claim",), "claims"),
    ):
        assert command("study", *words, "--out", "out") == 2
        assert why in capsys.readouterr().err
    assert work.done == []
    assert command("study", "claims", "--out", "out") == 0
    assert command("study", "claims", "--out", "out") == 2
    assert "not empty" in capsys.readouterr().err
    (workplace / "out" / "mine.txt").write_text("mine")
    assert command("study", "claims", "--out", "out", "--overwrite") == 0
    assert (workplace / "out" / "mine.txt").read_text() == "mine"
    assert work.done == ["first", "second"] * 2
    file = workplace / "out" / "claims.toml"
    file.write_text(file.read_text().replace("false", "true"))
    assert command("resume", "out") == 2
    assert "not as it was written" in capsys.readouterr().err
    shutil.rmtree(workplace / "out" / "parts")
    file.unlink()
    assert command("study", "claims", "--out", "out", "--overwrite") == 2
    assert "no study of claims" in capsys.readouterr().err


def test_every_row_has_its_number_interval_and_verdict():
    """A slope with noise, a share of instances, a number without noise, and a row that has none."""
    said = " ".join(" ".join(claims_study.table(decided(ALL), 200)).split())
    for words in ("-1.000", "to -0.99", "4 of 8", "of all", "exact, to 1e-09", "pass", "does not apply"):
        assert words in said
