"""How the states of a problem are drawn as cells."""

from typing import NamedTuple


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
