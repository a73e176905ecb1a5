"""Policies on their grid: what is done in each cell, over where that leads."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import softmax

from fastfedpg.draw import style as canvas
from fastfedpg.errors import InputError
from fastfedpg.experiment.finished_run import Outcome
from fastfedpg.problems import Grid, TabularProblem, tabular_exact
from fastfedpg.runtime import Result

COLUMNS = 4
"""Panels side by side, at most."""
WALL = "#4d4d4d"
TIME = "share of discounted time in a cell"
RARE = 0.1
"""What is done less often is not drawn."""


def policies(path: Path, outcomes: Sequence[Outcome], problem: TabularProblem, title: str) -> list[Path]:
    """The policy that each method has learned, with its median seed, on the problem's grid; as PNG and SVG.

    Nothing is drawn where there is no grid, nor for a method that has one policy per agent.
    """
    shown = {o.label: o.result.theta[_median(o.result)] for o in outcomes if o.result.theta.ndim == 2}
    if problem.grid is None or not shown:
        return []
    with canvas.drawing() as Figure:
        figure, axes = panels(Figure, problem.grid, list(shown))
        draw_policies(axes, problem, list(shown.values()))
        own = [o.label for o in outcomes if o.label not in shown]
        note = f"not drawn, since every agent has a policy of its own there: {', '.join(own)}" if own else ""
        some = "the policy of the median seed" if max(len(o.seeds) for o in outcomes) > 1 else ""
        canvas.footing(figure, [explanation(problem), corners(problem), some, note])
        canvas.heading(figure, f"{title}: what each method has learned to do")
        return canvas.save(figure, path)


def panels(Figure: Any, grid: Grid, titles: Sequence[str], bars: int = 1) -> tuple[Any, list[Any]]:
    """A figure with a picture of the grid for each title, as large as its cells need, and room for colour bars."""
    width, height = panel_size(grid)
    rows, columns = arranged(len(titles), int(15 / (width + 0.2)))
    shown = [canvas.plain(title, width) for title in titles]
    above = 0.17 * (1 + max(title.count("\n") for title in shown))
    size = (max(5.5, columns * (width + 0.15) + 1.1 * bars), rows * (height + above + 0.25) + 0.1)
    figure = Figure(figsize=size, layout="constrained")
    axes = [figure.add_subplot(rows, columns, k + 1) for k in range(len(titles))]
    for axis, title in zip(axes, shown, strict=True):
        axis.set_title(title)
    return figure, axes


def arranged(number: int, fit: int = COLUMNS) -> tuple[int, int]:
    """Rows and columns for so many panels, of which so many fit side by side; the rows are evenly filled."""
    rows = -(-number // max(1, min(COLUMNS, fit)))
    return rows, -(-number // rows)


def panel_size(grid: Grid) -> tuple[float, float]:
    """Inches of one picture of the grid: cells small enough for many, large enough to be read."""
    cell = float(np.clip(2.7 / max(grid.rows, grid.columns), 0.42, 0.8))
    return cell * grid.columns, cell * grid.rows


def draw_policies(axes: Sequence[Any], problem: TabularProblem, thetas: Sequence[np.ndarray]) -> None:
    """One panel per policy, all in the same shades, with one bar that explains them."""
    times = [per_cell(problem, tabular_exact.occupancy(problem, theta).mean(axis=0)) for theta in thetas]
    most = float(np.max(times))
    for axis, theta in zip(axes, thetas, strict=True):
        image = policy_map(axis, problem, theta, most=most)
    canvas.bar(image, axes, TIME)


def policy_map(axis: Any, problem: TabularProblem, theta: np.ndarray, most: float | None = None) -> Any:
    """One policy on its grid: arrows as long as an action is probable, over where the agents then spend their time.

    Where states share a cell, their times add up, and its arrows are their mean policy, weighted by that time.
    """
    grid = grid_of(problem)
    time = tabular_exact.occupancy(problem, theta).mean(axis=0)
    where = per_cell(problem, time)
    image = axis.imshow(where, cmap=shades(), vmin=0, vmax=most or where.max())
    for row, column, move, p in likely_moves(problem, theta, time):
        if move is None:
            _spot(axis, row, column, 0.3 * p, facecolor="none", edgecolor="black", linewidth=1)
        elif move == (0, 0):
            _spot(axis, row, column, 0.13 * p, facecolor="black")
        else:
            arrow(axis, row, column, 0.43 * p * np.array(move))
    furnish(axis, grid)
    return image


def likely_moves(
    problem: TabularProblem, theta: np.ndarray, time: np.ndarray
) -> Iterator[tuple[int, int, tuple[int, int] | None, float]]:
    """(row, column, move, its probability) of all that is not rare; the move is None for actions that are no moves."""
    grid = grid_of(problem)
    for cell, done in enumerate(cell_policy(problem, theta, time)):
        if cell in grid.walls or np.isnan(done).any():
            continue
        shares: dict[tuple[int, int] | None, float] = dict.fromkeys(grid.moves.values(), 0.0)
        for action, move in grid.moves.items():
            shares[move] += float(done[action])
        shares[None] = 1 - sum(shares.values())
        yield from ((*divmod(cell, grid.columns), move, p) for move, p in shares.items() if p >= RARE)


def per_cell(problem: TabularProblem, values: np.ndarray) -> np.ndarray:
    """Values of the states (S,), added up for each cell: (rows, columns)."""
    grid, cells = grid_of(problem), cells_of(problem)
    sums = np.bincount(cells[cells >= 0], values[cells >= 0], minlength=grid.rows * grid.columns)
    return sums.reshape(grid.rows, grid.columns)


def cell_policy(problem: TabularProblem, theta: np.ndarray, time: np.ndarray) -> np.ndarray:
    """What is done in each cell, (cells, A): the states' policies weighted by the time spent there; NaN if no state."""
    pi = softmax(np.asarray(theta, float).reshape(problem.S, problem.A), axis=1)
    weight = np.maximum(time, 1e-12)  # a cell that nobody visits has a policy all the same
    total = per_cell(problem, weight).ravel()
    done = np.stack([per_cell(problem, weight * pi[:, a]).ravel() for a in range(problem.A)], axis=1)
    return np.divide(done, total[:, None], out=np.full_like(done, np.nan), where=total[:, None] > 0)


