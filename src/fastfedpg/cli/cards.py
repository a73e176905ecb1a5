"""Cards of algorithms: what a docstring says, when to use it, and what a round costs, which is found by walking it."""

from functools import cache
from typing import NamedTuple

from fastfedpg.columns import Column, lay_out
from fastfedpg.core import Algorithm
from fastfedpg.errors import InputError
from fastfedpg.experiment import choices
from fastfedpg.experiment.algorithm import make
from fastfedpg.federation import protocol
from fastfedpg.oracles import ANSWERED_BY, ORACLES, PLAYED
from fastfedpg.precision import float64
from fastfedpg.runtime.costs import STEPS, Costs, Estimates, N, costs, counted
from fastfedpg.tables import ALGORITHMS

ADVICE = ("Use it", "Do not")
"""How a docstring's paragraph about when to use it begins."""

WIDTH = 118
ORDERS = {"cyclic": "in turn", "arrival": "as they arrive", "random": "drawn"}


class Card(NamedTuple):
    """An algorithm with its settings as they are unless given, and what was found by walking it."""

    algorithm: Algorithm
    costs: Costs
    graph: str
    refused: str  # why it can't be deployed, where it can't


@cache
@float64
def card(name: str) -> Card:
    """Walk one of ours."""
    takes = choices.parameters("algorithm", name)
    chosen = lambda H: choices.choose("algorithm", name, {"H": H} if "H" in takes else {})
    algorithm, refused = make(chosen(STEPS[0])), ""
    try:
        protocol.talks(algorithm, counted(2).theta0, N)
    except InputError as error:
        refused = str(error)
    graph = str(chosen(STEPS[0]).args.get("graph", ""))
    return Card(algorithm, costs(lambda H: make(chosen(H))), graph, refused)


def advice(doc: str) -> tuple[str, str]:
    """A docstring without what it says about when to use it, and that."""
    parts = doc.split("\n\n")
    said = [part for part in parts if part.startswith(ADVICE)]
    return "\n\n".join(part for part in parts if part not in said), "\n".join(said)


def facts(name: str) -> dict[str, str]:
    """What was found, a line each."""
    algorithm, c, graph, refused = card(name)
    needs, exact = ", ".join(algorithm.needs), "tabular" in algorithm.needs
    kept = "nothing" if c.kept == (0, 0) else c.kept.told("d")
    server = f"neighbours on a graph, a {graph} unless given" if algorithm.per_agent else "the agents and a server"
    who = "all agents, or as many as `participants` says"
    if algorithm.turns is not None:
        who = f"{algorithm.turns.participants} agent in a round, {ORDERS[algorithm.turns.order]}"
    return {
        "synchronisations": str(c.syncs),
        "numbers up": c.up.told("d"),
        "numbers down": c.down.told("d"),
        "estimates": _played(c) + " (exact, of a table: nothing is played)" * exact,
        "an agent keeps": kept if c.memory == c.kept else f"{kept}; within a round {c.memory.told('d')}",
        "its oracle answers": f"gradients, and {needs}: {_oracles(algorithm)}" if needs else "gradients",
        "who takes part": f"all agents in every round: {algorithm.everybody}" if algorithm.everybody else who,
        "messages between": server if c.syncs else "nobody: nothing is sent",
        "policy": "one for each agent" if c.own_policies else "one for all agents",
        "deployed": f"no: {refused}" if refused else "yes",
        "for tables only": "yes" if exact else "no",
    }


def _played(c: Costs) -> str:
    def one(e: Estimates) -> str:
        own = e.own.told("H") + (f" ({e.own.at(STEPS[0]):g} at H = {STEPS[0]})" if e.own.slope else "")
        fixed = f"{e.trajectories} trajectories"
        return f"{own}, and {fixed}" if e.trajectories and e.own != (0, 0) else fixed if e.trajectories else own

    each = [one(e) for e in c.estimates]
    return each[0] if len(each) == 1 else f"agent 0: {each[0]}; others: {each[1]}"


def _oracles(algorithm: Algorithm) -> str:
    every = dict.fromkeys([*ORACLES, *PLAYED])
    can = [o for o in every if all(any(o in ANSWERED_BY[x] for x in n.split(" or ")) for n in algorithm.needs)]
    return "any" if len(can) == len(every) else ", ".join(can)


def about(name: str, doc: str) -> list[str]:
    """The parts of a card below what a method is: when to use it, and its costs."""
    _, said = advice(doc)
    found = facts(name)
    width = max(map(len, found))
    lines = ["when to use it", "", said, ""] if said else []
    lines += ["costs of an agent in a round, measured, for theta of d numbers and the settings below as they are"]
    return [*lines, *(f"  {fact:<{width}}  {told}" for fact, told in found.items()), ""]


def table(width: int = WIDTH) -> list[str]:
    """What a round of each algorithm costs, a row each."""
    rows = []
    for name in ALGORITHMS:
        algorithm, c, graph, refused = card(name)
        first = c.estimates[0]
        turns = algorithm.turns and f"{algorithm.turns.participants}, {ORDERS[algorithm.turns.order]}"
        fixed = f" and {first.trajectories} tr." * bool(first.trajectories)
        rows.append(
            (
                name,
                str(c.syncs),
                c.up.told("d"),
                c.down.told("d"),
                first.own.told("H") + fixed,
                c.kept.told("d"),
                _oracles(algorithm),
                (graph if algorithm.per_agent else "server") if c.syncs else "nobody",
                turns or ("all" if algorithm.everybody else "any"),
                "no" if refused else "yes",
            )
        )
    heads = ("method", "syncs", "up", "down", "estimates", "kept", "oracles", "with", "who", "deployed")
    words = {"method", "oracles", "with", "who"}
    columns = [
        Column(head, cells, right=head not in words, whole=head in ("up", "down", "estimates", "kept"))
        for head, cells in zip(heads, zip(*rows, strict=True), strict=True)
    ]
    return lay_out(columns, width)


def markdown() -> list[str]:
    """The cards of all algorithms."""
    lines: list[str] = []
    for name in ALGORITHMS:
        found = choices.describe("algorithm", name)
        doc, said = advice(found.doc)
        settings = ", ".join(f"`{k}`{_default(p.default)}" for k, p in found.parameters.items())
        lines += [f"### {name}", "", doc, "", *([said, ""] if said else [])]
        lines += ["| in a round, of an agent | |", "|---|---|"]
        lines += [f"| {fact} | {told} |" for fact, told in facts(name).items()]
        lines += ["", f"Settings: {settings}.", ""]
    return lines[:-1]


def _default(value: object) -> str:
    return "" if value is None else f" {value}"
