"""Who gains and who pays: every agent's return in the end, beside what it could have."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fastfedpg.draw.curves import ALONE, COMMON, START
from fastfedpg.pages import plotted
from fastfedpg.pages.blocks import Chart
from fastfedpg.statistics import spread, spread_words

ROWS = 24
"""With more agents than this, they stand side by side as a curve instead of each in its own row."""
POINTS = 400
"""Of so many agents at most a mark is drawn, in the order of their returns."""
LINES = {START: ("line-ns-open", "dot"), COMMON: ("line-ns-open", "solid"), ALONE: ("line-ns-open", "dash")}
TINTS = {START: "#999999", COMMON: "#5f5f5f", ALONE: "#b07d2b"}


def agents(
    methods: Mapping[str, np.ndarray], names: Sequence[str], marks: Mapping[str, np.ndarray], unit: str
) -> Chart:
    """Returns (seeds, N) of each method by its label, and what they are to be compared with, (N,) each."""
    number = len(names)
    draw = _rows if number <= ROWS else _side_by_side
    data, layout, height = draw(methods, names, marks, unit)
    words = f"{spread_words([len(x) for x in methods.values()])}; more is better."
    return Chart(plotted.figure(data, {**layout, "showlegend": True}, height), words)


def _rows(
    methods: Mapping[str, np.ndarray], names: Sequence[str], marks: Mapping[str, np.ndarray], unit: str
) -> tuple[list[dict[str, Any]], dict[str, Any], int]:
    data: list[dict[str, Any]] = []
    rows = np.arange(len(names))
    for name, x in marks.items():
        symbol, _ = LINES[name]
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": name,
                "x": plotted.numbers(x),
                "y": rows.tolist(),
                "marker": {
                    "symbol": symbol,
                    "size": 22,
                    "color": TINTS[name],
                    "line": {"width": 3 if name == COMMON else 2},
                },
                "hovertemplate": "%{x:.4g}",
            }
        )
    for k, (label, values) in enumerate(methods.items()):
        colour, _, marker = plotted.look(k)
        found = spread(values)
        above, below = np.nan_to_num(found.high - found.mean), np.nan_to_num(found.mean - found.low)
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": plotted.plain(label),
                "x": plotted.numbers(found.mean),
                "y": (rows + 0.5 * ((k + 0.5) / len(methods) - 0.5)).tolist(),
                "marker": {"symbol": marker, "size": 10, "color": colour},
                "error_x": {
                    "type": "data",
                    "array": plotted.numbers(above),
                    "arrayminus": plotted.numbers(below),
                    "color": colour,
                    "thickness": 2,
                    "width": 0,
                },
                "hovertemplate": "%{x:.4g}",
            }
        )
    shown = [plotted.plain(name if len(name) < 24 else name[:22] + "…") for name in names]
    layout = {
        "margin": {"l": 8, "r": 8, "t": 30, "b": 84, "pad": 2},
        "xaxis": {"title": {"text": unit}},
        "yaxis": {"tickvals": rows.tolist(), "ticktext": shown, "range": [len(names) - 0.5, -0.5], "zeroline": False},
    }
    return data, layout, 170 + max(120, (26 + 10 * len(methods)) * len(names))


def _side_by_side(
    methods: Mapping[str, np.ndarray], names: Sequence[str], marks: Mapping[str, np.ndarray], unit: str
) -> tuple[list[dict[str, Any]], dict[str, Any], int]:
    first = next(iter(methods.values())).mean(axis=0)
    order = np.argsort(first)[np.unique(np.linspace(0, len(first) - 1, min(len(first), POINTS)).round().astype(int))]
    x = np.arange(1, len(first) + 1)[np.searchsorted(np.sort(first), first[order])]
    data: list[dict[str, Any]] = []
    for name, values in marks.items():
        line = {"color": TINTS[name], "dash": LINES[name][1], "width": 1.5}
        data.append(
            {"type": "scatter", "mode": "lines", "name": name, "y": plotted.numbers(values[order]), "line": line}
        )
    for k, (label, values) in enumerate(methods.items()):
        colour, dash, marker = plotted.look(k)
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": plotted.plain(label),
                "y": plotted.numbers(values.mean(axis=0)[order]),
                "line": {"color": colour, "dash": dash, "width": 2},
                "marker": {"symbol": marker, "size": 7, "color": colour, "maxdisplayed": 10},
            }
        )
    says = [plotted.plain(names[i]) for i in order]
    data = [{**trace, "x": x.tolist(), "text": says, "hovertemplate": "%{text}: %{y:.4g}"} for trace in data]
    below = f"the {len(first):,} agents, in the order of their returns under the first method"
    layout = {
        "margin": {"l": 8, "r": 8, "t": 30, "b": 84, "pad": 2},
        "xaxis": {"title": {"text": below}},
        "yaxis": {"title": {"text": unit}},
    }
    return data, layout, 420


def said(label: str, values: np.ndarray, names: Sequence[str], marks: Mapping[str, np.ndarray]) -> str:
    """Who gains and who pays under one method, in a sentence or two."""
    mean, words = values.mean(axis=0), list[str]()
    if START in marks:
        gains = mean - marks[START]
        most, least = int(np.argmax(gains)), int(np.argmin(gains))
        who = "every agent gains" if (gains > 0).all() else f"{int((gains > 0).sum())} of {len(gains)} agents gain"
        ends = f"{names[most]} most ({gains[most]:+.4g}), {names[least]} least ({gains[least]:+.4g})"
        if f"{gains[most]:+.4g}" == f"{gains[least]:+.4g}":
            ends = f"all alike ({gains[most]:+.4g})"
        words.append(f"under {label} {who} on the start: {ends}")
    if ALONE in marks:
        price = marks[ALONE] - mean
        most = int(np.argmax(price))
        alike = f"{price.min():.4g}" == f"{price.max():.4g}"
        who = "all pay alike" if alike else f"{names[most]} pays most"
        words.append(
            f"{who} for having one policy in common: {price[most]:.4g} less than {'their' if alike else 'its'} own best"
        )
    return "; ".join(words)
