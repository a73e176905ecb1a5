"""Problems without a map: one state, and random ones. Each is defined exactly in its docstring."""

import os

import numpy as np

from fastfedpg.errors import InputError
from fastfedpg.mdp.transitions import Sparse
from fastfedpg.problems.arguments import at_least, generator, unit
from fastfedpg.problems.lqr import LQRProblem
from fastfedpg.problems.tabular import TabularProblem


def compromise(agents: int = 2, mid: float = 0.6, gamma: float = 0.5) -> TabularProblem:
    """One state; every agent has a favourite action, none shared, and a second-best that is the same for all.

    N + 1 actions: R_i = 1 for action i, `mid` for the last action, 0 for the others. For mid > 1/N the best common
    action is the last one, which is nobody's favourite.
    """
    at_least("agents", agents, 1)
    unit("mid", mid)
    reward = np.concatenate([np.eye(agents), np.full((agents, 1), mid)], axis=1)[:, None, :]
    actions = (*(f"favourite of {i}" for i in range(agents)), "compromise")
    return TabularProblem(np.ones((1, agents + 1, 1)), reward, np.ones(1), gamma, name="compromise", actions=actions)


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
    unit("kernel", kernel)
    _check_sizes(agents, S, A, 1 if kernel == 0 else 1 + agents)
    if not concentration > 0:
        raise InputError(f"concentration = {concentration:g}; it must be positive")
    rows = np.full(S, float(concentration))
    P = generator(seed, "kernel").dirichlet(rows, (S, A))
    if kernel > 0:
        own = [generator(seed, "kernel", i).dirichlet(rows, (S, A)) for i in range(agents)]
        P = (1 - kernel) * P + kernel * np.stack(own)
    return TabularProblem(P, _rewards(agents, S, A, kappa, seed), np.full(S, 1 / S), gamma, name="random")


def garnet(
    agents: int = 5, S: int = 20, A: int = 4, branching: int = 3, kappa: float = 1.0, gamma: float = 0.9, seed: int = 0
) -> TabularProblem:
    """Garnet MDPs: from every (s, a) only `branching` states can be reached, chosen uniformly.

    Their probabilities are the gaps between branching - 1 sorted uniform cuts of [0, 1]. Rewards as in `random`; rho is
    uniform. The transitions are sparse: ten thousand states take as much memory as their branches.
    """
    _check_sizes(agents, S, A)
    if not 1 <= branching <= S:
        raise InputError(f"branching = {branching}; it must be between 1 and S = {S}")
    rng = generator(seed, "kernel")
    cuts = np.sort(rng.uniform(size=(S, A, branching - 1)), axis=-1)
    gaps = np.diff(cuts, axis=-1, prepend=0.0, append=1.0)
    P = Sparse(_subsets(rng, (S, A), S, branching), gaps)
    return TabularProblem(P, _rewards(agents, S, A, kappa, seed), np.full(S, 1 / S), gamma, name="garnet")


def lqr(
    agents: int = 4,
    n: int = 3,
    m: int = 2,
    gamma: float = 0.9,
    kappa: float = 1.0,
    noise: float = 0.0,
    seed: int = 0,
) -> LQRProblem:
    """A random linear-quadratic regulator: one system with n states and m inputs, and costs that differ by agent.

    A = 0.9 G / (spectral radius of G); G and B have independent standard normal entries; Sigma0 = I. With
    S(G) = (G + G') / ||G + G'||_2 for a standard normal G, W_i = S(G_i) and Wbar their mean over the N agents,
    Q_i = I + G_0'G_0 / ||G_0'G_0||_2 + 0.45 kappa (W_i - Wbar), kappa in [0, 1], and R_i likewise with draws of its
    own. Since ||W_i - Wbar|| <= 2 no eigenvalue of a Q_i or R_i is below 0.1, and their averages are the same for every
    N and kappa. Agent i's draws are the same whatever N is. The gain 0, where runs start, is stable.
    """
    for name, value, most in (("agents", agents, 2**31), ("n", n, 1024), ("m", m, 1024)):
        at_least(name, value, 1)
        if value > most:
            raise InputError(f"{name} = {value}; it must be at most {most}")
    unit("kappa", kappa)
    rng = generator(seed, "dynamics")
    G, B = rng.normal(size=(n, n)), rng.normal(size=(n, m))
    A = 0.9 * G / np.abs(np.linalg.eigvals(G)).max()
    Q, R = (_quadratic(agents, size, kappa, seed, f"cost of {what}") for what, size in (("states", n), ("inputs", m)))
    return LQRProblem(A, B, Q, R, np.eye(n), gamma, noise)


def _quadratic(agents: int, size: int, kappa: float, seed: int, what: str) -> np.ndarray:
    W = np.empty((agents, size, size))
    for i in range(agents):
        G = generator(seed, what, i).normal(size=(size, size))
        W[i] = (G + G.T) / np.linalg.norm(G + G.T, 2)
    G = generator(seed, what).normal(size=(size, size))
    return np.eye(size) + G.T @ G / np.linalg.norm(G.T @ G, 2) + 0.45 * kappa * (W - W.mean(axis=0))


def _rewards(agents: int, S: int, A: int, kappa: float, seed: int) -> np.ndarray:
    unit("kappa", kappa)
    R = np.empty((agents, S, A))  # the only array of this size
    for i in range(agents):
        R[i] = generator(seed, "reward", i).uniform(size=(S, A))
    R -= R.mean(axis=0)
    R *= kappa / 3
    R += (1 + generator(seed, "reward").uniform(size=(S, A))) / 3
    return R


def _subsets(rng: np.random.Generator, rows: tuple[int, ...], n: int, k: int) -> np.ndarray:
    """For each row k different ones of 0, …, n-1, every subset equally likely, by Floyd's method.

    For j = n-k, …, n-1 one of 0, …, j is drawn and taken, or j if the row has it already: of the subsets of {0, …, j}
    with one element more than before, each is then as likely as the others. In which order they stand is not random.
    """
    taken = np.empty((*rows, k), np.int32)
    for i, j in enumerate(range(n - k, n)):
        drawn = rng.integers(j + 1, size=rows, dtype=np.int32)
        taken[..., i] = np.where((taken[..., :i] == drawn[..., None]).any(axis=-1), j, drawn)
    return taken


def _check_sizes(agents: int, S: int, A: int, kernels: int = 0) -> None:
    """At least one of each, and not more than this machine holds: rewards twice, dense kernels four times."""
    for name, value in (("agents", agents), ("S", S), ("A", A)):
        at_least(name, value, 1)
    least, there = 8 * S * A * (2 * agents + 4 * kernels * S), os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if least > there:
        instead = ", or garnet, whose kernel is sparse" if kernels * S > agents else ""
        raise InputError(
            f"agents = {agents}, S = {S}, A = {A}: that takes about {least / 2**30:,.0f} GB, and this machine has "
            f"{there / 2**30:,.0f}; take less of them{instead}"
        )
