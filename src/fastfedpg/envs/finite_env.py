"""A finite MDP as an environment that is played, for policies that are not tables."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fastfedpg.envs.jax_env import Env, Step
from fastfedpg.mdp.transitions import Sparse
from fastfedpg.spaces import Discrete


class Moves(NamedTuple):
    """Cumulative probabilities of the successors and the starts; with a leading axis, each agent's own."""

    p: Any  # (S, A, W)
    to: Any  # (S, A, W) which states they are, or nothing where they are all
    rho: Any  # (S,)


def moves(P: Any, rho: Any) -> Moves:
    """Of P (S, A, S) or a Sparse, and rho (S,); or with an agent axis."""
    sparse = isinstance(P, Sparse)
    return Moves(
        np.cumsum(P.p if sparse else P, axis=-1), np.asarray(P.next) if sparse else (), np.cumsum(rho, axis=-1)
    )


def finite(S: int, A: int, shared: Moves | None) -> Env:
    """States and actions are numbers; a task is an agent's reward (S, A), or its own `Moves` and that."""
    common = jax.tree.map(jnp.asarray, shared)

    def parts(task: Any) -> tuple[Moves, Any]:
        return (common, task) if common is not None else task

    def drawn(cumulative: Any, key: Any) -> Any:
        # Scaled by the last entry, which is 1 to rounding: no draw falls behind it.
        return jnp.searchsorted(
            cumulative, jax.random.uniform(key, dtype=cumulative.dtype) * cumulative[-1], side="right"
        )

    def reset(task: Any, key: Any) -> tuple[Any, Any]:
        here, _ = parts(task)
        s = drawn(here.rho, key).astype(jnp.int32)
        return s, s[None].astype(here.p.dtype)

    def step(task: Any, s: Any, action: Any, key: Any) -> Step:
        here, reward = parts(task)
        a = action[0].astype(jnp.int32)
        w = jnp.minimum(drawn(here.p[s, a], key), here.p.shape[-1] - 1)
        new = (w if isinstance(here.to, tuple) else here.to[s, a, w]).astype(jnp.int32)
        return Step(new, new[None].astype(here.p.dtype), reward[s, a], jnp.bool_(False))

    return Env(reset, step, Discrete(S), Discrete(A))
