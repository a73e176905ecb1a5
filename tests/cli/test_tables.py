"""Tables never break inside a number or a name: at 80 and 120 columns, and in a pipe."""

import io
import re

import numpy as np
import pytest
from rich.console import Console

from fastfedpg.cli import execute, runs
from fastfedpg.cli.consoles import UNBROKEN, room
from fastfedpg.columns import Column, lay_out, least
from fastfedpg.comparison import printed
from fastfedpg.comparison.paired import NONE, Difference
from fastfedpg.comparison.table import Line, footnotes
from fastfedpg.experiment.run_index import Entry
from fastfedpg.runtime import Result
from fastfedpg.statistics import Interval, bootstrap, geometric
from fastfedpg.verify import report
from fastfedpg.verify.verdict import Row

WIDTHS = (80, 120, UNBROKEN)


def line(k: int, label: str) -> Line:
    """Numbers of every length, which tell the methods apart."""
    x = Interval(*(np.float64(f"0.0{k + 1}2345{n}") for n in (1, 2, 3)))
    arrived = [Interval(*(np.float64(n + k + 10 * j) for j in range(3))) for n in (1e3, 1234567.0)]
    against = Difference(0.5, x, NONE, x, 1.25, 1.5, log=True) if k else None
    return Line(
        label, 0.125 * (k + 1), 8, k % 2, True, x, x, against, x, x, *arrived, 8,
        1000 + k, 123456789.0 + k, "environment steps", False, 1, 98765432.0 + k, 2000.0 + k, 123.4 + k,
    )  # fmt: skip


NAMES = ["fast_fedpg", "fedavg_pg", "scaffold_pg", "centralised_pg", "independent_pg"]
NAMES.append("a-label-of-forty-two-letters-and-no-spaces")


def words_of(cells) -> set[str]:
    return {word for cell in cells for word in cell.split()}


@pytest.mark.parametrize("played", [False, True])
@pytest.mark.parametrize("methods", range(1, 7))
@pytest.mark.parametrize("width", WIDTHS)
def test_a_comparison(width, methods, played):
    """Every word of every cell and every method's name is on a line in one piece, and no line is too long."""
    lines = [line(k, name) for k, name in enumerate(NAMES[:methods])]
    found = printed.tables(lines, "title", not played, width, played)
    text = [row for part in found for row in part]
    there = words_of(text)
    said = printed.quantities(lines, not played, played)
    assert words_of(cell for q in said for cell in q.cells) <= there
    assert {*NAMES[:methods]} <= there
    assert max(map(len, text)) <= width
    assert not any("…" in row for row in text)
    across = len(found) == 1 and NAMES[0] in found[0][1]
    for q in said:
        assert any((q.label if across else q.short) in row for row in text), "labels are whole too"
    if not across:  # one method a row
        for part in found:
            assert sum(bool(re.match(r"\S", row)) for row in part) >= methods


def test_three_methods_stand_side_by_side_in_80_columns_and_four_below_each_other():
    """The labels take 30 columns and 2 spaces, a column 11 (98,765,432 or "scaffold_pg") and more."""
    lines = [line(k, name) for k, name in enumerate(NAMES)]
    assert len(printed.tables(lines[:3], "title", True, 80)) == 1
    assert len(printed.tables(lines[:5], "title", True, 80)) > 1
    assert len(printed.tables(lines, "title", True, UNBROKEN)) == 1


def test_in_environments_the_return_comes_first():
    labels = [q.label for q in printed.quantities([line(0, "a"), line(1, "b")], False, True)]
    assert labels[1] == "mean return of an episode"
    assert labels.index("J, the mean discounted cost") > labels.index("worst agent's return")
    assert printed.quantities([line(0, "a")], True)[1].label == "mean gap to best common policy"
    one = line(0, "a")._replace(noise=False)
    assert printed.quantities([one], True)[1].label == "gap to the best common policy", "nothing is averaged"


def test_a_line_says_where_the_two_means_order_methods_differently():
    """Gaps 0.1, 0.1 and 0.001, 0.3: means 0.1 < 0.15, geometric means 0.1 > 0.017."""
    of = lambda k, *gaps: line(k, "ab"[k])._replace(
        value=bootstrap(np.array(gaps)), geometric=geometric(np.array(gaps))
    )
    otherwise = "means order these methods otherwise than geometric means do"
    assert any(otherwise in words for words in footnotes([of(0, 0.1, 0.1), of(1, 0.001, 0.3)], True))
    assert not any(otherwise in words for words in footnotes([of(0, 0.1, 0.1), of(1, 0.1, 0.3)], True))


def test_gaps_that_are_equal_are_not_below_rounding():
    """Their geometric mean is their mean, but for an ulp either way."""
    of = lambda *gaps: line(0, "a")._replace(value=bootstrap(np.array(gaps)), geometric=geometric(np.array(gaps)))
    gaps = [x for x in np.linspace(0.1, 0.2, 99) if geometric(np.full(3, x)).mean > bootstrap(np.full(3, x)).mean]
    assert gaps, "or nothing is tested"
    assert not any("is rounding" in words for x in gaps for words in footnotes([of(x, x, x)], True))


