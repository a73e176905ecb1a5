"""What a study is asked: comparisons by their labels, what they have in common, and how they are shown together."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import tomli_w

from fastfedpg.comparison.spec import LONGEST, OURS, Comparison, from_table
from fastfedpg.comparison.vary import Vary, check_matters, check_name, labels_of
from fastfedpg.comparison.vary import from_table as from_vary
from fastfedpg.errors import InputError, unknown
from fastfedpg.experiment import choices
from fastfedpg.experiment.run_settings import SETTINGS
from fastfedpg.parameters import fit
from fastfedpg.registry import PACKAGE
from fastfedpg.toml_files import read_toml

STUDIES = PACKAGE / "studies"
"""Where ours are, a file each."""

CLAIMS = "claims"
"""The study that is no comparison, and has no file: what the paper says about others."""
SUITE, SERIES, PHASES = "suite", "series", "phases"
KINDS = (SUITE, SERIES, PHASES)
"""How comparisons are shown together: a suite asks who does well on many problems, a series what one setting does, and
phases who is the best at every pair of values of two."""


class Study(NamedTuple):
    """All that is needed to repeat a study."""

    name: str
    kind: str
    comparisons: dict[str, Comparison]
    best: dict[str, float]  # the least J that is known of a problem, where it has no J*
    vary: Vary | None = None  # what a series differs in
    across: Vary | None = None  # and what phases differ in beside that

    @property
    def methods(self) -> list[str]:
        """Those that all comparisons have, by their labels."""
        return next(iter(self.comparisons.values())).labels

    def to_toml(self) -> str:
        """The study as TOML, with every comparison whole."""
        best = lambda label: {"best": self.best[label]} if label in self.best else {}
        tables = {label: {**best(label), **each.to_table()} for label, each in self.comparisons.items()}
        vary = {name: each.to_table() for name, each in (("vary", self.vary), ("across", self.across)) if each}
        return tomli_w.dumps({"name": self.name, "kind": self.kind, **vary, "problems": tables})


class Shown(NamedTuple):
    """What a study has found: tables for so many columns, what a reader must know of them, and the files."""

    tables: Callable[[int], list[list[str]]]
    footnotes: list[str]
    files: list[Path]


def known() -> list[str]:
    """The names of our own studies."""
    return sorted(file.stem for file in STUDIES.glob("*.toml"))


def find(name: str) -> Path:
    """The file of one of our studies, or a user's own."""
    if name in known():
        return STUDIES / f"{name}.toml"
    if name.endswith(".toml"):
        return Path(name)
    ours = sorted([*known(), CLAIMS])
    raise InputError(f"{unknown('study', name, ours)}; one of your own is a file, as in my_suite.toml")


def read(path: Path, quick: bool = False, algorithms: Sequence[str] = ()) -> Study:
    """A study from its TOML file, perhaps in the smaller form that the file declares, or with other methods.

    What stands outside of all tables is common to all comparisons, and [problems.LABEL] is one of them. [quick] is over
    both, and [quick.problems.LABEL] over that; `only` in it are the labels that are left. A series has [vary] instead,
    which makes a comparison of each value, and phases have [across] too, which makes one of each pair; [quick] may have
    other `values`, and those of [across] in `across`.
    """
    said, where = read_toml(path), str(path)
    name = fit(f"{where}: name", str, said.pop("name", path.stem))
    check_name(f"{where}: name", name)
    kind = said.pop("kind", SUITE)
    if kind not in KINDS:
        raise InputError(f"{where}: {unknown('kind of study', str(kind), KINDS)}")
    varied = [] if kind == SUITE else _varied(said, quick, where, ("vary", "across") if kind == PHASES else ("vary",))
    pairs = dict(zip(labels_of(varied), product(*(v.values for v in varied)), strict=True)) if varied else {}
    comparisons, best = dict[str, Comparison](), dict[str, float]()
    for label, whole in _merged(said, quick, where).items():
        here = f"{where}: problems.{label}"
        for vary, value in zip(varied, pairs.get(label, ()), strict=True):
            whole = vary.place(value, whole)
        if algorithms:
            whole = {k: v for k, v in whole.items() if k != "compare"} | {"algorithms": list(algorithms)}
        if "problem" not in whole:
            raise InputError(f'{here} names no problem; say which, as in problem = "compromise"')
        if "best" in whole:
            best[label] = fit(f"{here}: best", float, whole.pop("best"))
            if not math.isfinite(best[label]):
                raise InputError(f"{here}: best = {best[label]:g}; it must be a finite number, a J")
        with placed(here):
            made = from_table(whole, here, path.parent.absolute())
            comparisons[label] = replace(made, tune_over=_taken(made)) if algorithms else made
    study = Study(name, kind, comparisons, best, *varied)
    check(study, where)
    for k, vary in enumerate(varied):
        at_first = lambda pair, k=k: all(
            x == v.values[0] for j, (x, v) in enumerate(zip(pair, varied, strict=True)) if j != k
        )
        check_matters(vary, [comparisons[label] for label, pair in pairs.items() if at_first(pair)], where)
    return study


