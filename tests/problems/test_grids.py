"""Problems on maps and lines, re-derived from their docstrings without looking at the makers."""

from collections import deque

import numpy as np
import pytest

from fastfedpg import InputError
from fastfedpg.problems import make, mazes, opposed_line, river_swim, tabular_exact, windy_cliff

STEPS = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}


def walk(row, column, step, n):
    row, column = row + step[0], column + step[1]
    return (row, column) if 0 <= row < n and 0 <= column < n else None


def best_return(problem):
    """The largest mean return of a common policy, in the user's units."""
    return problem.reward_range[1] / (1 - problem.gamma) - problem.scale * tabular_exact.optimum(problem).J


def own_returns(problem):
    return [
        problem.reward_range[1] / (1 - problem.gamma) - problem.scale * b.J for b in tabular_exact.own_optima(problem)
    ]


def maze_of(problem, i, n):
    """Agent i's goal and obstacles, read off what arriving pays when nothing slips."""
    seen = {}
    for row in range(n):
        for column in range(n):
            for a, step in enumerate(STEPS.values()):
                end = walk(row, column, step, n) or (row, column)
                seen.setdefault(end, set()).add(float(problem.reward[i, row * n + column, a]))
    assert all(len(pay) == 1 for pay in seen.values()), "what a move pays depends on where it ends only"
    pays = {cell: pay.pop() for cell, pay in seen.items()}
    assert set(pays.values()) <= {-1.0, 0.0, 1.0}
    (goal,) = [cell for cell, pay in pays.items() if pay == 1]
    return goal, {cell for cell, pay in pays.items() if pay == -1}


def test_mazes_are_as_defined():
    n, slip = 10, 0.2
    p, still = mazes(slip=slip), mazes(slip=0)
    assert (p.N, p.S, p.actions, p.shared, p.reward_range) == (4, 100, tuple(STEPS), True, (-1, 1))
    np.testing.assert_allclose(p.rho, 0.01)
    pays = np.zeros((4, 100))
    for i in range(4):
        goal, blocked = maze_of(still, i, n)
        assert len(blocked) == 15
        assert goal not in blocked
        assert p.agents[i] == f"goal {goal}"
        assert str(i) in p.grid.marks[goal[0] * n + goal[1]].split(", ")
        pays[i, goal[0] * n + goal[1]] = 1
        for row, column in blocked:
            pays[i, row * n + column] = -1
    for row, column in ((0, 0), (4, 7), (9, 3)):
        for a, chosen in enumerate(STEPS.values()):
            expected = np.zeros(100)
            for other in STEPS.values():
                end = walk(row, column, other, n) or (row, column)
                expected[end[0] * n + end[1]] += (1 - slip if other is chosen else 0) + slip / 4
            np.testing.assert_allclose(p.P[row * n + column, a], expected, atol=1e-15)
            np.testing.assert_allclose(p.reward[:, row * n + column, a], pays @ expected, atol=1e-15)


@pytest.mark.parametrize(("n", "obstacles", "seed"), [(10, 15, 0), (10, 30, 1), (3, 2, 5), (5, 10, 2)])
def test_every_goal_can_be_reached_from_everywhere_without_an_obstacle(n, obstacles, seed):
    p = mazes(agents=6, n=n, obstacles=obstacles, slip=0, seed=seed)
    for i in range(6):
        goal, blocked = maze_of(p, i, n)
        seen, queue = {goal}, deque([goal])
        while queue:  # backwards from the goal; from an obstacle one may leave, so it is seen but not passed
            cell = queue.popleft()
            if cell in blocked:
                continue
            for step in STEPS.values():
                before = walk(*cell, step, n)
                if before and before not in seen:
                    seen.add(before)
                    queue.append(before)
        assert len(seen) == n * n


def test_agents_draw_the_same_whatever_N_is():
    np.testing.assert_array_equal(mazes(agents=7).reward[:3], mazes(agents=3).reward)
    np.testing.assert_array_equal(windy_cliff(agents=7).P[:3], windy_cliff(agents=3).P)
    assert len({mazes(agents=1, seed=seed).agents for seed in range(8)}) > 4
    assert len(set(mazes(agents=8).agents)) > 4


