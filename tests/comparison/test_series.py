"""A series is a study in which one thing varies: its table, its slopes, its picture, and what is refused."""

import csv
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy.stats import binom

from commands import command
from compared import table as compared_table
from fastfedpg import problems
from fastfedpg.comparison import run_cells, run_study, series, series_table, study_spec
from fastfedpg.comparison.vary import Vary
from fastfedpg.draw import curves, series_picture, style
from fastfedpg.experiment import own_files
from fastfedpg.statistics import NOTHING, Interval, symmetric

pytestmark = pytest.mark.usefixtures("fresh_folder")

# One program for all values, that of other tests of this room: only the numbers of the problem differ.
COMMON = """
kind = "series"
algorithms = ["fast_fedpg", "fedavg_pg"]
seeds = 6
rounds = 6
H = 2
problem = "compromise"
oracle = "gpomdp"
B = 2
K = 3
eta = 0.5
"""
VARY = """
[vary]
setting = "problem.mid"
label = "pay in the middle (reward units)"
values = [0.6, 0.7, 0.8]
slope = true
claim = -1.0
"""
LABELS = ("mid=0.6", "mid=0.7", "mid=0.8")
METHODS = ("fast_fedpg", "fedavg_pg")
WRITTEN = ("study.toml", "study.csv", "series.csv")


@pytest.fixture(scope="module")
def whole(tmp_path_factory, ink) -> Path:
    """A series that was never interrupted; not to be written to."""
    folder = tmp_path_factory.mktemp("series")
    (folder / "my.toml").write_text(COMMON + VARY)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("curves", "policies", "agents"):
            patch.setattr(curves, name, lambda *args, **more: [])
        patch.setattr(Figure, "savefig", ink)
        run_study.study(study_spec.read(folder / "my.toml"), folder / "out")
    return folder / "out"


