"""Problems in files: all of one comes back, its grid is drawn, and what is wrong is said with the file's name."""

import json
import re
import tracemalloc
from dataclasses import fields, replace
from pathlib import Path

import jax
import numpy as np
import pytest

import fastfedpg.cli as cli
from fastfedpg import Config, InputError, resume, run
from fastfedpg.experiment import run_index
from fastfedpg.problems import KnownProblem, LQRProblem, TabularProblem, load, make
from fastfedpg.problems.npz import name_of

KNOWN = (
    "compromise", "compromise-grid", "mazes", "windy-cliff", "opposed-line", "river-swim", "frozen-lake",
    "cliff-walking", "taxi", "lqr", "random", "garnet",
)  # fmt: skip
DOCS = Path(__file__).parents[2] / "docs" / "problems.md"


@pytest.fixture(autouse=True)
def _fresh_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")


def equal(one, other):
    return all(
        jax.tree.all(jax.tree.map(np.array_equal, getattr(one, f.name), getattr(other, f.name))) for f in fields(one)
    )


def arrays(**changes):
    """Two agents in a row of three rooms; a change to None leaves an array out."""
    P = np.stack([np.eye(3)[where] for where in ([0, 0, 1], [1, 2, 2])], axis=1)
    plain = {"P": P, "reward": np.zeros((2, 3, 2)), "rho": np.full(3, 1 / 3), "gamma": 0.5}
    return {name: x for name, x in {**plain, **changes}.items() if x is not None}


def grid(**changes):
    """The rooms side by side, as JSON."""
    plain = {"rows": 1, "columns": 3, "moves": {"0": [0, -1], "1": [0, 1]}, "marks": {"2": "home"}}
    return json.dumps({**plain, **changes})


def spoken(arguments, capsys):
    code = cli.main([str(x) for x in arguments])
    said = capsys.readouterr()
    assert code == 0, said.err
    return said.out


@pytest.mark.parametrize("name", KNOWN)
def test_what_is_saved_is_read_back_equal(name):
    """All fields, names and grid among them, to the bit, and with them the lines of `fastfedpg show`."""
    problem = make(name)
    if name == "lqr":  # which has no name but its kind's, and would be called after the file
        problem = replace(problem, name="regulator")
    problem.save(Path("it.npz"))
    again = load("it.npz")
    assert type(again) is type(problem)
    assert isinstance(again, KnownProblem)
    assert equal(problem, again)
    assert again.describe() == problem.describe()
    assert name_of("it.npz") == problem.name


def test_names_that_repeat_and_many_agents_come_back():
    """Corners repeat after four agents, and agents of the usual names take no room in the file."""
    problem = make("compromise-grid", {"n": 3}, agents=6)
    assert len({*problem.agents}) == 4
    problem.save(Path("it.npz"))
    assert equal(problem, load("it.npz"))
    plain = make("random", {"S": 3}, agents=50)
    plain.save(Path("plain.npz"))
    with np.load("plain.npz") as file:
        assert {*file.files} == {"P", "reward", "rho", "gamma", "name"}
    TabularProblem(**arrays()).save(Path("mine.npz"))
    assert load("mine.npz").name == "mine.npz", "what was given no name is called after its file"
    regulator = make("lqr")
    named = LQRProblem(**regulator.arrays(), name="mine", agents=[f"plant {i}" for i in range(regulator.N)])
    named.save(Path("lqr.npz"))
    assert (load("lqr.npz").name, load("lqr.npz").agents) == ("mine", named.agents)


def test_old_files_are_read_as_before():
    """Four arrays and nothing else: rewards in [0, 1], the usual names, called after the file, no grid."""
    np.savez("old.npz", **arrays())
    old = load("old.npz")
    assert (old.name, old.reward_range, old.grid) == ("old.npz", (0.0, 1.0), None)
    assert (old.states, old.actions, old.agents) == (("s0", "s1", "s2"), ("a0", "a1"), ("agent 0", "agent 1"))
    assert name_of("old.npz") == "old.npz"


