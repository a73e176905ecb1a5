"""Flags as tyro reads them: a run's, made from `Flag`s, and a command's own. Help ends with an example."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import MISSING, Field, field, fields, make_dataclass
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import tyro

from fastfedpg.cli.flags import GROUPS, Flag, flags_of, value_of
from fastfedpg.errors import InputError
from fastfedpg.experiment import choices, presets
from fastfedpg.experiment.config import AUTO, Config, from_toml
from fastfedpg.experiment.words import PAIRS
from fastfedpg.kinds import TRUTH
from fastfedpg.parameters import NEEDED, Parameter


class Unset:
    """What a flag that was not given is."""

    def __repr__(self) -> str:
        return ""


UNSET = Unset()


class Asked(Exception):
    """Instead of reading flags: their parser, for whoever completes a line."""


_ASKED = ContextVar("asked", default=False)


@contextmanager
def asked() -> Iterator[None]:
    """A command that comes to its flags raises `Asked` with their parser."""
    before = _ASKED.set(True)
    try:
        yield
    finally:
        _ASKED.reset(before)


def _read(kind: Any, program: str, words: list[str], **how: Any) -> Any:
    """The flags, from words."""
    if _ASKED.get():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # tyro has no other way to be asked, hence tyro<2
            raise Asked(tyro.extras.get_parser(kind, prog=program, **how))
    return tyro.cli(kind, prog=program, args=words, console_outputs=True, **how)


def _constructor(parameter: Parameter) -> Any:
    """How tyro reads a parameter: by its kind, and with its words where it is something else."""
    kind, several = parameter.kind, parameter.kind.metavar.endswith("…") or " " in parameter.kind.metavar

    def read(words: list[str]) -> Any:
        try:
            return kind.read(words if several else words[0])
        except ValueError as error:
            said = " ".join(words)
            raise ValueError(str(error) if kind is PAIRS else f"'{said}' is not {kind.words}") from None

    nargs: Any = "*" if several and kind.metavar.endswith("…") else len(kind.metavar.split()) if several else 1
    return tyro.constructors.PrimitiveConstructorSpec(
        nargs=nargs,
        metavar=kind.metavar,
        instance_from_str=read,
        is_instance=lambda value: True,
        str_from_instance=lambda value: [""],
    )


def _field(flag: Flag) -> tuple[str, Any, Any]:
    usual = "" if flag.default is None or flag.default is NEEDED else f"(default: {_shown(flag.default)})"
    about = tyro.conf.arg(name=flag.shown, prefix_name=False, help=flag.parameter.help, help_behavior_hint=usual)
    name = flag.name.replace(".", "__")
    if flag.parameter.kind is TRUTH:
        return name, Annotated[bool, about], bool(flag.default)
    return name, Annotated[Any, _constructor(flag.parameter), about], UNSET


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(f"{k}={v}" for k, v in value.items()) or "none"
    if isinstance(value, tuple):
        return (
            " ".join(map(_shown, value))
            if any(isinstance(x, float | str) for x in value)
            else "x".join(map(str, value))
        )
    return f"{value:g}" if isinstance(value, float) else str(value)


def parse(
    kinds: Sequence[type],
    program: str,
    arguments: list[str],
    base: Config,
    flags: Sequence[Flag],
    defaults: Mapping[str, Any] | None = None,
    example: str = "",
    methods: Sequence[str] = (),
) -> tuple[Config, list[Any]]:
    """The configuration that a run's flags make of `base`, and a command's own flags, a value of each kind.

    A flag that nothing takes may be that of something whose name is wrong: then the name is what is refused.
    """
    parts: dict[str, list[tuple[str, Any, Any]]] = {group: [] for group in GROUPS}
    for flag in flags:
        if flag.name in choices.KINDS:
            parts[flag.group].append(_field(flag))
    for kind in kinds:
        for f in fields(kind):
            value = {**dict.fromkeys([f.name], _usual(f)), **(defaults or {})}[f.name]
            parts[f.metadata.get("group", "output")].append(_own_field(kind, f, value))
    for flag in flags:
        if flag.name not in choices.KINDS:
            parts[flag.group].append(_field(flag))
    groups: dict[str, Any] = {group: _group(members) for group, members in parts.items() if members}
    members = [(g, type(made), field(default_factory=lambda made=made: made)) for g, made in groups.items()]  # type: ignore[misc]
    top: Any = make_dataclass(program, members)
    try:
        commands = {f.name for kind in kinds for f in fields(kind)}
        words = _bare(arguments, flags, commands)
        if not {*_typed(words)} <= {"help", *commands, *(flag.shown for flag in flags)}:
            _check_names(base, arguments, methods)
        given: Any = _read(top, program, words, description=kinds[0].__doc__ or "")
    except SystemExit as end:
        if end.code == 0 and example:
            print(f"\nexample: {example}")
        raise
    values = {name: value for g in groups for name, value in vars(getattr(given, g)).items()}
    own = [kind(**{f.name: values[f.name] for f in fields(kind)}) for kind in kinds]
    return configure(base, flags, values), own


def _typed(words: Sequence[str]) -> Iterator[str]:
    """The names of the flags among words; --no-reuse is reuse."""
    for word in words:
        if word.startswith("--"):
            yield word[2:].partition("=")[0].replace("-", "_").removeprefix("no_")


def _check_names(base: Config, arguments: Sequence[str], methods: Sequence[str]) -> None:
    for kind in choices.KINDS:
        name = value_of(f"--{kind}", arguments) or getattr(base, kind)
        for each in [name] if kind != "algorithm" or not methods else methods:
            if each not in (None, AUTO):
                choices.check_name(kind, each)


def _usual(f: Field[Any]) -> Any:
    if f.default is not MISSING:
        return f.default
    return tyro.MISSING if f.default_factory is MISSING else f.default_factory()


def _own_field(kind: type, f: Field[Any], value: Any) -> tuple[str, Any, Any]:
    """A flag of a command's own; where it need not be given, help names its type alone, and says nothing of None."""
    hint, about = get_type_hints(kind, include_extras=True)[f.name], dict(f.metadata.get("tyro", {}))
    if value is None:
        inner = next((k for k in get_args(hint) if k is not type(None)), hint)
        choices_of = "{" + ",".join(map(str, get_args(inner))) + "}" if get_args(inner) else ""
        about |= {"metavar": choices_of or getattr(inner, "__name__", "value").upper(), "help_behavior_hint": ""}
    arg = tyro.conf.arg(prefix_name=False, help=f.metadata.get("help", ""), **about)
    return f.name, Annotated[hint, arg], value


