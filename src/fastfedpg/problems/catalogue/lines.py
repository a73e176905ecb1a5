"""Problems on a line of cells, each defined exactly in its docstring."""

import numpy as np

from fastfedpg.problems.arguments import at_least, unit
from fastfedpg.problems.catalogue.grids import landings, slipping, whose
from fastfedpg.problems.grid import Grid
from fastfedpg.problems.tabular import TabularProblem

SMALL = 5 / 10_000  # the left bank in units of the right one


def opposed_line(
    agents: int = 4, S: int = 9, mid: float = 0.5, slip: float = 0.1, gamma: float = 0.9
) -> TabularProblem:
    """A line of S cells whose two ends are worth 1 and -1, the other way round for every second agent.

    Three actions (left, right, stay); the ends block. With probability `slip` a uniformly random one of the three
    replaces the chosen action. R_i(s, a) depends on the current cell only: agents 0, 2, 4, ... are paid 1 in the last
    cell and -1 in the first, agents 1, 3, 5, ... the reverse; everybody is paid `mid`, in [0, 1], in the middle cell,
    number S // 2, and 0 elsewhere. Nothing ends; rho is uniform over all cells.

    The nine cells and the opposed rewards are those of Mak et al. (2024), "CAESAR: Enhancing Federated RL in
    Heterogeneous MDPs through Convergence-Aware Sampling with Screening" (github.com/hughiemak/CAESAR), where stepping
    off an end is paid and ends the episode, the start is the middle, and there is neither staying nor slip. The pay in
    the middle is added here. Without it an even number of agents has an average reward of zero everywhere, and any
    policy is as good as any other; with it the middle is all that is worth finding. An odd number leaves the last cell
    worth 1 / N and the first -1 / N on average.
    """
    at_least("agents", agents, 1)
    at_least("S", S, 3)
    unit("mid", mid)
    unit("slip", slip)
    moves = {0: (0, -1), 1: (0, 1), 2: (0, 0)}
    sign = np.array([1.0 if i % 2 == 0 else -1.0 for i in range(agents)])
    reward = np.zeros((agents, S, len(moves)))
    reward[:, S // 2] = mid
    reward[:, -1] = sign[:, None]
    reward[:, 0] = -sign[:, None]
    return TabularProblem(
        slipping(landings(1, S, moves), slip),
        reward,
        np.full(S, 1 / S),
        gamma,
        reward_range=(-1, 1),
        name="opposed-line",
        states=tuple(str(s) for s in range(S)),
        actions=("left", "right", "stay"),
        agents=tuple("paid right" if up > 0 else "paid left" for up in sign),
        grid=Grid(1, S, moves, {S // 2: "middle", **whose([S - 1 if up > 0 else 0 for up in sign])}),
    )


def river_swim(agents: int = 4, S: int = 6, home: float = 0.005, gamma: float = 0.99) -> TabularProblem:
    """RiverSwim: every second agent is paid for swimming up the river, the others for staying at its lower end.

    A line of S cells and two actions. "left" goes with the current and always succeeds; in the first cell it stays.
    "right" goes against it: in the first cell 0.7 stay, 0.3 right; in between 0.1 left, 0.6 stay, 0.3 right; in the
    last cell 0.7 left, 0.3 stay. Two moves are paid: "left" in the first cell, l_i, and "right" in the last when it
    stays there, r_i, so that R_i(first, left) = l_i, R_i(last, right) = 0.3 r_i, and 0 otherwise. Agents 0, 2, 4, ...
    have l_i = 0.0005 and r_i = 1; agents 1, 3, 5, ... have l_i = `home`, in [0, 1], and r_i = 0. Nothing ends; rho is
    one half each on the second and the third cell.

    Six cells, these probabilities, this start and the payments of the even agents, 5 and 10,000 divided by 10,000, are
    those of Strehl and Littman (2008), "An analysis of model-based Interval Estimation for Markov Decision Processes";
    the odd agents are added here. With an even number of agents and the default gamma, swimming up everywhere is best
    for all on average up to home = 0.056. From the uniform policy the common gradient leads there at the default
    `home`, but to the lower end at 0.05; the default was chosen for that.
    """
    at_least("agents", agents, 1)
    at_least("S", S, 3)
    unit("home", home)
    P = np.zeros((S, 2, S))
    P[:, 0] = np.eye(S)[landings(1, S, {0: (0, -1)})[:, 0]]
    for s in range(1, S - 1):
        P[s, 1, s - 1 : s + 2] = 0.1, 0.6, 0.3
    P[0, 1, :2] = 0.7, 0.3
    P[-1, 1, -2:] = 0.7, 0.3
    upward = np.arange(agents) % 2 == 0
    reward = np.zeros((agents, S, 2))
    reward[:, 0, 0] = np.where(upward, SMALL, home)
    reward[:, -1, 1] = np.where(upward, P[-1, 1, -1], 0.0)
    rho = np.zeros(S)
    rho[1:3] = 0.5
    return TabularProblem(
        P,
        reward,
        rho,
        gamma,
        name="river-swim",
        states=tuple(str(s) for s in range(S)),
        actions=("left", "right"),
        agents=tuple("paid right" if up else "paid left" for up in upward),
        grid=Grid(1, S, {0: (0, -1), 1: (0, 1)}, whose([S - 1 if up else 0 for up in upward])),
    )
