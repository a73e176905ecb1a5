"""What a comparison is asked: labelled cells, each a configuration of its own, one budget, and perhaps tuning."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, get_type_hints

import tomli_w

from fastfedpg import registry
from fastfedpg.comparison import tuning
from fastfedpg.core import Algorithm
from fastfedpg.errors import InputError, unknown
from fastfedpg.experiment import choices
from fastfedpg.experiment.clock import Clock, from_words
from fastfedpg.experiment.config import Config, from_mapping
from fastfedpg.graph_files import renamed
from fastfedpg.parameters import LETTERS, fit
from fastfedpg.toml_files import read_toml

USUAL = ("fast_fedpg", "fedavg_pg", "scaffold_pg")
OURS = re.compile(r"^\.|[/\\<>:|?*\"']|\.(csv|png|svg|toml|npz|json)$")
"""What a label must not be, since it is a folder's name beside the comparison's own files."""

LONGEST = 100


@dataclass(frozen=True)
class Comparison:
    """All that is needed to repeat a comparison.

    A method is an algorithm's name, perhaps with settings of its own and a label before it: fast_fedpg,
    fast_fedpg,reuse=true, or weak=mine.py:fedprox_pg,mu=0.1. `cells` has further ones by their labels, as tables of any
    settings.
    """

    settings: Config = field(default_factory=lambda: Config(seeds=8))
    algorithms: tuple[str, ...] = USUAL
    eta: dict[str, float] = field(default_factory=lambda: {"all": LETTERS["eta"].usual})
    budget: Literal["samples", "rounds", "bytes", "clock"] = "samples"
    tune: bool = False
    candidates: int = 7
    tune_seeds: int = 4
    tune_over: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    margin: float | None = None
    clock: dict[str, Any] = field(default_factory=dict)
    cells: dict[str, dict[str, Any]] = field(default_factory=dict)

    def check(self) -> None:
        """Everything that can be seen without building anything."""
        labels = [label for label, _ in self.tables()]
        double = next((label for label in labels if labels.count(label) > 1), None)
        if double is not None:
            raise InputError(
                f"two methods are called {double}; give one a label of its own, as in other={double}, or settings that "
                f"tell them apart, as in {double},H=5"
            )
        if not labels:
            raise InputError("algorithms are none; name at least one")
        if len({label.lower() for label in labels}) < len(labels):
            raise InputError(
                f"labels {', '.join(labels)} must differ in more than capitals: they are folders' names too"
            )
        for label, table in self.tables():
            if "rounds" in table:
                raise InputError(f"method '{label}' has rounds of its own; the budget gives rounds, so leave them out")
            if not label.strip() or not label.isprintable() or len(label) > LONGEST or OURS.search(label):
                raise InputError(
                    f"label {label!r} can't be a folder's name here: give it letters, as in weak=fast_fedpg,H=5, at "
                    f"most {LONGEST}, without / \\ < > : | ? * or quotes, no dot before it, and no ending of our files"
                )
        for name in self.eta:
            if name not in ("all", *labels, *self.methods):
                raise unknown("algorithm in eta", name, labels)
        if self.tune and not tuning.FEWEST <= self.candidates <= tuning.MOST:
            least, most = tuning.FEWEST, tuning.MOST
            raise InputError(
                f"candidates = {self.candidates}; a fair choice needs at least {least}, and at most {most}"
            )
        if self.margin is not None and not (0 < self.margin < math.inf):
            raise InputError(f"margin = {self.margin:g}; it must be above 0: 0.25 is a factor of 1.25 between gaps")
        if self.time is None and self.budget == "clock":
            raise InputError("budget = clock needs a clock; say what takes how long, as in latency=0.1 bandwidth=1e6 …")
        if self.tune_over and not self.tune:
            raise InputError("tune_over says what to try beside step sizes; give --tune too")
        if self.tune and {*self.eta} - {"all"}:
            raise InputError("with tune, eta is the middle of one grid for all methods; give one number")
        last = self.settings.first_seed + self.settings.seeds + self.tune_seeds
        if self.tune and not (self.tune_seeds >= 1 and last < 2**31):
            raise InputError(f"tune_seeds = {self.tune_seeds}; it must be at least 1, and all seeds below 2^31")

    @property
    def time(self) -> Clock | None:
        """The clock, where there is one."""
        return from_words(self.clock) if self.clock else None

    def tables(self) -> list[tuple[str, dict[str, Any]]]:
        """Every cell by its label, with what is its own."""
        return [*(read_cell(words) for words in self.algorithms), *self.cells.items()]

    @property
    def labels(self) -> list[str]:
        """The methods by the names that tables and folders give them."""
        return [label for label, _ in self.tables()]

    @property
    def methods(self) -> list[str]:
        """Their algorithms."""
        return [_algorithm(table) for _, table in self.tables()]

    @property
    def common_eta(self) -> float:
        """The step size of those methods that have none of their own, and the middle of the grid when tuning."""
        return float(self.eta.get("all", LETTERS["eta"].usual))

    @property
    def without_eta(self) -> list[str]:
        """Methods that were given no step size although others were."""
        if "all" in self.eta:
            return []
        return [n for n, table in self.tables() if not {n, _algorithm(table)} & {*self.eta} and "eta" not in table]

    def config(self, label: str) -> Config:
        """One method's configuration, before the budget says how many rounds it has."""
        table = dict(self.tables())[label]
        eta = self.eta.get(label, self.eta.get(_algorithm(table), self.common_eta))
        takes = choices.takes("algorithm", _algorithm(table))
        own = {"eta": eta} if "eta" in takes else {}
        known = {*takes, *choices.common_arguments(), *choices.takes("oracle", self.settings.oracle)}
        shared = self.settings.shared_table()
        for name in self.settings.given:  # what another method alone has, and what is this one's own
            bare = name.rpartition(".")[2]
            if bare not in known or bare in table:
                shared.pop(name, None)
        return from_mapping({**shared, **own, **table}, f"method '{label}'")

    def to_table(self) -> dict[str, Any]:
        """The comparison as it stands in a file."""
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("settings", "cells", "tune_over")}
        own = {name: value for name, value in own.items() if value is not None and (value or name != "clock")}
        over = {"tune_over": {k: list(v) for k, v in self.tune_over.items()}} if self.tune_over else {}
        cells = {"compare": self.cells} if self.cells else {}
        return {**own, "algorithms": list(self.algorithms), **self.settings.shared_table(), **over, **cells}

    def to_toml(self) -> str:
        """The comparison as TOML."""
        return tomli_w.dumps(self.to_table())


