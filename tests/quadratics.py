"""Agents with quadratic costs, J_i = (x - c_i)' A_i (x - c_i) / 2: what methods do is linear algebra there."""

import jax
import jax.numpy as jnp
import numpy as np

from fastfedpg.core import Evaluation, Oracle, Problem


class Quadratics:
    """N random ones in d dimensions, with eigenvalues in [.5, 1.5]."""

    def __init__(self, N=4, d=3, seed=0):
        rng = np.random.default_rng(seed)
        Q = np.linalg.qr(rng.normal(size=(N, d, d)))[0]
        self.A = Q @ (rng.uniform(0.5, 1.5, (N, d, 1)) * Q.transpose(0, 2, 1))
        self.c = rng.normal(size=(N, d))
        self.N, self.d = N, d

    def g(self, x):
        """(N, d): every agent's gradient."""
        return np.einsum("nij,nj->ni", self.A, x - self.c)

    @property
    def best(self):
        """Where grad J = 0."""
        return np.linalg.solve(self.A.mean(axis=0), np.einsum("nij,nj->i", self.A, self.c) / self.N)

    def problem(self, noise=0.0) -> Problem:
        """With additive noise, a batch is what is added: the same at every theta."""

        def oracle(task) -> Oracle:
            A, c = task
            draw = lambda theta, own, key, B: (noise * jax.random.normal(key, theta.shape, theta.dtype), own)
            gradient = lambda theta, own, batch: A.astype(theta.dtype) @ (theta - c.astype(theta.dtype)) + batch
            return Oracle(lambda key: (), draw, gradient, lambda batch: 1, anywhere=True)

        def evaluate(thetas, seeds=None) -> Evaluation:
            x = np.asarray(thetas, np.float64)
            away = x[:, None] - self.c
            each = np.einsum("rni,nij,rnj->rn", away, self.A, away) / 2
            norm = (np.array([self.g(row).mean(axis=0) for row in x]) ** 2).sum(axis=1)
            return Evaluation(each.mean(axis=1), np.full(len(x), np.nan), norm, -each)

        tasks = (jnp.asarray(self.A), jnp.asarray(self.c))
        return Problem(tasks, np.arange(self.N, dtype=np.int32), oracle, evaluate, np.zeros(self.d))
