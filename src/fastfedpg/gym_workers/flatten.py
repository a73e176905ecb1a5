"""Between Gymnasium's spaces and flat vectors of numbers."""

from collections.abc import Callable
from typing import Any

import numpy as np

from fastfedpg.errors import printable
from fastfedpg.gym_workers.faults import Wrong
from fastfedpg.gym_workers.shared_memory import PART


def converted(space: Any) -> Any:
    """Gymnasium's space as one of ours, or its name where there is none."""
    from gymnasium import spaces as theirs

    from fastfedpg import spaces as ours

    if isinstance(space, theirs.Discrete):
        return ours.Discrete(int(space.n))
    if isinstance(space, theirs.MultiDiscrete):
        return ours.MultiDiscrete(tuple(int(n) for n in space.nvec.reshape(-1)))
    if isinstance(space, theirs.Box):
        bounds = lambda x: tuple(map(float, x.reshape(-1)))
        return ours.Box(bounds(space.low), bounds(space.high))
    return f"{space}"


def described(env: Any) -> dict[str, Any]:
    """What the parent wants to know of an environment."""
    several = hasattr(env, "single_observation_space")
    kind = "single_" * several
    return {
        "observations": converted(getattr(env, f"{kind}observation_space")),
        "actions": converted(getattr(env, f"{kind}action_space")),
        "steps": getattr(getattr(env, "spec", None), "max_episode_steps", None),
        "part": int(env.num_envs) if several else PART,
        "native": _sendable(getattr(env, f"{kind}observation_space"), getattr(env, f"{kind}action_space")),
        "wants": printable(wants) if isinstance(wants := getattr(env, "wants", ""), str) else "",
        "fps": (getattr(env, "metadata", None) or {}).get("render_fps"),
    }


def _sendable(*spaces: Any) -> Any:
    """Gymnasium's own spaces; one of the user's may not be known where it is sent to."""
    return spaces if all(type(space).__module__.startswith("gymnasium.") for space in spaces) else None


def reader(space: Any) -> Callable[[Any], Any]:
    """From an observation to its vector, or to what can be assigned to one; one outside the space's shape is wrong."""
    start: Any = getattr(space, "start", None)
    if hasattr(space, "n"):
        n = int(space.n)

        def number(x: Any) -> Any:
            if np.shape(x) not in ((), (1,)) or not 0 <= (x := x - start) < n:
                raise Wrong(f"the observation {x} is not in {space}")
            return x

        return number
    shape = space.shape

    def flat(x: Any) -> Any:
        if np.shape(x) != shape:
            raise Wrong(f"an observation has shape {np.shape(x)}; that of its space is {shape}")
        return x if start is None else x - start

    if len(shape) == 1:
        return flat
    return lambda x: np.reshape(flat(x), -1)


def writer(space: Any) -> Callable[[np.ndarray], Any]:
    """From an action's vector to the action the environment takes."""
    start: Any = getattr(space, "start", None)
    if hasattr(space, "n"):
        offset = int(start)
        return lambda x: int(x[0]) + offset
    shape, dtype = space.shape, space.dtype
    if start is None and np.issubdtype(dtype, np.integer):
        return lambda x: np.rint(x).reshape(shape).astype(dtype)
    if start is None:
        return lambda x: x.reshape(shape).astype(dtype)
    return lambda x: (x.reshape(shape) + start).astype(dtype)
