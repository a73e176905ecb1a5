"""A sign that is shown once and asked for later: no policy without memory can do better than to guess."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from fastfedpg.core import RngKey, Task
from fastfedpg.envs import jax_env
from fastfedpg.envs.environments import Environments
from fastfedpg.envs.jax_env import Env, Step
from fastfedpg.errors import InputError
from fastfedpg.spaces import Discrete, box


def environment(delay: int) -> Env:
    """For a task that is what an agent pays for a sign of -1 and of +1 (2,)."""

    def seen(state: Any) -> Array:
        sign, k = state
        return jnp.stack([jnp.where(k == 0, sign, 0), jnp.where(k == delay, 1, 0)]).astype(float)

    def reset(task: Task, key: RngKey) -> tuple[Any, Array]:
        state = 2 * jax.random.bernoulli(key).astype(jnp.int32) - 1, jnp.int32(0)
        return state, seen(state)

    def step(task: Task, state: Any, action: Array, key: RngKey) -> Step:
        sign, k = state
        named = 2 * action[0].astype(jnp.int32) - 1 == sign
        paid = jnp.where((k == delay) & named, task[(sign + 1) // 2], 0)
        new = sign, k + 1
        return Step(new, seen(new), paid, k >= delay)

    return Env(reset, step, box(2, -1, 1), Discrete(2))


def recall(agents: int = 4, gamma: float = 0.95, delay: int = 3, spread: float = 0.5) -> Environments:
    """A sign, -1 or +1 by a fair coin, is shown before the first step, and after `delay` more must be named.

    The observation is (sign, 0) at first, then (0, 0), and (0, 1) when the sign is asked for: action 0 says -1 and
    action 1 says +1. Nothing else is paid, and the episode terminates. Agent i pays 1 - s_i for a sign of -1 and
    1 + s_i for +1, with s_i evenly from -spread to spread.

    Whoever remembers has a return of 1 from every agent. Without memory the answer is independent of the sign: if it
    is +1 with probability q, agent i pays (q (1 + s_i) + (1 - q)(1 - s_i)) / 2 on average, at most (1 + |s_i|) / 2, and
    all agents together exactly 1/2, whatever q is.
    """
    if delay < 1:
        raise InputError(f"recall: delay = {delay}; with less than 1 step between there is nothing to remember")
    if not 0 <= spread <= 1:
        raise InputError(f"recall: spread = {spread:g}; it must lie in [0, 1]")
    env = environment(delay)
    s = spread * np.linspace(-1, 1, agents) if agents > 1 else np.zeros(1)
    return Environments(
        name="recall",
        observations=env.observations,
        actions=env.actions,
        tasks=np.stack([1 - s, 1 + s], axis=1),
        play=partial(jax_env.play, env),
        horizon=delay + 1,
        gamma=gamma,
        reward_range=(0.0, 1.0 + spread),
        agents=tuple(f"+1 pays {x:.2g}" for x in 1 + s),
        source=f"recall(agents={agents}, gamma={gamma}, delay={delay}, spread={spread})",
    )
