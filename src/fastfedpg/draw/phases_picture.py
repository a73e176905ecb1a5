"""Two settings on the axes, and at every pair of values the methods that are the best there, or not worse."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fastfedpg.draw import style as canvas

GREY = "#c8c8c8"


class Places(NamedTuple):
    """What stands at the axes, and in every cell (x, y)."""

    x: list[str]
    y: list[str]
    tied: np.ndarray  # (x, y, methods): the best, or not worse
    best: np.ndarray  # (x, y): which one has the least value


def phases(
    path: Path, places: Places, methods: Sequence[str], labels: tuple[str, str], title: str, words: str
) -> list[Path]:
    """A cell for each pair, with a mark for each method; as PNG and SVG."""
    with canvas.drawing() as Figure:
        width, height = len(places.x), len(places.y)
        figure = Figure(figsize=(max(6.5, 1.5 + 1.7 * width), 1.2 + 1.0 * height), layout="constrained")
        handles = draw_phases(figure.add_subplot(), places, len(methods))
        plot = figure.axes[0]
        plot.set_xlabel(canvas.plain(f"{labels[0]}, and ζ² there", 8))
        plot.set_ylabel(canvas.plain(f"{labels[1]},\nand σ² there"))
        names = [*methods, "worse than the best"]
        told = canvas.plain(f"full: the best (ringed) or not worse than it; {words}", 0.8 * figure.get_figwidth())
        figure.set_figheight(figure.get_figheight() + 0.2 * told.count("\n"))
        canvas.legend(figure, handles, names, told)
        canvas.heading(figure, title)
        return canvas.save(figure, path)


def draw_phases(plot: Any, places: Places, methods: int) -> list[Any]:
    """Each method has its place within a cell; returns the legend's handles."""
    from matplotlib.lines import Line2D

    across = int(np.ceil(np.sqrt(methods)))
    rows = -(-methods // across)
    for (i, j, k), tied in np.ndenumerate(places.tied):
        style = canvas.look(k)
        at = i + (k % across + 0.5) / across * 0.8 + 0.1, j + 0.9 - (k // across + 0.5) / rows * 0.8
        face = style["color"] if tied else "none"
        edge = style["color"] if tied else GREY
        plot.plot(*at, marker=style["marker"], ms=8, mfc=face, mec=edge, linestyle="none")
        if places.best[i, j] == k:
            plot.plot(*at, marker="o", ms=15, mfc="none", mec="black", linestyle="none")
    width, height, _ = places.tied.shape
    for lines, ends in ((plot.vlines, (width, height)), (plot.hlines, (height, width))):
        lines(np.arange(ends[0] + 1), 0, ends[1], color="#888888", linewidth=0.8)
    plot.set_xlim(0, width)
    plot.set_ylim(0, height)
    plot.set_xticks(np.arange(width) + 0.5, places.x)
    plot.set_yticks(np.arange(height) + 0.5, places.y)
    plot.tick_params(length=0)
    for spine in plot.spines.values():
        spine.set_visible(False)
    mark = lambda k: Line2D(
        [], [], linestyle="none", ms=8, marker=canvas.look(k)["marker"], color=canvas.look(k)["color"]
    )
    worse = Line2D([], [], linestyle="none", marker="o", ms=8, mfc="none", mec=GREY)
    return [*(mark(k) for k in range(methods)), worse]
