"""The random MDPs of Jin et al. (2022), Table 1, with the numbers that their public code draws, and its schedule.

One reward for all, kernels P_0 and (1-kappa) P_0 + kappa U_j with U_j on the complement of P_0's support. NumPy's old
generator is seeded once, for the instances' own seeds, and again by each instance after its reward and start were
drawn: an instance's reward follows from the seed of the instance before.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fastfedpg.core import Oracle, key_for
from fastfedpg.mdp import finite
from fastfedpg.oracles.exact import exact, prepare

S = A = N = 5
OTHERS = 24  # kernels that are drawn beside the centre; training agents are the centre and the first four
GAMMA = 0.9
RHO = np.full(S, 1 / S)
KAPPAS = np.array([0, 0.2, 0.4, 0.6, 0.8, 1])
STILL = 1e-3
KEY = key_for(0, 0, "local", 0)


class Instance(NamedTuple):
    reward: np.ndarray  # (S, A)
    start: np.ndarray  # (S, A) first logits, or first Q
    centre: np.ndarray  # (S, A, S)
    others: np.ndarray  # (OTHERS, S, A, S)

    def kernels(self, kappa: float) -> np.ndarray:
        """Those of the N agents that learn."""
        mixed = (1 - kappa) * self.centre + kappa * self.others[: N - 1]
        return np.concatenate([self.centre[None], mixed])


def instances(seed: int, count: int = 4) -> list[Instance]:
    rng = np.random.RandomState(seed)
    seeds = rng.randint(0, 1_000_000, size=count)
    found = []
    for own in seeds:
        reward, start = rng.uniform(size=(S, A)), rng.uniform(size=(S, A))
        rng = np.random.RandomState(own)
        support = rng.binomial(1, 0.5, size=(S * A, S))
        for row in support:
            if row.sum() in (0, S):
                row[rng.randint(S)] = row.sum() == 0
        rows = lambda on, rng=rng: (u := rng.uniform(size=(S * A, S)) * on) / u.sum(axis=1, keepdims=True)
        centre = rows(support).reshape(S, A, S)
        others = np.stack([rows(1 - support) for _ in range(OTHERS)]).reshape(OTHERS, S, A, S)
        found.append(Instance(reward, start, centre, others))
    return found


def oracle(task) -> Oracle:
    P, cost = task
    return exact(prepare(P, RHO), cost, GAMMA)


@partial(jax.jit, static_argnames=("make", "averaged"))
def _round(make, averaged, etas, states, tasks):
    """One round of each run with its own step size: states (runs, d), or (runs, N, d) where nothing is averaged."""

    def one(eta, state, task):
        (e,) = make(eta).exchanges
        agent = lambda down, task: e.agent((), (), down, oracle(task), KEY)[2]
        serve = lambda state, up: e.server(state, up, 1.0, KEY)[0]
        if averaged:
            return serve(state, e.combine.merge(jax.vmap(agent, in_axes=(None, 0))(state, task)))
        return jax.vmap(lambda own, task: serve(own, agent(own, task)))(state, task)

    return jax.vmap(one)(etas, states, tasks)


@jax.jit
def _worth(thetas, tasks):
    """Every agent's return of each run's policy: (runs, N)."""

    def agent(theta, task):
        P, cost = task
        log_pi = finite.log_softmax_policy(theta, S, A)
        return 1 / (1 - GAMMA) - finite.objective(P, cost, RHO, GAMMA, log_pi)

    return jax.vmap(lambda theta, task: jax.vmap(agent, in_axes=(None, 0))(theta, task))(thetas, tasks)


def table(make, seed, eta, decay, rounds, kappas=KAPPAS, averaged=True, first=lambda start: start) -> np.ndarray:
    """Mean over four instances of the centre's return less .5/(1-gamma), for each kappa.

    Returns are taken before each round, so the last round's work is not seen. eta shrinks by `decay` before each round
    from the fourth on, if the mean return rose by less than STILL of itself between the two rounds before. `first`
    makes theta0 of what was drawn for the start.
    """
    every = [(kappa, one) for one in instances(seed) for kappa in kappas]
    tasks = np.stack([one.kernels(kappa) for kappa, one in every]), np.stack([[1 - one.reward] * N for _, one in every])
    tasks = jax.tree.map(jnp.asarray, tasks)
    starts = [make(eta).init(jnp.asarray(first(one.start)).reshape(-1), N)[0] for _, one in every]
    states, etas, seen = jnp.stack(starts), np.full(len(every), eta), []
    policy = make(eta).policy
    if not averaged:
        states = jnp.repeat(states[:, None], N, axis=1)
    for t in range(rounds):
        if t > 2:
            slow = (seen[-1] - seen[-2]).mean(axis=1) < STILL * seen[-2].mean(axis=1)
            etas = np.where(slow, etas * decay, etas)
        seen.append(np.asarray(_worth(jax.vmap(policy)(states if averaged else states.mean(axis=1)), tasks)))
        states = _round(make, averaged, etas, states, tasks)
    return (seen[-1][:, 0] - 0.5 / (1 - GAMMA)).reshape(-1, len(kappas)).mean(axis=0)
