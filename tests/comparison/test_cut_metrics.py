"""Metrics that were cut off: the good rows are used, and the rest is said."""

import numpy as np
import pytest

from compared import compare, notes, refused, table
from fastfedpg import InputError
from fastfedpg.experiment import finished_run

pytestmark = pytest.mark.usefixtures("fresh_folder")


def cuts(text: str) -> dict[str, tuple[str, int]]:
    """Damaged files by name, and how many of the 42 rows of 6 seeds each still has in whole seeds."""
    lines = text.splitlines(keepends=True)
    return {
        "one digit of the last number": (text[:-2], 35),
        "the last line break": (text[:-1], 35),
        "half of the last line": (text[: -len(lines[-1]) // 2], 35),
        "the last line": (text[: -len(lines[-1])], 35),
        "inside the third seed": (text[: sum(map(len, lines[:18])) + 9], 14),
        "inside the first seed": (text[: sum(map(len, lines[:4])) + 9], 3),
        "after one row": (text[: sum(map(len, lines[:2]))], 1),
        "garbage in the middle": ("".join([*lines[:10], "\x00\ufffd,,\n", *lines[11:]]), 35),
        "words in the middle": ("".join([*lines[:10], "nan," * 16 + "nan\n", *lines[11:]]), 35),
        "a quote in the middle": ("".join([*lines[:10], '"' + lines[10], *lines[11:]]), 35),
        "a line of a megabyte": ("".join([*lines[:10], "x" * 1_000_000 + "\n", *lines[11:]]), 35),
        "a column less": ("".join([*lines[:10], lines[10].split(",", 1)[1], *lines[11:]]), 35),
        "a row twice": ("".join([*lines[:10], lines[10], *lines[10:]]), 35),
    }


CUTS = [*cuts("0,0\n" * 43)]


@pytest.mark.parametrize("cut", CUTS)
def test_the_good_rows_are_used(cut, finished, capsys):
    path = finished / "fast_fedpg/metrics.csv"
    whole = path.read_text()
    text, used = cuts(whole)[cut]
    path.write_text(text, encoding="utf-8")
    heard = []
    outcome, _ = finished_run.read(finished / "fast_fedpg", "it", heard.append)
    missing, said = heard
    assert missing.endswith(finished_run.INSTEAD)
    assert str(path) in said
    assert f"{used} of 42 rows are used" in said
    assert f"{42 - used} are not" in said
    assert ("cut off inside line" in said) == (not text.endswith("\n"))
    assert outcome.result.metrics["gap"].size == used
    rows = {tuple(line.split(",")[:2]): line.split(",") for line in whole.splitlines()}
    at = rows[("seed", "round")].index("gap")
    for seed, gaps in zip(outcome.seeds, outcome.result.metrics["gap"], strict=True):
        for number, gap in zip(outcome.result.rounds, gaps, strict=True):
            assert gap == float(rows[(str(seed), str(number))][at])
    assert outcome.result.returns.shape == (len(outcome.seeds), len(outcome.result.rounds), 2)
    with np.load(finished / "fast_fedpg/agents.npz") as file:
        np.testing.assert_array_equal(
            outcome.result.returns, file["returns"][np.ix_(outcome.seeds, outcome.result.rounds)]
        )


@pytest.mark.parametrize("byte", range(0, 4000, 397))
def test_a_file_cut_at_any_byte(byte, finished):
    """Never a traceback: a message, or what is left."""
    path, heard = finished / "fast_fedpg/metrics.csv", []
    whole = path.read_bytes()
    path.write_bytes(whole[:byte])
    if byte < sum(map(len, whole.splitlines(keepends=True)[:2])):
        with pytest.raises(InputError, match=str(path)):
            finished_run.read(finished / "fast_fedpg", "it", heard.append)
    else:
        outcome, _ = finished_run.read(finished / "fast_fedpg", "it", heard.append)
        assert len(heard) == 2
        assert np.isfinite(outcome.result.metrics["gap"]).all()


@pytest.mark.parametrize("text", ["", "seed,round", "seed,round,J\n", "\x00\x01\n\n", "a,b\n1,2\n"])
def test_metrics_without_a_row(text, finished, capsys):
    path = finished / "fast_fedpg/metrics.csv"
    path.write_text(text)
    assert str(path) in refused(capsys, finished / "fast_fedpg", "--out", "out")


def test_a_row_in_the_middle_of_one_seed_is_left_out_of_everything(finished):
    """What is left of the only seed is of the rounds that it says, in the returns too."""
    path, heard = finished / "fast_fedpg/metrics.csv", []
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:3], "garbage\n", *lines[4:8]]))
    outcome, _ = finished_run.read(finished / "fast_fedpg", "it", heard.append)
    assert outcome.result.rounds.tolist() == [0, 1, 3, 4, 5, 6]
    with np.load(finished / "fast_fedpg/agents.npz") as file:
        np.testing.assert_array_equal(outcome.result.returns[0], file["returns"][0, [0, 1, 3, 4, 5, 6]])


def test_a_cut_file_in_a_comparison(finished, capsys):
    path = finished / "fedavg_pg/metrics.csv"
    path.write_text(path.read_text()[:-2])
    out = compare(finished / "fast_fedpg", finished / "fedavg_pg")
    said = notes(capsys)
    assert f"{path}: cut off inside line 61; 50 of 60 rows are used (5 of 6 seeds), 10 are not" in said
    assert "fedavg_pg and fast_fedpg have 1 seeds not in common; differences leave them out" in said
    assert table(out)["fedavg_pg"]["seeds"] == "5"
