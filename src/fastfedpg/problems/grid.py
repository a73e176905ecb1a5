"""How the states of a problem are drawn as cells, checked, and as a file holds it."""

import json
import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from fastfedpg.errors import InputError, unknown

MOST = 1_000_000
"""Cells of a grid that can be drawn."""


class Grid(NamedTuple):
    """How to draw the states as cells: cell c is row c // columns, column c % columns, and state s is cell s.

    Where a state is more than a place, `cells` gives each state's cell, several states to a cell, or -1 for nowhere.
    """

    rows: int
    columns: int
    moves: dict[int, tuple[int, int]]  # action -> (rows down, columns right) of its arrow; others have none
    marks: dict[int, str]  # cell -> what is written in it
    walls: tuple[int, ...] = ()  # cells that nobody can enter
    cells: tuple[int, ...] = ()
    arriving: tuple[tuple[float, ...], ...] = ()  # by agent and cell, where rewards are paid for arriving in a cell
    paid_for: str = "arriving"  # what `arriving` is paid for, if not for that
    fences: tuple[tuple[int, int], ...] = ()  # pairs of neighbouring cells that nobody can pass between


def check(grid: Grid, N: int, S: int, A: int) -> None:
    """Every number of a grid against the problem's agents, states and actions."""
    for name in ("rows", "columns"):
        if not getattr(grid, name) >= 1:
            raise InputError(f"grid: {name} is {getattr(grid, name)}; it must be at least 1")
    number = grid.rows * grid.columns
    size = f"{grid.rows} x {grid.columns} cells"
    if number > MOST:
        raise InputError(f"grid: {size} are too many to be drawn; at most {MOST:,} are")
    if not grid.cells and number < S:
        raise InputError(f"grid: {S} states in {size}: without `cells` each state is a cell of its own")
    if grid.cells and len(grid.cells) != S:
        raise InputError(f"grid: cells has {len(grid.cells)} entries for {S} states")
    if grid.cells and max(grid.cells) < 0:
        raise InputError("grid: no state has a cell; cells are numbered from 0, and -1 is nowhere")
    for name, given, least in (("cells", grid.cells, -1), ("walls", grid.walls, 0), ("marks", grid.marks, 0)):
        _inside(name, given, least, number - 1, f"{size} are numbered from 0")
    _inside("moves", grid.moves, 0, A - 1, f"{A} actions are numbered from 0")
    if grid.arriving and (len(grid.arriving) != N or any(len(row) != number for row in grid.arriving)):
        raise InputError(
            f"grid: arriving must have {N} rows, one for each agent, of {number} numbers, one for each cell"
        )
    for one, other in grid.fences:
        _inside("fences", (one, other), 0, number - 1, f"{size} are numbered from 0")
        if abs(one // grid.columns - other // grid.columns) + abs(one % grid.columns - other % grid.columns) != 1:
            raise InputError(f"grid: fences has [{one}, {other}], which are no neighbours in {size}")
    if any(not math.isfinite(x) for row in grid.arriving for x in row):
        raise InputError("grid: arriving must hold finite numbers")


def _inside(name: str, given: Iterable[int], least: int, most: int, why: str) -> None:
    for x in given:
        if not least <= x <= most:
            raise InputError(f"grid: {name} has {x}, which lies outside {least} to {most}: {why}")


def to_json(grid: Grid) -> str:
    """A grid as a file holds it."""
    numbers = ("rows", "columns", "walls", "cells", "arriving")
    lists = {name: np.asarray(getattr(grid, name)).tolist() for name in numbers}
    moves = {int(a): [int(x) for x in move] for a, move in grid.moves.items()}
    seldom = {"paid_for": grid.paid_for, "fences": [list(map(int, pair)) for pair in grid.fences]}
    lists |= {name: value for name, value in seldom.items() if value not in ("arriving", [])}
    return json.dumps({**lists, "moves": moves, "marks": {int(cell): text for cell, text in grid.marks.items()}})


def from_json(text: str) -> Grid:
    """A grid as a file holds it: an object with rows and columns, and perhaps the other entries."""
    try:
        said = json.loads(text, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"grid: not JSON ({error})") from None
    if not isinstance(said, dict):
        raise InputError("grid: not a JSON object with rows and columns")
    for name in said:
        if name not in Grid._fields:
            raise unknown("entry of grid", name, Grid._fields)
    for name in ("rows", "columns"):
        if name not in said:
            raise InputError(f"grid: {name} is missing")
    moves, marks = (_by_number(name, said.get(name, {})) for name in ("moves", "marks"))
    arrows = _numbers("moves", list(moves.values()), 2, "[rows down, columns right] for each action")
    if any(len(arrow) != 2 for arrow in arrows):
        raise InputError("grid: moves must be [rows down, columns right] for each action")
    if not all(isinstance(words, str) for words in marks.values()):
        raise InputError("grid: marks must be words for each cell")
    arriving = _numbers("arriving", said.get("arriving", []), 2, "a list of numbers for each agent", "if")
    fences = _numbers("fences", said.get("fences", []), 2, "pairs of cells")
    if any(len(pair) != 2 for pair in fences):
        raise InputError("grid: fences must be pairs of cells")
    if not isinstance(paid_for := said.get("paid_for", "arriving"), str):
        raise InputError("grid: paid_for must be words")
    return Grid(
        _numbers("rows", said["rows"], 0, "a whole number"),
        _numbers("columns", said["columns"], 0, "a whole number"),
        {action: (down, right) for action, (down, right) in zip(moves, arrows, strict=True)},
        marks,
        tuple(_numbers("walls", said.get("walls", []), 1, "a list of cells")),
        tuple(_numbers("cells", said.get("cells", []), 1, "a list of cells, one for each state")),
        tuple(tuple(map(float, row)) for row in arriving),
        paid_for,
        tuple((one, other) for one, other in fences),
    )


def _by_number(name: str, value: Any) -> dict[int, Any]:
    if not isinstance(value, dict) or not all(key.isdecimal() for key in value):
        raise InputError(f'grid: {name} is {json.dumps(value)[:60]}; it must be an object by number, as in {{"0": …}}')
    return {int(key): entry for key, entry in value.items()}


def _numbers(name: str, value: Any, axes: int, what: str, kinds: str = "i") -> Any:
    if value == []:
        return []
    try:
        found = np.array(value)
    except ValueError:  # rows of different lengths
        found = np.array(None)
    if found.ndim != axes or found.dtype.kind not in kinds:
        raise InputError(f"grid: {name} is {json.dumps(value)[:60]}; it must be {what}")
    return found.tolist()


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise InputError(f"grid: {next(name for name in names if names.count(name) > 1)} is given twice")
    return found
