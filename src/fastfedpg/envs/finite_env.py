"""A finite MDP as an environment that is played, for policies that are not tables."""

from typing import Any

import jax
import jax.numpy as jnp

from fastfedpg.envs.jax_env import Env, Step
from fastfedpg.mdp.transitions import Sparse
from fastfedpg.spaces import Discrete


def finite(P: Any, rho: Any) -> Env:
    """States and actions are numbers; P is (S, A, S) or a Sparse, rho (S,), and a task an agent's reward (S, A)."""
    sparse = isinstance(P, Sparse)
    p, rho = jnp.cumsum(jnp.asarray(P.p if sparse else P), axis=-1), jnp.cumsum(jnp.asarray(rho))
    S, A, W = *p.shape[:2], p.shape[2]
    to = jnp.asarray(P.next) if sparse else None

    def drawn(cumulative: Any, key: Any) -> Any:
        # Scaled by the last entry, which is 1 to rounding: no draw falls behind it.
        return jnp.searchsorted(
            cumulative, jax.random.uniform(key, dtype=cumulative.dtype) * cumulative[-1], side="right"
        )

    def reset(task: Any, key: Any) -> tuple[Any, Any]:
        s = drawn(rho, key).astype(jnp.int32)
        return s, s[None].astype(p.dtype)

    def step(task: Any, s: Any, action: Any, key: Any) -> Step:
        a = action[0].astype(jnp.int32)
        w = jnp.minimum(drawn(p[s, a], key), W - 1)
        new = (w if to is None else to[s, a, w]).astype(jnp.int32)
        return Step(new, new[None].astype(p.dtype), task[s, a], jnp.bool_(False))

    return Env(reset, step, Discrete(S), Discrete(A))
