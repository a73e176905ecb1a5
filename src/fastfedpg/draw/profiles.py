"""Methods on many problems: how much of what there was to gain each leaves, as a share of all runs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fastfedpg.draw import style as canvas
from fastfedpg.statistics import Interval


class Profile(NamedTuple):
    """One method: the share of its runs that leave no more than each x, (x,), and its score over all problems."""

    label: str
    shares: Interval
    score: Interval


def profiles(path: Path, found: Sequence[Profile], x: np.ndarray, title: str) -> list[Path]:
    """Performance profiles, and beside them the scores with their intervals; as PNG and SVG."""
    with canvas.drawing() as Figure:
        figure = Figure(figsize=(11.5, 4.2), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(1.7, 1))
        handles = draw_profiles(left, found, x)
        draw_scores(right, found)
        canvas.legend(figure, handles, [p.label for p in found], "with 95% intervals; all problems count alike")
        canvas.heading(figure, title)
        return canvas.save(figure, path)


def draw_profiles(axis: Any, found: Sequence[Profile], x: np.ndarray) -> list[Any]:
    """One rising curve a method, with its band; returns a handle for each."""
    from matplotlib.ticker import FuncFormatter, PercentFormatter

    handles = []
    for k, p in enumerate(found):
        step = max(1, len(x) // 8)
        style = {**canvas.look(k), "linewidth": 1.6, "markevery": (k * step // len(found), step)}
        handles += axis.plot(x, p.shares.mean, **style)
        if np.isfinite(p.shares.low).all():
            axis.fill_between(x, p.shares.low, p.shares.high, color=style["color"], alpha=0.13, linewidth=0)
    axis.set_xscale("log")
    axis.set_xlim(x[0], x[-1])
    axis.set_ylim(-0.02, 1.02)
    axis.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axis.yaxis.set_major_formatter(PercentFormatter(1.0))
    axis.axvline(1, color="#888888", linestyle=":", linewidth=1.2)
    axis.annotate("where all began", (1, 0.01), xytext=(-3, 0), textcoords="offset points", rotation=90, fontsize=8,
                  ha="right", va="bottom", color="#555555")  # fmt: skip
    axis.set_xlabel("share of what there was to gain that is left at the end\n(logarithmic; to the left is better)")
    axis.set_ylabel("share of all runs that leave\nno more than that (higher is better)")
    axis.grid(alpha=0.25)
    return handles


def draw_scores(axis: Any, found: Sequence[Profile]) -> None:
    """A row for each method: the mean share that was gained, over the middle half of all runs."""
    for k, p in enumerate(found):
        style = canvas.look(k)
        axis.plot(p.score.mean, k, linestyle="none", marker=style["marker"], color=style["color"], markersize=7)
        if np.isfinite(p.score.low):
            axis.hlines(k, p.score.low, p.score.high, color=style["color"], linewidth=2)
    axis.set_yticks(range(len(found)), [canvas.plain(p.label, 2) for p in found])
    axis.set_ylim(len(found) - 0.5, -0.5)
    axis.set_xlabel("score: the share that was gained, mean of the\nmiddle half of all runs (more is better)")
    axis.grid(alpha=0.25)