def _taken(comparison: Comparison) -> dict[str, tuple[Any, ...]]:
    """What of the study's own tuning other methods have too."""
    names = {name for method in comparison.methods for name in choices.takes("algorithm", method)}
    return {name: values for name, values in comparison.tune_over.items() if name in names | {*SETTINGS}}


def _varied(said: dict[str, Any], quick: bool, where: str, names: Sequence[str]) -> list[Vary]:
    """What comparisons differ in; each gets its label, and keeps what was said of it."""
    less, tables = said.get("quick"), [said.pop(name, None) for name in names]
    found = [from_vary(table, where, name) for name, table in zip(names, tables, strict=True)]
    every = labels_of(found)
    own = _tables(said.get("problems", {}), f"{where}: problems")
    if other := next((label for label in own if label not in every), None):
        raise InputError(f"{where}: {unknown('problem', other, every)}: a study of this kind has one for each value")
    for k, fewer in enumerate(("values", "across")[: len(names)]):
        if isinstance(less, dict) and fewer in less:
            table = {**tables[k], "values": less.pop(fewer)}
            found[k] = from_vary(table, f"{where}: quick", names[k]) if quick else found[k]
    said["problems"] = {label: own.get(label, {}) for label in labels_of(found)}
    return found


def _merged(said: Mapping[str, Any], quick: bool, where: str) -> dict[str, dict[str, Any]]:
    """Every comparison's table by its label, with what is common to all and perhaps made smaller."""
    common = {name: value for name, value in said.items() if name not in ("problems", "quick")}
    problems = _tables(said.get("problems", {}), f"{where}: problems")
    if not problems:
        raise InputError(f"{where}: no problems; give each a table of its own, as in [problems.small]")
    if not quick:
        return {label: {**common, **table} for label, table in problems.items()}
    if "quick" not in said:
        raise InputError(f"{where}: it has no [quick], which would say how it is made smaller; leave --quick out")
    less = _table(said["quick"], f"{where}: quick")
    own, only = _tables(less.pop("problems", {}), f"{where}: quick.problems"), less.pop("only", list(problems))
    if not (isinstance(only, list) and only and all(isinstance(label, str) for label in only)):
        raise InputError(f"{where}: quick: only is {only!r}; it must be a list of labels of problems")
    for what, labels in (("problems", own), ("only", only)):
        if other := next((label for label in labels if label not in problems), None):
            raise InputError(f"{where}: quick: {unknown(f'problem in {what}', other, problems)}")
    left = {label: table for label, table in problems.items() if label in only}
    return {label: {**common, **table, **less, **own.get(label, {})} for label, table in left.items()}


def _table(said: Any, where: str) -> dict[str, Any]:
    if not isinstance(said, dict):
        raise InputError(f"{where} is {said!r}; it must be a table")
    return dict(said)


def _tables(said: Any, where: str) -> dict[str, dict[str, Any]]:
    return {label: _table(table, f"{where}.{label}") for label, table in _table(said, where).items()}


def check(study: Study, where: str) -> None:
    """Everything that can be seen without building anything."""
    labels = list(study.comparisons)
    for label in labels:
        if not label.strip() or not label.isprintable() or len(label) > LONGEST or OURS.search(label):
            raise InputError(
                f"{where}: label {label!r} can't be a folder's name here: give it letters, at most {LONGEST}, without "
                "/ \\ < > : | ? * or quotes, no dot before it, and no ending of our files"
            )
    if len({label.lower() for label in labels}) < len(labels):
        said = ", ".join(labels)
        raise InputError(f"{where}: problems {said} must differ in more than capitals: they are folders' names too")
    for label, comparison in study.comparisons.items():
        with placed(f"{where}: problems.{label}"):
            comparison.check()
        if comparison.labels != study.methods:
            raise InputError(
                f"{where}: problems.{label} has methods {', '.join(comparison.labels)} and problems.{labels[0]} has "
                f"{', '.join(study.methods)}; all must have the same, in one order"
            )
    if len(study.methods) < 2:
        raise InputError(f"{where}: one method, {study.methods[0]}, is compared with nothing; name at least two")


@contextmanager
def placed(where: str) -> Iterator[None]:
    """Of what is refused it is said where."""
    try:
        yield
    except InputError as error:
        said = str(error)
        raise InputError(said if said.startswith(where) else f"{where}: {said}") from None
