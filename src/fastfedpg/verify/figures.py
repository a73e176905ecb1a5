"""The report's pictures: linear rates, noise floors, heterogeneity, truncation, stationarity, and tightness."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fastfedpg.draw.style import COLOURS, drawing, footing, heading, look, plain, save
from fastfedpg.verify.claims.floors import Sweep
from fastfedpg.verify.claims.rates import Course
from fastfedpg.verify.verdict import CONTROL, FAIL, VACUOUS, Row, mean_of

GUIDE: dict[str, Any] = {"color": "black", "linewidth": 0.8, "linestyle": ":"}
LINEAR, PLAIN = "Theorem 2, exact", "Theorem 2, no entropy"
TICKS = 4
"""Of an axis of rounds: numbers of five digits have room beside each other."""
NAMES = ("linear", "truncation", "floors", "bias", "stationary", "tightness")


def draw(out: Path, rows: Sequence[Row], data: dict[str, Any]) -> list[Path]:
    """Every picture there is something for."""
    made: list[Path] = []
    drawers: dict[str, Callable[[Path, Any], list[Path]]] = {
        "truncation": truncation,
        "floors": floors,
        "bias": bias,
    }
    if data.get("linear") or data.get("plain"):
        made += linear(out / "linear", rows, data.get("linear", {}), data.get("plain"))
    if data.get("stationary") or data.get("crowds"):
        made += stationary(out / "stationary", data.get("stationary"), data.get("crowds"))
    for name, drawer in drawers.items():
        if data.get(name):
            made += drawer(out / name, data[name])
    return made + tightness(out / "tightness", rows)


def said(rows: Sequence[Row], begin: str, problem: str | None = None) -> str:
    """What the table says of claims that begin so, each by its last words."""
    found = [row for row in rows if row.claim.startswith(begin) and problem in (None, row.problem)]
    last = lambda row: row.claim.removeprefix(begin).strip(" :,")
    return ", ".join(f"{last(row)} {row.words}".strip() for row in found)


def linear(path: Path, rows: Sequence[Row], courses: dict[str, Course], slow: Course | None) -> list[Path]:
    """Gaps without noise, which (13) wants to be straight lines where (12) holds; titles have the table's verdicts."""
    panels = len(courses) + (slow is not None)
    with drawing() as Figure:
        from matplotlib.ticker import MaxNLocator

        figure = Figure(figsize=(1.2 + 3.6 * panels, 3.4), layout="constrained")
        axes = figure.subplots(1, panels, squeeze=False)[0]
        for k, (axis, (name, course)) in enumerate(zip(axes, courses.items(), strict=False)):
            shown = course.gaps > 0
            axis.semilogy(course.rounds[shown], course.gaps[shown], label="measured", **{**look(k), "marker": None})
            axis.semilogy(course.rounds, course.promised, label="(1 - alpha mu/4)^t", **GUIDE)
            axis.set(xlabel="round t")
            axis.xaxis.set_major_locator(MaxNLocator(TICKS))
            axis.set_title(plain(f"{name}\n{said(rows, LINEAR, name)}"), fontsize=10)
            axis.legend(frameon=False, fontsize=8)
        if slow is not None:
            axis, late = axes[-1], slow.rounds > 0
            axis.loglog(slow.rounds[late], slow.gaps[late], label="measured", **{**look(panels - 1), "marker": None})
            like = slow.gaps[-1] * slow.rounds[-1] / slow.rounds[late]
            axis.loglog(slow.rounds[late], like, label="1/t", **GUIDE)
            axis.set(xlabel="round t, logarithmic")
            axis.set_title(f"tau = 0, where (12) fails\n{said(rows, PLAIN)}", fontsize=10)
            axis.legend(frameon=False, fontsize=8)
        axes[0].set_ylabel("gap J - J*, cost units")
        heading(figure, "Theorem 2 without noise: how the gap falls")
        near = "Near 1e-16 float64 can't tell a table's J from J*; a regulator's gap is no difference."
        footing(figure, ["Computed, not sampled: no intervals.", near])
        return save(figure, path)


def _sweep(axis: Any, sweep: Sweep, k: int, label: str) -> None:
    """Means over seeds with 95% intervals."""
    order = np.argsort(sweep.x)
    found = mean_of(sweep.floors[:, order])
    low, high = found.interval(0.05)
    error = np.stack([np.minimum(found.mean - low, found.mean * 0.999), high - found.mean])
    axis.errorbar(sweep.x[order], found.mean, error, capsize=3, label=plain(label), **look(k))


def _guide(axis: Any, sweep: Sweep, power: float, label: str) -> None:
    x = np.sort(np.asarray(sweep.x, float))
    y = sweep.floors.mean(axis=0)[np.argsort(sweep.x)]
    axis.plot(x, y[0] * (x / x[0]) ** power, label=label, **GUIDE)


def floors(path: Path, sweeps: dict[str, Sweep]) -> list[Path]:
    """Floors against N and H, and the last gap against NHT."""
    panels: list[tuple[str, str, list[tuple[str, str]], float, str]] = [
        ("agents N", "average MDP fixed", [("N", ""), ("N, large eta H", ", large")], -1, "1/N"),
        ("local steps H", "eta H fixed", [("H", "")], -1, "1/H"),
        ("local steps H", "eta fixed", [("H, fixed eta", "")], 0, "flat"),
        ("N H T", "last gap, Theorem 2's schedule", [("NHT", "")], -1, "1/(NHT)"),
    ]
    panels = [(*panel[:2], [c for c in panel[2] if c[0] in sweeps], *panel[3:]) for panel in panels]
    panels = [panel for panel in panels if panel[2]]
    with drawing() as Figure:
        figure = Figure(figsize=(3.4 * len(panels), 3.4), layout="constrained")
        axes = figure.subplots(1, len(panels), squeeze=False)[0]
        for axis, (x, title, curves, power, guide) in zip(axes, panels, strict=True):
            for k, (name, more) in enumerate(curves):
                _sweep(axis, sweeps[name], k, sweeps[name].label.partition(",")[0] + more)
            _guide(axis, sweeps[curves[0][0]], power, guide)
            axis.set(xscale="log", yscale="log", xlabel=x)
            axis.set_title(title, fontsize=10)
            axis.legend(frameon=False, fontsize=8)
        axes[0].set_ylabel("noise floor: mean gap\nof the last half, cost units")
        heading(figure, "Theorem 2 with noise: where the gap stops falling")
        seeds = len(next(iter(sweeps.values())).floors)
        footing(figure, [f"Mean over {seeds} seeds with 95% intervals; for the floors runs start at the optimum."])
        return save(figure, path)