def _algorithm(table: Mapping[str, Any]) -> str:
    said = table.get("algorithm", Config.algorithm)
    return str(said.get("name", Config.algorithm) if isinstance(said, dict) else said)


def read_cell(words: str) -> tuple[str, dict[str, Any]]:
    """A label and what is its own, from [LABEL=]ALGORITHM[,SETTING=VALUE…]."""
    first, *rest = words.split(",")
    label, equals, name = first.rpartition("=")
    table: dict[str, Any] = {"algorithm": name}
    for pair in rest:
        setting, sign, value = pair.partition("=")
        if not (setting and sign):
            raise InputError(f"method '{words}': '{pair}' is not of the form setting=value")
        table[setting] = value
    if equals:
        return label, table
    short = name.rpartition(":")[2] if registry.is_own(name) else name
    return ",".join([short, *rest]), table


def from_file(path: Path) -> Comparison:
    """A comparison from its TOML file; paths in it are relative to the file's own folder."""
    return from_table(read_toml(path), str(path), path.parent)


def from_table(table: Mapping[str, Any], where: str, folder: Path) -> Comparison:
    """A comparison from names and values, each checked for its name and type; paths are relative to a folder."""
    said, kinds, own = dict(table), get_type_hints(Comparison), dict[str, Any]()
    cells = said.pop("compare", {})
    names = said.pop("algorithms", [] if cells else list(USUAL))
    eta = said.pop("eta", LETTERS["eta"].usual)
    eta = eta if isinstance(eta, dict) else {"all": eta}
    over, clock = said.pop("tune_over", {}), said.pop("clock", {})
    for name in ("budget", "tune", "candidates", "tune_seeds", "margin"):
        if name in said:
            own[name] = fit(f"{where}: {name}", kinds[name], said.pop(name))
    if not (isinstance(names, list) and all(isinstance(n, str) for n in names)):
        raise InputError(f"{where}: algorithms is {names!r}; it must be a list of names")
    if not (isinstance(cells, dict) and all(isinstance(table, dict) for table in cells.values())):
        raise InputError(f"{where}: compare is {cells!r}; it must hold a table for each label, as in [compare.weak]")
    if not (isinstance(over, dict) and all(isinstance(values, list) for values in over.values())):
        raise InputError(f"{where}: tune_over is {over!r}; it must be a table of lists, as in H = [5, 10]")
    if not isinstance(clock, dict):
        raise InputError(
            f"{where}: clock is {clock!r}; it must be a table, as in {{ latency = 0.1, bandwidth = 1e6, … }}"
        )
    etas = {name: fit(f"{where}: eta of {name}", float, value) for name, value in eta.items()}
    if "algorithm" in said:
        raise InputError(
            f"{where}: it has an algorithm, as the file of a run; a comparison has algorithms, a list of names, as in "
            'algorithms = ["fast_fedpg", "fedavg_pg"]'
        )
    methods = Comparison(Config(), tuple(names), cells=cells).methods
    settings = from_mapping({"seeds": 8, **said}, where, folder, methods)
    tried = {name: tuple(values) for name, values in over.items()}
    found = Comparison(settings, tuple(names), etas, **own, tune_over=tried, clock=clock, cells=cells)
    return replace(with_graphs(found, lambda name: str(folder / name)), settings=settings)


def with_graphs(comparison: Comparison, name: Callable[[str], str]) -> Comparison:
    """A comparison whose files of graphs are called otherwise.

    A method's words stay its label, so where they name a file all methods become tables, in their order.
    """
    comparison = replace(comparison, settings=comparison.settings.but(given=renamed(comparison.settings.given, name)))
    tables = comparison.tables()
    cells = {label: renamed(table, name) for label, table in tables}
    if cells == dict(tables) or len(cells) < len(tables):  # no file, or two of one label, which are refused elsewhere
        return comparison
    return replace(comparison, algorithms=(), cells=cells)


def described(problem: Any, methods: Mapping[str, Any], settings: Mapping[str, Any]) -> Comparison:
    """A comparison from Python's own values; those that are objects have a name as long as the program runs."""
    own = {k: v for k, v in settings.items() if k in {f.name for f in fields(Comparison)} - {"settings", "cells"}}
    rest = {k: v for k, v in settings.items() if k not in own}
    name = (
        problem if isinstance(problem, str) else registry.keep("problem", getattr(problem, "name", "problem"), problem)
    )
    cells: dict[str, dict[str, Any]] = {}
    for label, method in methods.items():
        kept = registry.keep("algorithm", label, method) if isinstance(method, Algorithm) else method
        cells[label] = dict(kept) if isinstance(kept, Mapping) else {"algorithm": kept}
    eta = own.pop("eta", LETTERS["eta"].usual)
    etas = dict(eta) if isinstance(eta, Mapping) else {"all": eta}
    return Comparison(Config(name, **{"seeds": 8, **rest}), (), etas, **own, cells=cells)
