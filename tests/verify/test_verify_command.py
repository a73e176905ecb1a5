"""`fastfedpg verify`: exit codes, what breaks on the way, and mistakes that are named first."""

import json
from dataclasses import replace

import numpy as np
import pytest

from fastfedpg import InputError
from fastfedpg.verify import agenda, report
from fastfedpg.verify.claims import floors, structure
from fastfedpg.verify.claims.floors import Sweep
from fastfedpg.verify.verdict import (
    FAIL,
    PASS,
    UNDECIDED,
    claim,
    mean_of,
)
from tiny_subject import told


def with_parts(monkeypatch, *works):
    """The command with other work."""
    made = [agenda.Part(f"part {k}", work) for k, work in enumerate(works)]
    monkeypatch.setattr(agenda, "parts", lambda settings: made)


GOOD = claim("a good claim", "1 <= 2", 1.0, 2.0)


def test_a_failed_claim_is_exit_code_1(workplace, monkeypatch):
    """One false claim beside a true one; and a control that holds is a failure too."""
    for k, bad in enumerate(
        (claim("a bad claim", "2 <= 1", 2.0, 1.0), replace(GOOD, claim="a bad claim", control=True))
    ):
        with_parts(monkeypatch, lambda bad=bad: ([GOOD, bad], {}))
        said = told("--out", f"out-{k}")
        assert said.code == 1
        assert "fail: a bad claim" in said.out
        found = json.loads((workplace / f"out-{k}" / "verify.json").read_text())["rows"]
        assert [row["verdict"] for row in found] == [PASS, FAIL]


def test_a_wrong_average_is_exit_code_1(workplace, subject, wrong_average, monkeypatch):
    """Proposition 1's own rows in the command: 0, and with a wrong average 1."""
    with_parts(monkeypatch, lambda: (list(structure.proposition(subject)), {}))
    assert told("--out", "right").code == 0
    wrong_average()
    assert told("--out", "wrong").code == 1


@pytest.mark.parametrize("error", [InputError, MemoryError, floors.TooLong])
def test_what_can_not_be_checked_takes_nothing_with_it(workplace, monkeypatch, error):
    """A part that breaks is an undecided row that says why; the rows of the others stay."""

    def broken():
        raise error("it is too large")

    with_parts(monkeypatch, broken, lambda: ([GOOD], {}))
    said = told("--out", "out")
    assert said.code == 0, said.err
    found = json.loads((workplace / "out" / "verify.json").read_text())["rows"]
    assert [(row["claim"], row["verdict"], row["left"]) for row in found] == [
        ("part 0", UNDECIDED, None),
        ("a good claim", PASS, 1.0),
    ]
    assert "it is too large" in found[0]["note"]
    assert "it is too large" in said.out


def test_ctrl_c(workplace, monkeypatch):
    """One line, 130, and no half of a report: what was there before stays, and a new folder goes."""

    def interrupted():
        raise KeyboardInterrupt

    with_parts(monkeypatch, lambda: ([GOOD], {}))
    assert told("--out", "out").code == 0
    with_parts(monkeypatch, lambda: ([GOOD], {}), interrupted)
    said = told("--out", "out", "--overwrite")
    assert said.code == 130
    words = (
        "fastfedpg: interrupted after 1 of 2 parts; they are kept in out, and the same command with --out out goes on"
    )
    assert said.err.splitlines()[-1] == words
    assert len(json.loads((workplace / "out" / "verify.json").read_text())["rows"]) == 1
    with_parts(monkeypatch, interrupted)
    said = told("--out", "new")
    assert said.code == 130
    assert said.err.splitlines()[-1].startswith("fastfedpg: interrupted before anything was decided; no report was")
    assert not (workplace / "new").exists()


