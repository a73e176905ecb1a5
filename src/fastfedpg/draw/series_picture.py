"""One setting on the axis, and a line for each method: what all of them come to at every value of it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from fastfedpg.draw import style as canvas
from fastfedpg.draw.curves import gap_axis, rounding_of
from fastfedpg.problems import AnyProblem
from fastfedpg.statistics import FEWEST, Interval

DECADES = 8
"""Values whose largest is so many times the least, or more, stand on a logarithmic axis."""


class Series(NamedTuple):
    """One method: what it came to at each value, (x,)."""

    label: str
    value: Interval


class Axis(Protocol):
    """What stands below the picture."""

    @property
    def label(self) -> str:
        """Its name, with the unit."""
        ...

    @property
    def values(self) -> tuple[Any, ...]:
        """Numbers that increase, or words."""
        ...

    @property
    def numbers(self) -> bool:
        """Whether they are numbers."""
        ...

    @property
    def claim(self) -> float | None:
        """The slope that somebody claims, if any."""
        ...


def series(
    path: Path, found: Sequence[Series], axis: Axis, problem: AnyProblem, title: str, seeds: int, spent: str
) -> list[Path]:
    """A line for each method, with its intervals; as PNG and SVG."""
    with canvas.drawing() as Figure:
        figure = Figure(figsize=(8.5, 4.4), layout="constrained")
        handles, labels = draw_series(figure.add_subplot(), found, axis, problem)
        mean = "geometric mean" if problem.shared else "mean"
        words = f"{mean} and 95% interval" if seeds >= FEWEST else mean
        count = f"{words}, {seeds} seeds" if seeds > 1 else "one run each, no interval"
        canvas.legend(figure, handles, labels, f"{count}; at each value {spent}")
        canvas.heading(figure, title)
        return canvas.save(figure, path)


def draw_series(plot: Any, found: Sequence[Series], axis: Axis, problem: AnyProblem) -> tuple[list[Any], list[str]]:
    """One line a method; returns the legend's handles and labels."""
    from matplotlib.lines import Line2D
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    x, log = _places(axis)
    finite = [Interval(*(np.where(np.isfinite(i), i, np.nan) for i in s.value)) for s in found]
    least = gap_axis([plot], finite, rounding_of(problem)) if problem.shared else -np.inf
    if log:
        plot.set_xscale("log")
    handles, labels, lost = [], [s.label for s in found], False
    for k, (mean, low, high) in enumerate(finite):
        at, style = _beside(x, log, k, len(found)), canvas.look(k)
        handles += plot.plot(at, np.maximum(mean, least), linewidth=1.6, **style)
        if (known := np.isfinite(low) & np.isfinite(high)).any():
            ends = np.maximum(low, least)[known], np.maximum(high, least)[known]
            plot.vlines(at[known], *ends, color=style["color"], linewidth=1.4)
        if (bad := ~np.isfinite(mean)).any():
            lost, edge = True, {"transform": plot.get_xaxis_transform(), "clip_on": False, "in_layout": False}
            plot.plot(at[bad], np.full(bad.sum(), 0.985), "x", ms=8, mew=2, color=style["color"], **edge)
    if axis.claim is not None and np.isfinite(finite[0].mean[0]):
        line = finite[0].mean[0] * (x / x[0]) ** axis.claim
        grey = {"color": "#888888", "linestyle": (0, (1, 2)), "linewidth": 1.6, "zorder": 0.9}
        (claimed,) = plot.plot(x, np.maximum(line, least), **grey)
        handles, labels = [*handles, claimed], [*labels, f"claimed slope, {axis.claim:+g}"]
    if lost:
        handles.append(Line2D([], [], linestyle="none", marker="x", ms=8, mew=2, color="black"))
        labels.append("some seed diverged")
    plot.xaxis.set_major_locator(FixedLocator(x.tolist()))
    plot.xaxis.set_minor_locator(NullLocator())
    names = {place: f"{v:g}" if axis.numbers else str(v) for place, v in zip(x.tolist(), axis.values, strict=True)}
    plot.xaxis.set_major_formatter(FuncFormatter(lambda place, _: names.get(place, "")))
    plot.set_xlabel(canvas.plain(_named(axis.label, log), 8))
    what = "gap at the end, $J - J^*$" if problem.shared else "mean cost at the end, $J$"
    plot.set_ylabel(f"{what}\n(reward units; less is better)")
    plot.grid(alpha=0.25)
    return handles, labels


def _named(label: str, log: bool) -> str:
    """The axis by its name and unit, and whether it is logarithmic."""
    if not log:
        return label
    return f"{label[:-1]}; logarithmic)" if label.endswith(")") else f"{label} (logarithmic)"


def _places(axis: Axis) -> tuple[np.ndarray, bool]:
    """Where values stand on the axis, and whether it is logarithmic; words stand side by side."""
    if not axis.numbers:
        return np.arange(len(axis.values), dtype=float), False
    x = np.array(axis.values, float)
    return x, bool(x[0] > 0 and x[-1] >= DECADES * x[0])


def _beside(x: np.ndarray, log: bool, k: int, methods: int) -> np.ndarray:
    """The k-th method's places, a little beside the values, so that intervals do not hide each other."""
    shift = 0.012 * (k - (methods - 1) / 2)
    if log:
        return x * (x[-1] / x[0]) ** shift
    return x + shift * (np.ptp(x) or 1.0)
