"""A problem in one picture: what each agent is paid for, how the world moves, and the best common policy."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fastfedpg.draw import policy_maps, style
from fastfedpg.draw.policy_maps import cells_of, grid_of, per_cell
from fastfedpg.mdp.transitions import Sparse, expected
from fastfedpg.problems import TabularProblem, tabular_exact

SHOWN = 6
"""Agents that have a panel; the others are counted."""


def portrait(path: Path, problem: TabularProblem, title: str) -> list[Path]:
    """Draw a problem, on its grid if it has one, else as tables; as PNG and SVG."""
    shown = style.names(problem.agents[:SHOWN])
    more = f"… and {problem.N - SHOWN} more agents" if problem.N > SHOWN else ""
    with style.drawing() as Figure:
        if problem.grid is None:
            figure, notes = _tables(Figure, problem, shown)
        else:
            titles = [*shown, *["best common policy"] * problem.shared]
            figure, axes = policy_maps.panels(Figure, problem.grid, titles, bars=1 + problem.shared)
            notes = draw_grid(axes, problem)
        style.footing(figure, [more, *notes])
        style.heading(figure, title)
        return style.save(figure, path)


def draw_grid(axes: Sequence[Any], problem: TabularProblem) -> list[str]:
    """A panel per agent, and a last one for the best common policy if there is one; returns what to explain."""
    shown = min(problem.N, SHOWN)
    paid = [pay(problem, i) for i in range(shown)]
    norm, notes = _range(np.stack(paid)), set[str]()
    for i, (axis, values) in enumerate(zip(axes, paid, strict=False)):
        image = axis.imshow(values, **norm)
        if problem.own_kernels:
            _moves(axis, problem, i)
        if not anywhere(problem):
            _starts(axis, problem, i)
        notes.add(_numbers(axis, problem, values))
        policy_maps.furnish(axis, grid_of(problem))
    grid = grid_of(problem)
    style.bar(image, axes, f"reward for {grid.paid_for}" if grid.arriving else "reward (mean over actions)")
    said = sorted(notes)
    if problem.own_kernels:
        said.append("arrows: where each action takes the agent, on average")
    said.append("the start: any cell, all equally likely" if anywhere(problem) else "rings: the start, by their area")
    if problem.shared:
        best = policy_maps.logits(tabular_exact.optimum(problem).policy)
        style.bar(policy_maps.policy_map(axes[-1], problem, best), axes, policy_maps.TIME)
        said.append(f"best common policy: {policy_maps.explanation(problem)}")
    if grid.fences:
        said.append("thick lines: walls between cells")
    return [*said, policy_maps.corners(problem)]


def pay(problem: TabularProblem, i: int) -> np.ndarray:
    """Agent i's reward in each cell, (rows, columns): the mean over actions and over the cell's states; NaN if none.

    Where the problem pays for arriving in a cell, that: the mean over actions would show it in the cells around.
    """
    grid = grid_of(problem)
    if grid.arriving:
        return np.reshape(grid.arriving[i], (grid.rows, grid.columns))
    states = per_cell(problem, np.ones(problem.S))
    sums = per_cell(problem, problem.reward[i].mean(axis=1))
    return np.divide(sums, states, out=np.full_like(sums, np.nan), where=states > 0)


def displacement(problem: TabularProblem, i: int) -> np.ndarray:
    """Where agent i's actions take it on average, (cells, A, 2): rows down and columns right, the mean over states."""
    P, cells = problem.kernel(i), cells_of(problem)
    inside = (cells >= 0).astype(float)  # what leads nowhere is no move
    stays = expected(P, inside)
    places = inside * np.stack(np.divmod(cells, grid_of(problem).columns))
    mean = np.stack([inside[:, None] * (expected(P, x) - x[:, None] * stays) for x in places], axis=-1)
    number = np.maximum(per_cell(problem, np.ones(problem.S)).ravel(), 1)
    sums = [[per_cell(problem, mean[:, a, k]).ravel() for k in (0, 1)] for a in range(problem.A)]
    return np.moveaxis(np.array(sums), 2, 0) / number[:, None, None]


def _moves(axis: Any, problem: TabularProblem, i: int) -> None:
    for cell, moves in enumerate(displacement(problem, i)):
        for move in moves:
            length = float(np.hypot(*move))
            if length > 0.05:
                policy_maps.arrow(axis, *divmod(cell, grid_of(problem).columns), 0.43 * move / max(length, 1.0))


def anywhere(problem: TabularProblem) -> bool:
    """Whether all that start, start in more than half of the cells, and in all of them equally often."""
    rho = per_cell(problem, problem.rho if problem.rho.ndim == 1 else problem.rho.mean(axis=0))
    inside = per_cell(problem, np.ones(problem.S)) > 0
    positive = rho[rho > 0]
    return bool(np.allclose(positive, positive[0]) and len(positive) > inside.sum() / 2)


def _starts(axis: Any, problem: TabularProblem, i: int) -> None:
    from matplotlib.patches import Circle

    rho = per_cell(problem, problem.rho if problem.rho.ndim == 1 else problem.rho[i])
    for (row, column), share in np.ndenumerate(rho):
        if share > 0:
            radius = max(0.06, 0.3 * float(np.sqrt(share / rho.max())))
            axis.add_patch(Circle((column, row), radius, facecolor="none", edgecolor="black", linewidth=1.3))


