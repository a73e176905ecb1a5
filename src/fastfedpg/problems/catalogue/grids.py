"""Problems on a map of cells, each defined exactly in its docstring, and the mechanics they share."""

from collections.abc import Mapping, Sequence

import numpy as np

from fastfedpg.errors import InputError
from fastfedpg.problems.arguments import at_least, generator, unit
from fastfedpg.problems.grid import Grid
from fastfedpg.problems.tabular import TabularProblem

MOVES = {0: (-1, 0), 1: (1, 0), 2: (0, -1), 3: (0, 1)}
MOVE_NAMES = ("up", "down", "left", "right")
REDRAWS = 1000


def compromise_grid(
    agents: int = 4, n: int = 5, mid: float = 0.5, slip: float = 0.1, gamma: float = 0.9
) -> TabularProblem:
    """The compromise in n x n cells: each agent's corner pays it 1, the centre pays everybody `mid`.

    Five actions (up, down, left, right, stay); walls block. With probability `slip` a uniformly random one of the five
    replaces the chosen action. R_i(s, a) depends on the current cell only: 1 in agent i's corner (number i mod 4 of top
    left, bottom right, top right, bottom left), `mid` in the centre, 0 elsewhere. Nothing ends; rho is uniform over all
    cells.
    """
    at_least("agents", agents, 1)
    if n < 3 or n % 2 == 0:
        raise InputError(f"compromise-grid has n = {n}; it needs an odd n of at least 3, so that there is a centre")
    unit("mid", mid)
    unit("slip", slip)
    moves = {**MOVES, 4: (0, 0)}
    S = n * n
    corners = (0, S - 1, n - 1, S - n)
    homes = [corners[i % 4] for i in range(agents)]
    reward = np.zeros((agents, S, len(moves)))
    reward[:, S // 2] = mid
    reward[np.arange(agents), homes] = 1.0
    return TabularProblem(
        slipping(landings(n, n, moves), slip),
        reward,
        np.full(S, 1 / S),
        gamma,
        name="compromise-grid",
        states=cell_names(n, n),
        actions=(*MOVE_NAMES, "stay"),
        agents=tuple(f"corner {cell_names(n, n)[home]}" for home in homes),
        grid=Grid(n, n, moves, {**whose(homes), S // 2: "centre"}),
    )


def mazes(
    agents: int = 4, n: int = 10, obstacles: int = 15, slip: float = 0.1, gamma: float = 0.95, seed: int = 0
) -> TabularProblem:
    """A maze of n x n cells for each agent, with obstacles and a goal of its own, as in Zeng et al. (2021).

    Four actions (up, down, left, right); the outer walls block. With probability `slip` a uniformly random one of the
    four replaces the chosen action. Agent i draws one goal cell and `obstacles` obstacle cells (0: only the goals
    differ), uniformly among those mazes in which its goal can be reached from every cell, obstacles among them, without
    entering another obstacle; its draw does not depend on N. Arriving or staying in a cell pays r_i = 1 at the goal, -1
    at an obstacle, 0 elsewhere: R_i(s, a) = sum_s' P(s'|s, a) r_i(s'), in [-1, 1]. rho is uniform over all cells.

    The size, the three kinds of cell, the actions, what they pay and the arbitrary start are those of "A Decentralized
    Policy Gradient Approach to Multi-Task Reinforcement Learning", where dynamics may differ too. Here they do not: an
    obstacle costs but does not block, and a goal pays at every arrival but ends nothing. So only the rewards differ.
    """
    at_least("agents", agents, 1)
    at_least("n", n, 2)
    if not 0 <= obstacles <= n * n - 2:
        raise InputError(f"obstacles = {obstacles}; a maze of {n} x {n} cells has room for 0 to {n * n - 2}")
    unit("slip", slip)
    S, land, cells = n * n, landings(n, n, MOVES), cell_names(n, n)
    pays = np.zeros((agents, S))
    goals = []
    for i in range(agents):
        goal, blocked = _maze(land, obstacles, seed, i)
        pays[i, blocked] = -1.0
        pays[i, goal] = 1.0
        goals.append(goal)
    P = slipping(land, slip)
    return TabularProblem(
        P,
        np.einsum("sat,it->isa", P, pays).clip(-1, 1),  # a row's sum can round past 1
        np.full(S, 1 / S),
        gamma,
        reward_range=(-1, 1),
        name="mazes",
        states=cells,
        actions=MOVE_NAMES,
        agents=tuple(f"goal {cells[goal]}" for goal in goals),
        grid=Grid(n, n, MOVES, whose(goals), arriving=tuple(tuple(own) for own in pays.tolist())),
    )


def windy_cliff(agents: int = 5, n: int = 4, wind: float = 1.0, gamma: float = 0.95, seed: int = 0) -> TabularProblem:
    """A path along a cliff in n x n cells, with a wind of its own for each agent: kernels differ, rewards do not.

    Four actions (up, down, left, right); the outer walls block. In the bottom row the leftmost cell is the start, the
    rightmost the goal, and the cells between them are the cliff; every action in the cliff or at the goal leads back to
    the start. Elsewhere agent i's wind, theta_i, replaces the chosen action by "down" with probability theta_i / 3. The
    theta_i are uniform on [0, wind], wind at most 3, and do not depend on N; at wind = 0 all agents share one kernel.
    R(s, a) depends on the current cell only: 100 at the goal, -100 in the cliff, -1 elsewhere. rho is the start.

    The definition is that of the experiments of Jin et al. (2022), "Federated Reinforcement Learning with Environment
    Heterogeneity" (github.com/pengyang7881187/FedRL): n = 4, gamma = 0.95, five agents, theta_i uniform on [0, 1].
    """
    at_least("agents", agents, 1)
    at_least("n", n, 3)
    unit("wind", wind, most=3)
    S, start, goal = n * n, n * (n - 1), n * n - 1
    cliff = range(start + 1, goal)
    thetas = [float(wind * generator(seed, "wind", i).uniform()) for i in range(agents)]
    moved = np.eye(S)[landings(n, n, MOVES)]
    P = np.stack([(1 - theta / 3) * moved + theta / 3 * moved[:, 1:2] for theta in thetas])
    P[:, start + 1 :] = np.eye(S)[start]
    reward = np.full((agents, S, len(MOVES)), -1.0)
    reward[:, cliff] = -100.0
    reward[:, goal] = 100.0
    return TabularProblem(
        P if wind > 0 and agents > 1 else P[0],
        reward,
        np.eye(S)[start],
        gamma,
        reward_range=(-100, 100),
        name="windy-cliff",
        states=cell_names(n, n),
        actions=MOVE_NAMES,
        agents=tuple(f"wind {theta:.2f}" for theta in thetas),
        grid=Grid(n, n, MOVES, {start: "start", **dict.fromkeys(cliff, "cliff"), goal: "goal"}),
    )


def landings(rows: int, columns: int, moves: Mapping[int, tuple[int, int]]) -> np.ndarray:
    """Where each action leads from each cell, (S, A): the outer walls block."""
    S = rows * columns
    land = np.zeros((S, len(moves)), int)
    for s in range(S):
        for a, (down, right) in moves.items():
            row = min(max(s // columns + down, 0), rows - 1)
            column = min(max(s % columns + right, 0), columns - 1)
            land[s, a] = row * columns + column
    return land


def slipping(land: np.ndarray, slip: float) -> np.ndarray:
    """P (S, A, S) of moves that a uniformly random one of all actions replaces with probability `slip`."""
    moved = np.eye(len(land))[land]
    return np.asarray((1 - slip) * moved + slip * moved.mean(axis=1, keepdims=True))


def cell_names(rows: int, columns: int) -> tuple[str, ...]:
    """The cells by row and column."""
    return tuple(f"({row}, {column})" for row in range(rows) for column in range(columns))


def whose(places: Sequence[int]) -> dict[int, str]:
    """Marks for the agents' own cells: which agents each belongs to."""
    who = {place: [str(i) for i, other in enumerate(places) if other == place] for place in places}
    return {place: ", ".join(some[:3]) + (" …" if len(some) > 3 else "") for place, some in who.items()}


def _maze(land: np.ndarray, obstacles: int, seed: int, agent: int) -> tuple[int, np.ndarray]:
    """A goal and obstacles, drawn again until the goal can be reached from everywhere."""
    rng = generator(seed, "maze", agent)
    for _ in range(REDRAWS):
        goal, *blocked = rng.permutation(len(land))[: 1 + obstacles]
        entered = np.isin(land, blocked)  # no step towards the goal may enter an obstacle, but one may start in it
        reached = np.arange(len(land)) == goal
        for _ in range(len(land)):
            further = reached | (reached[land] & ~entered).any(axis=1)
            if (further == reached).all():
                break
            reached = further
        if reached.all():
            return int(goal), np.array(blocked, int)
    raise InputError(
        f"obstacles = {obstacles}: in {REDRAWS} draws agent {agent}'s goal was never reachable from all "
        f"{len(land)} cells; take fewer obstacles or a larger n"
    )
