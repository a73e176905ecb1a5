"""Curves over rounds, samples, bytes and a clock's seconds, of every metric that is known."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fastfedpg.pages import plotted
from fastfedpg.pages.blocks import Chart
from fastfedpg.statistics import Interval, spread, spread_words

METRICS = {
    "gap": "gap to the best common policy",
    "J": "J, the mean cost of the agents",
    "return_mean": "mean return of the agents",
    "return_worst": "worst agent's return",
    "grad_norm_sq": "squared norm of the gradient",
}
"""What a chart offers, in this order."""
CALLED = {"return_mean": "mean return", "return_worst": "worst return", "grad_norm_sq": "gradient²"}
FALLING = ("gap", "grad_norm_sq", "drift")
DECADES = 3
"""What falls by less than this factor is drawn on a plain axis."""


class Method(NamedTuple):
    """One run's curves: `x` by the axis's title, `y` by the metric's name, (seeds, points)."""

    label: str
    x: Mapping[str, np.ndarray]
    y: Mapping[str, np.ndarray]


def known(methods: Sequence[Method], names: Sequence[str] = tuple(METRICS)) -> list[str]:
    """The metrics of which there is something to be drawn."""
    return [name for name in names if any(name in m.y and np.isfinite(m.y[name]).any() for m in methods)]


def curves(methods: Sequence[Method], names: Sequence[str], height: int = 520) -> Chart:
    """All methods in one chart, which has buttons for its axes and a list of metrics."""
    axes = [title for title in methods[0].x if all(title in m.x for m in methods)]
    shown = {name: [_interval(m, name) for m in methods] for name in names}
    first = names[0]
    data = [trace for k, m in enumerate(methods) for trace in _traces(k, m, axes[0], shown[first][k])]
    menus = [plotted.buttons([_over(methods, title) for title in axes], 44)]
    if len(names) > 1:
        menus.append(plotted.buttons([_of(name, shown[name]) for name in names], 6, "dropdown"))
    kinds = [{"label": kind, "method": "relayout", "args": [{"yaxis.type": kind}]} for kind in ("log", "linear")]
    scale = _scale(first, shown[first])
    menus.append(plotted.buttons(kinds if scale == "log" else kinds[::-1], 6, x=1) | {"xanchor": "right"})
    layout = {
        "updatemenus": menus,
        "margin": {"l": 8, "r": 8, "t": 96, "b": 64, "pad": 2},
        "xaxis": {"title": {"text": axes[0]}, "rangemode": "tozero"},
        "yaxis": {"title": {"text": METRICS.get(first, first)}, "type": scale},
        "showlegend": len(methods) > 1,
    }
    seeds = spread_words([len(next(iter(m.y.values()))) for m in methods])
    return Chart(
        plotted.figure(data, layout, height),
        f"{seeds}. Buttons choose what stands below; a name in the legend hides its curve.",
    )


def small(methods: Sequence[Method], name: str, title: str, words: str) -> Chart:
    """One metric over rounds, without buttons."""
    shown = [_interval(m, name) for m in methods]
    axis = next(iter(methods[0].x))
    data = [trace for k, m in enumerate(methods) for trace in _traces(k, m, axis, shown[k])]
    layout = {
        "margin": {"l": 8, "r": 8, "t": 30, "b": 64, "pad": 2},
        "xaxis": {"title": {"text": axis}, "rangemode": "tozero"},
        "yaxis": {"title": {"text": title}, "type": _scale(name, shown)},
        "showlegend": len(methods) > 1,
    }
    return Chart(plotted.figure(data, layout, 340), words)


def _interval(m: Method, name: str) -> Interval:
    if name not in m.y:
        return Interval(*np.full((3, len(next(iter(m.x.values())))), np.nan))
    return spread(m.y[name])


def _scale(name: str, shown: Sequence[Interval]) -> str:
    """Decades where all is positive and falls far enough."""
    means = np.concatenate([x.mean[np.isfinite(x.mean)] for x in shown])
    positive = len(means) > 0 and bool((means > 0).all())
    return "log" if positive and name in FALLING and means.max() > DECADES * means.min() else "linear"


def band(found: Interval) -> tuple[np.ndarray, np.ndarray]:
    """The interval's ends; where the mean is positive and the lower end is not, that stands a decade below."""
    low = np.where((found.low <= 0) & (found.mean > 0), found.mean / 10, found.low)
    known = np.isfinite(low) & np.isfinite(found.high)
    return np.where(known, low, found.mean), np.where(known, found.high, found.mean)


def _traces(k: int, m: Method, axis: str, found: Interval) -> list[dict[str, Any]]:
    colour, dash, marker = plotted.look(k)
    low, high = band(found)
    x, name = plotted.numbers(m.x[axis]), plotted.plain(m.label)
    common: dict[str, Any] = {"type": "scatter", "x": x, "legendgroup": str(k), "name": name}
    edge = {**common, "mode": "lines", "line": {"width": 0}, "showlegend": False, "hoverinfo": "skip"}
    return [
        {**edge, "y": plotted.numbers(low)},
        {**edge, "y": plotted.numbers(high), "fill": "tonexty", "fillcolor": plotted.faint(colour)},
        {
            **common,
            "y": plotted.numbers(found.mean),
            "mode": "lines+markers",
            "customdata": _ends(found),
            "line": {"color": colour, "dash": dash, "width": 2},
            "marker": {"symbol": marker, "size": 7, "color": colour, "maxdisplayed": 8},
            "hovertemplate": "%{y:.4g} (%{customdata[0]})<br>at %{x:,.4~g}",
        },
    ]


def _ends(found: Interval) -> list[list[str]]:
    say = lambda a, b: f"{a:.4g} to {b:.4g}" if np.isfinite(a) and np.isfinite(b) else "no interval"
    return [[say(a, b)] for a, b in zip(found.low, found.high, strict=True)]


def _over(methods: Sequence[Method], title: str) -> dict[str, Any]:
    """The button of one axis."""
    x = [plotted.numbers(m.x[title]) for m in methods for _ in range(3)]
    return {"label": SHORT.get(title, title), "method": "update", "args": [{"x": x}, {"xaxis.title.text": title}]}


ROUNDS, BYTES, SECONDS = "communication rounds", "bytes sent and received, one agent", "simulated seconds"
SHORT = {ROUNDS: "rounds", BYTES: "bytes", SECONDS: "seconds"}
SHORT |= {f"{unit}, all agents together": "samples" for unit in ("environment steps", "gradient estimates")}
"""What buttons are called."""


def _of(name: str, shown: Sequence[Interval]) -> dict[str, Any]:
    """The list's entry of one metric."""
    y: list[Any] = []
    said: list[Any] = []
    for found in shown:
        low, high = band(found)
        y += [plotted.numbers(low), plotted.numbers(high), plotted.numbers(found.mean)]
        said += [None, None, _ends(found)]
    title = METRICS.get(name, name)
    changed = {"yaxis.title.text": title, "yaxis.type": _scale(name, shown), "yaxis.autorange": True}
    return {"label": CALLED.get(name, name), "method": "update", "args": [{"y": y, "customdata": said}, changed]}
