"""Gymnasium's own environments with several goals, held against gymnasium itself."""

import sys

import numpy as np
import pytest
from gymnasium.envs.toy_text import CliffWalkingEnv, FrozenLakeEnv, TaxiEnv
from test_grids import best_return, own_returns

from fastfedpg import InputError
from fastfedpg.problems import cliff_walking, frozen_lake, make, taxi


def best_of_table(table, start, gamma):
    """Value iteration on a gymnasium table as it stands: an outcome that terminates is worth its reward alone."""
    V = np.zeros(len(table))
    for _ in range(3000):
        new = np.array(
            [
                max(sum(p * (r + gamma * V[t] * (not ends)) for p, t, r, ends in table[s][a]) for a in table[s])
                for s in range(len(table))
            ]
        )
        if np.abs(new - V).max() < 1e-12:
            break
        V = new
    return float(start @ V)


@pytest.mark.parametrize("slippery", [0, 1])
def test_one_agent_alone_has_gymnasiums_environment(slippery):
    for maker, env in (
        (frozen_lake, FrozenLakeEnv(map_name="4x4", is_slippery=bool(slippery))),
        (cliff_walking, CliffWalkingEnv(is_slippery=bool(slippery))),
    ):
        p = maker(agents=1, slippery=slippery, gamma=0.9)
        start = env.initial_state_distrib
        np.testing.assert_array_equal(p.rho, start)
        assert best_return(p) == pytest.approx(best_of_table(env.P, start, 0.9), rel=1e-9)


def test_shortest_ways_are_worth_what_they_should():
    """FrozenLake: 6, 3 and 4 moves, the last pays 1: gamma^5, gamma^2, gamma^3. CliffWalking: -1 for 13, 14, 13 moves.

    A third of gamma^2 is the best common return on the lake. Off the cliff everybody pays -1 for 13 moves, and then a
    third of the agents nothing, the others -1 for ever.
    """
    g = 0.95
    assert own_returns(frozen_lake(slippery=0)) == pytest.approx([g**5, g**2, g**3], rel=1e-12)
    assert best_return(frozen_lake(slippery=0)) == pytest.approx(g**2 / 3, rel=1e-12)
    g = 0.99
    assert own_returns(cliff_walking()) == pytest.approx([-(1 - g**k) / (1 - g) for k in (13, 14, 13)], rel=1e-12)
    assert best_return(cliff_walking()) == pytest.approx(-(1 - g**13 / 3) / (1 - g), rel=1e-12)


def test_frozen_lake_is_gymnasiums_table_with_all_goals_in_it():
    p = frozen_lake(agents=5)
    goals = [15, 3, 13, 15, 3]
    assert p.agents[:3] == ("goal (3, 3)", "goal (0, 3)", "goal (3, 1)")
    original = FrozenLakeEnv(map_name="4x4").P
    for s in range(16):
        for a in range(4):
            expected, paid = np.zeros(16), np.zeros(5)
            for chance, then, _, _ in original[s][a]:
                expected[then] += chance
                paid += chance * (np.array(goals) == then)
            if s in goals:
                expected, paid = np.eye(16)[s], np.zeros(5)
            np.testing.assert_allclose(p.P[s, a], expected, atol=1e-15)
            np.testing.assert_allclose(p.reward[:, s, a], paid, atol=1e-15)
    holes = [5, 7, 11, 12]
    assert [s for s, mark in p.grid.marks.items() if mark == "hole"] == holes
    assert p.grid.marks[15] == "0, 3"
    assert (p.P[holes, :, holes] == 1).all()


@pytest.mark.parametrize("slippery", [0, 1])
def test_cliff_walking_is_gymnasiums_table_with_more_goals(slippery):
    p = cliff_walking(slippery=slippery)
    goals = [47, 11, 23]
    original = CliffWalkingEnv(is_slippery=bool(slippery)).P
    for s in range(48):
        for a in range(4):
            if s in goals:
                np.testing.assert_array_equal(p.P[s, a], np.eye(48)[s])
                np.testing.assert_array_equal(p.reward[:, s, a], [0 if s == goal else -1 for goal in goals])
                continue
            expected = np.zeros(48)
            for chance, then, _, _ in original[s][a]:
                expected[then] += chance
            np.testing.assert_allclose(p.P[s, a], expected, atol=1e-15)
            np.testing.assert_allclose(p.reward[:, s, a], sum(o[0] * o[2] for o in original[s][a]), atol=1e-12)
    assert p.P[25, 2, 36] == (1 if not slippery else pytest.approx(1 / 3)), "off the cliff, back to the start"
    assert p.grid.walls == tuple(range(37, 47))
    assert (p.P[np.setdiff1d(np.arange(48), p.grid.walls)][..., p.grid.walls] == 0).all(), "the cliff is never entered"


