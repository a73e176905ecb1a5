"""Pictures that a stranger understands: curves with their intervals, and policies drawn on their grid."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import softmax

from fastfedpg.errors import InputError
from fastfedpg.problems import TabularProblem, exact
from fastfedpg.runtime import Result
from fastfedpg.study.statistics import bootstrap

# Okabe and Ito's colours are told apart by colour-blind eyes; dashes and markers tell them apart in grey.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1)), (0, (1, 1)), (0, (8, 2)))
LEGEND = "arrows: moves as long as they are probable; dot: stay;\nnumbers: whose corner it is; the median seed's policy"
MARKERS = ("o", "s", "^", "D", "v", "P", "X")


def overview(
    path: Path, results: Mapping[str, Result], problem: TabularProblem, title: str, threshold: float = 0.1
) -> list[Path]:
    """The gap of each method over the rounds and, for a grid, the policy each has learned; as PNG and SVG."""
    plt = _pyplot()
    with plt.rc_context({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "0"}):
        maps = problem.grid is not None and all(r.theta.ndim == 2 for r in results.values())
        wide = len(results) if maps else 0
        figure = plt.figure(figsize=(6.4 + 2.7 * wide, 4.2), layout="constrained")
        grid = figure.add_gridspec(1, 1 + wide, width_ratios=[2.3, *[1.0] * wide])
        _curves(figure.add_subplot(grid[0]), results, problem)
        axes = [figure.add_subplot(grid[1 + k]) for k in range(wide)]
        shown = {name: r.theta[_median(r)] for name, r in results.items()} if maps else {}
        for axis, (name, theta) in zip(axes, shown.items(), strict=True):
            image = policy_map(axis, problem, theta, threshold)
            axis.set_title(name)
        if maps:
            axes[wide // 2].set_xlabel(LEGEND)
            bar = figure.colorbar(image, ax=axes, shrink=0.6, label="share of discounted time in a cell")
            bar.outline.set_visible(False)
        figure.suptitle(title)
        written = [path.with_suffix(suffix) for suffix in (".png", ".svg")]
        for file in written:
            figure.savefig(file, dpi=150, metadata={"Date": None} if file.suffix == ".svg" else None)
        plt.close(figure)
    return written


def _curves(axis: Any, results: Mapping[str, Result], problem: TabularProblem) -> None:
    name = "gap" if problem.shared else "J"
    seeds = {len(r.theta) for r in results.values()}
    for k, (label, result) in enumerate(results.items()):
        mean, low, high = bootstrap(result.metrics[name])
        style = {"color": COLOURS[k % 7], "linestyle": DASHES[k % 7], "marker": MARKERS[k % 7], "markersize": 4}
        axis.plot(result.rounds, mean, label=label, markevery=max(1, len(mean) // 8), linewidth=1.6, **style)
        axis.fill_between(result.rounds, low, high, color=COLOURS[k % 7], alpha=0.2, linewidth=0)
    axis.set_yscale("log" if problem.shared else "linear")
    axis.set_xlabel("communication rounds")
    axis.set_ylabel(("gap to the best common policy, $J - J^*$" if problem.shared else "$J$") + " (reward units)")
    axis.legend(frameon=False, title=f"mean and 95% interval, {max(seeds)} seeds" if max(seeds) > 1 else None)
    axis.grid(alpha=0.25)


def policy_map(axis: Any, problem: TabularProblem, theta: np.ndarray, threshold: float = 0.1) -> Any:
    """One policy on its grid: arrows as long as an action is probable, over where the agents then spend their time."""
    grid = problem.grid
    if grid is None:
        raise InputError(f"problem '{problem.name}' has no grid to draw on")
    pi = softmax(np.asarray(theta, float).reshape(problem.S, problem.A), axis=1)
    where = exact.occupancy(problem, theta).mean(axis=0).reshape(grid.rows, grid.columns)
    image = axis.imshow(where, cmap="Greys", vmin=0, vmax=1, alpha=0.6)
    for s in range(problem.S):
        row, column = divmod(s, grid.columns)
        for a, (down, right) in grid.moves.items():
            p = float(pi[s, a])
            if p < threshold:
                continue
            if (down, right) == (0, 0):
                axis.plot(column, row, "o", color=COLOURS[0], markersize=6 * p)
            else:
                tip = {
                    "width": 0.05,
                    "head_width": min(0.2, 0.4 * p),
                    "head_length": min(0.16, 0.25 * p),
                    "length_includes_head": True,
                }
                axis.arrow(column, row, 0.45 * p * right, 0.45 * p * down, color=COLOURS[0], linewidth=0, **tip)
    for s, text in grid.marks.items():
        row, column = divmod(s, grid.columns)
        axis.text(column - 0.46, row - 0.44, text, fontsize=7.5, va="top", ha="left", color="black")
    axis.spines[:].set_visible(True)
    axis.set_xticks([])
    axis.set_yticks([])
    return image


def _median(result: Result) -> int:
    """The seed whose final J is the median one: a policy that is neither lucky nor unlucky."""
    return int(np.argsort(result.final("J"))[len(result.theta) // 2])


def _pyplot() -> Any:
    try:
        import matplotlib
    except ModuleNotFoundError:
        raise InputError("figures need matplotlib: pip install 'fastfedpg[plot]'") from None
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt
