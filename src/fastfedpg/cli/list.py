"""`fastfedpg list`: what there is, by name; `fastfedpg list NAME`: what one of them is, and what it takes."""

import re
import textwrap
from functools import partial

from rich.console import Console

from fastfedpg.errors import InputError, unknown
from fastfedpg.experiment import choices, presets
from fastfedpg.files import read_text
from fastfedpg.parameters import NEEDED, Parameter
from fastfedpg.registry import Table, is_own
from fastfedpg.signatures import Described
from fastfedpg.tables import ALGORITHMS, ORACLES, PLAYED, POLICIES, PROBLEMS

KINDS: dict[str, tuple[str, Table]] = {
    "problems": ("problem", PROBLEMS),
    "algorithms": ("algorithm", ALGORITHMS),
    "oracles": ("oracle", Table("oracle", {**PLAYED.rows, **ORACLES.rows})),
    "policies": ("policy", POLICIES),
}
USAGE = """usage: fastfedpg list [NAME | --costs | --cards [problems]]

Show the problems, algorithms, oracles, policies and presets, a line each. With a NAME, or a module:function or
file.py:function of your own, show what it is, its equation, and its settings with their defaults; of an algorithm
also when to use it, and what a round costs, which is found by walking it; of a preset all that it sets.

  --costs  what a round of each algorithm costs, a row each
  --cards  all about every algorithm, or every problem, as Markdown

example: fastfedpg list fast_fedpg"""


def list_everything(arguments: list[str], console: Console, errors: Console) -> int:
    """Show the problems, algorithms, oracles, policies and presets, a line each; or all about one of them."""
    if arguments and arguments[0] in ("-h", "--help"):
        console.print(USAGE, highlight=False, markup=False)
        return 0
    if arguments == ["--cards", "problems"]:
        lines = problem_cards()
    elif len(arguments) > 1:
        raise InputError(f"list takes one name, but was given {' '.join(arguments)}")
    elif arguments and arguments[0] in ("--costs", "--cards"):
        from fastfedpg.cli import cards  # with JAX

        width = console.width if console.is_terminal else cards.WIDTH
        lines = cards.table(width) if arguments[0] == "--costs" else cards.markdown()
    else:
        lines = about(arguments[0]) if arguments else overview()
        lines = [part for line in lines for part in folded(line, console.width)] if console.is_terminal else lines
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    return 0


def folded(line: str, width: int) -> list[str]:
    """A line as wide as the terminal, broken between words; what follows stands under the last column.

    Of a text of several lines, paragraphs are broken anew, and equations, which are indented, stay as they are.
    """
    wrap = partial(textwrap.wrap, width=width, break_long_words=False, break_on_hyphens=False)
    if max(map(len, line.split("\n"))) <= width or width < 40:
        return [line]
    if "\n" in line:
        parts = [part if re.search("^ ", part, flags=re.M) else "\n".join(wrap(part)) for part in line.split("\n\n")]
        return "\n\n".join(parts).split("\n")
    columns = [found.end() for found in re.finditer(r"\S(?:  +)(?=\S)", line)]
    return wrap(line, subsequent_indent=" " * min(columns[-1] if columns else 0, width // 2))


def overview() -> list[str]:
    """Every name with what its docstring says first, and the settings of problems."""
    order = {"oracles": [*ORACLES, *(name for name in PLAYED if name not in ORACLES)]}
    width = max(len(name) for _, table in KINDS.values() for name in table)
    lines = []
    for title, (kind, table) in KINDS.items():
        lines.append(title)
        for name in order.get(title, table):
            found = choices.describe(kind, name)
            lines.append(f"  {name:<{width}}  {found.summary}")
            if kind == "problem":
                given = " ".join(f"{k}={p.default}" for k, p in found.parameters.items())
                lines.append(f"  {'':<{width}}  --problem-args {given}")
    return [*lines, "presets", *(f"  {name:<{width}}  {presets.said(name)}" for name in presets.known())]


def about(name: str) -> list[str]:
    """What one thing is, with its docstring's equation, and what it takes."""
    kinds = [kind for kind, table in KINDS.values() if name in table]
    if not kinds and is_own(name):
        kinds = ["algorithm"]  # of a function nothing but its signature is known, and every kind reads that alike
    if not kinds and name not in presets.known():
        raise unknown("name", name, [*(n for _, table in KINDS.values() for n in table), *presets.known()])
    lines: list[str] = []
    for kind in kinds:
        found = choices.describe(kind, name)
        head = "your own" if is_own(name) else f"{'an' if kind[0] in 'ao' else 'a'} {kind}"
        lines += [*([""] if lines else []), f"{name}: {head}", ""]
        lines += _card(name, found) if kind == "algorithm" and name in ALGORITHMS else [found.doc, ""]
        lines += settings(found) or ["it has no settings"]
    return [*lines, *([""] if lines and name in presets.known() else []), *_preset(name)]


def _preset(name: str) -> list[str]:
    """A preset's file, and the command that takes it; nothing of another name."""
    if name not in presets.known():
        return []
    written = read_text(presets.find(name), "utf-8").split("\n", 1)[1].strip().split("\n")
    command = f"fastfedpg run --preset {name}"
    return [f"{name}: a preset", "", presets.said(name), "", command, "", "settings", *(f"  {w}" for w in written)]


def problem_cards() -> list[str]:
    """The cards of all problems, as Markdown: a docstring, and the settings."""
    lines: list[str] = []
    for name in PROBLEMS:
        found = choices.describe("problem", name)
        given = ", ".join(f"`{k}` {p.default}" for k, p in found.parameters.items())
        lines += [f"### {name}", "", found.doc, "", f"Settings: {given}."]
        lines += ["", f"`fastfedpg show {name}`", ""]
    return lines[:-1]


def _card(name: str, found: Described) -> list[str]:
    from fastfedpg.cli import cards  # with JAX

    return [cards.advice(found.doc)[0], "", *cards.about(name, found.doc)]


def settings(found: Described) -> list[str]:
    """A line for each setting: its flag, its type, its default and what it is."""
    if not found.parameters:
        return []
    rows = [
        (f"--{p.name.replace('_', '-')}", p.kind.metavar or "", _default(p), p.help) for p in found.parameters.values()
    ]
    widths = [max(len(row[k]) for row in rows) for k in range(3)]
    return [
        "settings",
        *("  " + "  ".join([*(c.ljust(w) for c, w in zip(r, widths, strict=False)), r[3]]).rstrip() for r in rows),
    ]


def _default(parameter: Parameter) -> str:
    if parameter.default is NEEDED:
        return "must be given"
    return "unless given" if parameter.default is None else str(parameter.default)
