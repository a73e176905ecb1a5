"""`fastfedpg init`: a file with every setting of a run and what it means, to be edited; nothing of it is kept here."""

import os
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import tomli_w
import tyro
from rich.console import Console

from fastfedpg import graph_files
from fastfedpg.cli.flags import GROUPS, NAMES
from fastfedpg.cli.parse_flags import PRESET, option, settings_for
from fastfedpg.errors import InputError, printable
from fastfedpg.experiment import choices
from fastfedpg.experiment.config import AUTO, Config
from fastfedpg.experiment.run_settings import SETTINGS, RunSettings
from fastfedpg.parameters import Parameter

WIDTH = 100


@dataclass(frozen=True)
class InitFlags:
    """Write a TOML file with every setting of a run, what it means and what it is now; all flags of a run change it."""

    file: tyro.conf.Positional[Path] = option(Path("experiment.toml"), "The new file.")
    config: Path | None = option(None, "A TOML file with any of these settings; flags given beside it win.")
    preset: str | None = option(None, PRESET)


EXAMPLE = "fastfedpg init my.toml --problem gym:CartPole-v1 --policy mlp --oracle actor_critic"


def init(arguments: list[str], console: Console, errors: Console) -> int:
    """Write a commented TOML file with every setting of a run, to be edited."""
    config, (given,) = settings_for((InitFlags,), "fastfedpg init", arguments, example=EXAMPLE)
    if config.algorithm == AUTO:
        raise InputError("auto is decided when a run begins; fastfedpg advise says now which algorithm it would be")
    config.check()
    text = commented(_beside(config, given.file.parent))
    try:
        with given.file.open("x", encoding="utf-8") as new:
            new.write(text)
    except FileExistsError:
        raise InputError(f"{given.file}: is there already, and nothing is written over; give another name") from None
    console.print(
        f"written: {printable(given.file)}; fastfedpg run --config {printable(given.file)} runs it",
        soft_wrap=True,
        highlight=False,
        markup=False,
    )
    return 0


def commented(config: Config) -> str:
    """A configuration as TOML, each setting below what help says of it; what is not set is a comment."""
    head = (
        "Every setting of a run. Run it with `fastfedpg run --config THIS_FILE`; flags beside it win, and what is left "
        "out is as usual. `fastfedpg list` says what can be chosen, `fastfedpg list NAME` all about one. Paths are "
        "relative to this file. The problem, the algorithm, the oracle and the policy stand at the end, in tables."
    )
    lines = [*_comment(head), ""]
    groups = {f.name: f.metadata["group"] for f in fields(RunSettings)}
    for group in GROUPS:
        for name in (name for name, of in groups.items() if of == group):
            lines += _setting(SETTINGS[name], getattr(config, name))
    for kind in choices.KINDS:
        lines += _choice(config, kind)
    return "\n".join(lines)


def _choice(config: Config, kind: str) -> Iterator[str]:
    """What is chosen of a kind, as a table with its arguments."""
    name, off = getattr(config, kind), "" if getattr(config, kind) is not None else "# "
    yield from _comment(NAMES[kind])
    yield f"{off}[{kind}]"
    yield f"{off}{_line('name', name or 'NAME')}"
    yield ""
    if name is None:
        return
    takes, args = choices.takes(kind, name), config.choice(kind).args
    for k, parameter in takes.items():
        yield from _setting(parameter, args.get(k))
    for k, value in args.items():  # of environments, whose makers say elsewhere what they take
        if k not in takes:
            yield from (_line(k, value), "")


def _setting(parameter: Parameter, value: Any) -> list[str]:
    """One setting, below what it means."""
    what = f" It is {parameter.kind.words}." if parameter.kind.choices else ""
    if value is None:
        line = f"# {parameter.name} = …  ({parameter.kind.words})"
        return [*_comment(parameter.help), line, ""]
    return [*_comment((parameter.help + what).strip()), _line(parameter.name, value), ""]


def _line(name: str, value: Any) -> str:
    """A name and its value; of several on one line."""
    if isinstance(value, list | tuple):
        return f"{name} = [{', '.join(_line('', x).partition(' = ')[2] for x in value)}]"
    return tomli_w.dumps({name: value}).rstrip("\n")


def _comment(words: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(words, WIDTH - 2, break_long_words=False, break_on_hyphens=False)]


def _beside(config: Config, folder: Path) -> Config:
    """The configuration with the files that it names as they are called from the new file's folder."""
    name = lambda path: os.path.relpath(path, folder)
    own = {k: v for k in ("problem", "theta0", "context") if (v := getattr(config, k)) is not None}
    moved: dict[str, Any] = {k: name(v) for k, v in own.items() if v.endswith((".npz", ".csv"))}
    return replace(config, **moved, given=graph_files.renamed(config.given, name))
