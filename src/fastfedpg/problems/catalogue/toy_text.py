"""Gymnasium's FrozenLake, CliffWalking and Taxi, from their own transition tables, with goals that differ.

All three follow one rule, so that the agents share one kernel and only their rewards differ: an episode ends wherever
it ends for some agent, and whoever is there stays for ever.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from fastfedpg.errors import missing_extra
from fastfedpg.problems.arguments import at_least, switch
from fastfedpg.problems.catalogue.grids import cell_names, whose
from fastfedpg.problems.grid import Grid
from fastfedpg.problems.tabular import TabularProblem

LAKE_GOALS = ((3, 3), (0, 3), (3, 1))
CLIFF_GOALS = ((3, 11), (0, 11), (1, 11))  # not (2, 11), which all ways to (3, 11) pass


def frozen_lake(agents: int = 3, slippery: int = 1, gamma: float = 0.95) -> TabularProblem:
    """Gymnasium's FrozenLake on its 4 x 4 map, with a goal of its own for each agent.

    States are the 16 cells, actions left, down, right, up. Agent i's goal is number i mod 3 of (3, 3), the original
    one, (0, 3) and (3, 1), by row and column. P is gymnasium's table for its standard map with the goals of all agents
    in it: holes and goals are absorbing; with slippery = 1 the move is the chosen one or one of the two at right angles
    to it, with probability 1/3 each, with slippery = 0 the chosen one. Arriving at one's own goal pays 1, once;
    everything else pays 0. rho is the start, cell (0, 0). One agent alone has gymnasium's own environment, without its
    time limit.
    """
    at_least("agents", agents, 1)
    toy_text = _gymnasium("frozen-lake")
    goals = [LAKE_GOALS[i % 3] for i in range(agents)]
    desc = toy_text.FrozenLakeEnv(map_name="4x4").desc.copy()
    for goal in goals:
        desc[goal] = b"G"
    env = toy_text.FrozenLakeEnv(desc=desc, is_slippery=switch("slippery", slippery))
    own = [row * 4 + column for row, column in goals]
    P = np.zeros((16, 4, 16))
    reward = np.zeros((agents, 16, 4))
    for t in _transitions(env.P):
        P[t.s, t.a, t.then] += t.p
        reward[:, t.s, t.a] += t.p * t.reward * (np.array(own) == t.then)
    holes = dict.fromkeys(np.flatnonzero(desc == b"H").tolist(), "hole")
    return TabularProblem(
        P,
        reward,
        env.initial_state_distrib,
        gamma,
        name="frozen-lake",
        states=cell_names(4, 4),
        actions=("left", "down", "right", "up"),
        agents=tuple(f"goal {goal}" for goal in goals),
        grid=Grid(
            4,
            4,
            {0: (0, -1), 1: (1, 0), 2: (0, 1), 3: (-1, 0)},
            {0: "start", **holes, **whose(own)},
            arriving=tuple(tuple(float(s == goal) for s in range(16)) for goal in own),
        ),
    )


def cliff_walking(agents: int = 3, slippery: int = 0, gamma: float = 0.99) -> TabularProblem:
    """Gymnasium's CliffWalking, with a goal of its own for each agent in the last column.

    States are the 4 x 12 cells, actions up, right, down, left. Agent i's goal is number i mod 3 of (3, 11), the
    original one, (0, 11) and (1, 11), by row and column. P and rewards are gymnasium's table: every move pays -1, and
    one into the cliff, cells (3, 1) to (3, 10), pays -100 and leads back to the start; with slippery = 1 the move
    is the chosen one or one of the two at right angles to it, with probability 1/3 each. The goals of all agents are
    absorbing: staying at one's own pays 0, at another's -1 a step for ever. rho is the start, cell (3, 0). The cliff's
    cells are states that are never entered. One agent alone has gymnasium's own environment, without its
    time limit.
    """
    at_least("agents", agents, 1)
    toy_text = _gymnasium("cliff-walking")
    env = toy_text.CliffWalkingEnv(is_slippery=switch("slippery", slippery))
    goals = [CLIFF_GOALS[i % 3] for i in range(agents)]
    own = [row * 12 + column for row, column in goals]
    P = np.zeros((48, 4, 48))
    reward = np.zeros((agents, 48, 4))
    for t in _transitions(env.P):
        P[t.s, t.a, t.then] += t.p
        reward[:, t.s, t.a] += t.p * t.reward
    P[own] = np.eye(48)[own][:, None, :]
    reward[:, own] = -1.0
    reward[np.arange(agents), own] = 0.0
    cliff = tuple(range(37, 47))
    return TabularProblem(
        P,
        reward,
        env.initial_state_distrib,
        gamma,
        reward_range=(-100, 0),
        name="cliff-walking",
        states=cell_names(4, 12),
        actions=("up", "right", "down", "left"),
        agents=tuple(f"goal {goal}" for goal in goals),
        grid=Grid(
            4,
            12,
            {0: (-1, 0), 1: (0, 1), 2: (1, 0), 3: (0, -1)},
            {36: "start", **dict.fromkeys(cliff, "cliff"), **whose(own)},
            walls=cliff,
        ),
    )


def taxi(agents: int = 4, rainy: int = 0, gamma: float = 0.95) -> TabularProblem:
    """Gymnasium's Taxi, where each agent wants the passenger at another stand and the policy does not know which.

    States are (row, column, passenger), 5 x 5 cells and five places, the stands R, G, Y, B and the taxi, and one end:
    126. Actions: south, north, east, west, pick up, drop off. Agent i's destination is stand i mod 4; its kernel and
    rewards are the part of gymnasium's 500-state table with that destination: -1 a step, -10 for picking up or dropping
    off where it can't be done, 20 for delivering. Dropping off at a stand that is some agent's destination ends the
    episode for all: the agents whose own it is are paid 20, the others what their own table has for that move, -1; the
    end is absorbing and pays 0. At the other stands the passenger waits again, as in the table. With rainy = 1 a move
    that is not blocked goes astray to either side with probability 0.1 each, or stays where that side is blocked. rho
    is gymnasium's with the destination left out, uniform over the cells and the four stands, so an agent can find the
    passenger at its own destination, which gymnasium never begins with.
    """
    at_least("agents", agents, 1)
    toy_text = _gymnasium("taxi")
    env = toy_text.TaxiEnv(is_rainy=switch("rainy", rainy))
    end = 125
    tables = np.zeros((4, end + 1, 6))
    kernels = np.zeros((4, end + 1, 6, end + 1))
    kernels[:, end, :, end] = 1.0
    delivered = np.zeros((4, end + 1, 6), bool)
    for t in _transitions(env.P):
        s, to = divmod(t.s, 4)  # the destination is the last digit of gymnasium's state
        kernels[to, s, t.a, t.then // 4] += t.p
        tables[to, s, t.a] += t.p * t.reward
        delivered[to, s, t.a] |= t.ends
    stands = np.arange(agents) % 4
    P = kernels[0]
    P[delivered[stands].any(axis=0)] = np.eye(end + 1)[end]
    rho = np.append(env.initial_state_distrib.reshape(end, 4).sum(axis=1), 0.0)
    letters = {row * 5 + column: env.desc[1 + row, 1 + 2 * column].decode() for row, column in env.locs}
    places = [*(f"at {letter}" for letter in letters.values()), "aboard"]
    return TabularProblem(
        P,
        tables[stands],
        rho,
        gamma,
        reward_range=(-10, 20),
        name="taxi",
        states=(*(f"{cell} {place}" for cell in cell_names(5, 5) for place in places), "end"),
        actions=("south", "north", "east", "west", "pick up", "drop off"),
        agents=tuple(f"to {list(letters.values())[stand]}" for stand in stands),
        grid=Grid(
            5,
            5,
            {0: (1, 0), 1: (-1, 0), 2: (0, 1), 3: (0, -1)},
            letters,
            cells=(*(s // 5 for s in range(end)), -1),
            arriving=tuple(tuple(20.0 * (c == list(letters)[stand]) for c in range(25)) for stand in stands),
            paid_for="delivering",
            fences=tuple(
                (row * 5 + column, row * 5 + column + 1)
                for row, column in np.ndindex(5, 4)
                if env.desc[1 + row, 2 + 2 * column] == b"|"
            ),
        ),
    )


class _Transition(NamedTuple):
    s: int
    a: int
    p: float
    then: int
    reward: float
    ends: bool


def _transitions(table: Any) -> Iterator[_Transition]:
    """Gymnasium's table, state -> action -> [(probability, next state, reward, ends)], entry by entry."""
    for s, actions in table.items():
        for a, outcomes in actions.items():
            for p, then, reward, ends in outcomes:
                yield _Transition(int(s), int(a), float(p), int(then), float(reward), bool(ends))


def _gymnasium(problem: str) -> Any:
    try:
        import gymnasium  # noqa: F401
        from gymnasium.envs import toy_text
    except ImportError:
        raise missing_extra(f"problem '{problem}'", "gymnasium", "gym") from None
    return toy_text