def test_the_reward_range_is_the_files():
    """Said in the file, it need not be asked for, may be asked for, and can't be asked for otherwise."""
    np.savez("mine.npz", **arrays(reward=np.full((2, 3, 2), -7.0), reward_range=[-10, 0]))
    assert load("mine.npz").reward_range == (-10.0, 0.0) == load("mine.npz", (-10.0, 0.0)).reward_range
    with pytest.raises(InputError, match=r"^mine\.npz: its reward_range is -10 to 0, and -10 to 5 was asked for"):
        load("mine.npz", (-10.0, 5.0))


def test_the_page_draws_a_grid_of_ones_own(rendered, capsys):
    """The example and both commands of docs/problems.md, with two rounds.

    Anna gets 5 a step from when she is at home: 50 from home, 0.9 and 0.81 of that from the next rooms, each equally
    likely, so 50 (1 + 0.9 + 0.81) / 3 = 45.17 at best; and Ben the same.
    """
    text = DOCS.read_text()
    (example,) = re.findall(r"<!-- example: python -->\n```python\n(.*?)```", text, flags=re.S)
    exec(compile(example, "docs/problems.md", "exec"), {})
    show, compared = (line.split("#")[0].split() for line in text.splitlines() if line.startswith("fastfedpg "))
    said = spoken(show[1:], capsys)
    assert re.search(r"^actions +3 \(left, stay, right\)$", said, flags=re.M)
    assert re.search(r"^own best returns +Anna 45.17; Ben 45.17$", said, flags=re.M)
    drawn = Path("corridor.svg").read_text()
    assert all(
        f"<!-- {words} -->" in drawn for words in ("0: Anna", "1: Ben", "best common policy")
    )  # no table has that
    spoken([*compared[1:], "--rounds", 2], capsys)
    drawn = Path("rooms/policies.svg").read_text()
    assert "<!-- fedavg_pg -->" in drawn
    assert "<!-- corridor: 2 agents" in drawn


