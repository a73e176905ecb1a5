"""An episode as pictures."""

from typing import Any

import numpy as np

from fastfedpg.gym_workers.faults import Refused, blamed
from fastfedpg.gym_workers.flatten import reader, writer
from fastfedpg.gym_workers.make_env import build
from fastfedpg.gym_workers.rollout import deciding
from fastfedpg.gym_workers.shared_memory import BUILDING, RESETTING


def frames(
    given: Any, policy: Any, beat: Any, theta: np.ndarray, noise: np.ndarray, seed: int, every: int
) -> list[np.ndarray]:
    """Pictures of one episode: of its start, and after each `every` steps."""
    beat[1], beat[0] = 0, BUILDING
    env = drawable(given)
    try:
        return _episode(env, policy, beat, theta, noise, seed, every)
    finally:
        env.close()


def _episode(
    env: Any, policy: Any, beat: Any, theta: np.ndarray, noise: np.ndarray, seed: int, every: int
) -> list[np.ndarray]:
    read, write = reader(env.observation_space), writer(env.action_space)
    beat[0] = RESETTING
    now = np.reshape(read(env.reset(seed=seed)[0]), (1, -1)).astype(noise.dtype)
    pictures, kept = [drawn(env)], np.zeros((1, policy[2]), noise.dtype)
    decide = deciding(policy, theta, 1, 1)
    for k in range(len(noise)):
        beat[0] = k
        choice, acts, kept = decide(now, kept, noise[None, k])
        if choice is None:
            raise Refused(f"the policy's choice on step {k} is no number: it has diverged, and can't be drawn")
        seen, _, terminated, truncated, _ = env.step(write(acts[0]))
        now[0] = read(seen)
        if (k + 1) % every == 0:
            pictures.append(drawn(env))
        if terminated or truncated:
            break
    return pictures


def drawable(given: Any) -> Any:
    """An environment that gives pictures."""
    try:
        env = build(given, render=True)
    except Refused:
        raise
    except Exception as why:
        raise Refused(f"building it with render_mode='rgb_array' failed with {blamed(why)}") from why
    if hasattr(env, "single_observation_space"):
        env.close()
        raise Refused("a vector environment; give a factory of a single one to draw it")
    if env.render_mode != "rgb_array":
        env.close()
        raise Refused(
            f"its render_mode is {env.render_mode!r}; give its factory a parameter render_mode, "
            "which is 'rgb_array' for pictures"
        )
    return env


def drawn(env: Any) -> np.ndarray:
    """The picture of an environment's state."""
    import gymnasium

    try:
        picture = env.render()
    except gymnasium.error.DependencyNotInstalled as why:
        raise Refused(f"{why}") from None
    except Exception as why:  # whatever a machine without a screen or its libraries comes up with
        raise Refused(
            f"drawing it failed with {blamed(why)}; MUJOCO_GL=egl or osmesa chooses another renderer"
        ) from why
    if not isinstance(picture, np.ndarray) or picture.ndim != 3:
        raise Refused(f"its render() returned {type(picture).__name__}, not an array (height, width, 3)")
    return np.asarray(picture[..., :3], np.uint8)
