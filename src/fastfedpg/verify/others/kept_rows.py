"""Rows of a finished part of the work in a file, under its sum: what was measured is not measured again."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from fastfedpg.files import is_sealed, read_text, seal, write_text
from fastfedpg.verify.verdict import Estimate, Measured, Row


def keep(file: Path, about: dict[str, Any], rows: list[Row]) -> None:
    """Write them, with what they are about."""
    write_text(file, seal(json.dumps({"about": about, "rows": [_plain(row) for row in rows]}, indent=1) + "\n"))


def kept(file: Path, about: dict[str, Any]) -> list[Row] | None:
    """Read them; nothing where they are of something else, or not as they were written."""
    try:
        text = read_text(file)
        if not is_sealed(text):
            return None
        said = json.loads(text.partition("\n")[2])
        return [_row(each) for each in said["rows"]] if said["about"] == about else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _plain(row: Row) -> dict[str, Any]:
    said = {each.name: getattr(row, each.name) for each in fields(Row)}
    if row.margin is not None:
        mean, error = (np.asarray(x, float).tolist() for x in row.margin[:2])
        said["margin"] = [mean, error, row.margin.degrees]
    return said


def _row(said: dict[str, Any]) -> Row:
    margin, measured, spoken, describes = (said[name] for name in ("margin", "measured", "spoken", "describes"))
    made = {
        "margin": None if margin is None else Estimate(np.array(margin[0]), np.array(margin[1]), margin[2]),
        "measured": None if measured is None else Measured(*measured),
        "spoken": None if spoken is None else tuple(spoken),
        "describes": tuple(describes) if isinstance(describes, list) else describes,
    }
    return Row(**{**said, **made})
