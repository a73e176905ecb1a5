"""Environments as pure functions, and how they are played: compiled, all episodes side by side."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from fastfedpg.core import RngKey, Task, Theta
from fastfedpg.envs.episodes import Episodes
from fastfedpg.policies import Policy
from fastfedpg.spaces import Space

State = Any
Observation = Float[Array, " o"]
Action = Float[Array, " a"]


class Step(NamedTuple):
    """What a step leads to."""

    state: State
    observation: Observation
    reward: Float[Array, ""]
    terminated: Bool[Array, ""]


class Env(NamedTuple):
    """One task, one transition, pure: `reset(task, key)`, then `step(task, state, action, key)`.

    What differs between agents is the task, and only the reward may depend on it. States are pytrees of arrays of any
    dtype; observations and rewards are cast to theta's own.
    """

    reset: Callable[[Task, RngKey], tuple[State, Observation]]
    step: Callable[[Task, State, Action, RngKey], Step]
    observations: Space
    actions: Space


def chosen(policy: Policy, theta: Theta, observation: Any, kept: Any, noise: Any) -> tuple[Any, Any]:
    """A policy's choice, and what it keeps for the next one."""
    if not policy.memory:
        return policy.choose(theta, observation, noise), kept
    both = policy.choose(theta, jnp.concatenate([observation, kept], -1), noise)
    return both[..., : -policy.memory], both[..., -policy.memory :]


def play(
    env: Env, policy: Policy, task: Task, theta: Theta, key: RngKey, B: int, K: int, restart: bool = False
) -> Episodes:
    """B episodes of at most K steps, each with random numbers of its own number; or B lanes in which they follow."""
    theta, task = jnp.asarray(theta), jax.tree.map(jnp.asarray, task)

    def one(key: RngKey) -> Episodes:
        start, acting, moving = jax.random.split(key, 3)
        state, first = env.reset(task, start)
        noise = policy.noise(acting, (K,), theta.dtype)

        def step(carry: Any, given: Any) -> tuple[Any, Any]:
            state, observation, alive, kept = carry
            noise, k = given
            choice, kept = chosen(policy, theta, observation, kept, noise)
            new = env.step(task, state, policy.action(choice), jax.random.fold_in(moving, k))
            keep = lambda a, b: jax.tree.map(lambda x, y: jnp.where(alive, x, y), a, b)
            other = (state, observation)
            if restart:
                state, begun = env.reset(task, jax.random.fold_in(start, k))
                other = (state, begun.astype(theta.dtype))
            state, after = keep((new.state, new.observation.astype(theta.dtype)), other)
            reward, ends = jnp.where(alive, new.reward, 0).astype(theta.dtype), alive & new.terminated
            going = ~ends if restart else alive & ~ends
            return (state, after, going, jnp.where(alive, kept, 0)), (observation, choice, reward, alive, ends)

        carry = (state, first.astype(theta.dtype), jnp.bool_(True), jnp.zeros(policy.memory, theta.dtype))
        (_, last, *_), (seen, choices, rewards, taken, ends) = lax.scan(step, carry, (noise, jnp.arange(K)))
        return Episodes(jnp.concatenate([seen, last[None]]), choices, rewards, taken, ends)

    return jax.vmap(lambda j: one(jax.random.fold_in(key, j)))(jnp.arange(B))
