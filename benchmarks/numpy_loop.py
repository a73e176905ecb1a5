"""The loop that one writes first: Fast-FedPG in NumPy, agent by agent, trajectory by trajectory, step by step."""

import time

import numpy as np
from work import Timed, Work

from fastfedpg.problems import TabularProblem


class Loop:
    """Fast-FedPG on one problem."""

    def __init__(self, work: Work, problem: TabularProblem) -> None:
        self.work, self.problem, self.cost = work, problem, problem.cost

    def estimate(self, rng: np.random.Generator, theta: np.ndarray, cost: np.ndarray) -> np.ndarray:
        """Eq. (5), averaged over B trajectories; theta and the gradient are (S, A)."""
        S, A, B, K = self.work[:4]
        P, rho, gamma = self.problem.P, self.problem.rho, self.problem.gamma
        pi = np.exp(theta - theta.max(axis=1, keepdims=True))
        pi /= pi.sum(axis=1, keepdims=True)
        g = np.zeros((S, A))
        for _ in range(B):
            score, total = np.zeros((S, A)), 0.0
            for t in range(K):
                s = rng.choice(S, p=rho if t == 0 else P[s, a])
                a = rng.choice(A, p=pi[s])
                score[s] -= pi[s]
                score[s, a] += 1
                total += gamma**t * cost[s, a]
            g += total * score / B
        return g

    def __call__(self, rounds: int, seed: int = 0) -> Timed:
        """Algorithm 1."""
        began, rng = time.perf_counter(), np.random.default_rng(seed)
        theta = np.zeros(self.cost.shape[1:])
        for _ in range(rounds):
            g_i = [self.estimate(rng, theta, cost) for cost in self.cost]
            g_bar, changes = np.mean(g_i, axis=0), []
            for cost, g_own in zip(self.cost, g_i, strict=True):
                own = theta
                for _ in range(self.work.H):
                    own = own - self.work.eta * (self.estimate(rng, own, cost) - g_own + g_bar)
                changes.append(own - theta)
            theta = theta + np.mean(changes, axis=0)
        return Timed(time.perf_counter() - began, theta.reshape(-1))
