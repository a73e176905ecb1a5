"""All that is needed to repeat a run: four choices with their arguments, and how they are run.

The same in Python, in a TOML file and on the command line. What an algorithm, an oracle, a policy or a problem can be
given is read off its own factory's signature; a setting that has the same name in two of them is called by both, as in
algorithm.lam.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import tomli_w

from fastfedpg import graph_files
from fastfedpg.errors import InputError, unknown
from fastfedpg.experiment import choices
from fastfedpg.experiment.choices import KINDS
from fastfedpg.experiment.run_settings import COUNTS, SETTINGS, RunSettings
from fastfedpg.parameters import Parameter, read_parameter
from fastfedpg.registry import Choice
from fastfedpg.toml_files import read_toml

AUTO = "auto"
"""The algorithm of a run that follows the advice on its problem."""

SOURCE = "source_sha256"
"""What a file says of a user's own function: how its source was when it ran."""


@dataclass(frozen=True, init=False, eq=False)
class Config(RunSettings):
    """A problem, an algorithm, an oracle and a policy by name, what they are given, and how they are run.

    Examples:
        >>> Config("compromise", {"mid": 0.7}, algorithm="fedavg_pg", eta=0.5).choice("algorithm").args["eta"]
        0.5
    """

    problem: str = "compromise-grid"
    problem_args: dict[str, Any] = field(default_factory=dict)
    algorithm: str = "fast_fedpg"
    oracle: str = "exact"
    policy: str | None = None
    policy_args: dict[str, Any] = field(default_factory=dict)
    given: dict[str, Any] = field(default_factory=dict)  # arguments of algorithm and oracle, and perhaps of others

    def __init__(
        self,
        problem: str = "compromise-grid",
        problem_args: Mapping[str, Any] | None = None,
        *,
        algorithm: str = "fast_fedpg",
        oracle: str = "exact",
        policy: str | None = None,
        policy_args: Mapping[str, Any] | None = None,
        given: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        put = lambda name, value: object.__setattr__(self, name, value)
        for name, value in {"problem": problem, "algorithm": algorithm, "oracle": oracle, "policy": policy}.items():
            put(name, value)
        put("problem_args", dict(problem_args or {}))
        put("policy_args", dict(policy_args or {}))
        for name, parameter in SETTINGS.items():
            put(name, settings.pop(name, parameter.default))
        known = choices.known_arguments(algorithm, oracle)
        for name in settings:
            if name not in known:
                raise unknown("setting", name, [*KINDS, "problem_args", "policy_args", *SETTINGS, *known])
        before = {name: value for name, value in (given or {}).items() if name.rpartition(".")[2] not in settings}
        put("given", {**before, **settings})

    def choice(self, kind: str) -> Choice:
        """What is chosen of a kind, with every argument; of a problem that no maker of ours makes, the given ones."""
        name = getattr(self, kind)
        return choices.choose(kind, name, self.arguments(kind))

    def arguments(self, kind: str) -> dict[str, Any]:
        """Those of the given settings that belong to what is chosen of a kind."""
        if kind in ("problem", "policy"):
            return dict(getattr(self, f"{kind}_args"))
        mine, other = (choices.parameters(k, getattr(self, k)) for k in (kind, choices.OTHER[kind]))
        found = {}
        for name in mine:
            if f"{kind}.{name}" in self.given:
                found[name] = self.given[f"{kind}.{name}"]
            elif name in self.given and name in other:
                raise InputError(f"{name} is the algorithm's and the oracle's: say algorithm.{name} or oracle.{name}")
            elif name in self.given:
                found[name] = self.given[name]
        return found

    def get(self, name: str) -> Any:
        """The value of a setting, of the run or of what is chosen; None where nothing has it."""
        if name in SETTINGS or name in (*KINDS, "problem_args", "policy_args"):
            return getattr(self, name)
        where, _, bare = name.rpartition(".")
        found = {kind: self.choice(kind).args for kind in ((where,) if where else choices.OTHER)}
        holders = [kind for kind, args in found.items() if bare in args]
        if len(holders) > 1:
            raise InputError(f"{bare} is the algorithm's and the oracle's: say algorithm.{bare} or oracle.{bare}")
        return found[holders[0]][bare] if holders else self.given.get(name, self.given.get(bare))

    @property
    def eta(self) -> float:
        """The algorithm's step size; NaN where it has none."""
        eta = self.choice("algorithm").args.get("eta")
        return float("nan") if eta is None else float(eta)

    def sources(self) -> dict[str, str]:
        """A hash of the file of every function of the user's own, but for a problem's, which may be repaired."""
        chosen = [self.choice(kind) for kind in KINDS if kind != "problem" and getattr(self, kind) is not None]
        return {each.name: each.source for each in chosen if each.source}

    def unused(self) -> dict[str, Any]:
        """Settings that are given and that nothing chosen here has."""
        used = {n for kind in choices.OTHER for n in choices.parameters(kind, getattr(self, kind))}
        return {n.rpartition(".")[2]: v for n, v in self.given.items() if n.rpartition(".")[2] not in used}

    def flat(self) -> dict[str, Any]:
        """Every setting and argument that has an effect, by name."""
        found = {name: getattr(self, name) for name in SETTINGS}
        for kind in KINDS:
            if getattr(self, kind) is not None:
                chosen = self.choice(kind)
                found |= {kind: chosen.name, **{f"{kind}.{k}": v for k, v in chosen.args.items()}}
                found |= {f"{kind}.source": chosen.source} if chosen.source else {}
        return found

    def flat_names(self) -> set[str]:
        """The bare names of every setting that has an effect."""
        return {name.rpartition(".")[2] for name in self.flat()}

    def __eq__(self, other: object) -> bool:
        """Whether both describe the same run."""
        return isinstance(other, Config) and self.flat() == other.flat()

    __hash__ = None  # type: ignore[assignment]

    def check(self) -> None:
        """Everything that can be seen without building anything."""
        for name, parameter in SETTINGS.items():
            value = getattr(self, name)
            if parameter.kind.choices and not (value is None and parameter.optional):
                read_parameter(name, parameter, value)
        for name in COUNTS:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"{name} = {value}; it must be at least 1")
            if value is not None and value >= 2**31:
                raise InputError(f"{name} = {value}; it must be below 2^31")
        if not self.checkpoint_seconds >= 0:
            raise InputError(f"checkpoint_seconds = {self.checkpoint_seconds:g}; it must be at least 0")
        if not 0 <= self.tau <= 1e6:
            raise InputError(f"tau = {self.tau:g}; the entropy weight must be finite and at least 0, and at most 1e6")
        if not 0 <= self.first_seed < 2**31 - self.seeds:
            raise InputError(f"first_seed = {self.first_seed}, seeds = {self.seeds}; all seeds must lie in [0, 2^31)")
        choices.check_unused(self.unused())

    def differs(self, other: "Config", free: Collection[str] = ()) -> str:
        """In which settings two configurations differ, in words; nothing where they agree."""
        here, there = self.flat(), other.flat()
        names = [n for n in {**here, **there} if n not in free and here.get(n) != there.get(n)]
        short = {n: n.rpartition(".")[2] if n.split(".")[0] in choices.OTHER else n for n in names}
        return ", ".join(f"{short[n]} is {_said(here.get(n))} there and {_said(there.get(n))} here" for n in names)

    def to_table(self) -> dict[str, Any]:
        """The settings as they stand in a file; what is not set is left out."""
        table: dict[str, Any] = {name: getattr(self, name) for name in SETTINGS if getattr(self, name) is not None}
        for kind in KINDS:
            if getattr(self, kind) is not None:
                chosen = self.choice(kind)
                source = {SOURCE: chosen.source} if chosen.source else {}
                table[kind] = {"name": chosen.name, **{k: v for k, v in chosen.args.items() if v is not None}, **source}
        return table

    def to_toml(self) -> str:
        """The settings as TOML."""
        return tomli_w.dumps(self.to_table())

    def shared_table(self) -> dict[str, Any]:
        """What several methods have in common: all but the algorithm, with what was given of any method's settings."""
        table = {name: getattr(self, name) for name in SETTINGS if getattr(self, name) is not None}
        table |= {name: value for name, value in self.given.items() if value is not None}
        for kind in ("problem", "policy"):
            if getattr(self, kind) is not None:
                table[kind] = {"name": getattr(self, kind), **self.choice(kind).args}
        return {k: v for k, v in table.items() if k.rpartition(".")[2] != "eta"} | {"oracle": self.oracle}

    def but(self, **settings: Any) -> "Config":
        """The same with other settings, of the run or of what is chosen."""
        return replace(self, **settings)


