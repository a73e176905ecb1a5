"""Several methods on one problem and one budget: run, resumed, tabulated and drawn."""

import shutil
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fastfedpg.algorithms import ALGORITHMS
from fastfedpg.comparison import table, tuning
from fastfedpg.comparison.spec import Comparison, from_file
from fastfedpg.draw import curves, style
from fastfedpg.errors import InputError
from fastfedpg.experiment import budgets, run_folder
from fastfedpg.experiment import finished_run as outcomes
from fastfedpg.experiment.checkpoints import FREE, Checkpoint
from fastfedpg.experiment.config import from_toml
from fastfedpg.experiment.finished_run import Outcome
from fastfedpg.experiment.journal import Note
from fastfedpg.experiment.plan import Plan, plan
from fastfedpg.experiment.progress import Show, unseen
from fastfedpg.experiment.run import begin, execute, reopen
from fastfedpg.files import clear_parts, hold, is_held, write_text
from fastfedpg.precision import float64
from fastfedpg.runtime import Diverged

PICTURES = ("curves", "policies", "agents")
FILE = run_folder.COMPARISON


class Report(NamedTuple):
    """What a comparison has found, and the files that show it."""

    lines: list[table.Line]
    shared: bool
    title: str
    files: list[Path]
    outcomes: list[Outcome]


@float64
def compare(
    comparison: Comparison, out: Path | str, overwrite: bool = False, show: Show = unseen, note: Note = warnings.warn
) -> Report:
    """Run all methods, each into a folder of its own below `out`, and set them side by side."""
    out = Path(out)
    comparison.check()
    run_folder.check_folder(out, overwrite)
    plans = _budgeted(comparison, _plans(comparison), note)
    describe = lambda: _describe(out, comparison, next(iter(plans.values())))
    with run_folder.opened(out, lambda: _clear(out, overwrite), describe):
        return _finish(comparison, plans, out, show, note)


@float64
def resume(out: Path | str, show: Show = unseen, note: Note = warnings.warn) -> Report:
    """Go on with a comparison; cells that have come to their end are not repeated."""
    out = Path(out)
    comparison = from_file(out / FILE)
    comparison.check()
    with hold(out):
        clear_parts(out)
        return _finish(comparison, _budgeted(comparison, _plans(comparison), note), out, show, note)


@float64
def compare_runs(
    folders: Sequence[Path | str], out: Path | str, overwrite: bool = False, note: Note = warnings.warn
) -> Report:
    """Set runs side by side that have come to their end."""
    out, places = Path(out), [Path(f) for f in folders]
    run_folder.check_folder(out, overwrite)
    read, plans = zip(*(outcomes.read(f, "", note) for f in places), strict=True)
    outcomes.check_same_problem(places, plans)
    found = [o._replace(label=name) for o, name in zip(read, outcomes.labels(places, plans), strict=True)]
    for other in found[1:]:
        missing = len({*found[0].seeds} ^ {*other.seeds})
        if missing:
            note(f"{other.label} and {found[0].label} have {missing} seeds not in common; differences leave them out")
        if other.unit != found[0].unit:
            note(f"{other.label} counts {other.unit}, {found[0].label} {found[0].unit}: budgets can't be compared")
        elif other.samples[-1] != found[0].samples[-1]:
            note(
                f"{other.label} stopped at {other.samples[-1]:,.0f} {other.unit}, "
                f"{found[0].label} at {found[0].samples[-1]:,.0f}: not the same budget"
            )
    with run_folder.opened(out, lambda: clear_parts(out), lambda: None):
        return present(found, plans, out, note)


def present(found: Sequence[Outcome], plans: Sequence[Plan], out: Path, note: Note, title: str | None = None) -> Report:
    """The table and the pictures of runs that have come to their end."""
    problem, tau = plans[0].here, plans[0].config.tau
    lines = table.measure(found, plans)
    title = title or f"{problem.name}: {problem.N} agents"
    files = [out / "table.csv"]
    write_text(files[0], table.to_csv(lines))
    drawn = [o for o in found if np.isfinite(o.result.theta).all()]
    known = [o for o in found if np.isfinite(o.result.returns).all()]
    try:
        files += curves.curves(out / "curves", found, problem, title)
        if drawn and (grids := problem.as_table()) is not None:  # a gain is a few numbers, and no picture
            files += curves.policies(out / "policies", drawn, grids, title)
        if known:
            files += curves.agents(out / "agents", known, problem, title, tau)
    except InputError as error:
        note(f"no figures: {error}")
    return Report(lines, problem.shared, title, files, list(found))


def kept(out: Path) -> str:
    """What a folder holds of a comparison, in words, and how to go on with it."""
    there = [name for name in (FILE, "tune.csv", "table.csv") if (out / name).exists()]
    there += [
        f"{name} ({run_folder.state(out / name)})" for name in ALGORITHMS if (out / name / "config.toml").is_file()
    ]
    go_on = f"; fastfedpg resume {out} goes on" if (out / FILE).exists() else ""
    return f"kept in {out}: {', '.join(there) or 'nothing'}{go_on}"


