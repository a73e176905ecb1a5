"""What a factory takes, read off its signature: types from annotations, help from `Args:`.

A factory of ours is read without importing it, so that help needs neither JAX nor the factory's own imports.
"""

import ast
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from fastfedpg.kinds import ANYTHING, NUMBER, NUMBERS, OPTIMISERS, ROWS, SIZES, TEXT, TRUTH, WHOLE, Kind, one_of
from fastfedpg.parameters import LETTERS, NEEDED, Parameter

SCALARS = "Float[Array, '']"
"""What core.Scalar is written as, once it is loaded."""


def is_scalar(annotation: str) -> bool:
    """Whether an annotation is that of a number that may be traced."""
    return SCALARS in annotation.replace('"', "'")


class Described(NamedTuple):
    """A factory by its docstring and its parameters."""

    doc: str
    parameters: dict[str, Parameter]

    @property
    def summary(self) -> str:
        """The first paragraph of the docstring, as one line."""
        return " ".join(self.doc.split("\n\n")[0].split())


def kind_of(name: str, annotation: str, default: Any) -> Kind:
    """The kind that an annotation means, as it is written; without one, the default's own."""
    if name == "optimiser" or "MakeOptimiser" in annotation:
        return one_of(OPTIMISERS)
    if found := re.search(r"Literal\[(.*?)\]", annotation):
        return one_of(tuple(ast.literal_eval(f"({found.group(1)},)")))
    if re.search(r"\bGraph\b|[Ss]equence\[[\w.]*[Ss]equence\[float\b", annotation):
        return ROWS
    if re.search(r"tuple\[int, ?\.\.\.\]", annotation):
        return SIZES
    if re.search(r"(?:[Ss]equence|tuple|list)\[float\b", annotation):
        return NUMBERS
    words = {word for word in re.findall(r"\w+", annotation) if word not in ("None", "Optional", "typing", "jaxtyping")}
    for kind, names in ((TRUTH, {"bool"}), (NUMBER, {"float", "Scalar"}), (WHOLE, {"int"}), (TEXT, {"str"})):
        if words & names and (words <= {"bool", "float", "int", "str", "Scalar"} or is_scalar(annotation)):
            return kind
    by_default = {bool: TRUTH, int: WHOLE, float: NUMBER, str: TEXT}
    return by_default.get(type(default), ANYTHING)


def describe_source(file: Path, function: str) -> Described:
    """A factory from its source alone: nothing of it is imported."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    node = next(n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == function)
    given, doc = node.args, ast.get_docstring(node) or ""
    defaults = [None] * (len(given.args) - len(given.defaults)) + list(given.defaults)
    pairs = [*zip(given.args, defaults, strict=True), *zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    raw = [(a.arg, ast.unparse(a.annotation) if a.annotation else "", _literal(d)) for a, d in pairs]
    return _described(doc, raw, ours=True)


def describe_function(function: Callable[..., Any]) -> Described:
    """A factory that is loaded: a user's own."""
    raw = []
    for p in inspect.signature(function).parameters.values():
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            continue
        written = p.annotation if isinstance(p.annotation, str) else inspect.formatannotation(p.annotation)
        raw.append((p.name, "" if p.annotation is p.empty else written, NEEDED if p.default is p.empty else p.default))
    return _described(inspect.getdoc(function) or "", raw, ours=False)


EVERYWHERE = ("eta", "H", "B")
"""Letters that mean the same in a user's own factory; of others it may make what it likes."""


def _described(doc: str, raw: list[tuple[str, str, Any]], ours: bool) -> Described:
    body, _, args = doc.partition("\nArgs:")
    said = _help(args)
    found = {}
    for name, annotation, default in raw:
        words = said.get(name) or (LETTERS[name].help if name in LETTERS else "")
        optional = default is None or bool(re.search(r"\bNone\b|Optional", annotation))
        default = "sgd" if name == "optimiser" and callable(default) else default
        letter = name in LETTERS and (ours or name in EVERYWHERE)
        if default is NEEDED and letter:
            default, optional = LETTERS[name].usual, optional or LETTERS[name].usual is None
        found[name] = Parameter(name, kind_of(name, annotation, default), default, words, optional, letter)
    return Described(body.strip(), found)


def _literal(node: ast.expr | None) -> Any:
    if node is None:
        return NEEDED
    try:
        return ast.literal_eval(node)
    except ValueError:
        return ast.unparse(node)  # a name, such as sgd


def _help(args: str) -> dict[str, str]:
    """What a docstring says under `Args:`, by name; `a, b: words` is about both."""
    said: dict[str, str] = {}
    for block in re.split(r"\n    (?=\w)", args.split("\n\n")[0]):
        names, colon, words = block.strip().partition(": ")
        text = " ".join(words.split())
        said |= {n.strip(): text[:1].upper() + text[1:] for n in names.split(",")} if colon else {}
    return said
