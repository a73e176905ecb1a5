"""What a page consists of, before it is HTML: parts, of which each is a folder's, with sections of blocks."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias


class Words(NamedTuple):
    """Paragraphs."""

    lines: Sequence[str]
    kind: str = "words"


class Table(NamedTuple):
    """Heads and rows of plain text; the first column names the row. `marks` says what a row is: good, bad, open.

    Columns of numbers end on the right; those whose heads are `said` hold words, which begin on the left.
    """

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    marks: Sequence[str] = ()
    said: Sequence[str] = ()
    kind: str = "table"


class Chart(NamedTuple):
    """A picture that can be looked into: what plotly draws, with words below it."""

    figure: Mapping[str, Any]
    words: str = ""
    bar: bool = True  # of tools, when one points at it
    kind: str = "chart"


class Charts(NamedTuple):
    """Small charts side by side, as far as there is room."""

    charts: Sequence[Chart]
    kind: str = "charts"


class Film(NamedTuple):
    """A moving picture, as a data URI."""

    title: str
    data: str
    kind: str = "film"


class Text(NamedTuple):
    """A file or a command, as it is."""

    text: str
    kind: str = "text"


class Files(NamedTuple):
    """Files beside the page, by name."""

    names: Sequence[str]
    kind: str = "files"


Block: TypeAlias = Words | Table | Chart | Charts | Film | Text | Files


class Section(NamedTuple):
    """What is told under one heading; `folded` is shown when it is asked for."""

    heading: str
    blocks: Sequence[Block]
    folded: bool = False


class Part(NamedTuple):
    """All about one folder."""

    title: str
    folder: str
    question: str
    verdict: str
    sections: Sequence[Section]
    state: str = "finished"
