"""Cards of algorithms: what walking finds, what docstrings advise, and the page that holds them."""

import re
from pathlib import Path

import pytest

from commands import command
from conformance_rows import TABLE, H, d
from fastfedpg.cli import cards
from fastfedpg.experiment import choices
from fastfedpg.runtime.costs import Line
from fastfedpg.tables import ALGORITHMS, PROBLEMS

PAGE = Path(__file__).parents[2] / "docs" / "rivals.md"
PROBLEM_CARDS = PAGE.with_name("problem-cards.md")
ROWS = {name: TABLE[name] for name in ALGORITHMS if name in TABLE}
ROWS |= {name: TABLE[f"{name}-{kind}"] for name, kind in (("scaffold_pg", "II"), ("pavg", "natural"), ("qavg", "V"))}
"""Those of the conformance table that are written down for the settings of a card."""


@pytest.mark.parametrize("name", [name for name in ROWS if name != "fednpg_admm"])
def test_lines_through_two_sizes_go_through_the_conformance_tables_numbers(name):
    """There they are written down by hand, and counted in runs, for another d and H than those that are walked."""
    row, costs = ROWS[name], cards.card(name).costs
    assert costs.syncs == len(row.up)
    assert costs.up.at(d) == d * sum(row.up) + row.scalars[0]
    assert costs.down.at(d) == d * sum(row.down) + row.scalars[1]
    if not (row.tabular or row.roles or row.lengths):
        assert [(e.own.at(H), e.trajectories) for e in costs.estimates] == [(row.estimates, 0)]


def test_rounds_that_have_no_such_row():
    """ADMM: d in each of 4 sweeps, and g_i with the first. ProxSkip: 1/p. FedPG-BR: B0 = 16, and H by agent 0 alone."""
    admm, skip, robust = (cards.card(name).costs for name in ("fednpg_admm", "proxskip_pg", "fedpg_br"))
    assert (admm.syncs, admm.up, admm.down) == (4, (5, 0), (4, 0))
    assert [tuple(e) for e in skip.estimates] == [((0, 10), 0)]
    assert [tuple(e) for e in robust.estimates] == [((1, 0), 16), ((0, 0), 16)]


@pytest.mark.parametrize(
    ("name", "memory", "kept"),
    [
        ("fedavg_pg", (0, 0), (0, 0)),
        ("fast_fedpg", (2, 0), (0, 0)),  # theta_bar and g_i: both are new in each round
        ("scaffold_pg", (2, 1), (2, 1)),  # c_i, theta before, and whether there was one
        ("afedpg", (2, 0), (2, 0)),  # what it was sent off with
        ("personal_heads", (1.5, 0), (0.5, 0)),  # u and g_i are new in each round, and half of theta is the head
        ("fedpg_br", (1, 1), (0, 1)),  # theta, and whether it stands in for the server
        ("decentralised_pg", (2, 1), (2, 1)),  # theta_i, whether it is new, and as its own server m_i
        ("independent_pg", (1, 0), (1, 0)),  # theta_i, as its own server
    ],
)
def test_what_an_agent_keeps_is_what_a_round_depends_on(name, memory, kept):
    costs = cards.card(name).costs
    assert (costs.memory, costs.kept) == (memory, kept)


def test_lines_are_told_as_one_writes_them():
    lines = {"0": (0, 0), "10": (0, 10), "d": (1, 0), "2 d + 5": (2, 5), "0.5 d - 1": (0.5, -1)}
    assert {told: Line(*line).told("d") for told, line in lines.items()} == {told: told for told in lines}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_docstring_says_when_to_use_it(name):
    _, said = cards.advice(choices.describe("algorithm", name).doc)
    assert said.startswith("Use it ")
    assert re.search(r"\bDo not\s", said)
    assert len(said.splitlines()) <= 3


def test_a_card_is_printed(capsys):
    assert command("list", "fednpg") == 0
    said = capsys.readouterr().out
    lines = {line[2:20].strip(): line[20:].strip() for line in said.split("costs of an agent")[1].splitlines()[1:]}
    assert lines["numbers up"] == "4 d"
    assert lines["its oracle answers"] == "gradients, and tabular: exact, truncated"
    assert lines["messages between"] == "neighbours on a graph, a ring unless given"
    assert (lines["deployed"], lines["for tables only"]) == ("yes", "yes")
    assert said.count("Use it where") == 1
    assert said.index("T_i+ ") < said.index("when to use it") < said.index("Use it where") < said.index("--graph")
    assert command("list", "independent_pg") == 0
    assert "no: this algorithm has no server" in capsys.readouterr().out
    assert command("list", "rc_pg") == 0
    assert re.search(r"who takes part +all agents in every round: ", capsys.readouterr().out)
    assert command("list", "incremental_pg") == 0
    assert re.search(r"who takes part +1 agent in a round, in turn", capsys.readouterr().out)


def test_the_page_has_todays_cards_and_costs(capsys):
    """`python docs/outputs.py docs/rivals.md` puts them there."""
    page = PAGE.read_text()
    for flag, before, after in (("--costs", "output", "```\n"), ("--cards", "markdown", "<!-- end -->\n")):
        assert command("list", flag) == 0
        said = "\n".join(line.rstrip() for line in capsys.readouterr().out.splitlines()).strip("\n")
        assert len(said.splitlines()) > len(ALGORITHMS)
        shown = f"```\n$ fastfedpg list {flag}\n" if before == "output" else ""
        assert f"<!-- {before}: fastfedpg list {flag} -->\n{shown}{said}\n{after}" in page


def test_the_page_of_problems_has_todays_cards(capsys):
    """A card for each problem, in the table's order; `python docs/outputs.py docs/problem-cards.md` puts them there."""
    assert command("list", "--cards", "problems") == 0
    said = "\n".join(line.rstrip() for line in capsys.readouterr().out.splitlines()).strip("\n")
    assert re.findall("^### (.+)$", said, flags=re.M) == list(PROBLEMS)
    (shown,) = re.findall("^<!-- markdown: .+ -->\n(.*)\n<!-- end -->", PROBLEM_CARDS.read_text(), flags=re.M | re.S)
    assert shown == said
    assert command("list", "--cards", "agents") == 2
