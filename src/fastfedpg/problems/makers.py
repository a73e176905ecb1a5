"""Problems by name, each defined exactly in its docstring."""

import numpy as np

from fastfedpg.errors import InputError
from fastfedpg.problems.tabular import Grid, TabularProblem


def compromise(agents: int = 2, mid: float = 0.6, gamma: float = 0.5) -> TabularProblem:
    """One state; every agent has a favourite action, none shared, and a second-best that is the same for all.

    N + 1 actions: R_i = 1 for action i, `mid` for the last action, 0 for the others. For mid > 1/N the best common
    action is the last one, which is nobody's favourite.
    """
    _at_least("agents", agents, 1)
    _unit("mid", mid)
    reward = np.concatenate([np.eye(agents), np.full((agents, 1), mid)], axis=1)[:, None, :]
    actions = (*(f"favourite of {i}" for i in range(agents)), "compromise")
    return TabularProblem(np.ones((1, agents + 1, 1)), reward, np.ones(1), gamma, name="compromise", actions=actions)


def compromise_grid(
    agents: int = 4, n: int = 5, mid: float = 0.5, slip: float = 0.1, gamma: float = 0.9
) -> TabularProblem:
    """The compromise in n x n cells: each agent's corner pays it 1, the centre pays everybody `mid`.

    Five actions (up, down, left, right, stay); walls block. With probability `slip` a uniformly random one of the five
    replaces the chosen action. R_i(s, a) depends on the current cell only: 1 in agent i's corner (corner i mod 4),
    `mid` in the centre, 0 elsewhere. Nothing ends; rho is uniform over all cells.
    """
    _at_least("agents", agents, 1)
    if n < 3 or n % 2 == 0:
        raise InputError(f"compromise-grid has n = {n}; it needs an odd n of at least 3, so that there is a centre")
    _unit("mid", mid)
    _unit("slip", slip)
    moves = {0: (-1, 0), 1: (1, 0), 2: (0, -1), 3: (0, 1), 4: (0, 0)}
    S, A = n * n, len(moves)
    land = np.zeros((S, A), int)
    for s in range(S):
        for a, (down, right) in moves.items():
            row, column = np.clip((s // n + down, s % n + right), 0, n - 1)
            land[s, a] = row * n + column
    moved = np.eye(S)[land]
    P = (1 - slip) * moved + slip * moved.mean(axis=1, keepdims=True)
    corners = (0, S - 1, n - 1, S - n)
    reward = np.zeros((agents, S, A))
    reward[:, S // 2] = mid
    for i in range(agents):
        reward[i, corners[i % 4]] = 1.0
    homes = {c: [str(i) for i in range(agents) if corners[i % 4] == c] for c in corners}
    marks = {c: ", ".join(who[:3]) + (" …" if len(who) > 3 else "") for c, who in homes.items() if who}
    return TabularProblem(
        P,
        reward,
        np.full(S, 1 / S),
        gamma,
        name="compromise-grid",
        states=tuple(f"({s // n}, {s % n})" for s in range(S)),
        actions=("up", "down", "left", "right", "stay"),
        grid=Grid(n, n, moves, {**marks, S // 2: "centre"}),
    )


def random(
    agents: int = 5,
    S: int = 5,
    A: int = 5,
    kappa: float = 1.0,
    kernel: float = 0.0,
    gamma: float = 0.9,
    concentration: float = 1.0,
    seed: int = 0,
) -> TabularProblem:
    """Dirichlet transition kernels, with one dial for how much rewards differ and another for how much kernels do.

    Rewards: R_i = Rbar + (kappa / 3) (U_i - Ubar), Rbar = (1 + U_0) / 3, all U uniform on [0, 1], Ubar their mean over
    the N agents, kappa in [0, 1]. The scale 1/3 keeps them in [0, 1] without clipping, and the average reward is Rbar
    for every N and kappa. Kernels: P_i = (1 - kernel) P_0 + kernel P'_i with rows from Dirichlet(concentration). Agent
    i's draws are the same whatever N is. rho is uniform.
    """
    _check_sizes(agents, S, A)
    _unit("kernel", kernel)
    if not concentration > 0:
        raise InputError(f"concentration = {concentration:g}; it must be positive")
    rows = np.full(S, float(concentration))
    P = _generator(seed, "kernel").dirichlet(rows, (S, A))
    if kernel > 0:
        own = [_generator(seed, "kernel", i).dirichlet(rows, (S, A)) for i in range(agents)]
        P = (1 - kernel) * P + kernel * np.stack(own)
    return TabularProblem(P, _rewards(agents, S, A, kappa, seed), np.full(S, 1 / S), gamma, name="random")


def garnet(
    agents: int = 5, S: int = 20, A: int = 4, branching: int = 3, kappa: float = 1.0, gamma: float = 0.9, seed: int = 0
) -> TabularProblem:
    """Garnet MDPs: from every (s, a) only `branching` states can be reached, chosen uniformly.

    Their probabilities are the gaps between branching - 1 sorted uniform cuts of [0, 1]. Rewards as in `random`; rho is
    uniform.
    """
    _check_sizes(agents, S, A)
    if not 1 <= branching <= S:
        raise InputError(f"branching = {branching}; it must be between 1 and S = {S}")
    rng = _generator(seed, "kernel")
    cuts = np.sort(rng.uniform(size=(S, A, branching - 1)), axis=-1)
    gaps = np.diff(cuts, axis=-1, prepend=0.0, append=1.0)
    reached = np.argsort(rng.uniform(size=(S, A, S)), axis=-1)[..., :branching]
    P = np.zeros((S, A, S))
    np.put_along_axis(P, reached, gaps, axis=-1)
    return TabularProblem(P, _rewards(agents, S, A, kappa, seed), np.full(S, 1 / S), gamma, name="garnet")


def _rewards(agents: int, S: int, A: int, kappa: float, seed: int) -> np.ndarray:
    _unit("kappa", kappa)
    U = np.stack([_generator(seed, "reward", i).uniform(size=(S, A)) for i in range(agents)])
    Rbar = (1 + _generator(seed, "reward").uniform(size=(S, A))) / 3
    return np.asarray(Rbar + kappa / 3 * (U - U.mean(axis=0)))


def _generator(seed: int, what: str, agent: int | None = None) -> np.random.Generator:
    _at_least("seed", seed, 0)
    # Draws are counted like the runs' own keys, so that agent 7 stays the same agent whatever N is.
    return np.random.default_rng([*what.encode(), 0 if agent is None else 1 + agent, seed])


def _at_least(name: str, value: int, least: int) -> None:
    if value < least:
        raise InputError(f"{name} = {value}; it must be at least {least}")


def _check_sizes(agents: int, S: int, A: int) -> None:
    for name, value in (("agents", agents), ("S", S), ("A", A)):
        _at_least(name, value, 1)


def _unit(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise InputError(f"{name} = {value:g}; it must lie in [0, 1]")
