"""How the step size matters: what every method would have come to at another one."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fastfedpg.draw.sensitivity import Tried
from fastfedpg.pages import plotted
from fastfedpg.pages.blocks import Chart
from fastfedpg.pages.curve_charts import band
from fastfedpg.statistics import spread, spread_words


def sensitivity(tried: Mapping[str, Tried], shared: bool) -> Chart:
    """What every method would have come to at another step size."""
    data: list[dict[str, Any]] = []
    for k, (label, x) in enumerate(tried.items()):
        colour, dash, marker = plotted.look(k)
        found = spread(np.where(np.isfinite(x.values), x.values, np.nan).T)
        low, high = band(found)
        above, below = np.nan_to_num(high - found.mean), np.nan_to_num(found.mean - low)
        lost = ~np.isfinite(found.mean)
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": plotted.plain(label),
                "x": plotted.numbers(x.eta),
                "y": plotted.numbers(found.mean),
                "line": {"color": colour, "dash": dash, "width": 2},
                "marker": {
                    "color": colour,
                    "symbol": marker,
                    "size": [16 if eta == x.chosen else 7 for eta in x.eta],
                    "line": {"color": colour, "width": 1},
                },
                "error_y": {
                    "type": "data",
                    "array": plotted.numbers(above),
                    "arrayminus": plotted.numbers(below),
                    "color": colour,
                    "thickness": 1.5,
                    "width": 3,
                },
                "hovertemplate": "step size %{x}: %{y:.4g}",
            }
        )
        if lost.any():
            top = np.nanmax(found.mean) if (~lost).any() else 1.0
            data.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "name": f"{plotted.plain(label)}, diverged",
                    "x": plotted.numbers(x.eta[lost]),
                    "y": plotted.numbers(np.full(lost.sum(), top)),
                    "marker": {"symbol": "x-thin-open", "size": 11, "color": colour, "line": {"width": 2}},
                    "hovertemplate": "step size %{x}: diverged",
                }
            )
    every = sorted({float(e) for x in tried.values() for e in x.eta})
    all_positive = all((x.values[np.isfinite(x.values)] > 0).all() for x in tried.values())
    layout = {
        "margin": {"l": 8, "r": 8, "t": 30, "b": 64, "pad": 2},
        "xaxis": {
            "type": "log",
            "title": {"text": "step size"},
            "tickvals": every,
            "ticktext": [f"{e:.4g}" for e in every],
        },
        "yaxis": {
            "type": "log" if shared and all_positive else "linear",
            "title": {"text": "gap at the end" if shared else "J at the end"},
        },
        "showlegend": True,
    }
    seeds = [x.values.shape[1] for x in tried.values()]
    shown = spread_words(seeds) if max(seeds) > 1 else "mean, no interval"
    words = f"{shown}, on seeds for tuning alone. The large marker is the step size that was chosen."
    return Chart(plotted.figure(data, layout, 400), words)
