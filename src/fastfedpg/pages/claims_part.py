"""The parts of a page that are about claims: those of the paper, and what it says about others."""

import json
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fastfedpg.errors import InputError
from fastfedpg.experiment import own_files
from fastfedpg.experiment.clock import Clock
from fastfedpg.files import is_held, read_text
from fastfedpg.pages import plotted, sections
from fastfedpg.pages.blocks import Block, Chart, Part, Section, Table, Text, Words
from fastfedpg.pages.study_part import number, read
from fastfedpg.verify import figures, report
from fastfedpg.verify.verdict import CONTROL, FAIL, PASS, UNDECIDED, VACUOUS

PICTURES = [f"{name}.{kind}" for name in figures.NAMES for kind in ("png", "svg")]
MARKS = {PASS: "good", CONTROL: "good", FAIL: "bad", UNDECIDED: "open"}


def paper(folder: Path, clock: Clock | None, longest: float, say: sections.Say) -> Part:
    """What `fastfedpg verify` has found."""
    try:
        said = json.loads(read_text(folder / report.FILE))
        rows: list[dict[str, Any]] = said["rows"]
        settings, versions = said["settings"], str(said["versions"])
        problems = {
            problem: [row for row in rows if row["problem"] == problem]
            for problem in dict.fromkeys(r["problem"] for r in rows)
        }
        body = [Section(problem, [_rows(mine)]) for problem, mine in problems.items()]
        body.insert(0, Section("How tight they are", [_tightness(rows)]))
        notes = [f"{row['claim']} ({row['problem']}): {row['note']}" for row in rows if row["note"]]
        verdict = _counted([(row["words"], row["verdict"], row["claim"]) for row in rows])
        verdict += (
            f" Family-wise error {said['family_wise_error']:g} over {said['comparisons']} comparisons with noise."
        )
        of = settings.get("problem") or "problems made for them"
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"{folder / report.FILE}: not a report as fastfedpg verify writes it ({error})") from None
    body += [
        *[Section("Notes", [Words(notes)], True)] * bool(notes),
        *sections.files(folder, [*PICTURES, report.FILE]),
        Section("Repeat it", [Text(_command(settings)), Words([f"Made with {versions}."])]),
    ]
    return Part(f"the paper's claims on {of}", str(folder), f"Do the paper's claims hold on {of}?", verdict, body)


def _command(settings: Mapping[str, Any]) -> str:
    flags = [
        word for name, value in settings.items() if value not in (None, False, {}, []) for word in _flag(name, value)
    ]
    return " ".join(["fastfedpg verify", *map(shlex.quote, flags), "--out ANOTHER_FOLDER"])


def _flag(name: str, value: Any) -> list[str]:
    flag = f"--{name.replace('_', '-')}"
    if value is True:
        return [flag]
    if isinstance(value, dict):
        return [flag, *(f"{k}={v}" for k, v in value.items())]
    return [flag, *map(str, value)] if isinstance(value, list) else [flag, str(value)]


def _counted(found: Sequence[tuple[str, str, str]]) -> str:
    """How many rows have which verdict, and which fail."""
    counts = Counter(words for words, _, _ in found)
    failed = [claim for _, verdict, claim in found if verdict == FAIL]
    head = f"{len(failed)} of {len(found)} rows fail: {'; '.join(failed)}." if failed else "No row fails."
    return f"{head} {'; '.join(f'{n} {words}' for words, n in counts.items())}."


def _rows(rows: Sequence[Mapping[str, Any]]) -> Table:
    say = lambda x: "" if x is None else f"{x:.3g}"
    shown = [
        [row["claim"], row["says"], say(row["left"]), say(row["right"]), say(row["tightness"]), row["words"]]
        for row in rows
    ]
    marks = [MARKS.get(row["verdict"], "") for row in rows]
    heads = ["claim", "left <= right", "left", "right", "right/left", "verdict"]
    return Table(heads, shown, marks, said=["left <= right", "verdict"])


def _tightness(rows: Sequence[Mapping[str, Any]]) -> Chart:
    """right/left of every row that has one: 1 is as tight as can be."""
    known = [row for row in rows if row["tightness"]]
    data = []
    for k, words in enumerate(dict.fromkeys(row["words"] for row in known)):
        colour, _, marker = plotted.look(k)
        mine = [row for row in known if row["words"] == words]
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": plotted.plain(words),
                "x": plotted.numbers([r["tightness"] for r in mine]),
                "y": [plotted.plain(row["problem"]) for row in mine],
                "customdata": [[plotted.plain(row["claim"])] for row in mine],
                "marker": {"size": 10, "symbol": marker, "color": colour, "opacity": 0.8},
                "hovertemplate": "%{customdata[0]}: right/left = %{x:.3g}",
            }
        )
    layout = {
        "margin": {"l": 8, "r": 8, "t": 30, "b": 96, "pad": 2},
        "showlegend": True,
        "xaxis": {"type": "log", "title": {"text": "right side over left side"}},
        "yaxis": {"autorange": "reversed"},
        "shapes": [
            {
                "type": "line",
                "x0": at,
                "x1": at,
                "y0": 0,
                "y1": 1,
                "yref": "paper",
                "line": {"color": plotted.GREY, "dash": dash},
            }
            for at, dash in ((1, "solid"), (VACUOUS, "dot"))
        ],
    }
    words = (
        f"Every row that has two sides. At 1 a bound is met; beyond {VACUOUS} it says nothing. A touch names the claim."
    )
    return Chart(plotted.figure(data, layout, 200 + 30 * len({row["problem"] for row in known})), words)


def others(folder: Path, clock: Clock | None, longest: float, say: sections.Say) -> Part:
    """What `fastfedpg study claims` has found."""
    rows = read(folder / own_files.CLAIMS_TABLE)
    state = "finished" if rows else "running" if is_held(folder) else "interrupted"
    statements = list(dict.fromkeys(row["statement"] for row in rows))
    body: list[Section] = []
    for statement in statements:
        mine = [row for row in rows if row["statement"] == statement]
        about = [words for words in (mine[0].get("paper", ""), mine[0].get("where", "")) if words]
        shown = [[r["row"], r["asks"], _measured(r), r["verdict"], r["note"]] for r in mine]
        blocks: list[Block] = [*[Words([". ".join(about) + "."])] * bool(about)]
        marks = [MARKS.get(row["verdict"], "") for row in mine]
        heads = ["row", "asks", "measured", "note", "verdict"]
        blocks.append(Table(heads, [[*r[:3], r[4], r[3]] for r in shown], marks, said=["asks", "note", "verdict"]))
        body.append(Section(statement, blocks))
    verdict = _counted([(r["verdict"], r["verdict"], r["row"]) for r in rows]) if rows else f"The study is {state}."
    body += [
        *sections.files(folder, [own_files.CLAIMS_TABLE]),
        *sections.repeat(folder, own_files.CLAIMS, "fastfedpg study claims --out ANOTHER_FOLDER", ""),
    ]
    asks = "Does what the paper says about other methods hold?"
    return Part("what the paper says about others", str(folder), asks, verdict, body, state)


def _measured(row: Mapping[str, str]) -> str:
    value, low, high = (number(row, name) for name in ("measured", "low", "high"))
    between = f" ({low:.4g} to {high:.4g})" if np.isfinite(low) and np.isfinite(high) else ""
    return f"{value:.4g}{between}" if np.isfinite(value) else ""
