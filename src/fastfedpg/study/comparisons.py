"""Several methods on one problem and one budget: run, resumed, tabulated and drawn."""

import shutil
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, get_type_hints

import numpy as np
import tomli_w
import tyro

from fastfedpg.algorithms import ALGORITHMS
from fastfedpg.config import Config, Settings, fit, from_toml, read_toml, settings_from
from fastfedpg.errors import InputError, unknown
from fastfedpg.runtime import Diverged
from fastfedpg.study import budgets, canvas, figures, outcomes, output, table, tuning
from fastfedpg.study.checkpoints import FREE, Checkpoint
from fastfedpg.study.files import clear_parts, held, is_held, write_text
from fastfedpg.study.journal import Note
from fastfedpg.study.outcomes import Outcome
from fastfedpg.study.plans import Plan, plan
from fastfedpg.study.progress import Show, unseen
from fastfedpg.study.runs import begin, execute, reopen

PICTURES = ("curves", "policies", "agents")
FILE = output.COMPARISON


def _parse_etas(words: list[str]) -> dict[str, float]:
    """2 is the step size of all methods, name=2 that of one."""
    pairs = [(name or "all", float(value)) for name, _, value in (word.rpartition("=") for word in words)]
    if len(dict(pairs)) < len(pairs):
        raise ValueError("one step size for all, and one for each method that has its own")
    return dict(pairs)


Etas = Annotated[
    dict[str, float],
    tyro.constructors.PrimitiveConstructorSpec(
        nargs="*",
        metavar="ETA|NAME=ETA …",
        instance_from_str=_parse_etas,
        is_instance=lambda value: isinstance(value, dict),
        str_from_instance=lambda value: [f"{v:g}" if k == "all" else f"{k}={v:g}" for k, v in value.items()],
    ),
]


@dataclass(frozen=True)
class Comparison:
    """All that is needed to repeat a comparison."""

    settings: Settings = field(default_factory=lambda: Settings(seeds=8))
    algorithms: tuple[str, ...] = ("fast_fedpg", "fedavg_pg", "scaffold_pg")
    """Methods to compare; differences are to the first, and --rounds are the rounds of the first."""
    eta: Etas = field(default_factory=lambda: {"all": Config().eta})
    """One step size for all, or by method, as in fast_fedpg=2 fedavg_pg=.5; with --tune the middle of the grid."""
    budget: Literal["samples", "rounds", "bytes"] = "samples"
    """What all methods may spend alike: as much as the first does in --rounds rounds."""
    tune: bool = False
    """Choose every method's step size on seeds that are not reported; eta is the middle of the grid."""
    candidates: int = 7
    """Step sizes to try for each method when tuning, each twice the one before."""
    tune_seeds: int = 4
    """Seeds to tune on: those that follow the reported ones."""

    def check(self) -> None:
        """Everything that can be seen without building anything."""
        for name in self.algorithms:
            if name not in ALGORITHMS:
                raise unknown("algorithm", name, ALGORITHMS)
        if len({*self.algorithms}) < len(self.algorithms) or not self.algorithms:
            raise InputError(f"algorithms are {' '.join(self.algorithms) or 'none'}; name each once, and at least one")
        for name in self.eta:
            if name not in ("all", *self.algorithms):
                raise unknown("algorithm in eta", name, self.algorithms)
        lacking = [name for name in self.algorithms if not {"all", name} & {*self.eta}]
        if lacking:
            raise InputError(
                f"no eta for {', '.join(lacking)}; give one for each method, or one for all others as well"
            )
        if self.tune and not tuning.FEWEST <= self.candidates <= tuning.MOST:
            least, most = tuning.FEWEST, tuning.MOST
            raise InputError(
                f"candidates = {self.candidates}; a fair choice needs at least {least}, and at most {most}"
            )
        if self.tune and {*self.eta} - {"all"}:
            raise InputError("with tune, eta is the middle of one grid for all methods; give one number")
        last = self.settings.first_seed + self.settings.seeds + self.tune_seeds
        if self.tune and not (self.tune_seeds >= 1 and last < 2**31):
            raise InputError(f"tune_seeds = {self.tune_seeds}; it must be at least 1, and all seeds below 2^31")

    def config(self, algorithm: str) -> Config:
        """One method's configuration, before the budget says how many rounds it has."""
        eta = self.eta[algorithm if algorithm in self.eta else "all"]
        return Config(**asdict(self.settings), algorithm=algorithm, eta=eta)

    def to_toml(self) -> str:
        """The comparison as TOML."""
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "settings"}
        table = {**asdict(self.settings), **own, "algorithms": list(self.algorithms)}
        return tomli_w.dumps({k: v for k, v in table.items() if v is not None and v != {}})


