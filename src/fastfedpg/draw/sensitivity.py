"""What every method would have come to at another step size: how much of its place it owes to tuning."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fastfedpg.draw import style as canvas
from fastfedpg.draw.curves import gap_axis, rounding_of
from fastfedpg.problems import AnyProblem
from fastfedpg.statistics import spread, spread_words

TICKS = 12
"""Step sizes that are written below the axis, at most."""


class Tried(NamedTuple):
    """One method at its step sizes, in order: the final gap, or J where there is none, on each tuning seed."""

    eta: np.ndarray  # (E,)
    values: np.ndarray  # (E, seeds), not finite where it diverged
    chosen: float


def sensitivity(path: Path, tried: Mapping[str, Tried], problem: AnyProblem, title: str) -> list[Path]:
    """The value at the end against the step size, with the chosen ones marked; as PNG and SVG."""
    with canvas.drawing() as Figure:
        figure = Figure(figsize=(8.5, 4.2), layout="constrained")
        handles, labels = draw_sensitivity(figure.add_subplot(), tried, problem)
        seeds = [x.values.shape[1] for x in tried.values()]
        shown = spread_words(seeds) if max(seeds) > 1 else "mean, no interval"
        canvas.legend(figure, handles, labels, f"{shown}; seeds for tuning alone")
        canvas.heading(figure, f"{title}: how the step size matters")
        return canvas.save(figure, path)


def draw_sensitivity(axis: Any, tried: Mapping[str, Tried], problem: AnyProblem) -> tuple[list[Any], list[str]]:
    """One curve a method; returns the legend's handles and labels."""
    from matplotlib.lines import Line2D
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    intervals = [spread(np.where(np.isfinite(x.values), x.values, np.nan).T) for x in tried.values()]
    least = gap_axis([axis], intervals, rounding_of(problem)) if problem.shared else -np.inf
    axis.set_xscale("log", base=2)
    handles, lost = [], False
    for k, (x, (mean, low, high)) in enumerate(zip(tried.values(), intervals, strict=True)):
        eta = x.eta * 2 ** (0.08 * (k - (len(tried) - 1) / 2))  # side by side, so that intervals do not hide each other
        style = canvas.look(k)
        (line,) = axis.plot(eta, np.maximum(mean, least), linewidth=1.6, **style)
        handles.append(line)
        if np.isfinite(low).any():
            axis.vlines(eta, np.maximum(low, least), np.maximum(high, least), color=style["color"], linewidth=1.4)
        at = x.eta == x.chosen
        axis.plot(eta[at], np.maximum(mean, least)[at], "o", ms=13, mfc="none", mec=style["color"], mew=1.8)
        bad = ~np.isfinite(mean)
        if bad.any():
            lost, edge = True, {"transform": axis.get_xaxis_transform(), "clip_on": False, "in_layout": False}
            axis.plot(eta[bad], np.full(bad.sum(), 0.985), "x", ms=8, mew=2, color=style["color"], **edge)
    every = np.unique(np.concatenate([x.eta for x in tried.values()]))
    axis.xaxis.set_major_locator(FixedLocator(every[:: -(-len(every) // TICKS)].tolist()))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:.4g}"))
    axis.set_xlabel(r"step size $\eta$ (each twice the one before)")
    what = "gap at the end, $J - J^*$" if problem.shared else "mean cost at the end, $J$"
    axis.set_ylabel(f"{what}\n(reward units; less is better)")
    axis.grid(alpha=0.25)
    marks = [Line2D([], [], linestyle="none", marker="o", ms=11, mfc="none", mec="black", mew=1.6)]
    marks += [Line2D([], [], linestyle="none", marker="x", ms=8, mew=2, color="black")] * lost
    return [*handles, *marks], [*tried, "chosen", *["diverged"] * lost]