def test_the_same_command_goes_on_after_ctrl_c(workplace, monkeypatch):
    """Parts that were finished are read, pictures' numbers too, and the report is that of one never stopped.

    Other settings are another report; what was damaged, or could not be checked, is done again.
    """

    def interrupted():
        raise KeyboardInterrupt

    calls, data = [], {"stationary": Sweep(np.array([1, 2]), np.array([[2.0, 1.0], [2.1, np.nan]]), "x"), "floors": {}}
    noisy = replace(GOOD, margin=mean_of([[1.0], [1.5], [1.25]]))
    first, second = (lambda: (calls.append(1) or [noisy], data)), (lambda: ([GOOD], {}))
    with_parts(monkeypatch, first, second)
    assert told("--out", "whole").code == 0
    with_parts(monkeypatch, first, interrupted)
    assert told("--out", "out").code == 130
    with_parts(monkeypatch, first, second)
    refused = told("--out", "out", "--first-seed", 1)
    assert (refused.code, "out: the folder is not empty" in refused.err) == (2, True)
    assert told("--out", "out").code == 0
    assert len(calls) == 2
    names = lambda out: {path.name: path.read_bytes() for path in (workplace / out).iterdir()}
    assert names("out") == names("whole")
    with monkeypatch.context() as patch:
        with_parts(patch, first, interrupted)
        patch.setattr(report, "code", lambda: "of yesterday")
        assert told("--out", "older").code == 130
    with_parts(monkeypatch, first, second)
    assert told("--out", "older").code == 2  # other code is another report, whatever its version is
    with_parts(monkeypatch, first, interrupted)
    assert told("--out", "hurt").code == 130
    file = workplace / "hurt" / "parts" / "01.json"
    file.write_text(file.read_text().replace("1.25", "1.26"))
    with_parts(monkeypatch, first, second)
    assert told("--out", "hurt").code == 2
    assert told("--out", "hurt", "--overwrite").code == 0
    assert (len(calls), names("hurt")) == (5, names("whole"))
    (workplace / "mine" / "parts").mkdir(parents=True)
    (workplace / "mine" / "parts" / "01.json").write_text("years of work")
    assert told("--out", "mine", "--overwrite").code == 2


def test_an_earlier_report_is_replaced(workplace, monkeypatch):
    """With --overwrite the files of the earlier one go, and a stranger's stay."""
    data = {"stationary": Sweep(np.array([1, 2]), np.array([[2.0, 1.0], [2.1, 1.1]]), "x")}
    with_parts(monkeypatch, lambda: ([GOOD], data))
    assert told("--out", "out").code == 0
    assert (workplace / "out" / "stationary.png").exists()
    (workplace / "out" / "mine.txt").write_text("mine")
    with_parts(monkeypatch, lambda: ([GOOD], {}))
    assert told("--out", "out", "--overwrite").code == 0
    assert sorted(p.name for p in (workplace / "out").glob("*.*")) == [
        "mine.txt",
        "tightness.png",
        "tightness.svg",
        "verify.json",
    ]


MISTAKES = {
    "tau": (("--problem", "random", "--tau", -0.1), ("tau = -0.1", "at least 0")),
    "tau nan": (("--problem", "random", "--tau", "nan"), ("tau = nan", "finite")),
    "H": (("--H", 0), ("H = 0", "at least 1")),
    "K": (("--K", 0), ("K = 0", "at least 1")),
    "B": (("--problem", "random", "--B", 0), ("B = 0", "at least 1")),
    "problem": (("--problem", "compromize"), ("unknown problem 'compromize'", "compromise")),
    "file": (("--problem", "gone.npz"), ("gone.npz",)),
    "folder": (("--out", "full"), ("full: the folder is not empty", "--overwrite")),
    "tau of a regulator": (("--problem", "lqr", "--tau", 0.1), ("tau = 0.1", "must be 0")),
    "one action": (("--problem", "random", "--problem-args", "A=1"), ("one action only", "nothing to learn")),
    "rewards": (("--problem", "same.npz"), ("all rewards are the same", "nothing to learn")),
    "arguments of nothing": (("--problem-args", "S=3"), ("problem_args", "give --problem too")),
    "agents of nothing": (("--agents", 3), ("agents", "give --problem too")),
    "tau of nothing": (("--tau", 0.1), ("tau", "give --problem too")),
    "flags beside a folder": (("full", "--tau", 0.1), ("full", "leave the other flags out")),
    "out beside a folder": (("full", "--out", "new"), ("full", "leave the other flags out")),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_named_before_anything_is_done(workplace, mistake):
    """Exit code 2, one line that says what would be right, and nothing left behind."""
    words, says = MISTAKES[mistake]
    (workplace / "full").mkdir()
    (workplace / "full" / "mine.txt").write_text("mine")
    np.savez("same.npz", P=np.full((2, 2, 2), 0.5), reward=np.full((2, 2, 2), 0.5), rho=[0.5, 0.5], gamma=0.5)
    said = told(*words)
    assert said.code == 2
    [line] = said.err.splitlines()
    for part in says:
        assert part in line
    assert said.out == ""
    assert [str(p.relative_to(workplace)) for p in sorted(workplace.rglob("*"))] == [
        "full",
        "full/mine.txt",
        "same.npz",
    ]
