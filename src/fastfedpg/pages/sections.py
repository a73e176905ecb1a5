"""The sections that runs and comparisons have in common."""

import base64
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from fastfedpg.experiment.plan import Plan
from fastfedpg.files import read_bytes, read_text
from fastfedpg.pages import agent_chart, curve_charts, grid_chart, look_up
from fastfedpg.pages.blocks import Block, Charts, Files, Film, Section, Text, Words
from fastfedpg.pages.curve_charts import BYTES, ROUNDS, SECONDS, Method
from fastfedpg.pages.look_up import Costs
from fastfedpg.pages.recorded import Told
from fastfedpg.pages.replayed import Snapshots
from fastfedpg.problems import TabularProblem

LARGEST_FILM = 4 << 20
"""Bytes of a film that is put into the page; a larger one is named."""
LARGEST_TEXT = 1 << 17
TITLES = {"rounds": ROUNDS, "bytes": BYTES, "seconds": SECONDS}


def curves(runs: Sequence[Told], costs: Mapping[str, Costs]) -> list[Section]:
    """The curves of all runs, and their drift and bias."""
    methods = [
        Method(told.label, look_up.axes(told, costs.get(told.label, Costs()), TITLES), told.recorded.metrics)
        for told in runs
        if told.recorded is not None
    ]
    if not methods:
        return []
    first = next(told.recorded.leading for told in runs if told.recorded is not None)
    names = curve_charts.known(methods)
    names = [first, *(name for name in names if name != first)] if first in names else names
    blocks: list[Block] = [curve_charts.curves(methods, names)] if names else []
    if all(SECONDS not in m.x for m in methods):
        clocked = "fastfedpg report DIR --clock latency=0.1 bandwidth=1e6 step_seconds=1e-4"
        blocks.append(Words([f"{clocked} adds simulated seconds to the axes."]))
    sections = [Section("Curves", blocks)]
    side = [
        curve_charts.small(methods, name, title, words)
        for name, title, words in PANELS
        if curve_charts.known(methods, [name])
    ]
    if side:
        sections.append(Section("Drift and bias", [Charts(side)]))
    return sections


PANELS = (
    (
        "drift",
        "drift in the last round",
        "Drift: how far local steps lead the agents apart from where the average of all would go, Lemma 1's sum.",
    ),
    (
        "grad_norm_sq",
        "squared norm of the gradient",
        "Bias: the common objective's gradient where the method stands. A method that comes to rest above zero "
        "rests where nothing is best.",
    ),
)


def lacking(why: str) -> list[Section]:
    """What is not shown, if there is something to be said of it."""
    return [Section("Not shown", [Words([f"{why[0].upper()}{why[1:]}."])])] if why else []


def agents(runs: Sequence[Told], found: Plan | None) -> list[Section]:
    """Who gains and who pays."""
    returns = {
        told.label: told.recorded.returns
        for told in runs
        if told.recorded is not None and np.isfinite(told.recorded.returns).all()
    }
    if not returns:
        return []
    number = next(iter(returns.values())).shape[1]
    if number < 2 or any(x.shape[1] != number for x in returns.values()):
        return []
    names, marks = look_up.names(found, number), look_up.references(found, runs)
    said = [agent_chart.said(label, values, names, marks) for label, values in returns.items()]
    near = np.concatenate(
        [*(x.mean(axis=0) for x in returns.values()), *(x for k, x in marks.items() if k != "at the start")]
    )
    if "at the start" in marks and np.ptp(np.append(near, marks["at the start"])) > 5 * np.ptp(near) > 0:
        start = marks.pop("at the start")  # it would press everything else together
        said.append(f"at the start: {start.min():.4g} to {start.max():.4g}, too far away to be drawn")
    unit = "return in the end, in reward units"
    words = Words([f"{line[0].upper()}{line[1:]}." for line in said if line])
    return [Section("Who gains, who pays", [words, agent_chart.agents(returns, names, marks, unit)])]


def policies(found: Mapping[str, Snapshots], problem: TabularProblem) -> list[Section]:
    """Every method's policy on the grid."""
    if not found or problem.grid is None:
        return []
    most = grid_chart.most_time(
        problem, [theta for each in found.values() for theta in (each.thetas[0], each.thetas[-1])]
    )
    charts = [grid_chart.policy(label, problem, x.thetas, x.rounds, most) for label, x in found.items()]
    moving = any(len(x.rounds) > 1 for x in found.values())
    words = [grid_chart.words(problem) + "; the seed whose end is the median one."]
    words += [
        "The sliders go over the rounds: the runs were played again for it, and ended in the same policies."
    ] * moving
    return [Section("Policies", [Words(words), Charts(charts)])]


def films(folders: Sequence[Path]) -> list[Section]:
    """The films that are in these folders."""
    blocks: list[Block] = []
    for film in [film for folder in folders for film in sorted(folder.glob("*agent-*.gif"))]:
        try:
            data = read_bytes(film) if film.stat().st_size <= LARGEST_FILM else b""
        except OSError:
            continue
        said = f"{film.parent.name}/{film.name}"
        if data.startswith(b"GIF8"):
            blocks.append(Film(said, f"data:image/gif;base64,{base64.b64encode(data).decode()}"))
        elif not data:
            blocks.append(Words([f"{said} is too large to be put into this page."]))
    return [Section("Films", blocks)] if blocks else []


def files(folder: Path, names: Sequence[str]) -> list[Section]:
    """Pictures for papers, and tables for programs."""
    there = [name for name in names if (folder / name).is_file()]
    return [Section("Files beside this page", [Files(there)], True)] if there else []


def repeat(folder: Path, file: str, command: str, versions: str) -> list[Section]:
    """The configuration, the command that repeats it, and what made it."""
    blocks: list[Block] = [Text(command)]
    try:
        text = read_text(folder / file, errors="replace", at_most=LARGEST_TEXT)
    except OSError:
        text = ""
    head = next((line.removeprefix("# ") for line in text.splitlines() if line.startswith("# fastfedpg ")), "")
    blocks.append(Words([f"Made with {versions or head or 'a version that nobody wrote down'}."]))
    sections = [Section("Repeat it", blocks)]
    return [*sections, Section("Configuration", [Text(text)], True)] if text else sections


def quiet(done: int) -> None:
    """Nobody looks."""


Say = Callable[[str], None]
