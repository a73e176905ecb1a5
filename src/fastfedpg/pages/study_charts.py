"""Charts of a study: scores of methods, values along a setting, the best at pairs of settings."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fastfedpg.pages import curve_charts, look_up, plotted
from fastfedpg.pages.blocks import Chart
from fastfedpg.pages.curve_charts import BYTES, ROUNDS, SECONDS, Method
from fastfedpg.pages.look_up import Costs
from fastfedpg.pages.recorded import Told

MARGIN = {"l": 8, "r": 8, "t": 30, "b": 70, "pad": 2}


def _number(row: Mapping[str, str], name: str) -> float:
    try:
        return float(row.get(name) or "nan")
    except ValueError:
        return float("nan")


def _bars(values: np.ndarray, low: np.ndarray, high: np.ndarray, colour: str) -> dict[str, Any]:
    up, down = (plotted.numbers(np.nan_to_num(np.maximum(x, 0))) for x in (high - values, values - low))
    return {"type": "data", "array": up, "arrayminus": down, "color": colour, "thickness": 2, "width": 3}


def member(runs: Sequence[Told]) -> Chart:
    """The curves of one comparison among many: what says most, over whatever it can stand over."""
    titles = {"rounds": ROUNDS, "bytes": BYTES, "seconds": SECONDS}
    methods = [Method(t.label, look_up.axes(t, Costs(), titles), t.recorded.metrics) for t in runs if t.recorded]
    leading = next(t.recorded.leading for t in runs if t.recorded)
    return curve_charts.curves(methods, [leading], 440)


def scores(rows: Sequence[Mapping[str, str]]) -> Chart:
    """Every method's score over all problems, with its interval."""
    values, low, high = (np.array([_number(row, f"score{end}") for row in rows]) for end in ("", "_low", "_high"))
    data = [
        {
            "type": "scatter",
            "mode": "markers",
            "x": plotted.numbers(values),
            "y": [plotted.plain(r["label"]) for r in rows],
            "marker": {"size": 11, "color": plotted.INKS[0]},
            "error_x": _bars(values, low, high, plotted.INKS[0]),
            "hovertemplate": "%{y}: %{x:.6g}<extra></extra>",
        }
    ]
    layout = {
        "margin": {**MARGIN, "b": 40},
        "showlegend": False,
        "xaxis": {"title": {"text": "score"}},
        "yaxis": {"autorange": "reversed"},
    }
    bars = "95% intervals" if np.isfinite(low).any() else "too few seeds for intervals"
    words = f"Score: the share of what there was to gain, 1 at the best that is known; {bars}."
    return Chart(plotted.figure(data, layout, 90 + 34 * len(rows)), words)


def problems(rows: Sequence[Mapping[str, str]], methods: Sequence[str]) -> Chart:
    """What every method leaves of what there was to gain, problem by problem: medians over seeds."""
    names = list(dict.fromkeys(row["problem"] for row in rows))
    data = []
    for k, label in enumerate(methods):
        colour, _, marker = plotted.look(k)
        left = [
            np.median([1 - _number(r, "score") for r in rows if r["problem"] == name and r["label"] == label])
            for name in names
        ]
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": plotted.plain(label),
                "x": plotted.numbers(np.maximum(left, 1e-9)),
                "y": [plotted.plain(name) for name in names],
                "hovertemplate": "%{y}: %{x:.3g} left",
                "marker": {"size": 10, "symbol": marker, "color": colour, "opacity": 0.85},
            }
        )
    layout = {
        "margin": {**MARGIN, "b": 96},
        "showlegend": True,
        "xaxis": {"type": "log", "title": {"text": "share of what there was to gain that is left"}},
        "yaxis": {"autorange": "reversed"},
    }
    words = "Further left is better. Medians over seeds; what is below 1e-9 stands there."
    return Chart(plotted.figure(data, layout, 190 + 34 * len(names)), words)


def series(rows: Sequence[Mapping[str, str]], name: str, value: str) -> Chart:
    """A line for each method along the setting that varies."""
    data = []
    words_alone = any(np.isnan(_number(row, "x")) for row in rows)
    every = [_number(row, "value") for row in rows]
    for k, label in enumerate(dict.fromkeys(row["label"] for row in rows)):
        colour, dash, marker = plotted.look(k)
        mine = [row for row in rows if row["label"] == label]
        values, low, high = (np.array([_number(row, f"value{end}") for row in mine]) for end in ("", "_low", "_high"))
        x: list[Any] = (
            [plotted.plain(row["x"]) for row in mine]
            if words_alone
            else plotted.numbers([_number(r, "x") for r in mine])
        )
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": plotted.plain(label),
                "x": x,
                "y": plotted.numbers(values),
                "line": {"color": colour, "dash": dash, "width": 2},
                "marker": {"symbol": marker, "size": 8, "color": colour},
                "error_y": _bars(values, low, high, colour),
                "hovertemplate": "%{y:.4g} at %{x}",
            }
        )
    at = [] if words_alone else sorted({_number(row, "x") for row in rows})
    log = bool(at) and at[0] > 0 and at[-1] >= 8 * at[0]
    ticks = {"tickvals": at, "ticktext": [f"{x:g}" for x in at]} if at else {}
    layout = {
        "margin": {**MARGIN, "b": 96},
        "showlegend": True,
        "xaxis": {
            "title": {"text": plotted.plain(name)},
            "type": "log" if log else "category" if words_alone else "linear",
            **ticks,
        },
        "yaxis": {"title": {"text": value}, "type": "log" if all(v > 0 for v in every) else "linear"},
    }
    return Chart(plotted.figure(data, layout, 460), "With 95% intervals; less is better.")


def phases(cells: Sequence[Mapping[str, str]], methods: Sequence[str], x: str, y: str) -> Chart:
    """At every pair of values the best method, by its marker and colour; who is tied is told at a touch."""
    data = []
    for k, label in enumerate(methods):
        colour, _, marker = plotted.look(k)
        mine = [row for row in cells if row["best"] == label]
        if not mine:
            continue
        tied = [[plotted.plain(row["best_or_tied"].replace(" ", ", "))] for row in mine]
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": plotted.plain(label),
                "x": [plotted.plain(r[x]) for r in mine],
                "y": [plotted.plain(r[y]) for r in mine],
                "customdata": tied,
                "marker": {"size": 26, "symbol": marker, "color": colour},
                "hovertemplate": "best or tied: %{customdata[0]}",
            }
        )
    order = lambda name: {
        "type": "category",
        "categoryorder": "array",
        "categoryarray": [plotted.plain(v) for v in dict.fromkeys(r[name] for r in cells)],
    }
    layout = {
        "margin": {**MARGIN, "b": 96},
        "showlegend": True,
        "xaxis": {"title": {"text": plotted.plain(x)}, **order(x)},
        "yaxis": {"title": {"text": plotted.plain(y)}, **order(y)},
    }
    rows = len({row[y] for row in cells})
    return Chart(
        plotted.figure(data, layout, 200 + 56 * rows),
        "The best method at each pair; a touch says who is not worse than it.",
    )
