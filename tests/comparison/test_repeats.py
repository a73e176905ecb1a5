"""Runs without noise are repeated from starts that differ by rounding, and a verdict says where that decides."""

import csv
from pathlib import Path

import numpy as np
import pytest

from commands import command
from compared import column, compare, line_of, table
from fastfedpg.comparison import repeats
from fastfedpg.comparison.paired import CHAOTIC, EQUIVALENT, difference

pytestmark = pytest.mark.usefixtures("fresh_folder")

CHAOS = ("--problem", "opposed-line", "--H", 20, "--eta", 20, "--rounds", 60, "--metrics-every", 2, "--seeds", 1)
CALM = ("--problem", "compromise", "--H", 2, "--eta", 0.5, "--rounds", 4, "--seeds", 1)


@pytest.fixture(autouse=True)
def as_many_as_ever(one_repeat, monkeypatch):
    monkeypatch.setattr(repeats, "REPEATS", one_repeat)


def stored(name: str) -> np.ndarray:
    """(repeats, 2): the last gap and the tail average."""
    with Path("out/repeats.csv").open(newline="") as file:
        return np.array([(float(r["last"]), float(r["tail"])) for r in csv.DictReader(file) if r["algorithm"] == name])


def test_the_verdict_is_what_all_repeats_bear():
    say = lambda a, b, **how: (
        difference(
            np.array(a[:1]),
            np.array(b[:1]),
            noise=False,
            scale=1.0,
            log=True,
            repeats=(np.array(a), np.array(b)),
            **how,
        ).verdict
    )
    assert say([0.1, 0.1], [0.2, 0.2]) == "worse"
    assert say([0.1, 0.1], [0.2, 0.24]) == "worse", "they differ by less than the margin"
    assert say([0.1, 0.1], [0.2, 0.26]) == f"worse, by how much is {CHAOTIC}"
    assert say([0.2, 0.26], [0.1, 0.1]) == f"better, by how much is {CHAOTIC}"
    assert say([0.1, 0.1], [0.2, 0.11]) == CHAOTIC
    assert say([0.1, 0.1], [0.1, 0.13]) == CHAOTIC, "and not equivalent"
    assert say([0.1, 0.1], [0.1, 0.13], margin=0.5) == EQUIVALENT
    assert say([0.1, 0.1], [np.inf, 0.1]) == CHAOTIC, "it diverges or not"
    assert say([0.1, 0.1], [np.inf, np.inf]) == "worse"


def test_chaos_is_named(capsys):
    """SCAFFOLD-PG with these steps ends between 0.7 and 1.9, whichever way the first ulp goes."""
    compare(*CHAOS, "--algorithms", "fedavg_pg", "scaffold_pg", "again=scaffold_pg")
    said, found = capsys.readouterr().out, table()
    own = column("out/scaffold_pg", "gap")[0]
    last, tail = stored("scaffold_pg").T
    assert len(last) == repeats.REPEATS
    assert max(*last, own[-1]) / min(*last, own[-1]) > 1.25
    row = found["scaffold_pg"]
    assert float(row["repeats_low"]) == pytest.approx(min(*last, own[-1]))
    assert float(row["repeats_high"]) == pytest.approx(max(*last, own[-1]))
    assert float(row["tail"]) == pytest.approx(own[-3:].mean()), "a tenth of 31 records"
    assert float(row["tail_high"]) == pytest.approx(max(*tail, own[-3:].mean()))
    assert CHAOTIC in row["verdict"]
    assert CHAOTIC in " ".join(said.split())
    assert line_of(said, "repeats, start moved by 1e-12")
    assert line_of(said, "mean of the last tenth")
    assert "another processor or batch size gives another number" in said
    assert found["again"]["repeats_low"] == row["repeats_low"], "the same starts for all"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_start_is_moved_whatever_its_size(dtype):
    """Near 0 by about 1e-12; at 1 a float32 has no such neighbour, and is moved by 4 units of 1.2e-7, about."""
    start = np.repeat(np.array([0, 1, -3, 1e6], dtype), 8)
    found = repeats.moved(start)
    assert found.dtype == dtype
    assert found.shape == (repeats.REPEATS, 32)
    off = np.abs(found.astype(float) - start).reshape(-1, 4, 8)
    assert (off.max(axis=2) > 0).all()
    eps = np.finfo(dtype).eps
    assert (off.max(axis=(0, 2)) < 5 * np.maximum(1e-12, 4 * eps * np.array([0, 1, 3, 1e6]))).all()


def test_a_method_in_chaos_is_not_worse_than_itself():
    compare(*CHAOS, "--algorithms", "scaffold_pg", "again=scaffold_pg")
    assert table()["again"]["verdict"] == CHAOTIC


def test_calm_runs_say_so_and_are_not_repeated_again(capsys, monkeypatch):
    out = compare(*CALM, "--algorithms", "fast_fedpg", "fedavg_pg")
    said = capsys.readouterr().out
    assert "repeated 4 times from a start moved by 1e-12: no verdict depends on rounding" in said
    assert "repeats, start" not in said
    row, before = table()["fedavg_pg"], stored("fedavg_pg")
    assert float(row["repeats_high"]) - float(row["repeats_low"]) < 1e-10
    assert float(row["repeats_high"]) > float(row["repeats_low"]), "they did start elsewhere"
    with monkeypatch.context() as patch:
        patch.setattr(repeats, "_repeat", lambda *_: pytest.fail("repeated again"))
        assert command("resume", out) == 0
    text = Path("out/repeats.csv").read_text()
    Path("out/repeats.csv").write_text(text.replace("fedavg_pg,1,", "fedavg_pg,1,1"))
    assert command("resume", out) == 0
    np.testing.assert_array_equal(stored("fedavg_pg"), before)
    assert Path("out/repeats.csv").read_text() == text, "what was edited is found again"


def test_noise_is_not_repeated_and_finished_runs_are_not_run(capsys):
    sampled = ("--oracle", "gpomdp", "--B", 2, "--K", 3)
    compare(*CALM, *sampled, "--algorithms", "fast_fedpg", "fedavg_pg")
    assert not Path("out/repeats.csv").exists()
    compare(*CALM, "--algorithms", "fast_fedpg", "fedavg_pg", "--overwrite")
    capsys.readouterr()
    assert command("compare", "out/fast_fedpg", "out/fedavg_pg", "--out", "two") == 0
    assert "nothing was repeated, so it is not known whether rounding decides" in capsys.readouterr().out
