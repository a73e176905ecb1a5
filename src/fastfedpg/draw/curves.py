"""Pictures that a stranger understands: what each method reaches and what it costs, together and agent by agent."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fastfedpg.draw import style as canvas
from fastfedpg.draw.policy_maps import policies
from fastfedpg.experiment.finished_run import Outcome
from fastfedpg.problems import AnyProblem
from fastfedpg.runtime.views import decades, drawn
from fastfedpg.statistics import Interval, spread, spread_words

ROWS = 24
"""With more agents than this, they stand side by side as a curve instead of each in its own row."""

START, COMMON, ALONE = "at the start", "the best common policy", "its own best policy, alone"
REFERENCES: dict[str, dict[str, Any]] = {
    START: {"color": "#888888", "linestyle": ":"},
    COMMON: {"color": "black", "linestyle": "-"},
    ALONE: {"color": "#555555", "linestyle": "--"},
}


def curves(path: Path, outcomes: Sequence[Outcome], problem: AnyProblem, title: str) -> list[Path]:
    """How far each method is from the best common policy, over rounds, samples and bytes; as PNG and SVG."""
    with canvas.drawing() as Figure:
        figure = Figure(figsize=(12.5, 3.9), layout="constrained")
        axes = figure.subplots(1, 3, sharey=True)
        handles = draw_curves(axes, outcomes, problem)
        seeds = [len(o.result.theta) for o in outcomes]
        canvas.legend(figure, handles, [o.label for o in outcomes], spread_words(seeds))
        canvas.heading(figure, f"{title}: the {'gap' if problem.shared else 'cost'}, and what it takes")
        return canvas.save(figure, path)


def draw_curves(axes: Any, outcomes: Sequence[Outcome], problem: AnyProblem) -> list[Any]:
    """The three panels; returns a handle per method for the legend."""
    from matplotlib.ticker import EngFormatter, MaxNLocator, StrMethodFormatter

    name = "gap" if problem.shared else "J"
    shown = [drawn(len(o.result.rounds)) for o in outcomes]
    intervals = [spread(o.result.metrics[name][:, some]) for o, some in zip(outcomes, shown, strict=True)]
    least = gap_axis(axes, intervals, rounding_of(problem)) if problem.shared else -np.inf
    handles, silent = [], []
    for k, (o, some, (mean, low, high)) in enumerate(zip(outcomes, shown, intervals, strict=True)):
        sent = sum(o.result.metrics[name][:, some].mean(axis=0) for name in ("bytes_up", "bytes_down"))
        for axis, x in zip(axes, (o.result.rounds[some], o.samples[some], sent), strict=True):
            if axis is axes[2] and not sent.any():
                silent.append(o.label)
                continue
            step = max(1, len(mean) // 8)
            apart = (k * step // len(outcomes), step)  # markers of curves that coincide do not
            style = {**canvas.look(k), "linewidth": 1.6, "markevery": apart}
            (line,) = axis.plot(x, np.maximum(mean, least), **style)
            if np.isfinite(low).any():
                band = np.maximum(low, least), np.maximum(high, least)
                axis.fill_between(x, *band, color=style["color"], alpha=0.17, linewidth=0)
            if axis is axes[0]:
                handles.append(line)
    axes[0].set_xlabel("communication rounds")
    what = "gap to the best common policy, $J - J^*$" if problem.shared else "mean cost of the agents, $J$"
    axes[0].set_ylabel(f"{what}\n(reward units; less is better)")
    axes[1].set_xlabel(f"{' or '.join(dict.fromkeys(o.unit for o in outcomes))}, all agents together")
    axes[2].set_xlabel("bytes sent and received, one agent")
    formats = (StrMethodFormatter("{x:,.0f}"), EngFormatter(), EngFormatter(unit="B"))
    for axis, form in zip(axes, formats, strict=True):
        axis.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        axis.xaxis.set_major_formatter(form)
        axis.grid(alpha=0.25)
    if silent:
        words = f"not drawn here, since {'it sends' if len(silent) == 1 else 'they send'} nothing: {', '.join(silent)}"
        axes[2].set_title(canvas.plain(words, 4.2), fontsize=canvas.SMALL)
    if len(silent) == len(outcomes):
        axes[2].set_xticks([])
    return handles


def rounding_of(problem: AnyProblem) -> float:
    """A gap below this is zero as far as floating-point numbers can tell."""
    return 64 * float(np.finfo(float).eps) * problem.scale / (1 - problem.gamma) ** 2


def gap_axis(axes: Any, intervals: Sequence[Interval], rounding: float) -> float:
    """Decades for the gap; returns the least value to be drawn.

    Below `rounding` a gap is zero as far as floating-point numbers can tell, and stands on the lower edge. Where a
    method's gap is truly negative, decades run both ways from zero, with a linear piece between them.
    """
    axis = axes[0]  # the others share it
    means = np.concatenate([i.mean[np.isfinite(i.mean)] for i in intervals])  # not after a seed has diverged
    ends = np.concatenate([x[np.isfinite(x)] for i in intervals for x in (i.low, i.high)])
    top = max(float(np.max(np.append(ends, means))), 10 * rounding)
    positive = means[means > rounding]
    smallest = float(positive.min()) if len(positive) else rounding
    if means.min() < -rounding:
        largest = max(top, float(-np.min(np.append(ends, means))))
        axis.set_yscale("symlog", linthresh=10 ** np.floor(np.log10(max(smallest, 1e-3 * largest))), linscale=0.6)
        for each in axes:
            each.axhline(0, color="black", linewidth=0.8)
        return -np.inf
    if means.min() <= rounding:
        smallest = rounding
    lows = ends[ends > smallest / 10]
    bottom = max(rounding, 0.7 * min(smallest, float(lows.min()) if len(lows) else smallest))
    axis.set_yscale("log")
    axis.set_ylim(bottom, max(1.3 * top, 2 * bottom))
    decades(axis.yaxis)
    return rounding


def agents(path: Path, outcomes: Sequence[Outcome], problem: AnyProblem, title: str, tau: float = 0.0) -> list[Path]:
    """Who gains and who pays: every agent's return under each method, between what it could have; as PNG and SVG."""
    many = problem.N > ROWS
    height = 3.9 if many else max(2.0, 0.7 + problem.N * (0.2 + 0.1 * len(outcomes)))
    with canvas.drawing() as Figure:
        figure = Figure(figsize=(9.0, height), layout="constrained")
        handles, labels = draw_agents(figure.add_subplot(), outcomes, problem, tau)
        canvas.legend(figure, handles, labels, spread_words([len(o.result.theta) for o in outcomes]))
        canvas.heading(figure, f"{title}: who gains and who pays")
        return canvas.save(figure, path)