def stationary(path: Path, longer: Sweep | None, crowds: Sweep | None) -> list[Path]:
    """The mean squared gradient norm against all trajectories, and against the number of agents alone."""
    panels: list[tuple[Sweep, str, str, float, str]] = []
    if longer is not None:
        panels.append((longer, "N H T", "by its schedule", -0.5, "1/sqrt(NHT)"))
    if crowds is not None:
        panels.append((crowds, "agents N", "noise alone: T and eta fixed", -1.0, "1/N"))
    with drawing() as Figure:
        figure = Figure(figsize=(1.2 + 3.8 * len(panels), 3.6), layout="constrained")
        axes = figure.subplots(1, len(panels), squeeze=False)[0]
        for axis, (sweep, x, title, power, guide) in zip(axes, panels, strict=True):
            _sweep(axis, sweep, 0, sweep.label.partition(",")[0])
            _guide(axis, sweep, power, guide)
            axis.set(xscale="log", yscale="log", xlabel=x)
            axis.set_xticks(sweep.x, [f"{value:,.0f}" for value in sweep.x])
            axis.set_xticks([], minor=True)  # whose labels would stand on each other where there are few decades
            axis.set_title(title, fontsize=10)
            axis.legend(frameon=False, fontsize=8)
        axes[0].set_ylabel("mean of ||grad J||^2 over the rounds")
        heading(figure, "Theorem 3: the mean squared gradient norm")
        footing(figure, [f"Mean over {len(panels[0][0].floors)} seeds with 95% intervals."])
        return save(figure, path)


def bias(path: Path, sweeps: dict[str, Sweep]) -> list[Path]:
    """Floors against how much the agents differ."""
    with drawing() as Figure:
        figure = Figure(figsize=(5.6, 3.6), layout="constrained")
        axis = figure.subplots()
        for k, (name, sweep) in enumerate(sweeps.items()):
            _sweep(axis, sweep, k, name)
        axis.set(
            yscale="log",
            xlabel="kappa: how much the agents' rewards differ (0 not at all)",
            ylabel="floor: mean gap\nof the last half, cost units",
        )
        axis.legend(frameon=False)
        heading(figure, "No heterogeneity bias: the average problem is the same for every kappa")
        first = next(iter(sweeps.values()))
        footing(
            figure,
            [f"{first.label}. Mean over {len(first.floors)} seeds with 95% intervals; runs start at the optimum."],
        )
        return save(figure, path)


def truncation(path: Path, found: dict[str, np.ndarray]) -> list[Path]:
    """The truncation error against K."""
    with drawing() as Figure:
        figure = Figure(figsize=(5.6, 3.6), layout="constrained")
        axis = figure.subplots()
        axis.semilogy(found["K"], found["error"], label="largest error of any agent", **{**look(0), "marker": None})
        axis.semilogy(found["K"], found["bound"], label="D(K) gamma^K", **{**look(1), "marker": None})
        guide = found["error"][-1] * found["gamma"] ** (found["K"] - found["K"][-1])
        axis.semilogy(found["K"], guide, label="slope log gamma", **GUIDE)
        axis.set(xlabel="roll-out length K", ylabel="||grad_K J_i - grad J_i||")
        axis.legend(frameon=False)
        heading(figure, "Assumption 4: what truncation costs")
        footing(figure, ["Computed, not sampled: no intervals."])
        return save(figure, path)


def tightness(path: Path, rows: Sequence[Row]) -> list[Path]:
    """right/left of every inequality: 1 is tight, above the line it says nothing, below 1 it is violated."""
    shown = [row for row in rows if row.bound and row.tightness is not None]
    with drawing() as Figure:
        figure = Figure(figsize=(7.5, max(2.4, 0.6 + 0.22 * len(shown))), layout="constrained")
        axis = figure.subplots()
        colour = lambda row: COLOURS[1] if row.verdict == FAIL else COLOURS[4] if row.verdict == CONTROL else COLOURS[0]
        for k, row in enumerate(reversed(shown)):
            value = max(row.tightness or 0, 1e-6)
            axis.plot([1, value], [k, k], color=colour(row), linewidth=1)
            axis.plot([value], [k], marker="X" if row.control else "o", color=colour(row))
        axis.set_yticks(
            range(len(shown)), [plain(f"{row.claim} ({row.problem})") for row in reversed(shown)], fontsize=8
        )
        axis.axvline(1, color="black", linewidth=0.8)
        axis.axvline(VACUOUS, color="black", linewidth=0.8, linestyle=":")
        axis.set(xscale="log", xlabel="right side / left side")
        heading(figure, "How tight the paper's inequalities are")
        left = "Left of 1: violated. Crosses are controls, which must be; those below 1e-6 are drawn there."
        footing(figure, [left, f"Right of {VACUOUS}, the dotted line: it holds, but says nothing."])
        return save(figure, path)
