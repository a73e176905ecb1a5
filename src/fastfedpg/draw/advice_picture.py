"""Where a problem lies between "noise decides" and "drift decides", and what each method would cost on it."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fastfedpg.draw import style

SPAN = (1e-3, 1e3)
"""What of the balance is drawn; what lies outside is drawn at its end."""

UNBALANCED = "an anchor has no noise here:\nonly drift is to be weighed"
"""In the place of a balance that is infinite."""


class Bar(NamedTuple):
    """One method: samples and bytes until the target, infinity where it does not get there."""

    label: str
    samples: float
    bytes: float


def advice_picture(
    path: Path, title: str, balance: tuple[float, float, float], bars: Sequence[Bar], unit: str
) -> list[Path]:
    """Write it as PNG and SVG; `balance` is N zeta^2 over a correction's noise, and the ends of its interval."""
    with style.drawing() as Figure:
        figure = Figure(figsize=(8, 3.6), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(1, 1.15))
        _balance(left, balance)
        _costs(right, bars, unit)
        style.heading(figure, title)
        return style.save(figure, path)


def _balance(axis: object, balance: tuple[float, float, float]) -> None:
    from matplotlib.axes import Axes

    assert isinstance(axis, Axes)
    axis.set_xscale("log")
    axis.set_xlim(SPAN[0] / 2, SPAN[1] * 2)
    axis.set_ylim(-1, 1)
    axis.axvspan(SPAN[0] / 2, 1, color=style.COLOURS[5], alpha=0.25, lw=0)
    axis.axvspan(1, SPAN[1] * 2, color=style.COLOURS[4], alpha=0.25, lw=0)
    if math.isinf(balance[0]):  # which is on neither side: drift may be within the target, or not
        axis.text(0.5, 0.5, UNBALANCED, transform=axis.transAxes, ha="center", va="center", fontsize=10, weight="bold")
    else:
        _point(axis, balance)
    axis.text(0.03, 0.9, "noise decides:\nplain averaging", transform=axis.transAxes, va="top", fontsize=style.SMALL)
    words = "drift decides:\na correction pays"
    axis.text(0.97, 0.9, words, transform=axis.transAxes, va="top", ha="right", fontsize=style.SMALL)
    axis.set_yticks([])
    axis.spines["left"].set_visible(False)
    axis.set_xlabel("$N\\zeta^2$ over the correction's noise, 95% interval", fontsize=style.SMALL)


def _point(axis: Any, balance: tuple[float, float, float]) -> None:
    at, low, high = (min(SPAN[1], max(SPAN[0], b)) for b in balance)
    axis.plot([low, high], [0, 0], "|-", color="black", lw=2, markersize=14)
    axis.plot([at], [0], "o", color="black", markersize=9)
    said = "no difference seen" if balance[0] <= 0 else f"{balance[0]:.3g}"
    side = "left" if at < 1 else "right"
    axis.annotate(said, (at, 0), xytext=(0, 12), textcoords="offset points", ha=side, fontsize=10, weight="bold")


def _costs(axis: object, bars: Sequence[Bar], unit: str) -> None:
    from matplotlib.axes import Axes
    from matplotlib.ticker import NullFormatter

    assert isinstance(axis, Axes)
    shown = [bar for bar in bars if math.isfinite(bar.samples) and bar.bytes > 0]
    for k, bar in enumerate(shown):
        look = style.look(k)
        axis.plot([bar.samples], [bar.bytes], look["marker"], color=look["color"], markersize=8, label=bar.label)
    axis.set_xscale("log")
    axis.set_yscale("log")
    for ticks in (axis.xaxis, axis.yaxis):
        ticks.set_minor_formatter(NullFormatter())
    widen = lambda values: (min(values) / 3, max(values) * 3)
    axis.set_xlim(widen([bar.samples for bar in shown]))
    axis.set_ylim(widen([bar.bytes for bar in shown]))
    x = np.geomspace(*axis.get_xlim(), 50)
    axis.plot(x, shown[0].samples * shown[0].bytes / x, ":", color="grey", lw=1, label="as good as the first")
    axis.set_xlabel(f"{unit}, all agents, until the target", fontsize=style.SMALL)
    axis.set_ylabel("bytes of one agent", fontsize=style.SMALL)
    axis.legend(frameon=False, fontsize=style.SMALL, loc="center left", bbox_to_anchor=(1.0, 0.5))