def _plans(comparison: Comparison) -> dict[str, Plan]:
    plans: dict[str, Plan] = {}
    for name in comparison.algorithms:
        plans[name] = plan(comparison.config(name), like=next(iter(plans.values()), None))
    return plans


def _budgeted(comparison: Comparison, plans: dict[str, Plan], note: Note) -> dict[str, Plan]:
    """The plans with the rounds that the budget pays for."""
    names, budget, asked = list(plans), comparison.budget, comparison.settings.rounds
    costs = [budgets.cost(p, budget) for p in plans.values()]
    given = budgets.rounds(names, costs, asked, budget)
    spent = [n * c for n, c in zip(given, costs, strict=True)]
    unit = budgets.unit(plans[names[0]]) if budget == "samples" else budget
    for name in comparison.without_eta:
        note(f"{name} was given no eta, and has {comparison.common_eta:g}")
    if given[0] != asked:
        note(f"{names[0]} has {given[0]} rounds instead of {asked}, so that all stop at {spent[0]:,} {unit}")
    for name, n, s in zip(names, given, spent, strict=True):
        if s == 0 and budget != "rounds":
            note(f"{name} spends no {unit}: it has as many rounds as {names[0]}, {n}")
        elif s != spent[0]:
            note(f"{name} stops at {s:,} of {spent[0]:,} {unit}, its last whole round within the budget")
    no_effect = [{words.split(":")[0] for words in p.notes if "has no effect" in words} for p in plans.values()]
    for words in sorted(set.intersection(*no_effect)):
        note(f"{words}: no method here uses it")
    for words in dict.fromkeys(words for p in plans.values() for words in p.notes if "has no effect" not in words):
        note(words)
    first = plans[names[0]]
    return {name: plan(replace(plans[name].config, rounds=n), first) for name, n in zip(names, given, strict=True)}


def _finish(comparison: Comparison, plans: dict[str, Plan], out: Path, show: Show, note: Note) -> Report:
    if comparison.tune:
        file = out / "tune.csv"
        etas = tuning.tune(plans, comparison.common_eta, comparison.candidates, comparison.tune_seeds, file, show, note)
        plans = {name: plan(replace(p.config, eta=etas[name]), p) for name, p in plans.items()}
    lost = [name for name, planned in plans.items() if not _cell(planned, out / name, show, note)]
    found = [outcomes.read(out / name, name, note, plans[name]) for name in plans if name not in lost]
    if not found:
        raise InputError(f"{out}: every method diverged; try a smaller eta, or --tune")
    if comparison.algorithms[0] in lost:
        note(f"differences are to {found[0][0].label} instead of {comparison.algorithms[0]}")
    first = plans[comparison.algorithms[0]]
    title = f"{first.name}: {first.problem.N} agents, {first.config.oracle} gradients, H = {first.config.H}"
    return present([o for o, _ in found], [p for _, p in found], out, note, title)


def _cell(planned: Plan, cell: Path, show: Show, note: Note) -> bool:
    """Bring one run to its end, wherever it stands; False where it diverged."""
    config, begun = planned.config, (cell / "config.toml").is_file()
    if begun:
        before = from_toml(cell / "config.toml")
        differs = run_folder.described(before).differs(run_folder.described(config), FREE)
        if differs:
            raise InputError(f"{cell}: a run of another configuration ({differs}); choose another --out")
    state = run_folder.state(cell) if begun else ""
    try:
        if state not in ("finished", "diverged"):
            with _entered(planned, cell, begun, note) as found, show(config.algorithm, config.rounds) as report:
                execute(planned, cell, report, found, note)
    except Diverged as error:
        note(f"{config.algorithm} is left out: {error}")
        return False
    if state == "diverged":
        note(f"{config.algorithm} is left out: it diverged")
    return state != "diverged"


@contextmanager
def _entered(planned: Plan, cell: Path, begun: bool, note: Note) -> Iterator[Checkpoint | None]:
    if begun:
        with reopen(cell, note, planned) as (_, found):
            yield found
    else:
        with begin(planned.config, cell, overwrite=True, like=planned):
            yield None


def _clear(out: Path, overwrite: bool) -> None:
    if (out / FILE).exists() and not overwrite:
        raise InputError(f"{out}: another comparison has begun in this folder; choose another --out")
    cells = [out / name for name in ALGORITHMS if (out / name / "config.toml").is_file()]
    for cell in cells:
        if is_held(cell):
            raise InputError(f"{cell}: another process is at work in this folder")
    run_folder.clear(out, overwrite)
    pictures = [file for name in PICTURES for file in style.files(out / name)]
    for file in (out / "tune.csv", out / "table.csv", *pictures):
        file.unlink(missing_ok=True)
    for cell in cells:
        shutil.rmtree(cell)


def _describe(out: Path, comparison: Comparison, first: Plan) -> None:
    """All that is needed to repeat the comparison, or to go on with it."""
    config = run_folder.described(first.config)
    run_folder.copy_files(out, first.config, first.here, first.theta0)
    settings = replace(comparison.settings, problem=config.problem, theta0=config.theta0)
    head = f"# {run_folder.versions()}\n# Repeat with: fastfedpg compare --config THIS_FILE --out ANOTHER_FOLDER\n"
    write_text(out / FILE, head + replace(comparison, settings=settings).to_toml())
