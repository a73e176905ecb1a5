"""A finished part of the work in a file, under its sum: what was measured is not measured again."""

import hashlib
import json
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from fastfedpg.files import is_sealed, read_text, seal, write_text
from fastfedpg.verify.claims.floors import Sweep
from fastfedpg.verify.claims.rates import Course
from fastfedpg.verify.verdict import Estimate, Measured, Row

Found: TypeAlias = tuple[list[Row], dict[str, Any]]
"""Rows, undecided, and what pictures show."""

DRAWN: dict[str, Any] = {kind.__name__: kind for kind in (Sweep, Course)}


@cache
def code() -> str:
    """A sum of this library's own code: between two releases it changes, and its version does not."""
    found = hashlib.sha256()
    for file in sorted(Path(__file__).parents[1].rglob("*.py")):
        found.update(file.read_bytes())
    return found.hexdigest()


def keep(file: Path, about: dict[str, Any], rows: list[Row], drawn: dict[str, Any] | None = None) -> None:
    """Write it, with what it is about."""
    said = {"about": about, "rows": [_plain(row) for row in rows], "drawn": _flat(drawn or {})}
    write_text(file, seal(json.dumps(said, indent=1) + "\n"))


def about_of(file: Path) -> dict[str, Any] | None:
    """What a file says that it is about; nothing where it is not as it was written."""
    said = _read(file)
    return None if said is None else said.get("about")


def kept(file: Path, about: dict[str, Any]) -> Found | None:
    """Read it; nothing where it is of something else, or not as it was written."""
    said = _read(file)
    try:
        if said is None or said["about"] != json.loads(json.dumps(about)):
            return None
        return [_row(each) for each in said["rows"]], _full(said.get("drawn", {"table": {}}))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _read(file: Path) -> dict[str, Any] | None:
    try:
        text = read_text(file)
        said = json.loads(text.partition("\n")[2]) if is_sealed(text) else None
    except (OSError, ValueError, RecursionError):
        return None
    return said if isinstance(said, dict) else None


def _flat(x: Any) -> Any:
    """What is drawn, as JSON has it: arrays and tuples by name."""
    if isinstance(x, np.ndarray):
        return {"array": x.tolist(), "dtype": x.dtype.str}
    if isinstance(x, Sweep | Course):
        return {"kind": type(x).__name__, "fields": [_flat(each) for each in x]}
    return {"table": {name: _flat(each) for name, each in x.items()}} if isinstance(x, dict) else x


def _full(x: Any) -> Any:
    if not isinstance(x, dict):
        return x
    if "array" in x:
        return np.array(x["array"], x["dtype"])
    if "kind" in x:
        return DRAWN[x["kind"]](*map(_full, x["fields"]))
    return {name: _full(each) for name, each in x["table"].items()}


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