def draw_agents(
    axis: Any, outcomes: Sequence[Outcome], problem: AnyProblem, tau: float = 0.0
) -> tuple[list[Any], list[str]]:
    """Agents in rows, or, where they are many, sorted and side by side; returns the legend's handles and labels."""
    intervals = [spread(o.result.returns[:, -1]) for o in outcomes]
    marks = references(outcomes, problem, tau)
    what = "mean return of an episode" if problem.played else "expected discounted return"
    unit = f"{what} (reward units; more is better)"
    near = np.concatenate([*(i.mean for i in intervals), *(x for name, x in marks.items() if name != START)])
    if START in marks and np.ptp(np.append(near, marks[START])) > 5 * np.ptp(near) > 0:
        start = marks.pop(START)  # it would press everything else together
        unit += f"\nat the start: {start.min():.4g} to {start.max():.4g}, too far away to be drawn"
    draw = _side_by_side if problem.N > ROWS else _rows
    handles = draw(axis, intervals, marks, problem, outcomes[0].label, unit)
    axis.grid(alpha=0.25)
    return handles, [*(o.label for o in outcomes), *marks]


def references(outcomes: Sequence[Outcome], problem: AnyProblem, tau: float = 0.0) -> dict[str, np.ndarray]:
    """What every agent's return (N,) is to be compared with, by the name that the legend gives it."""
    marks = {}
    starts = [o.result.returns[:, 0].mean(axis=0) for o in outcomes]
    if all(np.allclose(start, starts[0]) for start in starts):
        marks[START] = starts[0]
    if problem.played:
        return marks
    evaluate = problem.evaluator()
    if problem.shared:
        best = problem.theta_of(problem.optimum(tau).policy)
        marks[COMMON] = evaluate(best[None]).returns[0]
    own = np.stack([problem.theta_of(best.policy) for best in problem.own_optima(tau)])
    marks[ALONE] = evaluate(own[None]).returns[0]
    return marks


def _rows(
    axis: Any,
    intervals: Sequence[Interval],
    marks: Mapping[str, np.ndarray],
    problem: AnyProblem,
    _: str,
    unit: str,
) -> list[Any]:
    rows = np.arange(problem.N)
    handles = []
    for k, (mean, low, high) in enumerate(intervals):
        y = rows + 0.6 * ((k + 0.5) / len(intervals) - 0.5)
        style = {**canvas.look(k), "linestyle": "none"}
        handles.append(axis.plot(mean, y, **style)[0])
        if np.isfinite(low).all():
            axis.hlines(y, low, high, color=style["color"], linewidth=1.6)
    for name, x in marks.items():
        handles.append(axis.vlines(x, rows - 0.4, rows + 0.4, linewidth=1.5, zorder=0.9, **REFERENCES[name]))
    axis.set_yticks(rows, canvas.names(problem.agents))
    axis.set_ylim(problem.N - 0.5, -0.5)
    axis.set_xlabel(unit)
    return handles


def _side_by_side(
    axis: Any,
    intervals: Sequence[Interval],
    marks: Mapping[str, np.ndarray],
    problem: AnyProblem,
    by: str,
    unit: str,
) -> list[Any]:
    order, x = np.argsort(intervals[0].mean), np.arange(1, problem.N + 1)
    handles = []
    for k, (mean, low, high) in enumerate(intervals):
        step = problem.N // 12
        style = {**canvas.look(k), "markevery": (k * step // len(intervals), step)}
        handles.append(axis.plot(x, mean[order], **style)[0])
        if np.isfinite(low).all():
            axis.fill_between(x, low[order], high[order], color=style["color"], alpha=0.17, linewidth=0)
    for name, y in marks.items():
        handles.append(axis.plot(x, y[order], linewidth=1.2, zorder=0.9, **REFERENCES[name])[0])
    axis.set_xlabel(canvas.plain(f"the {problem.N} agents, sorted by their return under {by}", 8))
    axis.set_ylabel(unit.replace(" (", "\n(").replace(", too", ",\ntoo"))
    return handles


__all__ = ["agents", "curves", "draw_agents", "draw_curves", "policies", "references"]