def rows(name: str, folder: Path | str = "out") -> list[dict[str, str]]:
    with (Path(folder) / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write(text: str) -> str:
    Path("my.toml").write_text(text)
    return "my.toml"


def test_every_value_is_a_comparison_of_its_own(whole):
    pictures = {"series.png", "series.svg"}
    assert {path.name for path in whole.iterdir()} == {".written", *LABELS, *WRITTEN, *pictures}
    assert {*own_files.listed(whole)} == {path for path in whole.rglob("*") if path.is_file()}
    assert (whole / "series.png").stat().st_size > 10_000
    for label, mid in zip(LABELS, (0.6, 0.7, 0.8), strict=True):
        assert run_cells.from_file(whole / label / "compare.toml").settings.problem_args["mid"] == mid
    found = rows("study.csv", whole)
    assert [(row["x"], row["label"]) for row in found] == [(x, m) for x in ("0.6", "0.7", "0.8") for m in METHODS]
    for row, label in zip(found, [label for label in LABELS for _ in METHODS], strict=True):
        of = compared_table(whole / label)[row["label"]]
        for end in ("", "_low", "_high"):
            assert float(row[f"value{end}"]) == pytest.approx(float(of[f"geometric{end}"]), rel=1e-12)
        assert row["verdict"] == of["verdict"]


def test_the_best_is_marked_and_who_is_not_worse(whole):
    """With two methods the rule is the comparison's own verdict, read from the better one's side."""
    found = rows("study.csv", whole)
    for first, second in zip(found[::2], found[1::2], strict=True):
        least = min((first, second), key=lambda row: float(row["value"]))
        assert least["best_or_tied"] == "True"
        apart = second["verdict"] in ("better", "worse")
        assert [first["best_or_tied"], second["best_or_tied"]].count("False") == apart


def test_slopes_are_those_of_lines_through_each_seed_s_gaps(whole):
    for method in METHODS:
        gaps = {(r["seed"], r["x"]): float(r["gap"]) for r in rows("series.csv", whole) if r["label"] == method}
        xs, seeds = ("0.6", "0.7", "0.8"), sorted({seed for seed, _ in gaps})
        assert len(gaps) == 18
        lines = [np.polyfit(np.log([*map(float, xs)]), np.log([gaps[s, x] for x in xs]), 1)[0] for s in seeds]
        expected = symmetric(np.array(lines))
        for row in (r for r in rows("study.csv", whole) if r["label"] == method):
            for end, x in zip(("", "_low", "_high"), expected, strict=True):
                assert float(row[f"slope{end}"] or "inf") == pytest.approx(abs(x) if np.isinf(x) else x, rel=1e-9)


TIMES = 1500


@pytest.mark.parametrize(("true", "least"), [(-1.0, 0.0), (-0.5, 0.9)])
def test_a_slope_s_interval_leaves_out_what_is_not_so(true, least):
    """Gaps x^slope, lognormal over 8 seeds with a part in common: -1 is excluded in 4.7% of cases if it is true.

    6 of 2^8 signs are in each tail. If it is -0.5 nearly always. All seeds' noise has the deviation 0.4, which over
    2, 4, …, 32 is 0.4 / (log 2 sqrt(10)) = 0.18 of a seed's slope.
    """
    rng, x = np.random.default_rng(3), 2.0 ** np.arange(1, 6)
    said = []
    for _ in range(TIMES):
        noise = 0.4 * rng.normal(size=(5, 8)) + rng.normal(size=8)
        found = series.slope(x, x[:, None] ** true * np.exp(noise), True)
        said.append(series_table.judged(found, -1.0))
    excluded = said.count("excluded")
    assert "open" not in said
    if true == -1.0:
        assert binom(TIMES, 12 / 256).ppf(1e-5) <= excluded <= binom(TIMES, 12 / 256).ppf(1 - 1e-5)
    assert excluded >= least * TIMES


def test_a_slope_without_noise_and_one_that_there_is_not():
    exact = series.slope((1, 2, 4), np.array([[8.0], [4.0], [2.0]]), False)
    assert float(exact.mean) == pytest.approx(-1.0)
    assert math.isnan(exact.low)
    assert series_table.judged(exact, -1.0) == "open"
    assert series.slope((1, 2, 4), np.array([[8.0] * 6, [np.inf] * 6, [2.0] * 6]), True) == NOTHING
    assert series.slope((1, 2, 4), np.array([[8.0] * 6, [-1e-3] * 6, [2.0] * 6]), True) == NOTHING


def test_it_goes_on_to_the_same_bytes_and_says_what_it_found(whole, monkeypatch, capsys):
    shutil.copytree(whole, "out")
    shutil.rmtree("out/mid=0.7")
    for name in ("study.csv", "series.csv", "series.png"):
        Path("out", name).unlink()
    assert command("resume", "out") == 0
    for name in WRITTEN:
        assert Path("out", name).read_bytes() == (whole / name).read_bytes()
    capsys.readouterr()
    monkeypatch.setattr(run_cells, "execute", None)
    monkeypatch.setenv("COLUMNS", "80")
    assert command("resume", "out") == 0
    said = capsys.readouterr().out
    upper = said.split("\n\nat each value")[0]
    assert all(len(line) <= 80 for line in upper.splitlines())
    assert "the gap at the end against pay in the middle" in upper
    found = rows("study.csv")
    values = [f"{float(r['value']):.4g}" + "*" * (r["best_or_tied"] == "True") for r in found]
    shown = [line.split()[3:] for line in upper.splitlines() if line.startswith("mid = ")]
    assert shown == [values[:2], values[2:4], values[4:]]
    assert next(line for line in upper.splitlines() if line.startswith("slope  ")).split()[-2:] == [
        f"{float(r['slope']):+.4g}" for r in found[:2]
    ]
    assert "so -1 is" in upper
    assert (
        "all methods have the same number of samples; the number is the geometric mean of the gap over 6 seeds" in said
    )


def test_what_is_written_down_is_read_again(whole):
    assert study_spec.read(whole / "study.toml") == study_spec.read(Path(write(COMMON + VARY)))


def test_a_value_may_have_more_of_its_own_and_quick_other_values():
    own = '[problems."mid=0.8"]\nrounds = 9\n[quick]\nvalues = [0.6, 0.8, 0.9]\nseeds = 2\n'
    own += '[quick.problems."mid=0.6"]\nrounds = 3\n'
    full, quick = (study_spec.read(Path(write(COMMON + VARY + own)), q) for q in (False, True))
    said = lambda study: {k: (c.settings.seeds, c.settings.rounds) for k, c in study.comparisons.items()}
    assert said(full) == {"mid=0.6": (6, 6), "mid=0.7": (6, 6), "mid=0.8": (6, 9)}
    assert said(quick) == {"mid=0.6": (2, 3), "mid=0.8": (2, 9), "mid=0.9": (2, 6)}
    assert [c.settings.problem_args["mid"] for c in quick.comparisons.values()] == [0.6, 0.8, 0.9]


def test_two_names_for_one_thing():
    text = (
        COMMON.replace('"fedavg_pg"', '"fedsvrpg_m", "mfpo"')
        + '[vary]\nsetting = "b"\nalso = ["a"]\nvalues = [0.1, 1.0]\n'
    )
    found = study_spec.read(Path(write(text))).comparisons["b=0.1"]
    assert [found.config(m).get(x) for m, x in (("fedsvrpg_m", "b"), ("mfpo", "a"))] == [0.1, 0.1]


def but(old: str, new: str) -> str:
    assert old in COMMON + VARY
    return (COMMON + VARY).replace(old, new)


SLOPE = "slope = true\nclaim = -1.0\n"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (COMMON, "my.toml: no [vary], which says what differs, as in setting ="),
        ("vary = 3\n" + COMMON, "my.toml: no [vary]"),
        (but('setting = "problem.mid"\n', ""), "my.toml: vary has no setting; say what differs"),
        (but("problem.mid", "agnets"), "problems.agnets=0.6: unknown setting 'agnets'; did you mean 'agents'?"),
        (but("problem.mid", "problem.middle"), "problem 'compromise': unknown argument 'middle'; did you mean 'mid'?"),
        (but("problem.mid", "clock.latncy"), "unknown setting of a clock 'latncy'; did you mean 'latency'?"),
        (but("problem.mid", "clock.latency"), "clock has no bandwidth"),
        (but('problem = "compromise"\n', ""), "problems.mid=0.6 names no problem; say which"),
        (but("problem.mid", "policy.hidden"), "vary: policy.hidden changes nothing here: no method has it"),
        (but("problem.mid", "mu"), "vary: mu changes nothing here: no method has it"),
        (but("problem.mid", "H"), "H is 0.6; it must be a whole number"),
        (but("slope", "slop"), "vary: unknown setting 'slop'; did you mean 'slope'?"),
        (but("[0.6, 0.7, 0.8]", "[]"), "vary: values is []; it must be a list of numbers or words, as in [2, 4, 8]"),
        (but("values = [0.6, 0.7, 0.8]\n", ""), "vary: values is not there; it must be a list"),
        (but("0.8]", f"1{'0' * 400}]"), "a slope needs at least three positive numbers"),
        (but(SLOPE, "").replace("0.8]", f"1{'0' * 400}]"), "mid=10000"),
        (but("[0.6, 0.7, 0.8]", "0.6"), "vary: values is 0.6; it must be a list"),
        (but("[0.6, 0.7, 0.8]", "[0.6, 0.8, 0.7]"), "values are 0.6, 0.8, 0.7; numbers must increase"),
        (but("[0.6, 0.7, 0.8]", "[0.6, 0.6, 0.7]"), "values are 0.6, 0.6, 0.7; each must be there once"),
        (but("[0.6, 0.7, 0.8]", "[0.0, 0.7, 0.8]"), "a slope needs at least three positive numbers"),
        (but("[0.6, 0.7, 0.8]", "[0.6, 0.7]"), "a slope needs at least three positive numbers"),
        (but("[0.6, 0.7, 0.8]", "['a', 'b', 'c']"), "a slope needs at least three positive numbers"),
        (but("slope = true\n", ""), "vary: claim = -1 is what a slope is said to be; it needs slope = true"),
        (but("slope = true", "slope = 3"), "vary: slope is 3"),
        (but('label = "pay', r'label = "\u001b[2J'), r"vary: label is '\x1b[2J in the middle (reward units)'; give"),
        (but('label = "pay', f'label = "{"x" * 5000}'), "vary: label is 5,029 letters; give it 1 to 100 letters that"),
        (r'name = "\u001b[31m"' + COMMON + VARY, r"my.toml: name is '\x1b[31m'; give it 1 to 100 letters"),
        (but("values =", "also = 3\nvalues ="), "vary: also is 3; it must be a list of settings"),
        (but("problem.mid", "seeds").replace("[0.6, 0.7, 0.8]", "[1, 2, 3]"), "a slope needs the same seeds"),
        (COMMON + VARY + '[problems."mid=0.9"]\n', "unknown problem 'mid=0.9'"),
        (but(SLOPE, "").replace('"compromise"', '"random"').replace(".mid", ".kernel").replace("[0.6, ", "[0.0, "),
         "series: it shows gaps or J, and not both: there is no J* of kernel=0.7, kernel=0.8; leave it out"),
        (but(SLOPE, "") .replace("[0.6, 0.7, 0.8]", "['a/b', 'c']"), "label 'mid=a/b' can't be a folder's name"),
    ],
)  # fmt: skip
def test_before_anything_is_run(text, why, monkeypatch, capsys):
    monkeypatch.setattr(run_cells, "execute", None)
    assert command("study", write(text), "--out", "out") == 2
    said = capsys.readouterr().err
    assert why in said
    assert "Traceback" not in said
    assert not Path("out").exists()


