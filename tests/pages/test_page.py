"""The page: everything is in it, nothing outside is asked for, nothing from a file is taken for HTML or a template."""

import csv
import json
import re
from html import unescape
from pathlib import Path

import numpy as np
import pytest

from commands import command
from fastfedpg.comparison import stored_table
from fastfedpg.pages import curve_charts, plotted, run_part, written_page
from fastfedpg.pages.blocks import Chart, Part, Section, Table, Words
from fastfedpg.pages.recorded import read

EVIL = '</script><img src="http://evil.example/x" onerror="alert(1)">%{y}$&lt;'


def own(text: str) -> str:
    """The page without plotly's script."""
    return text.replace(plotted.library(), "")


def test_a_page_of_a_comparison_has_everything(made):
    """Question, verdict, the table's own numbers, every axis, the policies' sliders, agents, how to repeat it."""
    text = own((made / "report.html").read_text())
    said = unescape(re.sub(r"<script.*?</script>", "", text, flags=re.S))
    assert (
        "Which method comes nearest to the best common policy of compromise-grid if all spend as many samples?" in said
    )
    lines = stored_table.read(made / "table.csv")
    other = lines[1].difference
    assert f"Beside fast_fedpg: fedavg_pg is {other.verdict} ({other.interval.mean:.4g} times its gap)" in said
    for head in ("Table", "Curves", "Drift and bias", "Policies", "Who gains, who pays", "Repeat it", "Configuration"):
        assert f"<h2>{head}</h2>" in said
    for axis in (
        "communication rounds",
        "gradient estimates, all agents together",
        "bytes sent and received",
        "simulated seconds",
    ):
        assert axis in text
    assert f"{lines[0].value.mean:.4g}" in said
    assert "fastfedpg compare --config" in said
    assert (made / "compare.toml").read_text().splitlines()[0].removeprefix("# ") in said
    assert text.count('"sliders"') == 2, "one for each method: both ended as they had"


def test_nothing_outside_is_asked_for(made):
    text = (made / "report.html").read_text()
    assert "default-src 'none'" in unescape(text.split("<script>")[0])
    assert not re.findall(r"""(?:src|href)\s*=\s*["']?(?:https?:)?//""", own(text))


def test_simulated_seconds_are_those_of_the_table(made):
    """bandwidth inf and steps that take no time: half a second for each synchronisation."""
    text = own((made / "report.html").read_text())
    assert re.search(r'"x":\[0\.0,1\.0,2\.0,3\.0,4\.0\]', text), "two synchronisations a round"


@pytest.mark.parametrize("text", [EVIL, "a\x1b[2Jb", "%{customdata[0]}", "<b>bold</b>"])
def test_names_are_names(text):
    """In HTML, in a chart's JSON and in plotly's own little HTML a name is only shown."""
    line = np.linspace(1, 2, 3)
    method = curve_charts.Method(text, {curve_charts.ROUNDS: line}, {"gap": line[None]})
    blocks = [Words([text]), Table([text], [[text]]), curve_charts.curves([method], ["gap"])]
    page = own(written_page.render([Part(text, text, text, text, [Section(text, blocks)])]))
    head, _, rest = page.partition("<script>")
    for dangerous in ("<img", "<b>", "\x1b[2J<", 'onerror="alert'):
        assert dangerous not in head + rest
    assert "%{" not in plotted.plain(text)
    names = re.findall(r'"name":"((?:[^"\\]|\\.)*)"', page)
    assert names
    assert not any("<" in json.loads(f'"{name}"') for name in names)


def test_the_table_is_read_back_as_it_was(made):
    """To the last number; and by hand where ends are open, a seed diverged and a target was not reached."""
    lines = stored_table.read(made / "table.csv")
    assert stored_table.text_of(lines) == (made / "table.csv").read_text()
    rows = list(csv.DictReader((made / "table.csv").read_text().splitlines()))
    row = {
        **rows[1],
        "lost": "1",
        "value": "",
        "rounds_to": "",
        "ratio_low": "0.5",
        "ratio_high": "",
        "tuned": "H=5,B=8",
    }
    found = stored_table._line(row)
    assert np.isposinf([found.value.mean, found.rounds_to.mean, found.samples_to.mean]).all()
    assert (found.difference.interval.low, found.difference.interval.high) == (0.5, np.inf)
    assert found.tuned == {"H": "5", "B": "8"}