def _numbers(axis: Any, problem: TabularProblem, values: np.ndarray) -> str:
    """What differs from most cells, in writing, so that it can be read without colours; returns what to explain."""
    known, counts = np.unique(values[np.isfinite(values)].round(12), return_counts=True)
    special = np.isfinite(values) & ~np.isclose(values, known[counts.argmax()])
    put = lambda row, column, text: policy_maps.write(
        axis, grid_of(problem), row + 0.45, column, text, ha="center", va="bottom"
    )
    if special.sum() <= max(12, values.size // 5):
        for row, column in np.argwhere(special).tolist():
            put(row, column, f"{values[row, column]:.3g}")
        return "numbers at the foot of a cell: the reward, where it is not that of most cells" if special.any() else ""
    if known[0] < 0 < known[-1]:
        for row, column in np.argwhere(values > 0).tolist():
            put(row, column, "+")
        return "+: reward above 0"
    return ""


def _range(values: np.ndarray) -> dict[str, Any]:
    """Colours for rewards: two-sided around zero where both signs occur."""
    from matplotlib.colors import LinearSegmentedColormap

    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    if low < 0 < high:
        most = max(-low, high)
        return {
            "cmap": LinearSegmentedColormap.from_list("sides", ["#D55E00", "white", "#56B4E9"]),
            "vmin": -most,
            "vmax": most,
        }
    if high <= 0:
        return {"cmap": policy_maps.shades("#D55E00").reversed(), "vmin": low, "vmax": max(high, low + 1e-9)}
    return {"cmap": policy_maps.shades("#E69F00"), "vmin": min(low, 0.0), "vmax": high if high > low else high + 1e-9}


FEW = 12
"""Names are written out up to so many states or actions, numbers up to so many cells a panel."""

MOST = 500
"""Transitions are drawn for up to so many states: with more, a cell is smaller than a dot."""


def _tables(Figure: Any, problem: TabularProblem, shown: Sequence[str]) -> tuple[Any, list[str]]:
    number = len(shown) + (1 < problem.S <= MOST)
    rows, columns = policy_maps.arranged(number)
    width = float(np.clip(0.45 * problem.A, 2.4, 3.2))
    height = float(np.clip(0.3 * problem.S, 0.8, 2.8)) + (1.0 if _named(problem.actions, 6) else 0.4)
    figure = Figure(figsize=(max(5.5, columns * (width + 0.6) + 1.4), rows * (height + 0.6)), layout="constrained")
    axes = [figure.add_subplot(rows, columns, k + 1) for k in range(number)]
    return figure, draw_tables(axes, problem, shown)


def draw_tables(axes: Sequence[Any], problem: TabularProblem, shown: Sequence[str]) -> list[str]:
    """Rewards, states x actions, a panel per agent; a last one for the transitions where there are several states."""
    norm = _range(problem.reward[: len(shown)])
    for axis, name, values in zip(axes, shown, problem.reward, strict=False):
        image = axis.imshow(values, aspect="auto", **norm)
        axis.set_title(style.plain(name, 3))
        _named_axes(axis, problem.states, problem.actions, "action")
        if values.size <= 3 * FEW:
            for (s, a), x in np.ndenumerate(values):
                axis.text(a, s, f"{x:.2g}", ha="center", va="center", fontsize=7.5)
    style.bar(image, axes, "reward")
    if problem.S == 1:
        return ["one state: all that happens is the choice of an action"]
    if problem.S > MOST:
        return [f"transitions: not drawn for more than {MOST} states"]
    image = axes[-1].imshow(_transitions(problem), cmap=policy_maps.shades(), vmin=0, aspect="auto")
    axes[-1].set_title("transitions")
    _named_axes(axes[-1], problem.states, problem.states, "next state")
    style.bar(image, axes, "probability")
    who = "over actions and agents, whose transitions differ" if problem.own_kernels else "over actions"
    return [f"transitions: from a state (row) to the next one (column), the mean {who}"]


def _transitions(problem: TabularProblem) -> np.ndarray:
    """From each state to each next one, (S, S): the mean over actions and agents."""
    if not isinstance(problem.P, Sparse):
        return np.asarray(problem.P.mean(axis=-2).reshape(-1, problem.S, problem.S).mean(axis=0))
    mean, rows = np.zeros((problem.S, problem.S)), np.arange(problem.S)[:, None, None]
    np.add.at(mean, (np.broadcast_to(rows, problem.P.next.shape), problem.P.next), problem.P.p)
    return mean * problem.S / problem.P.p.sum()


def _named(names: Sequence[str], longest: int) -> bool:
    return len(names) <= FEW and max(map(len, names)) > longest


def _named_axes(axis: Any, rows: Sequence[str], columns: Sequence[str], across: str) -> None:
    from matplotlib.ticker import MaxNLocator

    axis.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    axis.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    if len(rows) <= FEW:
        axis.set_yticks(range(len(rows)), [style.plain(name) for name in rows])
    if len(columns) <= FEW:
        turn = {"rotation": 45, "ha": "right"} if _named(columns, 3) else {}
        axis.set_xticks(range(len(columns)), [style.plain(name) for name in columns], fontsize=8.5, **turn)
    axis.set_xlabel(across)
    axis.set_ylabel("state")
    axis.spines[:].set_visible(True)
