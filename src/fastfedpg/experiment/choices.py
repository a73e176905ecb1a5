"""The four kinds of things that a configuration chooses by name, and what each of them takes."""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from fastfedpg.errors import unknown
from fastfedpg.kinds import WHOLE
from fastfedpg.parameters import LETTERS, Parameter, bind, check_letter
from fastfedpg.registry import Choice, Table, is_own, source_hash
from fastfedpg.signatures import Described
from fastfedpg.tables import ALGORITHMS, ORACLES, PLAYED, POLICIES, PROBLEMS

KINDS = ("problem", "algorithm", "oracle", "policy")
TABLES: dict[str, Table] = {"problem": PROBLEMS, "algorithm": ALGORITHMS, "oracle": ORACLES, "policy": POLICIES}
PRIVATE = "private"
"""The name of a problem that only the agents' own sites know."""

OTHER = {"algorithm": "oracle", "oracle": "algorithm"}
"""Those whose arguments may be given by their bare names, and with whom they may have one in common."""

K = Parameter("K", WHOLE, None, LETTERS["K"].help, optional=True)


def describe(kind: str, name: str) -> Described:
    """What something chosen says of itself; an oracle that exists for tables and for play takes what either takes."""
    return _describe_own(kind, name) if is_own(name) else _describe_ours(kind, name)


@cache
def _describe_ours(kind: str, name: str) -> Described:
    if kind != "oracle":
        return TABLES[kind].describe(name) if name in TABLES[kind] else _refuse(kind, name)
    found = [table.describe(name) for table in (ORACLES, PLAYED) if name in table]
    if not found:
        _refuse(kind, name)
    takes = {k: p for each in reversed(found) for k, p in each.parameters.items()}
    return found[0]._replace(parameters={**takes, "K": K} if name in PLAYED or "K" in takes else takes)


def _describe_own(kind: str, name: str) -> Described:
    found = TABLES[kind].describe(name)
    if kind != "oracle":
        return found
    return found._replace(parameters={k: p for k, p in found.parameters.items() if k not in PLAYED.given} | {"K": K})


def _refuse(kind: str, name: str) -> Any:
    known = {**ORACLES.rows, **PLAYED.rows} if kind == "oracle" else TABLES[kind]
    raise unknown(kind, name, known)


def check_name(kind: str, name: str) -> None:
    """A name that is none of ours, and nobody's own, is refused; of a problem one that is no file and no suite's."""
    ours = name in TABLES[kind] or (kind == "oracle" and name in PLAYED)
    bare = re.fullmatch(r"[\w-]{1,80}", name) and name != PRIVATE
    elsewhere = kind == "problem" and (not bare or Path(name).exists())
    if not (ours or is_own(name) or elsewhere):
        _refuse(kind, name)


def parameters(kind: str, name: str) -> dict[str, Parameter]:
    """What something chosen can be given."""
    return describe(kind, name).parameters


def choose(kind: str, name: str, args: Mapping[str, Any]) -> Choice:
    """A choice with all its arguments; a problem from a file or from elsewhere has those that are given."""
    if kind == "problem" and name not in PROBLEMS:
        return Choice(name, dict(args), source_hash(name))
    bound = bind(f"{kind} '{name}'", parameters(kind, name), args)
    return Choice(name, bound, source_hash(name))


@cache
def common_arguments() -> dict[str, Parameter]:
    """The arguments of all algorithms and oracles of ours: one set of flags serves all methods of a comparison."""
    found: dict[str, Parameter] = {}
    for name in {**PLAYED.rows, **ORACLES.rows}:
        found |= parameters("oracle", name)
    for name in ALGORITHMS:
        found |= parameters("algorithm", name)
    return found


def kind_with(argument: str) -> str:
    """The kind of things of ours that have an argument of this name."""
    of_algorithms = any(argument in parameters("algorithm", name) for name in ALGORITHMS)
    return "algorithm" if of_algorithms else "oracle"


def known_arguments(algorithm: str, oracle: str) -> dict[str, Parameter]:
    """Arguments by their bare names: those of ours, and those of what is chosen, which come first."""
    found = dict(common_arguments())
    for kind, name in (("oracle", oracle), ("algorithm", algorithm)):
        if is_own(name):
            found |= parameters(kind, name)
    return found


def takes(kind: str, name: str | None) -> dict[str, Parameter]:
    """What something chosen can be given; a name that is wrong takes nothing, and is refused by whoever builds it."""
    if name is None or (kind == "problem" and name not in PROBLEMS):
        return {}
    known = is_own(name) or name in TABLES[kind] or (kind == "oracle" and name in PLAYED)
    return parameters(kind, name) if known else {}


def check_unused(given: Mapping[str, Any]) -> None:
    """What nothing chosen uses must be right all the same: it is a mistake less when the choice changes."""
    for name, value in given.items():
        check_letter(name.rpartition(".")[2], value)
