"""A study of many problems: who does well over all of them, and on which."""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fastfedpg.comparison import aggregate, suite_table
from fastfedpg.comparison.aggregate import Place
from fastfedpg.comparison.members import SHORT, Member, member, tally
from fastfedpg.comparison.presented import Report
from fastfedpg.comparison.study_spec import Shown, Study
from fastfedpg.draw import profiles
from fastfedpg.errors import InputError
from fastfedpg.experiment import own_files
from fastfedpg.experiment.journal import Note
from fastfedpg.files import write_text

POINTS, LEAST = 200, 1e-6
"""Of a profile, and the smallest share that it is drawn for."""


def present(asked: Study, reports: Mapping[str, Report], out: Path, note: Note) -> Shown:
    """The tables of all comparisons together, their picture, and study.csv and scores.csv."""
    margins = {label: comparison.margin for label, comparison in asked.comparisons.items()}
    members = [member(label, report, asked.best.get(label), margins[label]) for label, report in reports.items()]
    left = [m.remaining for m in members]
    found = aggregate.places(asked.methods, [1 - x for x in left], any(m.few for m in members))
    files = [out / name for name in own_files.STUDY[1:3]]
    title = f"{asked.name}: {len(members)} problems, {len(found)} methods"
    try:
        files += profiles.profiles(out / own_files.DRAWN[0], *_drawn(found, left), title)
    except InputError as error:
        note(f"no figure: {error}")
    write_text(out / own_files.STUDY[2], _scores(asked.methods, members))
    write_text(out / own_files.STUDY[1], _rows(found, members))
    tables: Callable[[int], list[list[str]]] = lambda width: [
        *suite_table.over_all(found, members, title, width),
        *suite_table.each(asked.methods, members, width),
    ]
    return Shown(tables, suite_table.footnotes(found, members), files)


def _drawn(found: Sequence[Place], left: Sequence[np.ndarray]) -> tuple[list[profiles.Profile], np.ndarray]:
    least = min((float(x[x > 0].min()) for x in left if (x > 0).any()), default=1.0)
    x = np.geomspace(np.clip(least / 1.5, LEAST, 0.1), aggregate.WORST, POINTS)
    shares = aggregate.profiles(left, x)
    row = lambda k: type(shares)(*(each[k] for each in shares))
    return [profiles.Profile(p.label, row(k), p.score) for k, p in enumerate(found)], x


def _rows(found: Sequence[Place], members: Sequence[Member]) -> str:
    """study.csv: a row for each method; what is not defined is empty."""
    rows = []
    for k, p in enumerate(found):
        three = lambda name, x: dict(zip((name, f"{name}_low", f"{name}_high"), x or (np.nan,) * 3, strict=True))
        row = {"label": p.label, "problems": len(members), **three("score", p.score), **three("minus", p.difference)}
        row |= {"verdict": p.verdict, **three("chance", p.chance), "mean_difference": p.mean, "p": p.p}
        row |= dict.fromkeys(SHORT, "") if k == 0 else tally(members, k)
        rows.append(row | {"best_or_tied": sum(m.tied[k] for m in members)})
    return as_csv(rows)


def _scores(methods: Sequence[str], members: Sequence[Member]) -> str:
    """scores.csv: a row for each problem, method and seed."""
    rows = []
    for m in members:
        scores = 1 - aggregate.remaining(m.first, m.last, m.best)
        for k, label in enumerate(methods):
            for s, seed in enumerate(m.seeds if m.noise else m.seeds[:1]):
                where = {"problem": m.label, "label": label, "seed": seed, "metric": m.metric, "eta": m.eta[k]}
                values = {"start": m.first[k, s], "end": m.last[k, s], "best": m.best, "score": scores[k, s]}
                rows.append(where | values)
    return as_csv(rows)


def as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows for programs; what is not defined is empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    blank = lambda x: "" if isinstance(x, float | np.ndarray) and not np.isfinite(x) else x
    writer.writerows({name: blank(x) for name, x in row.items()} for row in rows)
    return text.getvalue()
