"""A result as people look at it: repr, to_frame, plot, and a metric's name that was mistyped."""

import re
import sys

import numpy as np
import pytest

from fastfedpg import Config, InputError, Result, fast_fedpg, problems, run, simulate, with_oracle
from fastfedpg.runtime.views import decades
from fastfedpg.statistics import bootstrap

pytest.importorskip("pandas")
pytest.importorskip("matplotlib")


def result(seeds=2, records=3, gap=None, settings=None, played=False) -> Result:
    """Metrics whose values tell where they are: gap[s, r] = 10 s + r + 1, unless given."""
    shape = (seeds, records) if settings is None else (settings, seeds, records)
    s, r = np.indices(shape)[-2:]
    own = 10.0 * s + r + 1
    values = own if gap is None else np.broadcast_to(gap, shape)
    gradient = np.full(shape, np.nan) if played else own
    metrics = {"J": own + 100, "gap": values, "return_mean": 1 - own, "grad_norm_sq": gradient}
    return Result(np.arange(records) * 5, metrics, np.zeros((*shape, 4)), np.zeros((*shape[:-1], 2)), first_seed=7)


@pytest.mark.parametrize("ask", [lambda r: r.final("gpa"), lambda r: r.metrics["gpa"], lambda r: r.plot("gpa")])
def test_a_mistyped_metric(ask):
    with pytest.raises(InputError, match=r"unknown metric 'gpa'; did you mean 'gap'\? \(known: J, gap, "):
        ask(result())


def test_metrics_are_a_dictionary_still():
    metrics = result().metrics
    assert isinstance(metrics, dict)
    assert "gpa" not in metrics
    assert metrics.get("gpa") is None


def test_to_frame():
    """A row for each seed and record: seeds 7 and 8, rounds 0, 5 and 10; the gap of seed 8 after round 5 is 12."""
    frame = result().to_frame()
    assert list(frame.columns) == ["seed", "round", "J", "gap", "return_mean", "grad_norm_sq"]
    assert frame["seed"].tolist() == [7, 7, 7, 8, 8, 8]
    assert frame["round"].tolist() == [0, 5, 10] * 2
    assert frame.query("seed == 8 and round == 5")["gap"].tolist() == [12.0]
    assert list(result(settings=2).to_frame().columns[:3]) == ["setting", "seed", "round"]
    assert result(settings=2).to_frame()["setting"].tolist() == [0] * 6 + [1] * 6


def test_to_frame_without_pandas(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match=r"a data frame needs pandas: pip install 'fastfedpg\[frame\]'"):
        result().to_frame()


def test_plot_is_the_mean_over_seeds_and_its_interval():
    (axis,) = result(seeds=5).plot().axes
    (line,) = axis.lines
    np.testing.assert_allclose(line.get_ydata(), [21, 22, 23])  # 20 is the mean of 0, 10, 20, 30, 40; from 1 on
    np.testing.assert_array_equal(line.get_xdata(), [0, 5, 10])
    (band,) = axis.collections
    _, low, high = bootstrap(result(seeds=5).metrics["gap"])
    drawn = band.get_paths()[0].vertices[:, 1]
    assert (drawn.min(), drawn.max()) == pytest.approx((low.min(), high.max()))
    assert axis.get_yscale() == "log"
    assert "gap" in axis.get_ylabel()
    assert axis.get_title() == "mean and 95% interval, 5 seeds"
    (axis,) = result(seeds=2).plot().axes
    assert axis.collections[0].get_paths()[0].vertices[:, 1].max() == 13, "the larger of two"
    assert axis.get_title() == "mean and range, 2 seeds"


def test_plot_of_another_metric_of_one_seed_and_of_a_gap_that_is_zero():
    (axis,) = result(seeds=1).plot("return_mean").axes
    assert not axis.collections
    assert axis.get_ylabel() == "mean return of the agents"
    assert result(gap=np.array([1.0, 0.0, -1e-17])).plot().axes[0].get_yscale() == "linear"
    assert result(gap=np.nan, played=True).plot().axes[0].get_ylabel() == "mean return of the agents"
    assert result(gap=np.nan).plot().axes[0].get_ylabel() == "mean cost of the agents, $J$"


def test_what_cannot_be_drawn():
    with pytest.raises(InputError, match="'gap' is not defined in this run"):
        result(gap=np.nan).plot("gap")
    with pytest.raises(InputError, match="several settings"):
        result(settings=3).plot()


def test_repr_is_short_and_leads_with_what_counts():
    """Final gaps 3 and 13: mean 8."""
    text = repr(result())
    first, second = text.splitlines()
    assert first == "Result: 10 rounds in 3 records, 2 seeds"
    assert second == "mean gap 8 in the end"
    assert repr(result(seeds=1)).splitlines()[1] == "gap 3 in the end"
    assert ", 95% interval " in repr(result(seeds=5))
    assert repr(result(gap=np.nan, played=True)).splitlines()[1].startswith("mean return_mean -7 ")
    assert repr(result(gap=np.nan)).splitlines()[1].startswith("mean J ")
    assert "3 settings, 2 seeds\ngap 8 to 8 in the end" in repr(result(settings=3))


def test_seeds_are_the_runs_own():
    """Of a simulation, and of a run from its configuration."""
    problem = with_oracle(problems.make("compromise"), "exact")
    found = simulate(problem, fast_fedpg(eta=0.5, H=2), rounds=1, seeds=2, first_seed=3)
    assert found.to_frame()["seed"].tolist() == [3, 3, 4, 4]
    assert run(Config("compromise", rounds=1, H=2, seeds=1, first_seed=5)).to_frame()["seed"].tolist() == [5, 5]


@pytest.mark.parametrize(
    ("ends", "major", "minor"),
    [
        ((0.02, 40), ["0.1", "1", "10"], []),
        ((2, 30), ["10"], ["2", "3", "4", "6", "20", "30"]),
        ((2e-7, 9e-7), [], ["2e-7", "3e-7", "4e-7", "6e-7"]),
        ((5e-5, 4), ["1e-4", "1e-3", "1e-2", "1e-1", "1e0"], []),
    ],
)
def test_numbers_of_a_logarithmic_axis_are_of_one_kind(ends, major, minor):
    """Plain from 1e-4 to 1e5, else all are powers of ten; others than powers only where at most one power is in sight.

    "10^{k}" is written as 1ek here.
    """
    axis = pytest.importorskip("matplotlib.figure").Figure().add_subplot()
    axis.set_yscale("log")
    axis.set_ylim(*ends)
    decades(axis.yaxis)
    axis.figure.draw_without_rendering()
    for expected, labels in ((major, axis.yaxis.get_majorticklabels()), (minor, axis.yaxis.get_minorticklabels())):
        shown = [label.get_text() for label in labels if ends[0] <= label.get_position()[1] <= ends[1]]
        powers = [
            re.sub(r"\$\\mathdefault\{(?:(\d)\\times)?10\^\{(-?\d+)\}\}\$", _power, word) for word in shown if word
        ]
        assert powers == expected


def _power(found):
    return f"{found[1] or 1}e{found[2]}"
