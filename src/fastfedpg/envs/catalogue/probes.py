"""Environments so small that what a policy is worth in them is known: each is for one thing that can go wrong.

Every probe has N = 2 agents with tasks 1 and 0.5, which multiply the rewards or say where they are best. `value` of
each is agent i's expected discounted reward as a function of task_i and of the policy: of the probability p of action
1, or of a Gaussian's mean and standard deviation; where K matters, of K. Closed forms take NumPy and JAX numbers, and
can be differentiated.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from fastfedpg.core import RngKey, Task
from fastfedpg.envs import jax_env
from fastfedpg.envs.environments import Environments
from fastfedpg.envs.jax_env import Env, Step
from fastfedpg.spaces import Discrete, Space, box


class ProbeState(NamedTuple):
    """Where a probe is."""

    k: Array  # steps taken
    shown: Array  # what was drawn at the start, if anything was
    action: Array  # the last one, one number


class Probe(NamedTuple):
    """Environments, and what a policy is worth in them."""

    environments: Environments
    value: Callable[..., Any]


Reward = Callable[[Any, ProbeState, Any], Any]
"""reward(task, state, action), with the state from which the action was taken."""


def _probe(
    name: str,
    value: Callable[..., Any],
    reward: Reward,
    steps: int,
    gamma: float,
    actions: Space = Discrete(2),  # noqa: B008
    see: Callable[[ProbeState], Any] = lambda state: state.k,
    ends: bool = True,
    drawn: bool = False,
) -> Probe:
    def observe(state: ProbeState) -> Array:
        return jnp.reshape(jnp.asarray(see(state), float), (1,))

    def reset(task: Task, key: RngKey) -> tuple[ProbeState, Array]:
        shown = jax.random.rademacher(key, (), float) if drawn else jnp.zeros((), float)
        state = ProbeState(jnp.int32(0), shown, jnp.zeros((), float))
        return state, observe(state)

    def step(task: Task, state: ProbeState, action: Array, key: RngKey) -> Step:
        new = ProbeState(state.k + 1, state.shown, action[0].astype(float))
        gained = jnp.asarray(reward(task, state, action[0]), float)
        return Step(new, observe(new), gained, (new.k >= steps) & ends)

    env = Env(reset, step, box(1), actions)
    play = partial(jax_env.play, env)

    tasks = np.array([1.0, 0.5])
    source = f"probes.{name}(gamma={gamma})"
    return Probe(Environments(name, env.observations, actions, tasks, play, steps, gamma, source=source), value)


def constant(gamma: float = 0.9) -> Probe:
    """One step, the reward is the task whatever is done: J_i = task, and the gradient is 0."""
    return _probe("constant", lambda task, p: task + 0 * p, lambda task, state, a: task, 1, gamma)


def by_action(gamma: float = 0.9) -> Probe:
    """One step of two actions, action 1 is worth the task: J_i = task p; softmax: dJ_i/d logit_1 = task p (1 - p)."""
    return _probe("by_action", lambda task, p: task * p, lambda task, state, a: task * a, 1, gamma)


def by_force(gamma: float = 0.9) -> Probe:
    """One step, one real number, best at the task: reward -(a - task)^2, and J_i = -(mean - task)^2 - std^2."""
    value = lambda task, mean, std: -((mean - task) ** 2) - std**2
    return _probe("by_force", value, lambda task, state, a: -((a - task) ** 2), 1, gamma, actions=box(1))


def late(gamma: float = 0.9) -> Probe:
    """Two steps, the task is paid at the second: J_i = gamma task."""
    return _probe("late", lambda task, p: gamma * task + 0 * p, lambda task, state, a: task * (state.k == 1), 2, gamma)


def by_observation(gamma: float = 0.9) -> Probe:
    """One step; action 1 is right where 1 is seen, action 0 where -1 is, each half of the time.

    J_i = task (p(1 | 1) + 1 - p(1 | -1)) / 2, of p(1 | -1) and p(1 | 1).
    """
    value = lambda task, minus, plus: task * (plus + 1 - minus) / 2
    right = lambda task, state, a: task * ((state.shown > 0) == (a > 0.5))
    return _probe("by_observation", value, right, 1, gamma, see=lambda state: state.shown, drawn=True)


def by_first_action(gamma: float = 0.9) -> Probe:
    """Two steps; the second pays the task where the first action was 1: J_i = gamma task p, p that of the first step.

    The number of the step is seen; what was done is not.
    """
    paid = lambda task, state, a: task * (state.k == 1) * state.action
    return _probe("by_first_action", lambda task, p: gamma * task * p, paid, 2, gamma)


def ending(gamma: float = 0.9) -> Probe:
    """The task at each of two steps, then it terminates: J_i = task (1 + gamma), and after K = 2 comes nothing."""
    return _probe("ending", lambda task, p: task * (1 + gamma) + 0 * p, lambda task, state, a: task, 2, gamma)


def endless(gamma: float = 0.9) -> Probe:
    """The task at every step, for ever: J_i = task / (1 - gamma), of which K steps show 1 - gamma^K.

    Its first two steps are those of `ending`, and its horizon is 2; what comes after is worth gamma^2 J_i.
    The observation is always 0, so that a critic can know.
    """
    return _probe(
        "endless",
        lambda task, p: task / (1 - gamma) + 0 * p,
        lambda task, state, a: task,
        2,
        gamma,
        see=lambda state: 0.0,
        ends=False,
    )


PROBES = {
    f.__name__: f for f in (constant, by_action, by_force, late, by_observation, by_first_action, ending, endless)
}
"""All of them by name."""