@pytest.mark.parametrize("maker", [frozen_lake, cliff_walking, taxi])
def test_nobodys_goal_blocks_anothers(maker):
    """From the start a move that pays 20, or an own goal, or staying there at no cost, is in everybody's reach."""
    p = maker()
    reach = p.rho > 0
    for _ in range(p.S):
        reach = reach | (reach @ p.P.sum(axis=1) > 0)
    for i in range(p.N):
        assert reach[(p.reward[i] == p.reward[i].max()).any(axis=1)].any()
    assert p.shared


@pytest.mark.parametrize("rainy", [0, 1])
def test_taxi_is_gymnasiums_table_without_the_destination(rainy):
    env = TaxiEnv(is_rainy=bool(rainy))
    p = taxi(rainy=rainy)
    assert (p.N, p.S, p.A, p.agents) == (4, 126, 6, ("to R", "to G", "to Y", "to B"))
    ended = 0
    for code, actions in env.P.items():
        row, column, place, to = env.decode(code)
        s = (row * 5 + column) * 5 + place
        for a, outcomes in actions.items():
            assert p.reward[to, s, a] == pytest.approx(sum(o[0] * o[2] for o in outcomes), abs=1e-12)
            if a == 5 and place == 4 and (row, column) in env.locs:
                np.testing.assert_array_equal(p.P[s, a], np.eye(126)[125])
                assert p.reward[to, s, a] == (20 if env.locs[to] == (row, column) else -1)
                ended += 1
                continue
            assert not any(o[3] for o in outcomes)
            expected = np.zeros(126)
            for chance, then, _, _ in outcomes:  # the same whatever the destination, or some slice would differ
                r, c, where, _ = env.decode(then)
                expected[(r * 5 + c) * 5 + where] += chance
            np.testing.assert_allclose(p.P[s, a], expected, atol=1e-15)
    assert ended == 16
    np.testing.assert_array_equal(p.P[125, :, 125], 1)
    np.testing.assert_array_equal(p.reward[:, 125], 0)
    np.testing.assert_allclose(p.rho, [0.01 if s < 125 and s % 5 < 4 else 0 for s in range(126)], atol=1e-15)


@pytest.mark.parametrize("rainy", [0, 1])
def test_one_taxi_alone_earns_what_gymnasiums_table_allows(rainy):
    """Value iteration on the 500 states, from a uniform cell and stand, destination R."""
    p, env = taxi(agents=1, rainy=rainy, gamma=0.9), TaxiEnv(is_rainy=bool(rainy))
    start = np.zeros(500)
    for row in range(5):
        for column in range(5):
            for stand in range(4):
                start[env.encode(row, column, stand, 0)] = 0.01
    assert best_return(p) == pytest.approx(best_of_table(env.P, start, 0.9), rel=1e-9)


def test_taxis_share_what_ends():
    """Two agents, R and G: a passenger set down at Y or B waits there again, and nothing has ended."""
    two, four = taxi(agents=2), taxi(agents=4)
    stands = [(0, 0), (0, 4), (4, 0), (4, 3)]
    for k, (row, column) in enumerate(stands):
        s = (row * 5 + column) * 5 + 4
        assert four.P[s, 5, 125] == 1
        assert two.P[s, 5, 125 if k < 2 else s - 4 + k] == 1
    np.testing.assert_array_equal(taxi(agents=6).reward[4:], four.reward[:2])
    assert two.states[4] == "(0, 0) aboard"
    assert two.states[-1] == "end"
    assert (two.grid.cells[124], two.grid.cells[-1]) == (24, -1)
    assert two.grid.marks == {0: "R", 4: "G", 20: "Y", 23: "B"}
    for a, (down, right) in two.grid.moves.items():
        s = (2 * 5 + 2) * 5
        assert two.grid.cells[two.P[s, a].argmax()] == 12 + 5 * down + right


def test_gymnasium_steps_as_the_kernel_says():
    env, p = FrozenLakeEnv(map_name="4x4"), frozen_lake(agents=1)
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    counts = np.zeros((4, 16))
    for _ in range(3000):
        env.s = 9
        a = int(rng.integers(4))
        counts[a, env.step(a)[0]] += 1
    # 750 of each action: a share has a standard error of at most 0.018
    np.testing.assert_allclose(counts / counts.sum(axis=1, keepdims=True), p.P[9], atol=0.09)


@pytest.mark.parametrize("name", ["frozen-lake", "cliff-walking", "taxi"])
def test_without_gymnasium_it_is_said_how_to_get_it(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(InputError, match=rf"problem '{name}' needs gymnasium: pip install 'fastfedpg\[gym\]'"):
        make(name)
    assert make("mazes").N == 4, "the others do without"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: frozen_lake(slippery=2), "slippery = 2; it must be 1 for yes or 0 for no"),
        (lambda: cliff_walking(slippery=-1), "slippery = -1; it must be 1 for yes or 0 for no"),
        (lambda: taxi(rainy=3), "rainy = 3; it must be 1 for yes or 0 for no"),
        (lambda: taxi(agents=0), "agents = 0; it must be at least 1"),
        (lambda: taxi(gamma=1), r"gamma is 1"),
    ],
)
def test_bad_arguments_say_what_would_be_right(call, message):
    with pytest.raises(InputError, match=message):
        call()