BAD = {
    "reward_range: one number": ({"reward_range": [3.0]}, "reward_range is [3.0]; it must be two numbers LO < HI"),
    "reward_range: words": ({"reward_range": ["low", "high"]}, "reward_range is not an array of real numbers"),
    "rewards outside it": ({"reward_range": [1, 2]}, "rewards of agent 0 lie in [0, 0], outside [1, 2]"),
    "name: a number": ({"name": 3}, "name has type int64 and shape (); it must be one piece of text"),
    "name: two": ({"name": ["a", "b"]}, "name has type <U1 and shape (2,)"),
    "name: empty": ({"name": " "}, "name has type"),
    "states: numbers": ({"states": np.arange(3)}, "states has type int64 and shape (3,); it must be a list of names"),
    "states: too few": ({"states": ["a", "b"]}, "states has 2 names; there are 3 states"),
    "states: a table": ({"states": [["a", "b", "c"]]}, "states has type <U1 and shape (1, 3)"),
    "states: twice": ({"states": ["a", "b", "a"]}, "states has the name 'a' more than once"),
    "actions: twice": ({"actions": ["go", "go"]}, "actions has the name 'go' more than once"),
    "agents: too many": ({"agents": ["a", "b", "c"]}, "agents has 3 names; there are 2 agents"),
    "pickled names": ({"agents": np.array(["a", None])}, "agents holds Python objects, which need pickle"),
    "unknown array": ({"state": ["a", "b", "c"]}, "has also state (did you mean states?); the names are exactly P, "),
    "an array": ({"P": np.ones((3, 2, 3))}, "P of state 0, action 0 sums to 3; it must sum to 1"),
    "grid: numbers": ({"grid": np.zeros((2, 2))}, "grid has type float64 and shape (2, 2); it must be one piece of"),
    "grid: no JSON": ({"grid": "rows: 3"}, "grid: not JSON"),
    "grid: no object": ({"grid": "[1, 3]"}, "grid: not a JSON object with rows and columns"),
    "grid: an unknown entry": ({"grid": grid(mark={})}, "unknown entry of grid 'mark'; did you mean 'marks'?"),
    "grid: twice": ({"grid": '{"rows": 1, "rows": 2}'}, "grid: rows is given twice"),
    "grid: no rows": ({"grid": '{"columns": 3}'}, "grid: rows is missing"),
    "grid: half a row": ({"grid": grid(rows=0.5)}, "grid: rows is 0.5; it must be a whole number"),
    "grid: truth": ({"grid": grid(rows=True)}, "grid: rows is true; it must be a whole number"),
    "grid: nothing": ({"grid": grid(columns=0)}, "grid: columns is 0; it must be at least 1"),
    "grid: too large": ({"grid": grid(rows=10**6)}, "grid: 1000000 x 3 cells are too many to be drawn"),
    "grid: too small": ({"grid": grid(columns=2)}, "grid: 3 states in 1 x 2 cells"),
    "grid: cells": ({"grid": grid(cells=[0, 1])}, "grid: cells has 2 entries for 3 states"),
    "grid: a cell outside": ({"grid": grid(cells=[0, 1, 3])}, "grid: cells has 3, which lies outside -1 to 2"),
    "grid: nowhere": ({"grid": grid(cells=[-1, -1, -1])}, "grid: no state has a cell"),
    "grid: a wall outside": ({"grid": grid(walls=[-1])}, "grid: walls has -1, which lies outside 0 to 2"),
    "grid: a mark outside": ({"grid": grid(marks={"7": "x"})}, "grid: marks has 7, which lies outside 0 to 2"),
    "grid: a mark that is none": ({"grid": grid(marks={"1": 2})}, "grid: marks must be words for each cell"),
    "grid: no numbers": ({"grid": grid(marks={"one": "x"})}, "it must be an object by number"),
    "grid: a move of no action": ({"grid": grid(moves={"2": [0, 1]})}, "grid: moves has 2, which lies outside 0 to 1"),
    "grid: half a move": ({"grid": grid(moves={"1": [0]})}, "grid: moves must be [rows down, columns right]"),
    "grid: a ragged move": ({"grid": grid(moves={"0": [0], "1": [0, 1]})}, "it must be [rows down, columns right]"),
    "grid: a list of moves": ({"grid": grid(moves=[[0, 1]])}, "grid: moves is [[0, 1]]; it must be an object"),
    "grid: arriving": ({"grid": grid(arriving=[[0, 1, 2]])}, "arriving must have 2 rows, one for each agent, of 3"),
    "grid: arriving nowhere": ({"grid": grid(arriving=[[0, 1, 2], [0, 1, float("nan")]])}, "finite numbers"),
    "grid: a fence outside": ({"grid": grid(fences=[[2, 3]])}, "grid: fences has 3, which lies outside 0 to 2"),
    "grid: a fence far off": ({"grid": grid(fences=[[0, 2]])}, "grid: fences has [0, 2], which are no neighbours in 1"),
    "grid: half a fence": ({"grid": grid(fences=[[0]])}, "grid: fences must be pairs of cells"),
    "grid: a list of fences": ({"grid": grid(fences=[0, 1])}, "grid: fences is [0, 1]; it must be pairs of cells"),
    "grid: paid for a number": ({"grid": grid(paid_for=3)}, "grid: paid_for must be words"),
}  # fmt: skip


HUGE = {
    "name": ((), "<U20000000", "name takes 76 MB; it can't take more than 64 MB"),
    "grid": ((), "<U20000000", "grid takes 76 MB"),
    "states": (3, "<U6000000", "states takes 69 MB"),
    "actions": (8 * 10**6, "<U2", "actions has 8000000 names; there are 2 actions"),
    "agents": (2 * 10**7, "<U0", "agents has shape (20000000,); it can't have more than 10,000,000 entries"),
    "gamma": ((2 * 10**7, 0), "f8", "gamma has shape (20000000, 0); it can't have more than 10,000,000 entries"),
    "reward_range": ((2 * 10**7, 0), "f8", "reward_range has shape (20000000, 0); it can't have more than"),
}
"""Text of which some kilobytes in a file would be many megabytes in memory; of the last two, the words of an error."""