def from_file(path: Path) -> Comparison:
    """A comparison from its TOML file; paths in it are relative to the file's own folder."""
    said, where = read_toml(path), str(path)
    kinds, own = get_type_hints(Comparison), {}
    names = said.pop("algorithms", list(Comparison.algorithms))
    eta = said.pop("eta", Config().eta)
    eta = eta if isinstance(eta, dict) else {"all": eta}
    for name in ("budget", "tune", "candidates", "tune_seeds"):
        if name in said:
            own[name] = fit(f"{where}: {name}", kinds[name], said.pop(name))
    if not (isinstance(names, list) and all(isinstance(n, str) for n in names)):
        raise InputError(f"{where}: algorithms is {names!r}; it must be a list of names")
    etas = {name: fit(f"{where}: eta of {name}", float, value) for name, value in eta.items()}
    settings = settings_from(Settings, {"seeds": 8, **said}, where, path.parent)
    return Comparison(settings, tuple(names), etas, **own)


class Report(NamedTuple):
    """What a comparison has found, and the files that show it."""

    lines: list[table.Line]
    shared: bool
    title: str
    files: list[Path]
    outcomes: list[Outcome]


def compare(
    comparison: Comparison, out: Path | str, overwrite: bool = False, show: Show = unseen, note: Note = warnings.warn
) -> Report:
    """Run all methods, each into a folder of its own below `out`, and set them side by side."""
    out = Path(out)
    comparison.check()
    output.check_folder(out, overwrite)
    plans = _budgeted(comparison, _plans(comparison), note)
    describe = lambda: _describe(out, comparison, next(iter(plans.values())))
    with output.opened(out, lambda: _clear(out, overwrite), describe):
        return _finish(comparison, plans, out, show, note)


def resume(out: Path | str, show: Show = unseen, note: Note = warnings.warn) -> Report:
    """Go on with a comparison; cells that have come to their end are not repeated."""
    out = Path(out)
    comparison = from_file(out / FILE)
    comparison.check()
    with held(out):
        clear_parts(out)
        return _finish(comparison, _budgeted(comparison, _plans(comparison), note), out, show, note)


def compare_runs(
    folders: Sequence[Path | str], out: Path | str, overwrite: bool = False, note: Note = warnings.warn
) -> Report:
    """Set runs side by side that have come to their end."""
    out, places = Path(out), [Path(f) for f in folders]
    output.check_folder(out, overwrite)
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
    with output.opened(out, lambda: clear_parts(out), lambda: None):
        return present(found, plans, out, note)


def present(found: Sequence[Outcome], plans: Sequence[Plan], out: Path, note: Note, title: str | None = None) -> Report:
    """The table and the pictures of runs that have come to their end."""
    problem, tau = plans[0].tabular, plans[0].config.tau
    lines = table.measure(found, plans)
    title = title or f"{problem.name}: {problem.N} agents"
    files = [out / "table.csv"]
    write_text(files[0], table.to_csv(lines))
    drawn = [o for o in found if np.isfinite(o.result.theta).all()]
    known = [o for o in found if np.isfinite(o.result.returns).all()]
    try:
        files += figures.curves(out / "curves", found, problem, title)
        if drawn:
            files += figures.policies(out / "policies", drawn, problem, title)
        if known:
            files += figures.agents(out / "agents", known, problem, title, tau)
    except InputError as error:
        note(f"no figures: {error}")
    return Report(lines, problem.shared, title, files, list(found))