Settings = Config
"""What the methods of a comparison have in common: a configuration whose algorithm is left open."""


def _said(value: Any) -> Any:
    return "not set" if value is None else value


def from_toml(path: Path | str) -> Config:
    """A configuration from a TOML file; paths in it are relative to the file's own folder."""
    return from_mapping(read_toml(path), str(path), Path(path).parent)


def sketch(path: Path) -> dict[str, Any]:
    """What a list shows of a configuration, by name, from its file alone: nothing that it names is looked for."""
    table = read_toml(path)
    found = {name: table.get(name, parameter.default) for name, parameter in SETTINGS.items()}
    for kind in KINDS:
        said = table.get(kind, getattr(Config, kind))
        found[kind] = said.get("name", getattr(Config, kind)) if isinstance(said, dict) else said
        found |= {f"{kind}.{k}": v for k, v in said.items()} if isinstance(said, dict) else {}
    return {**found, "eta": found.get("algorithm.eta", table.get("eta", float("nan")))}


def from_mapping(
    table: Mapping[str, Any], where: str = "configuration", folder: Path | None = None, methods: Sequence[str] = ()
) -> Config:
    """A configuration from names and values, each checked for its name and type.

    A choice is a name, or a table of its name and arguments; arguments of algorithm and oracle may also stand beside
    the settings of the run, as they do in files of earlier versions; so may those of other `methods`.
    """
    read: dict[str, Any] = {"given": {}}
    for kind in KINDS:
        _read_choice(kind, table, where, read)
    known = choices.known_arguments(read["algorithm"], read["oracle"])
    known |= {name: p for method in methods for name, p in choices.takes("algorithm", method).items()}
    for name, value in table.items():
        if name in (*KINDS, "problem_args", "policy_args"):
            continue
        parameter = SETTINGS.get(name) or _argument(name, known, read)
        holder = [k for k in ("problem", "policy") if parameter is None and name in choices.takes(k, read[k])]
        if holder:
            read[f"{holder[0]}_args"] = {**read[f"{holder[0]}_args"], name: value}
            continue
        if parameter is None:
            names = [*KINDS, "problem_args", "policy_args", *SETTINGS, *known]
            raise InputError(f"{where}: {unknown('setting', name, names)}")
        fitted = read_parameter(f"{where}: {name}", parameter, value)
        (read if name in SETTINGS else read["given"])[name] = fitted
    if folder is not None:
        for name in ("problem", "theta0", "context"):
            if str(read.get(name) or "").endswith((".npz", ".csv")):
                read[name] = str(folder / read[name])
        read["given"] = graph_files.renamed(read["given"], lambda name: str(folder / name))
    return Config(**read)