@pytest.mark.parametrize("name", HUGE)
def test_text_that_would_take_much_memory_is_refused_before_it_does(name):
    shape, kind, says = HUGE[name]
    np.savez_compressed("huge.npz", **arrays(**{name: np.zeros(shape, kind)}))
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=re.escape(f"huge.npz: {says}")):
            load("huge.npz")
        assert name_of("huge.npz") == "huge.npz"
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("mistake", BAD)
def test_what_is_wrong_in_a_file_is_said_with_its_path(mistake, capsys):
    """One message, which begins with the path; exit 2, and nothing is left behind."""
    changes, says = BAD[mistake]
    Path("data").mkdir()
    np.savez("data/mine.npz", **arrays(**changes))
    code = cli.main(["run", "--problem", "data/mine.npz", "--rounds", "1", "--out", "out"])
    said = capsys.readouterr().err
    assert code == 2
    assert "data/mine.npz: " in said.splitlines()[0]
    assert says in said
    assert "data/mine.npz: data/mine.npz" not in said
    assert not Path("out").exists()


def test_a_regulators_arrays_are_said_with_their_file():
    """The constructor in Python says the same without a path."""
    bad = {**make("lqr").arrays(), "Sigma0": np.zeros((3, 3))}
    with pytest.raises(InputError, match=r"^Sigma0 ") as plain:
        LQRProblem(**bad)
    np.savez("bad.npz", **bad)
    with pytest.raises(InputError) as said:
        load("bad.npz")
    assert str(said.value) == f"bad.npz: {plain.value}"


def test_a_run_keeps_the_name_of_its_file(capsys):
    """config.toml names the copy, problem.npz; runs, summaries, tables and a resumed run say my-rooms.npz."""
    np.savez("my-rooms.npz", **arrays(reward=np.eye(2)[:, None, :] * np.ones((2, 3, 1))))
    config = Config(problem="my-rooms.npz", rounds=4, seeds=1, eta=0.1)
    run(config, "first")
    Path("my-rooms.npz").unlink()
    assert '"problem.npz"' in Path("first/config.toml").read_text()
    assert [e.problem for e in run_index.find(Path())] == ["my-rooms.npz"]
    assert "my-rooms.npz" in spoken(["runs", "."], capsys)
    assert "1 run" in spoken(["runs", ".", "--problem", "my-rooms*"], capsys)
    finished = json.loads(Path("first/summary.json").read_text())
    Path("first/summary.json").unlink()
    resume("first", note=lambda words: None, restart=True)
    again = json.loads(Path("first/summary.json").read_text())
    assert again["problem"] == finished["problem"] == "my-rooms.npz"
    assert load("first/problem.npz").name == "my-rooms.npz"
    spoken(["run", "--config", "first/config.toml", "--algorithm", "fedavg_pg", "--out", "second"], capsys)
    assert "my-rooms.npz: 2 agents" in spoken(["compare", "first", "second", "--out", "both"], capsys)


def test_a_table_that_is_played_goes_on_as_the_same_environments():
    """Their source is the problem's name, which the copy in the run's folder has too: nothing seems to have changed."""
    np.savez("my-rooms.npz", **arrays())
    before = load("my-rooms.npz").as_environments()
    Path("copies").mkdir()
    before.save(Path("copies/problem.npz"))
    again = load("copies/problem.npz").as_environments()
    assert (again.name, again.source) == (before.name, before.source) == ("my-rooms.npz", "my-rooms.npz")
    assert all(np.array_equal(x, y) for x, y in zip(before.identity(), again.identity(), strict=True))