def test_the_picture_has_every_value_and_marks_what_diverged():
    """Of two lines, the second with a seed that diverged at 4; the claimed one falls as 1/x from the first's start."""
    value = lambda *x: Interval(np.array(x), 0.8 * np.array(x), 1.2 * np.array(x))
    lost = value(0.3, np.inf, 0.1)
    axis = Vary("agents", "number of agents N", (2, 4, 32), slope=True, claim=-1.0)
    with style.drawing() as Figure:
        plot = Figure().add_subplot()
        found = [series_picture.Series("a", value(0.4, 0.2, 0.1)), series_picture.Series("b", lost)]
        handles, labels = series_picture.draw_series(plot, found, axis, problems.compromise())
        assert labels == ["a", "b", "claimed slope, -1", "some seed diverged"]
        np.testing.assert_allclose(handles[2].get_ydata(), [0.4, 0.2, 0.025])
        np.testing.assert_allclose(handles[0].get_ydata(), [0.4, 0.2, 0.1])
        assert (plot.get_xscale(), plot.get_yscale()) == ("log", "log")
        assert plot.get_xlabel() == "number of agents N (logarithmic)"
        assert "reward units" in plot.get_ylabel()
        crosses = [line for line in plot.lines if line.get_marker() == "x"]
        np.testing.assert_allclose(crosses[0].get_xdata(), [4], rtol=0.1)
        assert [plot.xaxis.get_major_formatter()(x) for x in plot.get_xticks()] == ["2", "4", "32"]


