"""Every mutant is caught by the row that is about it, and without any all rows pass: the short form of --mutants."""

import pytest

from fastfedpg import fast_fedpg, problems
from fastfedpg.problems import with_oracle
from fastfedpg.verify import hunt, mutants
from fastfedpg.verify.claims import floors
from fastfedpg.verify.effects import QUICK
from fastfedpg.verify.mutants import MUTANTS, Mutant
from fastfedpg.verify.test_case import Subject
from fastfedpg.verify.verdict import FAIL, PASS, claim, decided
from tiny_subject import told

AMONG = 1000
"""Comparisons: more than a report has, so that each is caught in any report."""

ROWS = {
    "sign of the correction in (6)": "Eq. (6), round 1",
    "memory never written": "Eq. (6), round 1",
    "memory of the first round kept": "Eq. (6), round 2",
    "alpha_g ignored": "Eq. (7), round 1",
    "eta halved": "Eq. (6), round 1",
    "horizon K - 1": "Assumption 2, reinforce",
    "gamma^k missing": "Assumption 2, gpomdp",
    "batch-mean baseline": "Assumption 2, leave-one-out",
    "one key for all agents": "Lemma 1, T4",
    "pairs of agents share keys": "Lemma 1, T4",
    "half of the agents in the gradient": "Eq. (6), round 1",
    "half of the agents in (7)": "Eq. (7), round 1",
    "one noise for all local steps": "Lemma 1, T4",
    "g_i sampled again": "Eq. (6), round 1",
    "score e - 1/A": "Assumption 2, reinforce",
    "reuse always": "Algorithm 1, estimates",
}


@pytest.fixture(scope="module")
def small():
    return hunt.small()


def test_without_a_mutant_all_pass(small):
    """8 identities to 1e-12, the numbers of estimates exactly, T4 and three estimators: decided together."""
    found = decided(hunt.cheap(small))
    assert [row.verdict for row in found] == [PASS] * 14
    assert sum(row.comparisons for row in found) < AMONG


FIRST = {row: name for name, row in reversed(ROWS.items())}
"""A mutant for each row, in `make test`; the others, whose rows have been seen to fail, are in the part `long`."""


def _planted(mutant: Mutant):
    marks = [] if mutant.name in FIRST.values() else [pytest.mark.long]
    return pytest.param(mutant, id=mutant.name, marks=marks)


@pytest.mark.parametrize("mutant", [*map(_planted, MUTANTS)])
def test_each_is_caught_by_its_row(small, mutant):
    caught = hunt.first_failure(hunt.planted(small, mutant), mutant.estimator, AMONG)
    assert caught is not None
    assert caught.claim == ROWS[mutant.name]


def test_the_command(monkeypatch):
    """Exit code 0 and a line for each mutant that is caught; 1 for one that is none at all. Rows that look it up."""

    def look(subject, estimator=False):
        wrong = subject.make is not fast_fedpg or subject.ask is not with_oracle
        yield claim("a row", "", 2.0 if wrong else 0.5, 1.0, bound=False)

    monkeypatch.setattr(hunt, "cheap", look)
    monkeypatch.setenv("COLUMNS", "120")
    said = told("--mutants")
    assert said.code == 0, said.err
    for mutant in MUTANTS:
        [line] = [line for line in said.out.splitlines() if line.strip().startswith(mutant.name)]
        assert line.removeprefix(" ").removeprefix(mutant.name).split() == ["a", "row", "2", "0.5", "1"]
    assert "16 of 16 mutants caught; without any, 1 of 1 rows pass" in said.out
    assert "part 17 of 17" in said.err
    monkeypatch.setattr(mutants, "MUTANTS", (Mutant("nothing"),))
    said = told("--mutants")
    assert said.code == 1
    assert "missed" in said.out


@pytest.mark.parametrize("words", [("--problem", "random"), ("--quick",), ("--out", "x")])
def test_nothing_else_is_given_with_mutants(words):
    said = told("--mutants", *words)
    assert said.code == 2
    assert "--first-seed alone" in said.err


@pytest.mark.claims
def test_noise_that_agents_share_has_no_speed_up():
    """One key for all agents: the floor does not fall with N, and the slope's row fails, not only those about noise.

    In `make test` floors without a speed-up are made up (`test_slopes_are_read_off_as_they_are`).
    """
    [one_key] = [mutant for mutant in MUTANTS if mutant.name == "one key for all agents"]
    subject = Subject(problems.random(agents=4, S=5, A=3, gamma=0.5), 0.2, 5, 17, 4, "random")
    found = decided(floors.in_N(hunt.planted(subject, one_key), QUICK.sweeps)[0])
    assert {row.claim: row.verdict for row in found}["Theorem 2, floor in N"] == FAIL