def kept(out: Path) -> str:
    """What a folder holds of a comparison, in words, and how to go on with it."""
    there = [name for name in (FILE, "tune.csv", "table.csv") if (out / name).exists()]
    there += [f"{name} ({output.state(out / name)})" for name in ALGORITHMS if (out / name / "config.toml").is_file()]
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
    if given[0] != asked:
        note(f"{names[0]} has {given[0]} rounds instead of {asked}, so that all stop at {spent[0]:,} {unit}")
    for name, n, s in zip(names, given, spent, strict=True):
        if s == 0 and budget != "rounds":
            note(f"{name} spends no {unit}: it has as many rounds as {names[0]}, {n}")
        elif s != spent[0]:
            note(f"{name} stops at {s:,} of {spent[0]:,} {unit}, its last whole round within the budget")
    no_effect = [{words.split(":")[0] for words in p.notes} for p in plans.values()]
    for words in sorted(set.intersection(*no_effect)):
        note(f"{words}: no method here uses it")
    first = plans[names[0]]
    return {name: plan(replace(plans[name].config, rounds=n), first) for name, n in zip(names, given, strict=True)}


def _finish(comparison: Comparison, plans: dict[str, Plan], out: Path, show: Show, note: Note) -> Report:
    if comparison.tune:
        file = out / "tune.csv"
        etas = tuning.tune(plans, comparison.eta["all"], comparison.candidates, comparison.tune_seeds, file, show, note)
        plans = {name: plan(replace(p.config, eta=etas[name]), p) for name, p in plans.items()}
    lost = [name for name, planned in plans.items() if not _cell(planned, out / name, show, note)]
    found = [outcomes.read(out / name, name, note, plans[name]) for name in plans if name not in lost]
    if not found:
        raise InputError(f"{out}: every method diverged; try a smaller eta, or --tune")
    if comparison.algorithms[0] in lost:
        note(f"differences are to {found[0][0].label} instead of {comparison.algorithms[0]}")
    first = plans[comparison.algorithms[0]]
    title = f"{first.tabular.name}: {first.tabular.N} agents, {first.config.oracle} gradients, H = {first.config.H}"
    return present([o for o, _ in found], [p for _, p in found], out, note, title)


def _cell(planned: Plan, cell: Path, show: Show, note: Note) -> bool:
    """Bring one run to its end, wherever it stands; False where it diverged."""
    config, begun = planned.config, (cell / "config.toml").is_file()
    if begun:
        before = from_toml(cell / "config.toml")
        differs = output.described(before).differs(output.described(config), FREE)
        if differs:
            raise InputError(f"{cell}: a run of another configuration ({differs}); choose another --out")
    state = output.state(cell) if begun else ""
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
    output.clear(out, overwrite)
    pictures = [file for name in PICTURES for file in canvas.files(out / name)]
    for file in (out / "tune.csv", out / "table.csv", *pictures):
        file.unlink(missing_ok=True)
    for cell in cells:
        shutil.rmtree(cell)


def _describe(out: Path, comparison: Comparison, first: Plan) -> None:
    """All that is needed to repeat the comparison, or to go on with it."""
    config = output.described(first.config)
    output.copy_files(out, first.config, first.tabular, first.theta0)
    settings = replace(comparison.settings, problem=config.problem, theta0=config.theta0)
    head = f"# {output.versions()}\n# Repeat with: fastfedpg compare --config THIS_FILE --out ANOTHER_FOLDER\n"
    write_text(out / FILE, head + replace(comparison, settings=settings).to_toml())
