"""Context: a row of numbers for each agent, which its policy sees beside every observation and nobody else does."""

from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from fastfedpg.core import RngKey, Task, Theta
from fastfedpg.envs.environments import Environments
from fastfedpg.envs.episodes import Episodes
from fastfedpg.errors import InputError
from fastfedpg.policies import Policy
from fastfedpg.policies.informed import beside, informed, widened

LARGEST = 1e6
"""No number of a context is larger: a policy's inputs are of the order of 1."""


def with_context(environments: Environments, context: Any) -> Environments:
    """The same environments, where agent i's policy observes (o, context_i) in the place of o.

    One common policy can then do what each agent wants: pi(a | o, context_i). An environment knows nothing of it. A
    context is part of an agent's task: it stays with the agent, in no message, and is not normalised, since for that
    sums of it would have to be sent.

    Args:
        environments: N agents.
        context: (N, c) finite numbers, a row for each agent; of the order of 1, since nothing scales them.

    Examples:
        >>> from fastfedpg.envs.catalogue.point_mass import point_mass
        >>> with_context(point_mass(agents=2), [[0.0], [1.0]]).observations.width
        5
    """
    if environments.context is not None:
        raise InputError(f"{environments.name}: its agents have a context already; give all columns at once")
    rows = checked(context, environments.N)
    space, columns = environments.observations, rows.shape[1]
    inner, frames = environments.play, environments.frames

    def play(policy: Policy, task: Task, theta: Theta, key: RngKey, B: int, K: int, **how: Any) -> Episodes:
        own, told = jnp.asarray(task[1]).astype(jnp.asarray(theta).dtype), informed(policy, space, columns)
        played = inner(told, task[0], jnp.concatenate([jnp.asarray(theta), own]), key, B, K, **how)
        return played._replace(observations=beside(jnp, space, played.observations, own))

    def drawn(tasks: Any, policy: Policy, theta: np.ndarray, agent: int, *how: Any) -> list[np.ndarray]:
        assert frames is not None
        both = np.concatenate([theta, tasks[1][agent].astype(np.asarray(theta).dtype)])
        return frames(tasks[0], informed(policy, space, columns), both, agent, *how)

    return replace(
        environments,
        observations=widened(space, columns),
        tasks=(environments.tasks, rows),
        play=play,
        frames=None if frames is None else drawn,
        one=lambda i: with_context(environments.only(i), rows[i : i + 1]),
        context=rows,
        shown=space,
    )


def checked(context: Any, N: int) -> np.ndarray:
    """A context (N, c), if it is one."""
    rows = [*context] if isinstance(context, list | tuple) or np.ndim(context) else []
    lengths = [np.size(row) if np.ndim(row) == 1 else -1 for row in rows]
    for i, n in enumerate(lengths):
        if n < 1:
            raise InputError(f"the context of agent {i} is no row of numbers; give each agent one, as in [[0.5, 1], …]")
        if n != lengths[0]:
            raise InputError(
                f"the context of agent {i} has {_numbers(n)}, and that of agent 0 {lengths[0]}; all must have as many"
            )
    if len(rows) != N:
        raise InputError(f"the context has {len(rows)} rows, and there are {N} agents; give each agent a row")
    try:
        found = np.array(rows, np.float64)
    except (TypeError, ValueError):
        raise InputError("the context holds what is no number; give each agent a row of numbers") from None
    for i, k in np.argwhere(~(np.abs(found) <= LARGEST)):
        why = f"it must be finite and at most {LARGEST:g}"
        raise InputError(f"number {k} in the context of agent {i} is {found[i, k]}; {why}")
    return found


def _numbers(n: int) -> str:
    return f"{n} number{'s' * (n != 1)}"