def cells_of(problem: TabularProblem) -> np.ndarray:
    """Each state's cell (S,), -1 for nowhere."""
    return np.asarray(grid_of(problem).cells or range(problem.S))


def grid_of(problem: TabularProblem) -> Grid:
    """The problem's grid, if it has one."""
    if problem.grid is None:
        raise InputError(f"problem '{problem.name}' has no grid to draw on")
    return problem.grid


def explanation(problem: TabularProblem) -> str:
    """What arrows, dots, rings and numbers in corners mean."""
    grid = grid_of(problem)
    moves = grid.moves
    words = ["arrows: moves, the longer the more probable"]
    if (0, 0) in moves.values():
        words.append("dot: stay")
    if others := [problem.actions[a] for a in range(problem.A) if a not in moves]:
        words.append(f"ring: {' or '.join(others)}, the larger the more probable")
    if len(set(grid.cells) - {-1}) < sum(cell >= 0 for cell in grid.cells):
        words.append("a cell has several states: their mean, weighted by time")
    return "; ".join(words)


def corners(problem: TabularProblem) -> str:
    """What numbers in the corners of cells mean, where these are those of agents."""
    marks = [text.removesuffix(" …").split(", ") for text in grid_of(problem).marks.values()]
    numbers = [word for words in marks for word in words if word.isdecimal()]
    owned = bool(numbers) and all(int(word) < problem.N for word in numbers)
    return "number in the corner of a cell: whose own cell it is, by the agent's number" if owned else ""


def arrow(axis: Any, row: float, column: float, move: Any, colour: str = "black") -> None:
    """An arrow from the middle of a cell by (rows down, columns right)."""
    down, right = (float(x) for x in move)
    length = float(np.hypot(down, right))
    tip = {"head_width": min(0.2, 0.6 * length), "head_length": min(0.16, 0.5 * length)}
    axis.arrow(column, row, right, down, width=0.035, length_includes_head=True, color=colour, linewidth=0, **tip)


def furnish(axis: Any, grid: Grid) -> None:
    """Walls, the lines between cells, and what is written in them."""
    from matplotlib.patches import Rectangle

    for wall in grid.walls:
        row, column = divmod(wall, grid.columns)
        corner = (column - 0.5, row - 0.5)
        axis.add_patch(Rectangle(corner, 1, 1, hatch="////", facecolor=WALL, edgecolor="#a6a6a6", linewidth=0))
    for cell, text in grid.marks.items():
        row, column = divmod(cell, grid.columns)
        ink, rim = ("white", WALL) if cell in grid.walls else ("black", "white")
        write(axis, grid, row - 0.46, column - 0.46, text, rim, color=ink, va="top", ha="left")
    for one, other in grid.fences:
        here, there = np.array(divmod(one, grid.columns)), np.array(divmod(other, grid.columns))
        middle, half = (here + there) / 2, (there - here)[::-1] / 2
        rows, columns = np.stack([middle - half, middle + half], axis=1)
        axis.plot(columns, rows, color=WALL, linewidth=3, solid_capstyle="butt", zorder=3)
    axis.set_xticks(np.arange(grid.columns + 1) - 0.5, [])
    axis.set_yticks(np.arange(grid.rows + 1) - 0.5, [])
    axis.tick_params(length=0)
    axis.grid(color="#d9d9d9", linewidth=0.6)
    axis.set_axisbelow(False)
    axis.spines[:].set_visible(True)
    axis.set_xlim(-0.5, grid.columns - 0.5)
    axis.set_ylim(grid.rows - 0.5, -0.5)


def write(axis: Any, grid: Grid, row: float, column: float, text: str, rim: str = "white", **style: Any) -> None:
    """Words that fit into a cell, with a rim, so that they are read on top of arrows."""
    from matplotlib.patheffects import withStroke

    points = 72 * panel_size(grid)[0] / grid.columns
    size = float(np.clip(1.6 * points / max(len(text), 1), 4.0, min(8.0, 0.3 * points)))
    effects = [withStroke(linewidth=2, foreground=rim)]
    axis.text(column, row, canvas.plain(text), fontsize=size, path_effects=effects, **style)


def shades(dark: str = "#5FC9A5") -> Any:
    """From white to a colour that black arrows stand out from: green for time and probability, never for rewards."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("shades", ["white", dark])


def logits(policy: np.ndarray) -> np.ndarray:
    """A theta whose softmax is the policy; what is never done has probability 1e-300."""
    return np.log(np.maximum(policy, 1e-300))


def _spot(axis: Any, row: int, column: int, radius: float, **style: Any) -> None:
    from matplotlib.patches import Circle

    axis.add_patch(Circle((column, row), radius, zorder=2, **style))


def _median(result: Result) -> int:
    """The seed whose final J is the median one: a policy that is neither lucky nor unlucky."""
    return int(np.argsort(result.final("J"))[len(result.theta) // 2])
