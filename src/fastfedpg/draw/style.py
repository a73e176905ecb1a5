"""What all pictures share: matplotlib, their style, and how they are saved."""

import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fastfedpg.errors import missing_extra
from fastfedpg.files import write_atomically

# Okabe and Ito's colours are told apart by colour-blind eyes; dashes and markers tell them apart in grey.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1)), (0, (1, 1)), (0, (8, 2)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.constrained_layout.h_pad": 0.08,
    "figure.constrained_layout.w_pad": 0.08,
    "svg.hashsalt": "fastfedpg",
}
SMALL = 8.5
"""Font size of notes."""


def look(k: int) -> dict[str, Any]:
    """How the k-th method is drawn; its dash and marker are its own up to 49 methods."""
    again = k // 7  # after seven, colours come again with another marker and another line
    line, marker = DASHES[(k + again) % 7], MARKERS[(k + 3 * again) % 7]
    return {"color": COLOURS[k % 7], "linestyle": line, "marker": marker, "markersize": 5}


@contextmanager
def drawing() -> Iterator[Any]:
    """matplotlib's Figure, in the style of all pictures; pyplot and the caller's backend are left alone."""
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError:
        raise missing_extra("figures", "matplotlib", "plot") from None
    with rc_context(STYLE):
        yield Figure


def files(path: Path) -> list[Path]:
    """The files of a picture: `path` has no suffix."""
    return [path.with_name(path.name + suffix) for suffix in (".png", ".svg")]


def save(figure: Any, path: Path) -> list[Path]:
    """Write a picture as PNG and SVG, each whole or not at all; the same picture is the same SVG."""
    for file in files(path):
        with write_atomically(file) as part:
            kind = file.suffix[1:]
            figure.savefig(part, dpi=150, format=kind, metadata={"Date": None} if kind == "svg" else None)
    return files(path)


def plain(text: str, width: float | None = None) -> str:
    """A name as it stands: no dollar starts a formula, no underscore hides it; broken where `width` inches end."""
    text = text.replace("$", r"\$")
    text = f" {text}" if text.startswith("_") else text
    return text if width is None else textwrap.fill(text, max(8, int(12 * width)), break_on_hyphens=False)


def names(agents: Sequence[str]) -> list[str]:
    """Agents by number and name, since grids are marked with numbers and names may repeat."""
    return [plain(name if name == f"agent {i}" else f"{i}: {name}") for i, name in enumerate(agents)]


def heading(figure: Any, title: str) -> None:
    """The picture's title, broken to its width."""
    text = plain(title, 0.85 * figure.get_figwidth())
    figure.set_figheight(figure.get_figheight() + 0.22 * (text.count("\n") + 1))
    figure.suptitle(text, fontsize=12)


def footing(figure: Any, lines: Sequence[str]) -> None:
    """Small explanations below the picture, each on a line of its own."""
    text = "\n".join(plain(line, 1.1 * figure.get_figwidth()) for line in lines if line)
    figure.set_figheight(figure.get_figheight() + 0.15 * (text.count("\n") + 1))
    figure.supxlabel(text, fontsize=SMALL)


def legend(figure: Any, handles: Sequence[Any], labels: Sequence[str], title: str) -> None:
    """One legend for all panels, below them, in as many columns as there is room for; the figure grows by its rows."""
    width = figure.get_figwidth()
    shown = [plain(label, 0.35 * width) for label in labels]
    columns = max(1, min(len(shown), int(12 * width) // (max(map(_longest, shown)) + 7)))
    rows = -(-len(shown) // columns) * max(label.count("\n") + 1 for label in shown)
    figure.set_figheight(figure.get_figheight() + 0.2 * (rows + 1))
    figure.legend(handles, shown, loc="outside lower center", ncols=columns, frameon=False, title=title)


def _longest(text: str) -> int:
    return max(map(len, text.splitlines()), default=0)


def bar(image: Any, axes: Sequence[Any], label: str) -> None:
    """The bar that explains the colours of panels, for all of them: beside them, or below where they are low."""
    figure = axes[0].get_figure()
    height = figure.get_figheight()
    if height < 2.2 or "below" in figure.get_label():
        figure.set_label("below")  # a second bar goes where the first went, though the figure has grown
        figure.set_figheight(height + 0.85)
        place: dict[str, Any] = {"location": "bottom", "shrink": 0.5, "aspect": 40}
    else:
        place = {"shrink": 0.9}
        label = textwrap.fill(label, 18 if height < 3.4 else 60)
    figure.colorbar(image, ax=list(axes), label=label, **place).outline.set_visible(False)
