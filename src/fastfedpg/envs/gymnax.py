"""gymnax's environments, with rewards of one's own for every agent."""

from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array

from fastfedpg.core import RngKey, Task
from fastfedpg.envs import jax_env
from fastfedpg.envs.environments import Environments
from fastfedpg.envs.fingerprint import told
from fastfedpg.envs.jax_env import Env, Step
from fastfedpg.errors import InputError, missing_extra, unknown
from fastfedpg.spaces import Box, Discrete, Space

Reward = Callable[[Array, Array, Array, Array, Array], Any]
"""reward(observation, action, next observation, gymnax's own reward, terminated): a number, under jit."""


def gymnax_environments(
    name: str, rewards: Sequence[Reward] | None = None, agents: int = 2, gamma: float = 0.99
) -> Environments:
    """Agents in a gymnax environment that differ in their rewards alone.

    Args:
        name: gymnax's name for it, such as "CartPole-v1".
        rewards: one function for each agent, of flat vectors; without them all agents have gymnax's own reward.
        agents: how many there are, where there are no rewards to count.
        gamma: discount factor in [0, 1).

    Episodes end where the environment terminates, or are cut by K: gymnax's own time limit is the horizon, and is
    neither a termination nor a new start.

    Examples:
        >>> middle = lambda o, a, new, r, done: r - abs(new[0])
        >>> gymnax_environments("CartPole-v1", [middle, lambda o, a, new, r, done: r]).N
        2
    """
    try:
        gymnax = import_module("gymnax")
    except ImportError as error:  # gymnax itself, or what it needs
        raise missing_extra(name, f"gymnax ({error})", "gymnax") from None
    if name not in gymnax.registered_envs:
        raise unknown("gymnax environment", name, gymnax.registered_envs)
    made, params = gymnax.make(name)
    if not hasattr(made, "is_truncated"):
        raise InputError("this gymnax counts its time limits as terminations: pip install 'fastfedpg[gymnax]'")
    own: list[Reward] = list(rewards or ())
    if rewards is not None and not own:
        raise InputError(f"{name}: rewards is empty; give one function for each agent, or none at all")
    env = environment(made, params, own, name)
    play = partial(jax_env.play, env)

    return Environments(
        name=name,
        observations=env.observations,
        actions=env.actions,
        tasks=np.arange(len(own) or agents),
        play=play,
        horizon=int(params.max_steps_in_episode),
        gamma=gamma,
        source=f"gymnax_environments({name}, rewards=[{', '.join(map(told, own))}], agents={len(own) or agents}, "
        f"gamma={gamma}) of gymnax {getattr(gymnax, '__version__', '')}",
    )


def environment(made: Any, params: Any, rewards: Sequence[Reward], name: str) -> Env:
    """A gymnax environment, for a task that is the number of a reward."""
    actions, observations = made.action_space(params), made.observation_space(params)
    spaces = _space(observations, name, "observation"), _space(actions, name, "action")

    def taken(action: Array) -> Array:
        if isinstance(spaces[1], Discrete):
            return jnp.round(action[0]).astype(actions.dtype)
        return action.reshape(actions.shape).astype(actions.dtype)

    def first(key: RngKey) -> tuple[Any, Any]:
        return made.reset_env(key, params)

    def after(key: RngKey, state: Any, action: Array) -> Any:
        return made.step_env(key, state, action, params)

    key = jax.eval_shape(lambda: jax.random.key(0))
    start = jax.eval_shape(first, key)[1]
    moved = jax.eval_shape(after, key, start, jax.eval_shape(taken, jax.ShapeDtypeStruct((spaces[1].width,), float)))[1]
    dtypes = jax.tree.map(lambda x, y: jnp.promote_types(x.dtype, y.dtype), start, moved)  # 0 at first, 0.1 later

    def even(state: Any) -> Any:
        return jax.tree.map(jnp.asarray, state, dtypes)

    def flat(observation: Any) -> Array:
        return jnp.ravel(observation).astype(float)

    def reset(task: Task, key: RngKey) -> tuple[Any, Array]:
        observation, state = first(key)
        state = even(state)
        return (state, flat(observation)), flat(observation)

    def step(task: Task, state: Any, action: Array, key: RngKey) -> Step:
        inner, seen = state
        raw, new, reward, terminated, _ = after(key, inner, taken(action))
        observation, reward, terminated = flat(raw), jnp.asarray(reward, float), jnp.asarray(terminated, bool)
        if rewards:
            branches = [lambda *given, f=f: jnp.asarray(f(*given), float).reshape(()) for f in rewards]
            reward = lax.switch(task, branches, seen, action, observation, reward, terminated)
        return Step((even(new), observation), observation, reward.reshape(()), terminated)

    return Env(reset, step, *spaces)


def _space(space: Any, name: str, what: str) -> Space:
    kind = type(space).__name__
    if kind == "Discrete":
        return Discrete(int(space.n))
    if kind == "Box":
        low, high = (np.broadcast_to(np.asarray(x, float), space.shape).ravel() for x in (space.low, space.high))
        shape = tuple(space.shape) if len(space.shape) > 1 and what == "observation" else ()
        return Box(tuple(low.tolist()), tuple(high.tolist()), shape)
    raise InputError(f"{name}: its {what} space is {space!r}; it must be Discrete or Box")