def _argument(name: str, known: Mapping[str, Parameter], read: Mapping[str, Any]) -> Parameter | None:
    """What an argument must be that is called by its bare name, or by its kind's too, as in oracle.lam."""
    kind, _, bare = name.rpartition(".")
    if kind in choices.OTHER:
        return choices.takes(kind, read[kind]).get(bare) or choices.common_arguments().get(bare)
    return None if kind else known.get(name)


def _read_choice(kind: str, table: Mapping[str, Any], where: str, read: dict[str, Any]) -> None:
    """One choice of a file, with its arguments in its own table or beside it."""
    usual = getattr(Config, kind)
    said = table.get(kind, usual)
    args = table.get(f"{kind}_args", {})
    if not isinstance(args, dict):
        raise InputError(f"{where}: {kind}_args is {args!r}; it must be a table of names and values")
    if reserved := {"name", SOURCE} & {*args}:  # they stand in a choice's own table, and are no arguments
        raise InputError(f"{where}: {kind}_args has '{min(reserved)}', which is no argument; the name is {kind} = NAME")
    if isinstance(said, dict):
        own = {k: v for k, v in said.items() if k not in ("name", SOURCE)}
        args, said = {**args, **own}, said.get("name", usual)
    if not (isinstance(said, str) or (said is None and kind == "policy")):
        raise InputError(f"{where}: {kind} is {said!r}; it must be text, or a table with a name")
    if "\0" in (said or ""):
        raise InputError(f"{where}: {kind} is {said!r}; no name or path has a NUL in it")
    read[kind] = said
    if kind in ("problem", "policy"):
        read[f"{kind}_args"] = args
        return
    takes = choices.parameters(kind, said) if said is not None else {}
    for name, value in args.items():
        if name not in takes:
            raise InputError(f"{where}: {kind} {said!r}: {unknown('argument', name, takes)}")
        read["given"][f"{kind}.{name}"] = read_parameter(f"{where}: {name}", takes[name], value)