def test_only_goals_differ_without_obstacles():
    """Alone, without slip and with a goal at (r, c): the return from d steps away is gamma^(d-1) (1 + ...).

    At a wall the goal pays every step, 1 / (1 - gamma); elsewhere every second, 1 / (1 - gamma^2).
    """
    gamma, n = 0.9, 10
    p = mazes(agents=6, obstacles=0, slip=0, gamma=gamma)
    assert p.reward.min() == 0
    for i, value in enumerate(own_returns(p)):
        (row, column), blocked = maze_of(p, i, n)
        assert not blocked
        border = row in (0, n - 1) or column in (0, n - 1)
        at_goal = 1 / (1 - gamma) if border else 1 / (1 - gamma**2)
        expected = 0.0
        for r in range(n):
            for c in range(n):
                d = abs(r - row) + abs(c - column)
                # at the goal itself one is paid next after one bump, or after a step out and back
                expected += gamma ** (d - 1) * at_goal if d else (at_goal if border else gamma * at_goal)
        assert value == pytest.approx(expected / n**2, rel=1e-9)


def test_windy_cliff_is_as_defined():
    """The wind theta replaces an action by "down" with probability theta / 3, as in Jin et al.'s experiments."""
    p = windy_cliff()
    assert (p.N, p.S, p.A, p.gamma, p.shared, p.reward_range) == (5, 16, 4, 0.95, False, (-100, 100))
    assert p.P.shape == (5, 16, 4, 16)
    thetas = [np.random.default_rng([*b"wind", 1 + i, 0]).uniform() for i in range(5)]
    assert p.agents == tuple(f"wind {theta:.2f}" for theta in thetas)
    start = 12
    for i, theta in enumerate(thetas):
        np.testing.assert_array_equal(p.reward[i], p.reward[0])
        for row in range(4):
            for column in range(4):
                s = row * 4 + column
                ends = row == 3 and column > 0
                np.testing.assert_array_equal(p.reward[i, s], -1 if not ends else 100 if column == 3 else -100)
                for a, step in enumerate(STEPS.values()):
                    expected = np.zeros(16)
                    if ends:
                        expected[start] = 1
                    else:
                        for weight, move in ((1 - theta / 3, step), (theta / 3, STEPS["down"])):
                            r, c = walk(row, column, move, 4) or (row, column)
                            expected[r * 4 + c] += weight
                    np.testing.assert_allclose(p.P[i, s, a], expected, atol=1e-15)
    np.testing.assert_array_equal(p.rho, np.eye(16)[start])


def test_without_wind_the_cliff_is_one_problem():
    """Five moves, up, right three times, down, arrive at the goal, which pays 100 and leads back: a cycle of 6 steps.

    The return is (-(1 + g + g^2 + g^3 + g^4) + 100 g^5) / (1 - g^6).
    """
    p, g = windy_cliff(wind=0), 0.95
    assert p.shared
    expected = (100 * g**5 - sum(g**t for t in range(5))) / (1 - g**6)
    assert best_return(p) == pytest.approx(expected, rel=1e-12)
    own = own_returns(windy_cliff(agents=40))
    winds = [float(name.split()[1]) for name in windy_cliff(agents=40).agents]
    assert np.corrcoef(own, winds)[0, 1] < -0.9, "the stronger the wind, the less can be earned"


def test_opposed_line_is_as_defined():
    p, slip = opposed_line(), 0.1
    assert (p.N, p.S, p.actions, p.shared, p.gamma) == (4, 9, ("left", "right", "stay"), True, 0.9)
    for s in range(9):
        for a in range(3):
            expected = np.zeros(9)
            for b, step in enumerate((-1, 1, 0)):
                expected[min(max(s + step, 0), 8)] += (1 - slip if a == b else 0) + slip / 3
            np.testing.assert_allclose(p.P[s, a], expected, atol=1e-15)
    for i, sign in enumerate((1, -1, 1, -1)):
        np.testing.assert_array_equal(p.reward[i], np.outer([-sign, 0, 0, 0, 0.5, 0, 0, 0, sign], np.ones(3)))
    assert p.agents == ("paid right", "paid left") * 2
    np.testing.assert_allclose(p.rho, 1 / 9)


def test_what_opposed_agents_have_in_common():
    """Even N: only the middle, `mid` gamma^d / (1 - gamma) from d cells away, and nothing at mid = 0.

    With three agents the last cell is worth 1/3 on average, and with mid = 0 it is the only thing: gamma^d / 3 / (1 -
    gamma).
    """
    g = 0.9
    expected = 0.5 * (1 + 2 * (g + g**2 + g**3 + g**4)) / 9 / (1 - g)
    assert best_return(opposed_line(slip=0)) == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(opposed_line(mid=0).reward.mean(axis=0), 0)
    # from the first cell, worth -1/3, one leaves at once
    expected = (sum(g**d for d in range(9)) / (1 - g) - 1) / 3 / 9
    assert best_return(opposed_line(agents=3, mid=0, slip=0)) == pytest.approx(expected, rel=1e-12)