def test_curves_stand_over_what_was_counted(made):
    """A page's curve is the run's, thinned with its first and its last record."""
    with (made / "fast_fedpg" / "metrics.csv").open() as file:
        gaps = [float(row["gap"]) for row in csv.DictReader(file)]
    told = read(made / "fast_fedpg", points=3)
    assert told.recorded.rounds.tolist() == [0, 2, 4]
    assert told.recorded.metrics["gap"][0].tolist() == [gaps[0], gaps[2], gaps[4]]
    assert run_part.verdict(told).startswith(
        f"After 4 rounds the gap to the best common policy is {gaps[-1]:.4g} (1 seed"
    )


def test_bands_on_decades_end_above_zero():
    """An interval that reaches below zero ends a tenth of the mean above it: on a logarithmic axis zero is nowhere."""
    values = np.array([[1.0, 1e-3], [1.0, 3e-3], [1.0, 1e-3], [1.0, 9e-2], [1.0, 2e-3]])
    found = curve_charts._interval(curve_charts.Method("a", {"x": np.arange(2)}, {"gap": values - 1e-2}), "gap")
    low, high = curve_charts.band(found)
    assert found.low[1] < 0 < found.mean[1]
    assert low[1] == found.mean[1] / 10
    assert high[1] == found.high[1]


def test_every_chart_is_a_figure_that_plotly_knows(made):
    """Validated by plotly itself: no word of it is misspelt."""
    from plotly.graph_objects import Figure

    from fastfedpg.pages import comparison_part

    parts = [comparison_part.part(made, None, 60.0, lambda words: None)]
    charts: list[Chart] = written_page.charts(parts)
    assert len(charts) == 6
    for chart in charts:
        Figure(dict(chart.figure), skip_invalid=False)


def refused(capsys, *words) -> str:
    assert command("report", *words) == 2
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1
    return said


def test_what_is_no_run_is_refused_in_a_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("mine").mkdir()
    Path("file").write_text("")
    assert "nowhere: no such folder" in refused(capsys, "nowhere")
    assert "file: not a folder" in refused(capsys, "file")
    assert "mine: neither a run nor a comparison" in refused(capsys, "mine")
    assert "name a folder" in refused(capsys)
    assert not list(Path("mine").iterdir())


def test_only_its_own_page_is_replaced(out, capsys):
    run = out / "fast_fedpg"
    words = ("report", run, "--replay-seconds", 0)
    assert command(*words) == 0
    assert command(*words) == 0, "its own, as it was written"
    assert f"{written_page.FILE}\n" in (run / ".written").read_text() + "\n"
    page = run / "report.html"
    page.write_text(page.read_text() + "<!-- mine -->")
    capsys.readouterr()
    assert "report.html: not a page as fastfedpg wrote it" in refused(capsys, run)
    assert page.read_text().endswith("<!-- mine -->")
    Path("elsewhere.html").write_text("mine")
    assert "elsewhere.html already there" in refused(capsys, run, "--out", "elsewhere.html")
    assert "not a page as fastfedpg wrote it" in refused(capsys, run, "--out", "elsewhere.html", "--overwrite")
    assert "is a folder" in refused(capsys, run, "--out", "out")
    assert "there is no folder" in refused(capsys, run, "--out", "no/page.html")
    assert Path("elsewhere.html").read_text() == "mine"


def test_a_page_goes_with_what_it_is_of(out):
    """--overwrite removes it with the comparison, since it is listed as written there."""
    from fastfedpg.experiment import own_files

    assert out / "report.html" in own_files.listed(out)


def test_several_folders_are_parts_of_one_page(out, capsys):
    runs = [out / name for name in ("fast_fedpg", "fedavg_pg")]
    assert command("report", *runs, "--replay-seconds", 0) == 0
    text = own(Path("report.html").read_text())
    assert text.count('class="part"') == 2
    assert 'href="#part-2"' in text
    assert text.count("<p>fastfedpg report DIR --clock latency=0.1") == 2, "a flag says whose it is"
