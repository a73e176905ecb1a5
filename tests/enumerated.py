"""An oracle whose batch is every trajectory with its probability: means over trajectories become exact numbers."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np

from fastfedpg import TabularProblem, with_oracle
from fastfedpg.core import Oracle, Problem


def enumerated(problem: TabularProblem, K: int, tau: float = 0.0) -> Problem:
    """`truncated`, by adding up: played with x it has p(tau|x) g(tau|theta) of all trajectories of K steps.

    Its gradient at the theta that was played is E g(tau|theta), the truncated gradient. At another theta only the right
    importance weights give that: sum_tau p(tau|x) w(tau) g(tau|theta).
    """
    _, S, A = problem.reward.shape
    paths = np.array(list(itertools.product(range(S), range(A), repeat=K)))
    s, a = paths[:, 0::2], paths[:, 1::2]
    chance = problem.rho[s[:, 0]] * np.prod(problem.P[s[:, :-1], a[:, :-1], s[:, 1:]], axis=1)
    M, discount = len(paths), problem.gamma ** np.arange(K)

    def oracle(cost) -> Oracle:
        log_prob = lambda theta, batch=None: jax.nn.log_softmax(theta.reshape(S, A))[s, a]

        def sample(theta, own, key, B):
            return chance * jnp.exp(log_prob(theta).sum(axis=1)), own

        def credit(theta, own, p):
            r = discount * (jnp.asarray(cost)[s, a] + tau * log_prob(theta))
            return M * p[:, None] * jnp.cumsum(r[:, ::-1], axis=1)[:, ::-1]

        def gradient(theta, own, p):
            w = jax.lax.stop_gradient(credit(theta, own, p))
            return jax.grad(lambda theta: jnp.sum(w * log_prob(theta)) / M)(theta)

        return Oracle(lambda key: (), sample, gradient, lambda p: p.size * K, log_prob=log_prob, credit=credit)

    return with_oracle(problem, "truncated", tau, K=K)._replace(oracle=oracle)
