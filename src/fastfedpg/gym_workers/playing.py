"""Gymnasium's environments where they are played: from compiled programs, and for pictures."""

import os
import weakref
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fastfedpg.core import RngKey, Task, Theta
from fastfedpg.envs.episodes import Episodes
from fastfedpg.errors import EnvironmentFailed, InputError
from fastfedpg.gym_workers.host_callback import Numbered, call_host
from fastfedpg.gym_workers.pool import Pool
from fastfedpg.gym_workers.worker_handle import Job, pickled
from fastfedpg.policies import Policy


def play(
    pool: Pool,
    parts: tuple[int, ...],
    limits: tuple[float, float],
    widths: tuple[int, int],
    policy: Policy,
    task: Task,
    theta: Theta,
    key: RngKey,
    B: int,
    K: int,
    restart: bool = False,
) -> Episodes:
    """B episodes; the reset's seed and the policy's noise of each come from its own number, whatever B is."""

    def trajectory(j: Any) -> tuple[Any, Any]:
        start, acting = jax.random.split(jax.random.fold_in(key, j))
        return jax.random.bits(start, dtype=jnp.uint32) >> 1, policy.noise(acting, (K,), theta.dtype)

    seeds, noise = jax.vmap(trajectory)(jnp.arange(B))
    sent = pickled(_acting(policy), "the policy")
    o, a = widths
    real = partial(jax.ShapeDtypeStruct, dtype=theta.dtype)
    flag = partial(jax.ShapeDtypeStruct, dtype=jnp.bool_)
    shapes = (real((B, K + 1, o)), real((B, K, a)), real((B, K)), flag((B, K)), flag((B, K)))
    how = (sent, limits, parts, K, widths, restart)
    if how not in pool.hosts:  # one for all programs that play alike, so that these know it by the same number
        pool.hosts[how] = Numbered(partial(_played, weakref.ref(pool), how))
    return Episodes(*call_host(pool.hosts[how], shapes, theta, jnp.asarray(task, jnp.int32), seeds, noise))


def _played(pool: "weakref.ref[Pool]", how: tuple[Any, ...], *given: np.ndarray) -> tuple[np.ndarray, ...]:
    """What a pool plays, if it is still there: it keeps this function, and ends with whoever plays in it."""
    there = pool()
    if there is None:
        raise EnvironmentFailed("the environments are gone; keep them as long as something is played in them")
    return there.play(*how, *given)


def _acting(policy: Policy) -> tuple[Any, ...]:
    """What a process needs of it."""
    return policy.choose, policy.action, policy.memory


def frames(
    pool: Pool, tasks: Any, policy: Policy, theta: np.ndarray, agent: int, seed: int, K: int, every: int = 1
) -> list[np.ndarray]:
    """Pictures of one episode, drawn by a process of its own."""
    theta = np.asarray(theta)
    if not np.isfinite(theta).all():
        raise InputError("theta has entries that are no numbers: the policy has diverged, and can't be drawn")
    noise = np.asarray(policy.noise(jax.random.key(seed), (K,), theta.dtype))
    sent = pickled(_acting(policy), "the policy")
    drawing = Pool(pool.agents, 1, pool.patience, pool.first, **_without_screen())
    try:
        return list(drawing.work([Job(agent, "frames", (theta, noise, seed, every), sent)])[0])
    finally:
        drawing.release()


def _without_screen() -> dict[str, str]:
    """Variables for a process that draws into memory: no window and no sound, and MuJoCo with EGL without a screen."""
    screen = any(x in os.environ for x in ("DISPLAY", "WAYLAND_DISPLAY", "MUJOCO_GL"))
    return {"SDL_VIDEODRIVER": "dummy", "SDL_AUDIODRIVER": "dummy", **({} if screen else {"MUJOCO_GL": "egl"})}