def test_samples_that_are_no_common_unit_are_each_named():
    two = [line(0, "a"), line(1, "b")._replace(unit="gradient estimates")]
    rows = {q.label: q.cells for q in printed.quantities(two, True)}
    assert rows["samples, all agents"] == ["123,456,789 environment steps", "123,456,790 gradient estimates"]
    assert rows["  samples until then"] == ["1,234,567 environment steps", "1,234,568 gradient estimates"]


def test_what_was_tuned_over_has_a_row():
    lines = [line(0, "a")._replace(tuned={"H": "5", "reuse": "true"}), line(1, "b")._replace(tuned={"H": "20"})]
    eta, H, reuse = printed.quantities(lines, True)[:3]
    assert (eta.short, H, reuse) == (
        "eta",
        ("H, tuned too", "H", ["5", "20"]),
        ("reuse, tuned too", "reuse", ["true", "–"]),
    )


def test_few_seeds_have_no_interval_and_a_line_says_why():
    few = [line(k, "ab"[k])._replace(seeds=2, geometric=geometric(np.array([0.1, 0.2]))) for k in range(2)]
    row = next(q for q in printed.quantities(few, True) if q.label == "  its 95% interval")
    assert row.cells == ["–", "–"]
    assert "fewer than 5 seeds have no interval of their mean: it would be their range" in footnotes(few, True)
    assert not any("their range" in words for words in footnotes([line(0, "a"), line(1, "b")], True))


def result(gap: float, gradient: float) -> Result:
    values = {"J": -1.0, "gap": gap, "grad_norm_sq": gradient, "return_mean": 123.456, "return_worst": -9.5}
    values |= {"env_steps": 1e9, "bytes_up": np.nan, "bytes_down": np.nan, "syncs": 40.0}
    metrics = {name: np.full((3, 2), x) for name, x in values.items()}
    return Result(np.array([0, 20]), metrics, np.zeros((3, 2, 1)), np.zeros((3, 1)))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    ("of", "first"),
    [
        (result(0.5, 0.25), "gap to the best common policy"),
        (result(np.nan, 0.25), "J (no gap: kernels or starts differ)"),
        (result(np.nan, np.nan), "mean return of an episode"),
    ],
)
def test_the_table_of_a_run(of, first, width):
    title, head, rule, *rows = execute._results("fast_fedpg", of, width)
    assert title == "fast_fedpg after 20 rounds (3 seeds; fewer than 5 have no interval)"
    assert rows[0].endswith("–")
    assert rows[0].startswith(first)
    assert max(map(len, (head, rule, *rows))) <= width
    assert {"1,000,000,000", "123.5", "-9.5", "40"} <= words_of(rows)
    assert any("not sent" in row for row in rows)
    labels = [row.split("  ")[0] for row in rows]
    assert ("J, discounted cost" in labels) == (first == "mean return of an episode")


ENTRY = Entry("a/b", "compromise-grid", "independent_pg", 0.125, 8, 1500, 2000, 0.012345, 1.25, "interrupted", "", 0.0)


@pytest.mark.parametrize("width", [40, *WIDTHS])
def test_the_list_of_runs(width):
    page = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    runs._print([ENTRY, ENTRY._replace(folder="a/folder-of-some-length/and-more", gap=None, returned=-123.4)], page)
    lines = page.file.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    for words in ("1,500 of 2,000", "compromise-grid", "independent_pg", "0.01235", "-123.4", "interrupted"):
        assert any(words in row for row in lines), words


def test_the_list_leads_with_the_return_where_there_are_environments():
    def heads(*entries):
        page = Console(file=io.StringIO(), width=200, force_terminal=True, color_system=None)
        runs._print(list(entries), page)
        return re.split(" {2,}", page.file.getvalue().splitlines()[0])[5:7]

    assert heads(ENTRY) == ["mean gap", "state"]
    assert heads(ENTRY._replace(gap=None)) == ["mean return", "state"]
    assert heads(ENTRY, ENTRY._replace(gap=None)) == ["mean return", "mean gap"]


@pytest.mark.parametrize("width", WIDTHS)
def test_the_report_of_a_verification(width):
    rows = [
        Row("Lemma 3, the descent of a round", "a <= b, at some length", 1.23e-12, 4.56e-10, None, "compromise-grid"),
        Row("Theorem 1", "left <= right", 123456.0, 234567.0, None, "lqr"),
    ]
    lines = report.table(rows, width)
    assert {"1.23e-12", "4.56e-10", "1.23e+05", "2.35e+05"} <= words_of(lines)
    assert any("compromise-grid" in row for row in lines)
    assert max(map(len, lines)) <= width
    assert not any("…" in row for row in lines)


def test_columns_of_text():
    """Words are kept, numbers with a sign too; the space that is left goes to the narrowest."""
    columns = [Column("", ["a b", "c"], whole=True, right=False), Column("n", ["-0.5 to +0.5", "1"])]
    assert least(columns) == 3 + 2 + 4
    assert lay_out(columns, 9) == ["        n", "─" * 9, "a b  -0.5", "       to", "     +0.5", "c       1"]
    assert lay_out(columns, 99)[2] == "a b  -0.5 to +0.5"
    assert lay_out(columns, 1)[2] == "a b  -0.5", "wider than asked, and not broken"


def test_a_pipe_has_room_for_all(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert room(Console(file=io.StringIO())) == UNBROKEN
    assert room(Console(file=io.StringIO(), force_terminal=True, width=70)) == 70
    monkeypatch.setenv("COLUMNS", "90")
    assert room(Console(file=io.StringIO())) == 90
