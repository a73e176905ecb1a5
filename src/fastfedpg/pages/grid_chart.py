"""A policy on its grid: arrows over where that leads, with a slider over rounds."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fastfedpg.draw.policy_maps import TIME, explanation, grid_of, likely_moves, per_cell
from fastfedpg.pages import plotted
from fastfedpg.pages.blocks import Chart
from fastfedpg.problems import TabularProblem, tabular_exact

REACH, HEAD = 0.42, 0.16
"""Of an arrow that is certain, in cells; and of its head's sides."""
SHADES = [[0, "rgba(86,180,233,0)"], [1, "rgba(86,180,233,0.9)"]]
WIDE = 460
"""Pixels of a grid, at most."""


def policy(
    title: str, problem: TabularProblem, thetas: Sequence[np.ndarray], rounds: Sequence[int], most: float
) -> Chart:
    """One method's policies after some rounds; of a single one there is no slider. Shades end at `most`."""
    frames = [_layers(problem, theta, most) for theta in thetas]
    grid = grid_of(problem)
    shown = {"visible": False, "showgrid": False, "zeroline": False, "fixedrange": True}
    layout: dict[str, Any] = {
        "margin": {"l": 4, "r": 4, "t": 30, "b": 84 if len(frames) > 1 else 8, "pad": 0},
        "xaxis": {**shown, "range": [-0.5, grid.columns - 0.5], "constrain": "domain"},
        "yaxis": {**shown, "range": [grid.rows - 0.5, -0.5], "scaleanchor": "x", "constrain": "domain"},
        "title": {"text": plotted.plain(title), "font": {"size": 14}, "x": 0.5, "y": 0.99, "yanchor": "top"},
        "shapes": [*_lines(grid), *_walls(grid)],
        "showlegend": False,
    }
    height = round(min(WIDE, 320) * min(1.6, max(0.5, grid.rows / grid.columns))) + layout["margin"]["b"] + 34
    figure = plotted.figure([*frames[-1], _marks(grid)], layout, height)
    if len(frames) > 1:
        numbers = list(range(len(frames[-1])))
        figure["frames"] = [
            {"name": str(t), "data": list(layers), "traces": numbers} for t, layers in zip(rounds, frames, strict=True)
        ]
        figure["layout"]["sliders"] = [_slider(rounds)]
    return Chart(figure, bar=False)


def words(problem: TabularProblem) -> str:
    """What the charts show."""
    return f"{explanation(problem)}; shades: {TIME}"


def most_time(problem: TabularProblem, thetas: Sequence[np.ndarray]) -> float:
    """The largest share of time in one cell, for shades that mean the same in all charts."""
    return float(max(per_cell(problem, tabular_exact.occupancy(problem, x).mean(axis=0)).max() for x in thetas))


def _slider(rounds: Sequence[int]) -> dict[str, Any]:
    now = {"mode": "immediate", "frame": {"duration": 0, "redraw": True}, "transition": {"duration": 0}}
    steps = [{"label": f"{t:,}", "method": "animate", "args": [[str(t)], now]} for t in rounds]
    return {
        "active": len(rounds) - 1,
        "steps": steps,
        "pad": {"t": 6, "b": 4, "l": 6, "r": 6},
        "x": 0,
        "len": 1,
        "y": 0,
        "currentvalue": {"prefix": "after round ", "font": {"size": 13, "color": plotted.GREY}},
        "font": {"size": 10, "color": "rgba(0,0,0,0)"},
        "bgcolor": plotted.faint(plotted.GREY, 0.25),
        "bordercolor": plotted.faint(plotted.GREY, 0.6),
        "activebgcolor": plotted.GREY,
        "tickcolor": plotted.GREY,
        "ticklen": 3,
        "minorticklen": 0,
    }


