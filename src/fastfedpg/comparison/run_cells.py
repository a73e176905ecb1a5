"""Several methods on one problem and one budget: run, resumed, tabulated and drawn."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from fastfedpg import graph_files
from fastfedpg.comparison import repeats, table
from fastfedpg.comparison.cell_plans import check_tuning, give_rounds, plan_cells, tune_cells
from fastfedpg.comparison.presented import TABLE, Report, present
from fastfedpg.comparison.spec import Comparison, described, from_file, with_graphs
from fastfedpg.core import Problem
from fastfedpg.errors import InputError
from fastfedpg.experiment import copies, own_files, run_folder
from fastfedpg.experiment import finished_run as outcomes
from fastfedpg.experiment.checkpoints import FREE, Checkpoint
from fastfedpg.experiment.clock import Clock
from fastfedpg.experiment.config import SOURCE, from_toml, sketch
from fastfedpg.experiment.finished_run import Outcome
from fastfedpg.experiment.journal import Note
from fastfedpg.experiment.own_code import named
from fastfedpg.experiment.plan import Plan
from fastfedpg.experiment.progress import Show, unseen
from fastfedpg.experiment.recorded_run import begin, execute, reopen
from fastfedpg.files import clear_parts, hold, is_sealed, read_text, seal, write_text
from fastfedpg.precision import float64
from fastfedpg.runtime import Diverged
from fastfedpg.scratch import scratch_folder
from fastfedpg.tables import ALGORITHMS

FILE = run_folder.COMPARISON


@float64
def compare(
    what: Any,
    methods: Any = None,
    out: Path | str | None = None,
    overwrite: bool = False,
    show: Show = unseen,
    note: Note = warnings.warn,
    **settings: Any,
) -> Report:
    """Run methods on one problem and one budget, each into a folder of its own below `out`, and set them side by side.

    Args:
        what: a Comparison, and then `methods` is its folder; or a problem: its name, or the problem itself.
        methods: by their labels: an algorithm's name, a table of its name and settings, or an Algorithm itself.
        out: the folder; without one nothing is left on disk.
        overwrite: replace an earlier comparison in that folder.
        show, note: hear of progress, and of what a person should know.
        settings: any settings of a Comparison (budget, tune, …) and of a Config (rounds, seeds, oracle, B, …).

    Examples:
        >>> from fastfedpg import compare, fast_fedpg, problems
        >>> report = compare(problems.compromise(), {"mine": fast_fedpg(0.5, H=10), "fedavg_pg": "fedavg_pg"}, rounds=9)
        >>> print(*(line.label for line in report.lines))
        mine fedavg_pg
    """
    if not isinstance(what, Comparison):
        if isinstance(what, Problem):
            raise InputError("compare takes the problem itself, as problems.compromise(), and oracle= by its name")
        if not isinstance(methods, Mapping) or not all(isinstance(label, str) for label in methods):
            raise InputError("compare takes methods by their labels, as in {'mine': algorithm, 'fast': 'fast_fedpg'}")
        comparison = described(what, methods, settings)
    elif settings:
        raise InputError(f"{', '.join(settings)}: a Comparison says everything itself")
    else:
        comparison, out = what, methods if out is None else out
    if out is None:
        with scratch_folder() as folder:
            return compare(comparison, folder / "comparison", None, True, show, note)._replace(files=[])
    out = Path(out)
    comparison.check()
    run_folder.check_folder(out, overwrite, comparison.labels)
    plans = prepare(comparison, note)
    with begun(comparison, plans, out, overwrite) as plans:
        return _finish(comparison, plans, out, show, note)


def prepare(comparison: Comparison, note: Note) -> dict[str, Plan]:
    """The plans of all methods, when all that can be refused has been."""
    comparison.check()
    plans = give_rounds(comparison, plan_cells(comparison), note)
    if comparison.tune:
        check_tuning(comparison, plans)
    return plans


@contextmanager
def begun(
    comparison: Comparison, plans: Mapping[str, Plan], out: Path, overwrite: bool = False
) -> Iterator[dict[str, Plan]]:
    """The folder of a comparison, in which all stands that is needed to go on with it; and the plans with its files."""
    graphs = copies.read_graphs(comparison.settings.given, *(table for _, table in comparison.tables()))
    describe = lambda: _describe(out, comparison, next(iter(plans.values())), graphs)
    with run_folder.open_folder(out, lambda: _clear(out, overwrite), describe):
        yield {label: replace(p, config=copies.placed(p.config, out)) for label, p in plans.items()}


@float64
def resume(
    out: Path | str,
    show: Show = unseen,
    note: Note = warnings.warn,
    restart: bool = False,
    plans: dict[str, Plan] | None = None,
    draw: bool = True,
) -> Report:
    """Go on with a comparison; cells that have come to their end are not repeated.

    A cell none of whose checkpoints can be used begins anew if `restart` says so; what was there is kept. `plans` are
    those of `prepare`, where they have been made already; without `draw` there are no new pictures.
    """
    out = Path(out)
    comparison = from_file(out / FILE)
    text = read_text(out / FILE)
    if not is_sealed(text) and is_sealed(text, unless=True):
        note(f"{out / FILE}: of an older version, without a sum; it is taken as it is")
    elif not is_sealed(text):
        raise InputError(
            f"{out / FILE}: not as it was written, so its runs would not be of one comparison; put it back, or begin "
            f"another: fastfedpg compare --config {out / FILE} --out ANOTHER_FOLDER"
        )
    comparison.check()
    with hold(out):
        clear_parts(out)
        plans = plans or give_rounds(comparison, plan_cells(comparison), note)
        return _finish(comparison, plans, out, show, note, restart, draw)


@float64
def compare_runs(
    folders: Sequence[Path | str],
    out: Path | str,
    overwrite: bool = False,
    note: Note = warnings.warn,
    margin: float | None = None,
    clock: Clock | None = None,
) -> Report:
    """Set runs side by side that have come to their end; what differs by less than the margin is equivalent.

    By a clock they have simulated seconds too.
    """
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
    text = tomli_w.dumps({"runs": [str(place) for place in places]})
    describe = lambda: write_text(out / "compared.toml", f"# {run_folder.versions()}\n{text}")
    with run_folder.open_folder(out, lambda: run_folder.clear(out, overwrite), describe):
        return present(found, plans, out, note, margin=margin, clock=clock)


def kept(out: Path) -> str:
    """What a folder holds of a comparison, in words, and how to go on with it."""
    there = [name for name in (FILE, "tune.csv", TABLE) if (out / name).exists()]
    there += [f"{cell.name} ({run_folder.state(cell)})" for cell in cells_in(out)]
    go_on = f"; fastfedpg resume {out} goes on" if (out / FILE).exists() else ""
    return f"kept in {out}: {', '.join(there) or 'nothing'}{go_on}"


def cells_in(out: Path) -> list[Path]:
    """The runs of the comparison that is written down in a folder, as far as they have begun."""
    try:
        labels = from_file(out / FILE).labels
    except InputError:
        labels = list(ALGORITHMS)
    return [out / label for label in labels if (out / label / "config.toml").is_file()]


def _finish(
    comparison: Comparison,
    plans: dict[str, Plan],
    out: Path,
    show: Show,
    note: Note,
    restart: bool = False,
    draw: bool = True,
) -> Report:
    ended = all(run_folder.state(out / name) in ("finished", "diverged") for name in plans)
    tuned = tune_cells(comparison, plans, out / "tune.csv", show, note, ended) if comparison.tune else {}
    plans = {**plans, **{name: cell.plan for name, cell in tuned.items()}}
    lost = [name for name, planned in plans.items() if not _cell(planned, out / name, show, note, restart)]
    kept = [name for name in plans if name not in lost]
    if not kept:
        raise InputError(f"{out}: every method diverged; try a smaller eta, or --tune")
    if next(iter(plans)) in lost:
        note(f"differences are to {kept[0]} instead of {next(iter(plans))}")
    found = [_outcome(out / name, planned, name in lost, note) for name, planned in plans.items()]
    exact = {name: plans[name] for name in kept if len(plans) > 1 and not table.has_noise(plans[name])}
    repeated = repeats.repeat(exact, out / repeats.FILE, show)
    first = next(iter(plans.values()))
    steps = {p.local_steps for p in plans.values() if "H" in p.config.choice("algorithm").args}
    local = f", H = {steps.pop()}" if len(steps) == 1 else ""
    title = f"{first.name}: {first.problem.N} agents, {first.config.oracle} gradients{local}"
    runs, plotted = [o for o, _ in found], [p for _, p in found]
    over = tuple(comparison.tune_over)
    return present(runs, plotted, out, note, title, comparison.margin, repeated, tuned, draw, over, comparison.time)


def _outcome(cell: Path, planned: Plan, lost: bool, note: Note) -> tuple[Outcome, Plan]:
    if lost:
        return outcomes.read_lost(cell, cell.name, planned), planned
    found, planned = outcomes.read(cell, cell.name, note, planned)
    if bad := int((~np.isfinite(found.result.final("J"))).sum()):
        note(f"{cell.name}: {bad} of {len(found.seeds)} seeds diverged; they count as worse than all others")
    return found, planned


def _cell(planned: Plan, cell: Path, show: Show, note: Note, restart: bool) -> bool:
    """Bring one run to its end, wherever it stands; False where it diverged."""
    config, begun = planned.config, (cell / "config.toml").is_file()
    if begun:
        before = from_toml(cell / "config.toml")
        differs = copies.described(before).differs(copies.described(config), FREE)
        if differs:
            raise InputError(f"{cell}: a run of another configuration ({differs}); choose another --out")
    state = run_folder.state(cell) if begun else ""
    sources = {k: config.choice(k).source for k in ("algorithm", "oracle")}
    stored = sketch(cell / "config.toml") if begun else {}
    changed = [k for k, source in sources.items() if begun and stored.get(f"{k}.{SOURCE}", "") != source]
    if changed and state == "finished":
        note(f"{cell.name}: the file of its {changed[0]} has changed since it ran; it stands as it ran then")
    try:
        if state not in ("finished", "diverged"):
            with (
                named(cell.name, config),
                _entered(planned, cell, begun, note, restart) as found,
                show(cell.name, config.rounds) as report,
            ):
                going_on = replace(planned, schedule=replace(planned.schedule, go_on=True))
                execute(going_on, cell, report, found, note)
    except Diverged as error:
        note(f"{cell.name} counts as worse than all others: {error}")
        return False
    if state == "diverged":
        note(f"{cell.name} counts as worse than all others: it diverged")
    return state != "diverged"


@contextmanager
def _entered(planned: Plan, cell: Path, begun: bool, note: Note, restart: bool) -> Iterator[Checkpoint | None]:
    if begun:
        with reopen(cell, note, planned, restart=restart) as (_, found):
            yield found
    else:
        own_files.clear_unbegun(cell)
        with begin(planned.config, cell, like=planned):
            yield None


def _clear(out: Path, overwrite: bool) -> None:
    if (out / FILE).exists() and not overwrite:
        raise InputError(f"{out}: another comparison has begun in this folder; choose another --out")
    run_folder.clear(out, overwrite)


def _describe(out: Path, comparison: Comparison, first: Plan, graphs: copies.Graphs) -> None:
    """All that is needed to repeat the comparison, or to go on with it."""
    config = copies.described(first.config)
    copies.copy_files(out, first.config, first.here, first.theta0)
    copies.write_graphs(out, graphs)
    context = copies.described(comparison.settings).context
    settings = comparison.settings.but(problem=config.problem, theta0=config.theta0, context=context)
    comparison = with_graphs(replace(comparison, settings=settings), graph_files.copy_name)
    head = f"# {run_folder.versions()}\n# Repeat with: fastfedpg compare --config THIS_FILE --out ANOTHER_FOLDER\n"
    text = own_files.name_runs(comparison.labels) + comparison.to_toml()
    write_text(out / FILE, head + seal(text))