def _group(members: Sequence[tuple[str, Any, Any]]) -> Any:
    """Flags that help shows together, with what they are unless given; one that must be given is missing."""
    kind = make_dataclass("Group", [(name, hint) for name, hint, _ in members])
    kind.__doc__ = ""
    return kind(**{name: value for name, _, value in members})


def configure(base: Config, flags: Sequence[Flag], values: Mapping[str, Any]) -> Config:
    """The configuration with the flags that were given."""
    given: dict[str, Any] = {}
    for flag in flags:
        value = values[flag.name.replace(".", "__")]
        if value is not UNSET and not (flag.parameter.kind is TRUTH and value == bool(flag.default)):
            given[flag.name] = value
    changes = {name: value for name, value in given.items() if "." not in name}
    for kind in ("problem", "policy"):
        own = {n.partition(".")[2]: v for n, v in given.items() if n.startswith(f"{kind}.")}
        same = changes.get(kind, getattr(base, kind)) == getattr(base, kind)
        before = getattr(base, f"{kind}_args") if same else {}
        changes[f"{kind}_args"] = {**before, **changes.get(f"{kind}_args", {}), **own}
    shown = {flag.name: flag.shown for flag in flags}
    own = {shown[n]: v for n, v in given.items() if n.split(".")[0] in choices.OTHER and "." in n}
    before = {n: v for n, v in base.given.items() if n not in own and n.rpartition(".")[2] not in own}
    return base.but(**{"given": {**before, **own}, **changes})


def _bare(arguments: Sequence[str], flags: Sequence[Flag], commands: set[str]) -> list[str]:
    """--algorithm.eta is --eta, where that is what the flag is called; a bare word that two could mean is refused."""
    shown = {flag.name.replace("_", "-"): flag.shown for flag in flags if "." in flag.name}
    double = {flag.name.partition(".")[2] for flag in flags if "." in flag.shown}
    plain = {flag.shown for flag in flags} | commands
    out = []
    for word in arguments:
        name, equals, value = word[2:].partition("=") if word.startswith("--") else ("", "", "")
        bare = name.replace("-", "_")
        if bare in double and bare not in plain:
            either = " or ".join(f"--{flag.shown}" for flag in flags if flag.shown.endswith(f".{bare}"))
            raise InputError(f"--{name} could mean two things: say {either}")
        out.append(f"--{shown[name.replace('_', '-')]}{equals}{value}" if name.replace("_", "-") in shown else word)
    return out


def settings_for(
    kinds: Sequence[type],
    program: str,
    arguments: list[str],
    explain: Mapping[str, str] | None = None,
    example: str = "",
    usual: Config | None = None,
) -> tuple[Config, list[Any]]:
    """A run's configuration and a command's own flags; a configuration file, if there is one, gives the defaults."""
    file = base_file(arguments)
    base = (usual or Config()) if file is None else from_toml(file)
    flags = flags_of(base, arguments, explain=explain)
    return parse(kinds, program, arguments, base, flags, example=example)


def base_file(arguments: Sequence[str]) -> Path | None:
    """The file whose settings are the defaults: one that is given, or a preset's."""
    file, preset = value_of("--config", arguments), value_of("--preset", arguments)
    if file is not None and preset is not None:
        raise InputError("--config and --preset both say what the defaults are: give one of them")
    return presets.find(preset) if preset is not None else None if file is None else Path(file)


PRESET = "Settings of ours that were found to work, by name, instead of a file: fastfedpg list has them."


def _optional(kind: Any) -> Any:
    return tyro.conf.arg(metavar=kind, help_behavior_hint="")


OptionalInt = Annotated[int | None, _optional("INT")]
OptionalPath = Annotated[Path | None, _optional("PATH")]
OptionalText = Annotated[str | None, _optional("STR")]
"""Flags that need not be given: help names their type alone, and says nothing of None."""


def own_flags(kind: Any, program: str, arguments: list[str], example: str, default: Any = None) -> Any:
    """The flags of a command that runs nothing; its help ends with an example."""
    usual = {} if default is None else {"default": default}
    try:
        return _read(kind, program, arguments, **usual)
    except SystemExit as end:
        if end.code == 0:
            print(f"\nexample: {example}")
        raise


def option(default: Any, help: str, group: str = "output") -> Any:
    """A flag of a command's own."""
    about = {"group": group, "help": help}
    if isinstance(default, dict):
        return field(default_factory=lambda: dict(default), metadata=about)
    return field(metadata=about) if default is NEEDED else field(default=default, metadata=about)
