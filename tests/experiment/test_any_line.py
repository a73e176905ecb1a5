"""Ctrl-C at any line of what writes records and checkpoints: the run goes on to the numbers of one never stopped."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fastfedpg import files
from fastfedpg.core import Evaluation
from fastfedpg.experiment import checkpoints, journal, record_table, results
from fastfedpg.experiment.journal import Journal, identity
from fastfedpg.experiment.plan import plan
from fastfedpg.runtime import Record, Standing
from stopped_runs import CONFIG

pytestmark = [
    pytest.mark.usefixtures("fresh_folder"),
    # A file that was opened and not yet given to anybody is closed when it is forgotten.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

ROUNDS, EVERY = 13, 2
WATCHED = {module.__file__ for module in (journal, record_table, checkpoints, files)}


@pytest.fixture(scope="module")
def planned():
    return plan(replace(CONFIG, rounds=ROUNDS, metrics_every=EVERY, checkpoint_rounds=3))


@pytest.fixture(autouse=True)
def small_buffers(monkeypatch):
    """And a disk that is not waited for."""
    monkeypatch.setattr(journal, "BUFFER_RECORDS", 2)
    monkeypatch.setattr(files, "sync", lambda path: None)
    monkeypatch.setattr(checkpoints, "sync", lambda path: None)


def record(round: int, x: np.ndarray) -> Record:
    some = np.full(2, round, np.int64)
    value = Evaluation(x, x / 2, x**2, np.stack([x, -x], axis=1))
    return Record(round, np.tile(x[:, None], 5), value, x / 4, some, some / 2)


def standing(round: int, recorded: int, x: np.ndarray) -> Standing:
    none = np.zeros(2, np.int64)
    return Standing(round, recorded, x, np.zeros(2), (), (), np.zeros(2), none, none)


def records(tick, start):
    """A runtime that only counts, with an interruption's own record as the real ones have it."""
    now = standing(0, -1, np.array([0.5, 0.25])) if start is None else start
    for stop in sorted({*range(0, ROUNDS, EVERY), ROUNDS}):
        if stop <= now.recorded:
            continue
        try:
            while now.round < stop:
                now = now._replace(round=now.round + 1, state=now.state * 1.5 + 1)
                tick(now.round, lambda: now)
            noted = record(now.round, now.state)
        except KeyboardInterrupt:
            if now.round > now.recorded:
                yield record(now.round, now.state)
            raise
        now = now._replace(recorded=now.round)
        yield noted


def go(planned, out: Path, trace=None) -> tuple[bool, list[str]]:
    """A run, or what is left of it, to its end or to an interruption; whether it came to its end, and what was said."""
    said: list[str] = []
    out.mkdir(exist_ok=True)
    found = checkpoints.newest(out, identity(planned), standing(0, -1, np.zeros(2)), said.append)
    book = Journal(planned, out, found, said.append)
    state = "finished"
    sys.settrace(trace)
    try:
        for each in records(book.tick, book.start):
            book.add(each)
    except KeyboardInterrupt:
        state = "interrupted"
    finally:
        sys.settrace(None)
    book.close(state, "")
    return state == "finished", said


def counting(at: int | None):
    """A trace that interrupts at the line of that number; `seen` counts."""
    seen = [0]

    def line(frame, event, argument):
        if event == "line":
            seen[0] += 1
            if seen[0] == at:
                raise KeyboardInterrupt
        return line

    return (lambda frame, event, argument: line if frame.f_code.co_filename in WATCHED else None), seen


def one_moment(planned, at: int, expected: bytes) -> None:
    out = Path(f"at-{at}")
    ended, said = go(planned, out, counting(at)[0])
    assert not ended
    assert said == []
    left = results.read(out / "results.npz").result.rounds if (out / "results.npz").exists() else np.array([-1])
    assert (np.diff(left) > 0).all()
    assert go(planned, out) == (True, []), at
    assert (out / "results.npz").read_bytes() == expected, at
    assert not (out / "checkpoints").exists(), at


def whole(planned) -> tuple[bytes, int]:
    trace, seen = counting(None)
    assert go(planned, Path("whole"), trace) == (True, [])
    return Path("whole/results.npz").read_bytes(), seen[0]


def test_ctrl_c_at_some_lines(planned):
    """Fifty of them, as evenly spread as a prime allows."""
    expected, lines = whole(planned)
    assert lines > 1000
    for k in range(50):
        one_moment(planned, 1 + k * 7919 % lines, expected)


@pytest.mark.kills
def test_ctrl_c_at_every_line(planned):
    expected, lines = whole(planned)
    for at in range(1, lines + 1):
        one_moment(planned, at, expected)