def test_a_unit_is_said_once():
    assert series_picture._named("latency (seconds)", True) == "latency (seconds; logarithmic)"
    assert series_picture._named("latency (seconds)", False) == "latency (seconds)"


@pytest.mark.parametrize(
    ("budgets", "words"),
    [
        (("rounds",), "have the same number of rounds"),
        (("clock",), "same simulated time"),
        (("rounds", "bytes"), "alike"),
    ],
)
def test_what_methods_have_in_common_is_said(budgets, words):
    assert words in series.spent(budgets)


def test_words_stand_side_by_side():
    axis = Vary("oracle", "oracle", ("gpomdp", "reinforce"))
    one = Interval(np.array([0.4, 0.2]), *[np.full(2, np.nan)] * 2)
    with style.drawing() as Figure:
        plot = Figure().add_subplot()
        series_picture.draw_series(plot, [series_picture.Series("a", one)], axis, problems.compromise())
        assert [plot.xaxis.get_major_formatter()(x) for x in plot.get_xticks()] == ["gpomdp", "reinforce"]
        assert plot.get_xlabel() == "oracle"


NAMES = ("heterogeneity", "speedup", "local-steps", "communication", "momentum", "participation")


@pytest.mark.parametrize("name", NAMES)
def test_our_own_studies_are_read_and_quick_does_not_look_at_the_seeds_that_count(name):
    full, quick = (study_spec.read(study_spec.find(name), q) for q in (False, True))
    assert full.kind == quick.kind == "series"
    for c in full.comparisons.values():
        assert (c.settings.first_seed, c.settings.seeds) == (30000, 8)
    for c in quick.comparisons.values():
        assert c.settings.first_seed + c.settings.seeds + c.tune_seeds < 30000
    assert {*quick.methods} <= {*full.methods}


def test_local_steps_have_equal_samples():
    found = study_spec.read(study_spec.find("local-steps")).comparisons.values()
    assert {c.settings.rounds * c.config("fedavg_pg").get("H") for c in found} == {1000}
