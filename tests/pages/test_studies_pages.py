"""Pages of studies and of claims, from what their folders hold."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from commands import command
from fastfedpg.pages import claims_part, study_charts, study_part, written_page
from fastfedpg.verify import report
from fastfedpg.verify.options import VerifySettings
from fastfedpg.verify.verdict import Estimate, claim, decided

STORED = Path(__file__).parents[2] / "docs" / "studies"


def tables_of(name: str, folder: Path) -> Path:
    """A stored study's own tables, without its comparisons."""
    out = folder / name
    out.mkdir()
    for file in (STORED / name).glob("*.csv"):
        shutil.copy(file, out)
    return out


def valid(part) -> None:
    from plotly.graph_objects import Figure

    charts = written_page.charts([part])
    assert charts
    for chart in charts:
        Figure(dict(chart.figure), skip_invalid=False)


@pytest.mark.parametrize(
    ("name", "question", "answer"),
    [
        ("suite", "Which method does well on many problems?", "has the highest score"),
        ("heterogeneity", "What does problem.kappa do", "values of problem.kappa"),
        ("phases", "Which method is the best at which kappa and B?", "pairs of values"),
    ],
)
def test_a_study_is_told_from_its_tables(name, question, answer, tmp_path):
    part = study_part.part(tables_of(name, tmp_path), None, 0.0, lambda words: None)
    assert part.question.startswith(question)
    assert answer in part.verdict
    assert part.state == "finished"
    valid(part)


def test_the_suite_s_verdict_is_its_table_s(tmp_path):
    """The highest of all scores, and who is best or tied on most problems."""
    folder = tables_of("suite", tmp_path)
    rows = study_part.read(folder / "study.csv")
    part = study_part.part(folder, None, 0.0, lambda words: None)
    best = sorted(rows, key=lambda row: -float(row["score"]))[0]
    assert part.verdict.startswith(f"{best['label']} has the highest score, {float(best['score']):.4g}")


def test_intervals_are_spoken_of_where_there_are_some():
    row = {"label": "fast_fedpg", "score": "0.9", "score_low": "0.8", "score_high": "0.95"}
    assert study_charts.scores([row]).words.endswith("; 95% intervals.")
    assert study_charts.scores([{**row, "score_low": "", "score_high": ""}]).words.endswith(
        "; too few seeds for intervals."
    )


def test_a_study_has_a_section_for_each_comparison(made, tmp_path):
    shutil.copytree(made, tmp_path / "study" / "small")
    (tmp_path / "study" / "study.toml").write_text("")
    part = study_part.part(tmp_path / "study", None, 0.0, lambda words: None)
    assert part.verdict == "The study is interrupted: 1 of 1 comparisons have finished."
    section = next(s for s in part.sections if s.heading == "small")
    assert [block.kind for block in section.blocks] == ["table", "chart", "words"]
    assert section.folded
    valid(part)


def rows_of():
    noisy = Estimate(np.array([0.5]), np.array([0.01]), 9)
    return decided(
        [
            claim("Lemma 1", "a <= b", 1.0, 2.0, problem="here"),
            claim("Lemma 2", "c <= d", 3.0, 2.0, problem="here"),
            claim("Theorem 1", "e <= f", 1.0, 1e9, problem="there"),
            claim("Theorem 2", "g <= h", 1.0, 1.5, noisy, problem="there", note="<n>"),
        ]
    )


def test_verify_s_claims_have_their_verdicts(tmp_path):
    (tmp_path / "verify.json").write_text(json.dumps(report._plain(VerifySettings(), rows_of())))
    part = claims_part.paper(tmp_path, None, 0.0, lambda words: None)
    assert part.verdict.startswith("1 of 4 rows fail: Lemma 2. 2 pass; 1 fail; 1 holds, vacuous.")
    here = next(s for s in part.sections if s.heading == "here").blocks[0]
    assert [(row[0], row[-1]) for row in here.rows] == [("Lemma 1", "pass"), ("Lemma 2", "fail")]
    assert here.marks == ["good", "bad"]
    valid(part)
    assert command("report", tmp_path) == 0
    text = (tmp_path / "report.html").read_text()
    assert "fastfedpg verify" in text
    assert r'content: "\2713\a0 "' in text, "a blank after an escape ends it, and is not shown"
    assert re.search(r'<td class="said">a &lt;= b</td><td>1</td><td>2</td>', text), "words begin on the left"


def test_a_report_that_is_damaged_is_refused(tmp_path, capsys):
    (tmp_path / "verify.json").write_text('{"rows": 3}')
    assert command("report", tmp_path) == 2
    assert "not a report as fastfedpg verify writes it" in capsys.readouterr().err
    assert not (tmp_path / "report.html").exists()


def test_claims_about_others_are_told_by_statement(tmp_path):
    (tmp_path / "claims.toml").write_text("")
    head = "statement,paper,where,about,row,asks,measured,low,high,comparisons,verdict,note\n"
    lines = 'S1,it says so,Section 2,FedAvg,a,b > 0,1.5,1.25,1.75,1,pass,\nS2,,,,c,d,,,,0,fail,"why, so"\n'
    (tmp_path / "claims.csv").write_text(head + lines)
    part = claims_part.others(tmp_path, None, 0.0, lambda words: None)
    assert part.verdict == "1 of 2 rows fail: c. 1 pass; 1 fail."
    first = next(s for s in part.sections if s.heading == "S1")
    assert first.blocks[0].lines == ["it says so. Section 2."]
    assert first.blocks[1].rows == [["a", "b > 0", "1.5 (1.25 to 1.75)", "", "pass"]]