def test_river_swim_has_the_standard_numbers():
    p = river_swim(home=0.02)
    left = np.eye(6)[[0, 0, 1, 2, 3, 4]]
    right = [
        [0.7, 0.3, 0, 0, 0, 0],
        [0.1, 0.6, 0.3, 0, 0, 0],
        [0, 0.1, 0.6, 0.3, 0, 0],
        [0, 0, 0.1, 0.6, 0.3, 0],
        [0, 0, 0, 0.1, 0.6, 0.3],
        [0, 0, 0, 0, 0.7, 0.3],
    ]
    np.testing.assert_allclose(p.P[:, 0], left, atol=1e-15)
    np.testing.assert_allclose(p.P[:, 1], right, atol=1e-15)
    np.testing.assert_array_equal(p.rho, [0, 0.5, 0.5, 0, 0, 0])
    for i, (low, high) in enumerate([(0.0005, 1), (0.02, 0)] * 2):
        expected = np.zeros((6, 2))
        expected[0, 0], expected[5, 1] = low, 0.3 * high
        np.testing.assert_allclose(p.reward[i], expected, atol=1e-15)
    assert (p.shared, p.actions, p.agents[:2]) == (True, ("left", "right"), ("paid right", "paid left"))


def test_up_the_river_is_best_in_common():
    """Left from the second or third cell pays home gamma or home gamma^2, each over 1 - gamma, then for ever.

    Odd agents want that, even ones and the average want to swim up; only beyond home = 0.06 it turns.
    """
    p, g = river_swim(home=0.05), 0.99
    own = own_returns(p)
    assert own[1] == pytest.approx(0.05 * (g + g**2) / 2 / (1 - g), rel=1e-12)
    assert best_return(p) == pytest.approx(own[0] / 2, rel=1e-9), "the average of what swimming up pays"
    np.testing.assert_array_equal(tabular_exact.optimum(p).policy[:, 1], 1)
    assert best_return(river_swim(home=0.07)) > own[0] / 2 * 1.1
    q = river_swim(S=20)
    np.testing.assert_allclose(q.P[7, 1, 6:9], [0.1, 0.6, 0.3])
    assert q.P.shape == (20, 2, 20)


@pytest.mark.parametrize("name", ["mazes", "windy-cliff", "opposed-line", "river-swim"])
def test_arrows_point_where_actions_lead(name):
    p = make(name)
    P = p.P if p.shared else p.P[0]
    assert p.grid.rows * p.grid.columns == p.S
    middle = (p.grid.rows // 2) * p.grid.columns + p.grid.columns // 2
    for a, (down, right) in p.grid.moves.items():
        away = np.where(np.arange(p.S) == middle, 0, P[middle, a])  # the river often lets nobody move
        if (down, right) != (0, 0):
            assert away.argmax() == middle + p.grid.columns * down + right


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mazes(obstacles=99), "room for 0 to 98"),
        (lambda: mazes(obstacles=-1), "room for 0 to 98"),
        (lambda: mazes(obstacles=80), "take fewer obstacles or a larger n"),
        (lambda: mazes(n=1), "n = 1; it must be at least 2"),
        (lambda: mazes(seed=-1), "seed = -1; it must be at least 0"),
        (lambda: mazes(slip=-0.1), r"slip = -0.1; it must lie in \[0, 1\]"),
        (lambda: windy_cliff(wind=4), r"wind = 4; it must lie in \[0, 3\]"),
        (lambda: windy_cliff(n=2), "n = 2; it must be at least 3"),
        (lambda: opposed_line(S=2), "S = 2; it must be at least 3"),
        (lambda: opposed_line(mid=2), r"mid = 2; it must lie in \[0, 1\]"),
        (lambda: river_swim(home=-1), r"home = -1; it must lie in \[0, 1\]"),
        (lambda: river_swim(S=2), "S = 2; it must be at least 3"),
        (lambda: make("mazes", reward_range=(-1, 1)), "says itself what its rewards range over"),
    ],
)
def test_bad_arguments_say_what_would_be_right(call, message):
    with pytest.raises(InputError, match=message):
        call()
