"""Episodes of one part of a batch."""

from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import Any

import numpy as np

from fastfedpg.gym_workers.faults import missing, outside
from fastfedpg.gym_workers.lanes import Lanes
from fastfedpg.gym_workers.shared_memory import POLICY, RESETTING
from fastfedpg.policies.in_place import prepared


def play(
    envs: Any,
    policy: Any,
    theta: Any,
    noise: Any,
    seeds: list[int],
    out: Any,
    limits: Any,
    beat: Any,
    restart: bool = False,
) -> None:
    """The episodes of one part, into the arrays `out`; the batch is always of the full size, whatever is in use.

    With `restart` a lane goes on after an episode's end: in the next step nothing is done but to begin another.

    Where the policy has diverged there is nothing to play: the part is filled with NaN, and no environment is blamed.

    How large rewards are is looked at for all steps at once, and before anything else is told that ends the part.
    """
    if not np.isfinite(theta).all():
        return diverged(out)
    rewards, alive = out[2].T, out[3].T
    paid = rewards if rewards.dtype == np.float64 else np.zeros(rewards.shape)
    paid[:], alive[:], out[4][:] = 0, True, False
    look = lambda steps: outside(paid[:steps], alive[:steps], limits, beat, rewards.dtype)
    beat[0] = RESETTING
    try:
        fine = _steps(look, restart, envs, policy, theta, noise, seeds, (*out[:2], paid, *out[3:]), limits, beat)
    except Exception:
        look(max(beat[0], 0))
        raise
    look(len(paid) if fine else beat[0])
    if not fine:
        return diverged(out)
    if not alive.all():
        paid[~alive] = 0
    if paid is not rewards:
        rewards[:] = paid
    return None


def _steps(look: Callable[[int], None], restart: bool, *given: Any) -> bool:
    """All steps of `play`, with what it is given; whether the policy's choices are numbers."""
    envs, policy, theta, noise, seeds, out, limits, beat = given
    observations, choices, paid, alive, terminated = out
    (used, K), size = noise.shape[:2], envs.size
    random = np.zeros((K, size, noise.shape[2]), noise.dtype)
    random[:, :used] = noise.swapaxes(0, 1)
    now = np.zeros((size, observations.shape[2]), noise.dtype)
    show = now.__setitem__ if now.dtype == np.float64 else quietly(now.__setitem__)
    kept = np.zeros((size, policy[2]), noise.dtype)
    dot, zeros = quietly(now.reshape(-1).dot), np.zeros(now.size, noise.dtype)
    envs.reset(seeds, show, beat)
    now[used:] = now[0]
    mine, decide = now[:used], deciding(policy, theta, size, used)
    everybody = None if used == size else np.arange(used)
    up, whole, episode = np.ones(used, bool), True, [0] * used
    lanes, by_hand = Lanes(up, everybody, ()), restart and not envs.by_itself
    for k in range(K):
        if dot(zeros) != 0:  # 0 times a number is 0, but for infinities and NaN
            look(k)
            missing(now, beat)
        beat[1] = POLICY
        beat[0] = k
        choice, acts, kept = decide(now, kept, random[k])
        if choice is None:
            return False
        observations[:, k] = mine
        choices[:, k] = choice[:used]
        if not whole:
            alive[:, k] = up
            if policy[2]:
                kept[:used][~up] = 0
        paid[k], ended, cut = envs.step(acts, lanes, show, limits, beat)
        over = ended | cut
        if not whole:
            over &= up
        ends = np.count_nonzero(over)
        if ends:
            np.logical_and(ended, over, out=terminated[:, k])
        if ends or not whole:
            up = ~over if restart else up & ~over
            begun = [(j, _next(seeds, episode, j)) for j in over.nonzero()[0].tolist()] if by_hand else ()
            lanes = Lanes(up, everybody if restart else np.flatnonzero(up), begun)
            whole = not ends and restart
            if not restart and not up.any():
                break
    if dot(zeros) != 0:
        look(k + 1)
        missing(now, beat)
    observations[:, k + 1 :] = mine[:, None]
    choices[:, k + 1 :] = choices[:, k, None]
    alive[:, k + 1 :] = False
    return True


def _next(seeds: list[int], episode: list[int], j: int) -> int:
    """The seed of a lane's next episode: steps of the golden ratio, so that lanes hardly meet."""
    episode[j] += 1
    return (seeds[j] + 0x9E3779B1 * episode[j]) % 2**31


def deciding(policy: Any, theta: np.ndarray, size: int, used: int) -> Callable[..., Any]:
    """From observations, what was kept and noise, a row for each lane, to choices and actions and what is kept next.

    Nothing where a choice that is used is no number. What NumPy has to say of it is not said: a policy may overflow.
    """
    choose, action, memory = policy
    choose = quietly(prepared)(choose, theta, size)
    zeros = np.zeros(0, theta.dtype)

    def fine(x: np.ndarray) -> bool:
        nonlocal zeros
        flat = (x if used == size else x[:used]).reshape(-1)
        if flat.size != zeros.size:
            zeros = np.zeros(flat.size, theta.dtype)
        return bool(flat.dot(zeros) == 0)

    def decided(observations: np.ndarray, kept: np.ndarray, noise: np.ndarray) -> tuple[Any, Any, Any]:
        choice = choose(np.concatenate([observations, kept], 1) if memory else observations, noise)
        if memory:
            choice, kept = choice[:, :-memory], choice[:, -memory:]
        acts = action(choice)
        return (choice, acts, kept) if fine(choice) and (acts is choice or fine(acts)) else (None, None, None)

    return quietly(decided)


def quietly(inside: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, of which NumPy has nothing to say."""
    quiet = copy_context()
    quiet.run(np.seterr, all="ignore")  # NumPy keeps it in a context, and to enter one takes a tenth of an errstate
    return partial(quiet.run, inside)


def diverged(out: Any) -> None:
    """Fill a part's arrays with what has no number."""
    observations, choices, rewards, alive, terminated = out
    observations[:], choices[:], rewards[:], alive[:], terminated[:] = np.nan, 0, np.nan, True, False