def _layers(problem: TabularProblem, theta: np.ndarray, most: float) -> list[dict[str, Any]]:
    """Shades, arrows, dots and rings: three traces, whatever the policy is."""
    time = tabular_exact.occupancy(problem, theta).mean(axis=0)
    where = per_cell(problem, time)
    x: list[float | None] = []
    y: list[float | None] = []
    dots: list[tuple[float, float, float, str]] = []
    for row, column, move, p in likely_moves(problem, theta, time):
        if move is None:
            dots.append((column, row, 5 + 12 * p, "circle-open"))
        elif move == (0, 0):
            dots.append((column, row, 3 + 6 * p, "circle"))
        else:
            ends = _arrow(row, column, REACH * p * np.array(move, float) / np.hypot(*move))
            x, y = [*x, *ends[0]], [*y, *ends[1]]
    shares = [plotted.numbers(row) for row in where]
    ink = {"color": plotted.GREY, "width": 2.2}
    columns = list(zip(*dots, strict=True)) or [(), (), (), ()]
    return [
        {
            "type": "heatmap",
            "z": shares,
            "zmin": 0,
            "zmax": most,
            "colorscale": SHADES,
            "showscale": False,
            "hovertemplate": "row %{y}, column %{x}: %{z:.3f} of the time<extra></extra>",
        },
        {"type": "scatter", "mode": "lines", "x": x, "y": y, "line": ink, "hoverinfo": "skip", "name": "arrows"},
        {
            "type": "scatter",
            "mode": "markers",
            "x": list(columns[0]),
            "y": list(columns[1]),
            "hoverinfo": "skip",
            "marker": {
                "size": list(columns[2]),
                "symbol": list(columns[3]),
                "color": plotted.GREY,
                "line": {"width": 2},
            },
            "name": "dots",
        },
    ]


def _arrow(row: int, column: int, move: np.ndarray) -> tuple[list[float | None], list[float | None]]:
    """A shaft from the middle of a cell and two sides of a head, as one line with gaps."""
    down, right = move
    length = float(np.hypot(down, right))
    side = min(HEAD, 0.5 * length) / length
    tip = column + right, row + down
    left = tip[0] - side * (right - 0.6 * down), tip[1] - side * (down + 0.6 * right)
    other = tip[0] - side * (right + 0.6 * down), tip[1] - side * (down - 0.6 * right)
    round_ = lambda v: float(f"{v:.4g}")
    x = [column, tip[0], None, left[0], tip[0], other[0], None]
    y = [row, tip[1], None, left[1], tip[1], other[1], None]
    return [None if v is None else round_(v) for v in x], [None if v is None else round_(v) for v in y]


def _lines(grid: Any) -> list[dict[str, Any]]:
    line = {"color": plotted.faint(plotted.GREY, 0.35), "width": 1}
    across = [{"x0": -0.5, "x1": grid.columns - 0.5, "y0": r - 0.5, "y1": r - 0.5} for r in range(grid.rows + 1)]
    down = [{"x0": c - 0.5, "x1": c - 0.5, "y0": -0.5, "y1": grid.rows - 0.5} for c in range(grid.columns + 1)]
    return [{"type": "line", "line": line, "layer": "above", **each} for each in [*across, *down]]


def _walls(grid: Any) -> list[dict[str, Any]]:
    found = []
    for wall in grid.walls:
        row, column = divmod(wall, grid.columns)
        place = {"x0": column - 0.5, "x1": column + 0.5, "y0": row - 0.5, "y1": row + 0.5}
        found.append({"type": "rect", "fillcolor": plotted.faint(plotted.GREY, 0.75), "line": {"width": 0}, **place})
    return found


def _marks(grid: Any) -> dict[str, Any]:
    """What is written in cells."""
    cells = [divmod(cell, grid.columns) for cell in grid.marks]
    return {
        "type": "scatter",
        "mode": "text",
        "hoverinfo": "skip",
        "name": "marks",
        "x": [c - 0.32 for _, c in cells],
        "y": [r - 0.34 for r, _ in cells],
        "text": [plotted.plain(text[:8]) for text in grid.marks.values()],
        "textfont": {"size": 11},
    }
