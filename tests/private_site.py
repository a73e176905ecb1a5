"""A site's own environment, as `--problem private_site:make` names it."""

import numpy as np

import reference as ref
from fastfedpg import with_oracle

S, A, N = 4, 3, 2
EVERYONE = ref.small_problem(N=N, S=S, A=A, seed=30)


def make(agent):
    """The Problem of one agent; a real site would have no more than this one task."""
    return with_oracle(EVERYONE.only(agent), "gpomdp", B=4, K=6)


def raises(agent):
    """An environment that fails in the middle of a run."""
    problem = make(agent)

    def oracle(task):
        good = problem.oracle(task)

        def gradient(theta, own, batch):
            import jax

            def check(x):
                if np.abs(x).max() > 0 and agent == 1:
                    raise RuntimeError("patient 4711 has a temperature of 40.2")
                return x

            return good.gradient(jax.pure_callback(check, theta, theta), own, batch)

        return good._replace(gradient=gradient)

    return problem._replace(oracle=oracle)
