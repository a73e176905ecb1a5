"""`fastfedpg advise`: which method, step size and local steps a problem asks for, and what each would cost."""

import json
import math
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from fastfedpg.cli.consoles import noting, print_lines, room
from fastfedpg.cli.flags import flags_of, words_of
from fastfedpg.cli.parse_flags import PRESET, base_file, option, parse
from fastfedpg.errors import InputError, printable
from fastfedpg.experiment.config import Config, from_toml

if TYPE_CHECKING:
    from fastfedpg.columns import Column
    from fastfedpg.experiment.advice_given import Advice
    from fastfedpg.theory.advice import Cost


@dataclass(frozen=True)
class AdviseFlags:
    """Say which method a problem asks for: PROBLEM stands first, or after --problem. Settings that are given stay."""

    target: float | None = option(
        None, "The gap to be reached, in the problem's own units; 1% of the first gap unless given.", "problem"
    )
    replicas: int = option(32, "Gradient estimates of each agent to measure with, at most.", "gradient")
    config: Path | None = option(None, "A TOML file with any of these settings; flags given beside it win.")
    preset: str | None = option(None, PRESET)
    out: Path | None = option(None, "The picture's name, with or without .png or .svg; beside it goes NAME.json.")
    overwrite: bool = option(False, "Replace a picture that is already there.")


EXAMPLE = "fastfedpg advise compromise-grid --oracle gpomdp --baseline leave-one-out --B 32 --target 0.02 --out advice"


def advise(arguments: list[str], console: Console, errors: Console) -> int:
    """Say which method, step size and local steps a problem asks for, and what each would cost."""
    if arguments and not arguments[0].startswith("-"):
        arguments = ["--problem", *arguments]
    file = base_file(arguments)
    base = Config() if file is None else from_toml(file)
    flags = flags_of(base, arguments, ("problem", "oracle", "policy"))
    config, (asked,) = parse((AdviseFlags,), "fastfedpg advise", arguments, base, flags, example=EXAMPLE)
    from fastfedpg.draw import style  # with JAX and matplotlib, which --help can do without
    from fastfedpg.experiment import advised

    stem = None if asked.out is None else asked.out
    if stem is not None and stem.suffix in (".png", ".svg", ".json"):
        stem = stem.with_suffix("")
    if stem is not None and not asked.overwrite:
        there = [str(f) for f in (*style.files(stem), stem.with_name(stem.name + ".json")) if f.exists()]
        if there:
            raise InputError(f"{' and '.join(there)} already there; give --overwrite to replace, or another --out")
    found = advised.advise(config, asked.target, asked.replicas)
    for words in found.notes:
        noting(errors)(words)
    print_lines(console, advised_lines(found, room(console)))
    if stem is not None:
        for path in write(found, stem):
            console.print(f"written: {printable(path)}", soft_wrap=True, highlight=False, markup=False)
    return 0


def advised_lines(found: "Advice", width: int) -> list[str]:
    """What was measured, the verdict, and a row for each method."""
    from fastfedpg.columns import Column, lay_out
    from fastfedpg.theory.advice import UNKNOWN

    m, scale = found.measured, found.scale
    spread = lambda e: "{:.3g} in [{:.3g}, {:.3g}]".format(*(max(0.0, x) for x in e))  # what is estimated has no sign
    noise = f"{spread(m.sigma_sq)}, the noise of one estimate"
    if found.at.sigma_sq == 0:
        noise = "0: gradients are exact, and no noise is weighed (that of a table is with --oracle gpomdp)"
    count = lambda x: "not reached" if math.isinf(x) else f"{x:,.0f}"
    also = ("algorithm.eta", "algorithm.H", "rounds")
    costs = found.costs
    reckoned = "" if found.gap_known else ", reckoned as ||grad J||^2/(2L)"
    head = [
        f"{printable(found.name)}: {found.at.N} agents, {m.replicas} estimates of each, {m.steps:,} environment steps",
        f"  ||grad J||^2  {spread(m.norm_sq)}",
        f"  zeta^2        {spread(m.zeta_sq)}, how much the agents' gradients differ",
        f"  sigma^2       {noise}",
        f"  L             {spread(m.L)}, along the gradient",
        f"  first gap     {found.at.gap * scale:.4g}{reckoned}, target {found.target * scale:.4g}",
        *horizon_line(found),
        "",
        found.reason(),
        found.trial(),
        f"take: {shlex.join(['fastfedpg', 'run', *words_of(_until_the_target(found), also)])}",
        "",
    ]
    columns = [
        Column("until the target", [c.method.label for c in costs], whole=True, right=False),
        Column("eta", [f"{c.eta:.3g}" for c in costs]),
        Column("H", [str(c.method.H) for c in costs]),
        *(_of_trajectories(costs) if found.best.method.B else []),
        Column("rounds", [count(c.rounds) for c in costs]),
        Column(found.unit, [count(c.samples) for c in costs]),
        Column("agent's bytes", [count(c.bytes) for c in costs]),
    ]
    tail = [
        "",
        found.by_theorem(),
        "independent_pg: each agent its own policy, which is another problem",
        f"no model: {', '.join(UNKNOWN)}; docs/suite.md has what they did on ten problems",
    ]
    return [*head, *lay_out(columns, width), *tail]


def _of_trajectories(costs: "list[Cost]") -> "list[Column]":
    from fastfedpg.columns import Column

    anchor = lambda m: f"{(m.B or 1) / m.B_over_B0:g}" if m.name == "fast_fedpg" and not m.reuse else ""
    return [
        Column("B", [str(c.method.B) for c in costs]),
        Column("B0", [anchor(c.method) for c in costs]),
    ]


def horizon_line(found: "Advice") -> list[str]:
    """How long trajectories are, and how long the target asks them to be, where any are played."""
    if found.horizon is None:
        return []
    K, least = found.horizon
    asked = "" if least is None else f"; the bound on what is cut off asks for {least} at this target"
    return [f"  K             {K} steps in a trajectory{asked}"]


def _until_the_target(found: "Advice") -> Config:
    """What is advised, for as many rounds as it is reckoned to take, unless another number was given."""
    return found.config.but(rounds=round(found.best.rounds)) if found.config.rounds == Config.rounds else found.config


def write(found: "Advice", stem: Path) -> list[Path]:
    """The picture, and all numbers as JSON."""
    from fastfedpg.draw.advice_picture import Bar, advice_picture
    from fastfedpg.experiment.run_folder import plain
    from fastfedpg.files import write_text

    bars = [Bar(c.method.label, c.samples, c.bytes) for c in found.costs]
    verdict = found.reason().partition(":")[0]
    title = f"{found.name}: {found.best.method.label}, {verdict}"
    try:
        stem.parent.mkdir(parents=True, exist_ok=True)
        files = advice_picture(stem, title, found.own_balance, bars, found.unit)
        where = stem.with_name(stem.name + ".json")
        write_text(where, json.dumps(plain(found.summary()), indent=2) + "\n")
    except OSError as error:
        raise InputError(f"{stem.parent}: the picture can't be written there ({error.strerror})") from None
    return [files[0], where]
