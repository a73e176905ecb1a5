"""Independent references in plain NumPy, written from the definitions and not from the package."""

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from fastfedpg import TabularProblem
from fastfedpg.problems import Sparse


def small_problem(N=3, S=4, A=3, gamma=0.8, seed=0, kernels=False, rhos=False) -> TabularProblem:
    """A random problem with nothing symmetric about it."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(S), (N, S, A) if kernels else (S, A))
    rho = rng.dirichlet(np.ones(S), N if rhos else None)
    return TabularProblem(P, rng.uniform(size=(N, S, A)), rho, gamma)


def sparse_problem(N=3, S=7, A=3, W=4, gamma=0.8, seed=0, kernels=False) -> TabularProblem:
    """Rows drawn with replacement, so that states repeat, and with one entry of each row padding."""
    rng = np.random.default_rng(seed)
    shape = (N, S, A) if kernels else (S, A)
    p = rng.dirichlet(np.ones(W), shape)
    p[..., 1] += p[..., 0]
    p[..., 0] = 0.0
    P = Sparse(rng.integers(S, size=(*shape, W)), p)
    return TabularProblem(P, rng.uniform(size=(N, S, A)), rng.dirichlet(np.ones(S)), gamma)


def policy(theta: np.ndarray, S: int, A: int) -> np.ndarray:
    e = np.exp(theta.reshape(S, A))
    return e / e.sum(axis=1, keepdims=True)


def J(P, cost, rho, gamma, theta, tau=0.0) -> float:
    """Eq. (1) by summing gamma^t P(s_t = s) R(s) until the rest is below 1e-15; no linear solve."""
    pi = policy(theta, *cost.shape)
    c = (pi * (cost + tau * np.log(pi))).sum(axis=1)
    P_pi = np.einsum("sap,sa->sp", P, pi)
    total, d, discount = 0.0, rho.copy(), 1.0
    while discount > 1e-17:
        total += discount * d @ c
        d, discount = d @ P_pi, discount * gamma
    return float(total)


def finite_difference(f, theta: np.ndarray, h: float = 1e-5) -> np.ndarray:
    """Central differences with Richardson's step: error O(h^4)."""
    g = np.zeros_like(theta)
    for k in range(theta.size):
        e = np.zeros_like(theta)
        e[k] = 1.0
        wide = (f(theta + 2 * h * e) - f(theta - 2 * h * e)) / (4 * h)
        near = (f(theta + h * e) - f(theta - h * e)) / (2 * h)
        g[k] = (4 * near - wide) / 3
    return g


class Trajectory(NamedTuple):
    states: tuple[int, ...]
    actions: tuple[int, ...]
    probability: float


def all_trajectories(P, rho, theta, K: int) -> Iterator[Trajectory]:
    """Every trajectory of K steps with its probability under pi_theta."""
    S, A, _ = P.shape
    pi = policy(theta, S, A)
    for path in itertools.product(range(S), range(A), repeat=K):
        states, actions = path[0::2], path[1::2]
        p = rho[states[0]] * pi[states[0], actions[0]]
        for k in range(1, K):
            p *= P[states[k - 1], actions[k - 1], states[k]] * pi[states[k], actions[k]]
        yield Trajectory(states, actions, p)


def scores(theta, S: int, A: int, trajectory: Trajectory) -> np.ndarray:
    """(K, S*A): grad log pi(a_k | s_k) for each step."""
    pi = policy(theta, S, A)
    rows = np.zeros((len(trajectory.states), S, A))
    for k, (s, a) in enumerate(zip(trajectory.states, trajectory.actions, strict=True)):
        rows[k, s] = -pi[s]
        rows[k, s, a] += 1
    return rows.reshape(len(rows), -1)


def eq5(cost, gamma, theta, trajectory: Trajectory, tau=0.0) -> np.ndarray:
    """Eq. (5) for one trajectory, with two explicit sums."""
    S, A = cost.shape
    pi = policy(theta, S, A)
    G = sum(
        gamma**t * (cost[s, a] + tau * np.log(pi[s, a]))
        for t, (s, a) in enumerate(zip(trajectory.states, trajectory.actions, strict=True))
    )
    return G * scores(theta, S, A, trajectory).sum(axis=0)


def causal(cost, gamma, theta, trajectory: Trajectory, tau=0.0) -> np.ndarray:
    """GPOMDP for one trajectory: each score meets only the costs from its own step on."""
    S, A = cost.shape
    pi = policy(theta, S, A)
    g = scores(theta, S, A, trajectory)
    steps = list(enumerate(zip(trajectory.states, trajectory.actions, strict=True)))
    return sum(gamma**t * (cost[s, a] + tau * np.log(pi[s, a])) * g[: t + 1].sum(axis=0) for t, (s, a) in steps)
