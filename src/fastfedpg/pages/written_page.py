"""A page as one HTML file: parts through a template that escapes, plotly's script and charts inside."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fastfedpg.errors import InputError, missing_extra
from fastfedpg.experiment import own_files
from fastfedpg.files import read_text, write_text
from fastfedpg.pages import plotted
from fastfedpg.pages.blocks import Chart, Charts, Part
from fastfedpg.written import LIST

HERE = Path(__file__).parent
FILE = own_files.PAGE
MARK = "<!DOCTYPE html>\n<!-- written by fastfedpg report -->"
"""How every page begins."""
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
"""What a page may load: nothing but what is in it."""


def render(parts: Sequence[Part], watched: str = "") -> str:
    """The whole page; `watched` is how a page that is served asks whether there is something new."""
    try:
        from jinja2 import Environment, StrictUndefined
        from markupsafe import Markup
    except ImportError:
        raise missing_extra("a page", "Jinja2", "report") from None
    made = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.globals["script"] = Markup(plotted.library())
    made.globals["style"] = Markup(read_text(HERE / "page.css"))
    count = 0

    def chart(each: Chart) -> Any:
        nonlocal count
        count += 1
        return Markup(plotted.drawn(each.figure, f"chart-{count}", each.bar))

    made.globals["chart"] = chart
    policy = POLICY + ("; connect-src 'self'" if watched else "")
    text = made.from_string(read_text(HERE / "page.html")).render(parts=parts, policy=policy, watched=watched)
    return f"{MARK}\n{text}"


def charts(parts: Sequence[Part]) -> list[Chart]:
    """All charts of a page."""
    blocks = [block for part in parts for section in part.sections for block in section.blocks]
    return [
        chart
        for block in blocks
        for chart in (block.charts if isinstance(block, Charts) else [block] if isinstance(block, Chart) else [])
    ]


def check_place(path: Path, overwrite: bool, own: bool) -> None:
    """Refuse to write over what is not a page of ours; `own` is the place in a folder that pages have."""
    if path.is_dir():
        raise InputError(f"{path} is a folder; give the page's name, as in --out {path / FILE}")
    if not path.parent.is_dir():
        raise InputError(f"{path}: there is no folder {path.parent}")
    there = path.exists() or path.is_symlink()
    if there and not (overwrite or own):
        raise InputError(f"{path} already there; give --overwrite to replace it, or another --out")
    if there and not is_ours(path):
        raise InputError(
            f"{path}: not a page as fastfedpg wrote it, but changed since, or somebody else's, so it is not replaced; "
            "move it, or give another --out"
        )


def is_ours(path: Path) -> bool:
    """Whether a file is a page that was written here, as it was written where that is listed."""
    listed = (path.parent / LIST).is_file()
    return own_files.begins_with(path, MARK) and (not listed or own_files.is_written(path.parent, path))


def write(path: Path, text: str) -> None:
    """The page, whole or not at all."""
    write_text(path, text)
