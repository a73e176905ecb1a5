"""Rounds with exact gradients, H = 10: the library beside NumPy and LAPACK, agent by agent and all agents at once."""

import time

import numpy as np
from scipy.linalg import lu_factor, lu_solve
from work import rounds_for, timed, unevaluated

from fastfedpg import fast_fedpg, problems
from fastfedpg.problems import TabularProblem, with_oracle

ETA, H = 0.1, 10


def policy(theta: np.ndarray) -> np.ndarray:
    """Eq. (2)."""
    pi = np.exp(theta - theta.max(axis=-1, keepdims=True))
    return pi / pi.sum(axis=-1, keepdims=True)


def by_solving(p: TabularProblem, thetas: np.ndarray) -> np.ndarray:
    """Eq. (9), agent by agent, with numpy.linalg.solve."""
    return _by_agent(p, thetas, lambda M, c: (np.linalg.solve(M, c), np.linalg.solve(M.T, p.rho)))


def by_factors(p: TabularProblem, thetas: np.ndarray) -> np.ndarray:
    """Eq. (9), agent by agent, with one LU factorisation for both systems."""

    def solve(M: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        factors = lu_factor(M, overwrite_a=True, check_finite=False)
        return lu_solve(factors, c, check_finite=False), lu_solve(factors, p.rho, trans=1, check_finite=False)

    return _by_agent(p, thetas, solve)


def _by_agent(p: TabularProblem, thetas: np.ndarray, solve: object) -> np.ndarray:
    found, eye = np.empty_like(thetas), np.eye(p.S)
    for i, (theta, cost) in enumerate(zip(thetas, p.cost, strict=True)):
        pi = policy(theta)
        J, visits = solve(eye - p.gamma * (pi[:, None] @ p.P)[:, 0], (pi * cost).sum(axis=1))
        found[i] = visits[:, None] * pi * (cost + p.gamma * p.P @ J - J[:, None])
    return found


def at_once(p: TabularProblem, thetas: np.ndarray) -> np.ndarray:
    """Eq. (9) for all agents, with numpy.linalg.solve on the stack of their matrices."""
    pi = policy(thetas)
    chain = (pi.swapaxes(0, 1) @ p.P).swapaxes(0, 1)  # (N, S, S)
    M = np.eye(p.S) - p.gamma * chain
    J = np.linalg.solve(M, (pi * p.cost).sum(axis=2)[..., None])[..., 0]
    visits = np.linalg.solve(M.swapaxes(1, 2), p.rho[:, None])[..., 0]
    following = (J @ p.P.reshape(-1, p.S).T).reshape(pi.shape)
    return visits[..., None] * pi * (p.cost + p.gamma * following - J[..., None])


WAYS = {"solve": by_solving, "factors": by_factors, "at_once": at_once}


def rounds_of(gradients: object, p: TabularProblem, rounds: int) -> tuple[float, np.ndarray]:
    """Fast-FedPG; seconds, and theta."""
    began, theta = time.perf_counter(), np.zeros(p.cost.shape[1:])
    for _ in range(rounds):
        own = np.broadcast_to(theta, p.cost.shape)
        g_i = gradients(p, own)
        g_bar = g_i.mean(axis=0)
        for _ in range(H):
            own = own - ETA * (gradients(p, own) - g_i + g_bar)
        theta = theta + (own - theta).mean(axis=0)
    return time.perf_counter() - began, theta.reshape(-1)


def measure(S: int, N: int, repeats: int, seconds: float) -> dict:
    """Seconds for a round of each way, taking turns; all ways must arrive at the same theta."""
    p = problems.random(agents=N, S=S, A=4)
    problem, algorithm = unevaluated(with_oracle(p, "exact")), fast_fedpg(ETA, H)
    first = timed(problem, algorithm, 1)
    ways = {name: lambda n, g=g: rounds_of(g, p, n) for name, g in WAYS.items()}
    ways = {"library": lambda n: timed(problem, algorithm, n), **ways}
    thetas = {name: way(2)[1] for name, way in ways.items()}
    for name, theta in thetas.items():
        np.testing.assert_allclose(theta, thetas["at_once"], rtol=1e-8, atol=1e-10, err_msg=name)
    rounds = {name: rounds_for(way, seconds) for name, way in ways.items()}
    took = {name: [] for name in ways}
    for _ in range(repeats):
        for name, way in ways.items():
            took[name].append(way(rounds[name])[0] / rounds[name])
    return {"S": S, "N": N, "first_call": first.seconds, "rounds": rounds, "seconds": took}
