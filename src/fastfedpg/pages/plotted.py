"""What all charts of a page share: plotly's figures as plain dictionaries, their look, and how they become HTML.

plotly reads text as a little HTML of its own, so every name that comes from elsewhere goes through `plain`.
"""

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from fastfedpg.draw.style import COLOURS
from fastfedpg.errors import missing_extra

GREY = "#808080"
"""In the place of black, which nobody sees on black."""
INKS = tuple(GREY if colour == "#000000" else colour for colour in COLOURS)
DASHES = ("solid", "dash", "dashdot", "dot", "longdash", "longdashdot", "8px,2px")
MARKERS = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "x")
DIGITS = 6
"""Of a number in a chart."""
CONFIG = {
    "displaylogo": False,
    "responsive": True,
    "showTips": False,
    "modeBarButtons": [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
}


def look(k: int) -> tuple[str, str, str]:
    """The colour, dash and marker of the k-th method, as in the pictures beside the page."""
    again = k // 7
    return INKS[k % 7], DASHES[(k + again) % 7], MARKERS[(k + 3 * again) % 7]


def faint(colour: str, share: float = 0.18) -> str:
    """The colour, mostly seen through."""
    red, green, blue = (int(colour[k : k + 2], 16) for k in (1, 3, 5))
    return f"rgba({red},{green},{blue},{share})"


def plain(text: object) -> str:
    """A name as it stands: nothing in it is a tag, an entity or a place for a number; one line."""
    line = "".join(c if c.isprintable() else " " for c in str(text))
    return escape(line).replace("%{", "%&#123;").replace("$", "&#36;")


def numbers(values: Any) -> list[float | None]:
    """Numbers for a chart, in few digits; what is not finite is left out."""
    flat = np.asarray(values, float).reshape(-1)
    return [float(f"{x:.{DIGITS}g}") if math.isfinite(x) else None for x in flat]


def figure(data: Sequence[Mapping[str, Any]], layout: Mapping[str, Any], height: int = 420) -> dict[str, Any]:
    """A figure that both a light and a dark page can hold: what is text and lines takes the page's own colours."""
    axis = {"gridcolor": faint(GREY, 0.25), "zerolinecolor": faint(GREY, 0.5), "automargin": True}
    axis |= {"exponentformat": "power", "nticks": 5}
    usual: dict[str, Any] = {
        "template": {},
        "height": height,
        "autosize": True,
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": "system-ui, sans-serif", "size": 13, "color": GREY},
        "margin": {"l": 8, "r": 8, "t": 20, "b": 8, "pad": 2},
        "legend": {"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom", "x": 0, "font": {"size": 13}},
        "hoverlabel": {"namelength": -1},
        "dragmode": False,
    }
    axes = {name: {**axis, **layout.get(name, {})} for name in ("xaxis", "yaxis")}
    return {"data": list(data), "layout": {**usual, **layout, **axes}}


def buttons(found: Sequence[Mapping[str, Any]], y: float, kind: str = "buttons", x: float = 0) -> dict[str, Any]:
    """A row of buttons, or a list to choose from, above a chart."""
    return {
        "type": kind,
        "direction": "right" if kind == "buttons" else "down",
        "buttons": list(found),
        "showactive": True,
        "x": x,
        "xanchor": "left",
        "y": 1,
        "yanchor": "bottom",
        "pad": {"b": y, "t": 0, "l": 0, "r": 8},
        "bgcolor": faint(GREY, 0.12),
        "bordercolor": faint(GREY, 0.5),
        "font": {"size": 12},
    }


def library() -> str:
    """plotly's own script, all of it."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise missing_extra("a page", "plotly", "report") from None
    found: str = get_plotlyjs()
    return found


def drawn(figure: Mapping[str, Any], name: str, bar: bool = True) -> str:
    """The figure as a piece of HTML that the library fills; `name` is its own in the page."""
    from plotly.io import to_html

    found: str = to_html(
        dict(figure),
        {**CONFIG, "displayModeBar": "hover" if bar else False},
        False,
        False,
        full_html=False,
        validate=False,
        div_id=name,
        default_height=f"{figure['layout']['height']}px",
    )
    return found
