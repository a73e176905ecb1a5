"""A study: comparisons in folders of their own below it, run one after the other, and then shown together."""

import time
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from fastfedpg.comparison import phases, run_cells, series, suite
from fastfedpg.comparison.presented import TABLE, Report
from fastfedpg.comparison.spec import Comparison, from_file, with_graphs
from fastfedpg.comparison.study_spec import PHASES, SERIES, SUITE, Shown, Study, placed, read
from fastfedpg.errors import InputError
from fastfedpg.experiment import copies, own_files, run_folder
from fastfedpg.experiment.journal import Note, unsaid
from fastfedpg.experiment.plan import Plan
from fastfedpg.experiment.progress import Show, unseen
from fastfedpg.files import clear_parts, hold, is_sealed, read_text, seal, write_text
from fastfedpg.precision import float64

FILE = own_files.STUDY[0]
SECONDS = 2.0
"""After which it is told again how far the checks are."""
SHOWN = {SUITE: suite.present, SERIES: series.present, PHASES: phases.present}
"""How a study of each kind is shown."""


@float64
def study(
    asked: Study,
    out: Path | str,
    overwrite: bool = False,
    show: Show = unseen,
    note: Note = warnings.warn,
    say: Note = unsaid,
) -> Shown:
    """Run every comparison of a study into a folder of its own below `out`, and show them together.

    All of them are planned before the first is run, so that whatever can be refused is. `say` hears which one begins.
    """
    out = Path(out)
    run_folder.check_folder(out, overwrite, (*asked.comparisons, *own_files.STUDY))
    plans = _plan(asked, None, note, say)
    with run_folder.open_folder(out, lambda: _clear(out, overwrite), lambda: _describe(out, asked)):
        return _finish(asked, plans, out, show, note, say)


@float64
def resume(
    out: Path | str, show: Show = unseen, note: Note = warnings.warn, say: Note = unsaid, restart: bool = False
) -> Shown:
    """Go on with a study, which is to go on with its comparisons; those that have come to their end are only read."""
    out = Path(out)
    asked = read(out / FILE)
    if not is_sealed(read_text(out / FILE)):
        raise InputError(
            f"{out / FILE}: not as it was written, so its comparisons would not be of one study; put it back, or begin "
            f"another: fastfedpg study {out / FILE} --out ANOTHER_FOLDER"
        )
    with hold(out):
        clear_parts(out)
        return _finish(asked, _plan(asked, out, note, say), out, show, note, say, restart)


def kept(out: Path) -> str:
    """What a folder holds of a study, in words, and how to go on with it."""
    if not (out / FILE).exists():
        return f"kept in {out}: nothing"
    labels = own_files.named_runs(out / FILE)
    done = sum((out / label / TABLE).is_file() for label in labels)
    return f"kept in {out}: {done} of {len(labels)} comparisons; fastfedpg resume {out} goes on"


def _plan(asked: Study, out: Path | None, note: Note, say: Note) -> dict[str, dict[str, Plan]]:
    """The plans of every comparison; one that has begun in `out` is planned by its own file, which names its copies."""
    say(f"checking {len(asked.comparisons)} comparisons")
    plans, told = {}, time.monotonic()
    for k, (label, comparison) in enumerate(asked.comparisons.items()):
        if time.monotonic() - told > SECONDS:
            told = time.monotonic()
            say(f"checking {k + 1} of {len(asked.comparisons)}, {label}")
        with placed(f"problems.{label}"):
            begun = None if out is None else _begun(comparison, out / label / run_cells.FILE)
            plans[label] = run_cells.prepare(begun or comparison, _labelled(label, note))
            first = next(iter(plans[label].values()))
            if asked.kind == SUITE:  # whose scores are shares of what there was to gain
                _check_best(first, asked.best.get(label), begun is not None)
            if first.problem.release is not None:
                first.problem.release()
    known = {label: next(iter(each.values())).here.shared for label, each in plans.items()}
    if asked.kind != SUITE and len({*known.values()}) > 1:
        said = ", ".join(label for label, shared in known.items() if not shared)
        raise InputError(f"{asked.kind}: it shows gaps or J, and not both: there is no J* of {said}; leave it out")
    return plans


def _begun(comparison: Comparison, file: Path) -> Comparison | None:
    """A comparison by its own file, where that is there; it must be the one that the study has."""
    if not file.is_file():
        return None
    mine = from_file(file)
    if _unplaced(mine).to_toml() != _unplaced(comparison).to_toml():
        raise InputError(f"{file}: a comparison of another configuration; put it back, or move it away")
    return mine


def _unplaced(comparison: Comparison) -> Comparison:
    """A comparison without where its files are: the study names those of whoever began it, which may be gone."""
    comparison = with_graphs(comparison, lambda name: "graph.npy")
    return replace(comparison, settings=copies.described(comparison.settings))


def _labelled(label: str, note: Note) -> Note:
    return lambda words: note(f"{label}: {words}")


def _check_best(first: Plan, best: float | None, begun: bool) -> None:
    """What is said to be the best stands in the place of a J* that is not known, and is better than the start."""
    if first.here.shared and best is not None:
        raise InputError(f"best = {best:g} beside J*, which is known of problem '{first.name}'; leave best out")
    if not first.here.shared and best is None:
        raise InputError(
            f"problem '{first.name}' has no J*: say what other seeds have reached at best, a J, as in best = 1.5"
        )
    if best is not None and not begun:
        starts = np.atleast_2d(first.problem.theta0)
        seeds = np.arange(first.config.first_seed, first.config.first_seed + first.config.seeds)
        J = first.problem.evaluate(np.broadcast_to(starts, (len(seeds), starts.shape[1])), seeds).J
        if not (best < J).all():
            raise InputError(f"best = {best:g} is no better than J = {J.min():.4g} at the start: nothing to gain")


def _clear(out: Path, overwrite: bool) -> None:
    if (out / FILE).exists() and not overwrite:
        raise InputError(f"{out}: another study has begun in this folder; choose another --out")
    run_folder.clear(out, overwrite)


def _describe(out: Path, asked: Study) -> None:
    head = f"# {run_folder.versions()}\n# Repeat with: fastfedpg study THIS_FILE --out ANOTHER_FOLDER\n"
    write_text(out / FILE, head + seal(own_files.name_runs(list(asked.comparisons)) + asked.to_toml()))


def _finish(
    asked: Study,
    plans: Mapping[str, dict[str, Plan]],
    out: Path,
    show: Show,
    note: Note,
    say: Note,
    restart: bool = False,
) -> Shown:
    for label, comparison in asked.comparisons.items():
        if not (out / label / run_cells.FILE).is_file():
            own_files.clear_unbegun(out / label)
            with placed(f"problems.{label}"), run_cells.begun(comparison, plans[label], out / label) as mine:
                plans = {**plans, label: mine}
    reports: dict[str, Report] = {}
    for k, (label, planned) in enumerate(plans.items()):
        which, ended = f"{k + 1} of {len(plans)}, {label}", (out / label / TABLE).is_file()
        if not ended:
            say(which)
        seen = lambda title, rounds, which=which: show(f"{which}: {title}", rounds)
        with placed(f"problems.{label}"):
            reports[label] = run_cells.resume(
                out / label, seen, _labelled(label, note), restart, planned, draw=not ended
            )
    say("all comparisons are there; they are set side by side")
    return SHOWN[asked.kind](asked, reports, out, note)
