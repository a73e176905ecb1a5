"""Text in columns, in which cells are broken between words and never inside one: a number and a name stay whole."""

import textwrap
from collections.abc import Sequence
from itertools import zip_longest
from typing import NamedTuple

from fastfedpg.errors import printable

GUTTER = "  "
"""Between two columns."""


class Column(NamedTuple):
    """A head and its cells; those of a `whole` column are not even broken between words."""

    head: str
    cells: Sequence[str]
    whole: bool = False
    right: bool = True

    @property
    def least(self) -> int:
        """How narrow it can be."""
        return max((len(self.head), *(len(x) for cell in self.cells for x in ([cell] if self.whole else cell.split()))))

    @property
    def most(self) -> int:
        """How wide it is where nothing is broken."""
        return max((len(self.head), *map(len, self.cells)))


def least(columns: Sequence[Column]) -> int:
    """How narrow they can be side by side."""
    return sum(column.least for column in columns) + len(GUTTER) * (len(columns) - 1)


def lay_out(columns: Sequence[Column], width: int) -> list[str]:
    """The lines of a table: heads, a rule, rows. It is wider than asked where a word would have to be broken."""
    columns = [x._replace(head=printable(x.head), cells=[*map(printable, x.cells)]) for x in columns]
    widths, spare = [column.least for column in columns], max(0, width - least(columns))
    while spare and any(w < column.most for w, column in zip(widths, columns, strict=True)):
        k = min((k for k, column in enumerate(columns) if widths[k] < column.most), key=lambda k: widths[k])
        widths[k], spare = widths[k] + 1, spare - 1
    rows = [_row([column.head for column in columns], columns, widths)]
    rows.append(["─" * (sum(widths) + len(GUTTER) * (len(widths) - 1))])
    rows += [_row(cells, columns, widths) for cells in zip(*(column.cells for column in columns), strict=True)]
    return [line for row in rows for line in row]


def _row(cells: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> list[str]:
    parts = [
        [cell] if column.whole else textwrap.wrap(cell, w, break_long_words=False, break_on_hyphens=False) or [""]
        for cell, column, w in zip(cells, columns, widths, strict=True)
    ]
    fit = lambda text, column, w: f"{text:>{w}}" if column.right else f"{text:<{w}}"
    return [GUTTER.join(map(fit, line, columns, widths)).rstrip() for line in zip_longest(*parts, fillvalue="")]
