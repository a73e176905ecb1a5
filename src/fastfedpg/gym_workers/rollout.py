"""Episodes of one part of a batch."""

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from fastfedpg.gym_workers.faults import Refused, Wrong, checked, missing
from fastfedpg.gym_workers.flatten import reader, row, rows, writer, writers
from fastfedpg.gym_workers.shared_memory import POLICY, RESETTING, part

STEP = "(observation, reward, terminated, truncated, info)"
Begun = list[tuple[int, int]]
"""Which environments begin another episode, and with which seed."""


class Singles:
    """Environments of one agent, which take their steps together; more are made as a part asks for them."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make, self.envs = make, [make()]
        self.read = reader(self.envs[0].observation_space)
        self.write = writer(self.envs[0].action_space)

    def get_ready(self, B: int, first: int) -> int:
        """Have an environment for each trajectory of the part of B that begins with one; how many a part has."""
        self.size = part(B)
        while len(self.envs) < min(self.size, B - first):
            env = self.make()
            if any(env is x for x in self.envs):
                raise Refused("its factory returns the same object each time; every call must make a new one")
            self.envs.append(env)
        return self.size

    def reset(self, seeds: list[int], observations: np.ndarray, beat: Any) -> None:
        """Begin as many episodes as there are seeds."""
        for j, seed in enumerate(seeds):
            beat[1] = j
            began = self.envs[j].reset(seed=seed)
            if type(began) is not tuple or len(began) != 2:
                raise Wrong(f"reset returned {_short(began)}; it must return (observation, info)")
            observations[j] = self.read(began[0])

    def step(self, actions: np.ndarray, playing: np.ndarray, begun: Begun, observations: np.ndarray, beat: Any) -> Any:
        """One step of those that are playing: their rewards, terminated and truncated. Others begin anew."""
        found = []
        for j, seed in begun:
            beat[1] = j
            observations[j] = self.read(self.envs[j].reset(seed=seed)[0])
        envs, read, write = self.envs, self.read, self.write
        for j in playing.tolist():
            beat[1] = j
            then = envs[j].step(write(actions[j]))
            if type(then) is not tuple or len(then) != 5:
                raise Wrong(f"step returned {_short(then)}; it must return {STEP}")
            seen, reward, terminated, truncated, _ = then
            observations[j] = read(seen)
            found.append((reward, terminated, truncated))
        return [*zip(*found, strict=True)] or ([], [], [])


class Vector:
    """The sub-environments of one vector environment; what is over is looked at only where it begins anew."""

    def __init__(self, env: Any) -> None:
        self.env, self.size = env, int(env.num_envs)
        self.space = env.single_observation_space
        self.read, self.read_one = rows(self.space), reader(self.space)
        self.write = writers(env.single_action_space, env.action_space.dtype)
        self.every = np.arange(self.size)
        self.one_seed: bool | None = None  # not known before it has been reset
        # Environments of several modes may share one metadata: the environment itself knows better.
        mode = getattr(env.unwrapped, "autoreset_mode", None) or env.metadata.get("autoreset_mode")
        self.mode = getattr(mode, "value", mode)

    def get_ready(self, B: int, first: int) -> int:
        """How many trajectories a part has: as many as there are environments."""
        return self.size

    def reset(self, seeds: list[int], observations: np.ndarray, beat: Any) -> None:
        """Begin all episodes; those without a seed of their own are given the last one.

        A vector environment with one seed for all is given the first, and with it its generator's state.
        """
        beat[1] = 0
        self.over = np.zeros(self.size, bool)
        self.seeds = seeds + seeds[-1:] * (self.size - len(seeds))
        observations[:] = self.read(self._begun(), self.every)

    def _begun(self) -> Any:
        if not self.one_seed:
            try:
                began = self.env.reset(seed=self.seeds)[0]
            except (gymnasium.error.Error, TypeError):
                if self.one_seed is False:
                    raise
            else:
                self.one_seed = False
                return began
        self.one_seed = True
        if hasattr(self.env.unwrapped, "prev_done"):  # Gymnasium's own in JAX remember who was over beyond a reset
            self.env.unwrapped.prev_done = np.zeros(self.size, bool)
        return self.env.reset(seed=self.seeds[0])[0]

    def step(self, actions: np.ndarray, playing: np.ndarray, begun: Begun, observations: np.ndarray, beat: Any) -> Any:
        """One step of all: rewards, terminated and truncated of those that are playing.

        With NextStep others begin anew in it by themselves. With Disabled all take a step, so they do after it.
        """
        beat[1] = 0
        if begun and self.mode == "SameStep":
            raise Refused(
                "its autoreset_mode is SameStep, which begins an episode within another's last step; segments need "
                "NextStep or Disabled: take segments=false, another mode, or for an id vectors=false"
            )
        if self.mode == "Disabled" and self.over.any():  # one that is over takes no step before it is reset
            self._again(self.over)
        seen, rewards, terminated, truncated, about = self.env.step(self.write(actions))
        self.over = np.logical_or(terminated, truncated)
        if begun and self.mode == "Disabled":
            anew = np.zeros(self.size, bool)
            for j, seed in begun:
                anew[j], self.seeds[j] = True, seed
            seen, self.over = self._again(anew), self.over & ~anew
        every = len(playing) + len(begun) == self.size
        which = self.every if every else np.array([*playing, *(j for j, _ in begun)], int)
        observations[slice(None) if every else which] = self.read(seen, which)
        for j in playing[self.over[playing]] if self.mode == "SameStep" else ():
            observations[j] = self.read_one(row(self.space, about["final_obs"], j))
        return [np.asarray(x)[playing] for x in (rewards, terminated, truncated)]

    def _again(self, which: np.ndarray) -> Any:
        """Begin some episodes anew; a generator that all have in common goes on."""
        seeds = None if self.one_seed else self.seeds
        return self.env.reset(seed=seeds, options={"reset_mask": which})[0]


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
    """
    observations, choices, rewards, alive, terminated = out
    if not np.isfinite(theta).all():
        return diverged(out)
    used, K = noise.shape[:2]
    random = np.zeros((K, envs.size, noise.shape[2]), noise.dtype)
    random[:, :used] = noise.swapaxes(0, 1)
    now = np.zeros((envs.size, observations.shape[2]), noise.dtype)
    kept = np.zeros((envs.size, policy[2]), noise.dtype)
    flat, zeros = now.reshape(-1), np.zeros(now.size, noise.dtype)
    alive[:], rewards[:], terminated[:] = False, 0, False
    beat[0] = RESETTING
    envs.reset(seeds, now, beat)
    now[used:] = now[0]
    up, playing, begun, episode = np.ones(used, bool), np.arange(used), list[tuple[int, int]](), [0] * used
    for k in range(K):
        if flat.dot(zeros) != 0:  # 0 times a number is 0, but for infinities and NaN
            missing(now, beat)
        beat[1] = POLICY
        beat[0] = k
        choice, acts, kept = chosen(policy, theta, now, kept, random[k], used)
        if choice is None:
            return diverged(out)
        observations[:, k] = now[:used]
        choices[:, k] = choice[:used]
        alive[:, k] = up
        if policy[2]:
            kept[:used][~up] = 0
        paid, ended, cut = checked(playing, envs.step(acts, playing, begun, now, beat), limits, beat)
        rewards[playing, k], terminated[playing, k] = paid, ended
        over = playing[ended | cut]
        if len(over) or begun:
            up[over], up[[j for j, _ in begun]] = False, True
            playing = np.flatnonzero(up)
            begun = [(j, _next(seeds, episode, j)) for j in over.tolist()] if restart else []
        if not len(playing) and not begun:
            break
    if flat.dot(zeros) != 0:
        missing(now, beat)
    observations[:, k + 1 :] = now[:used, None]
    choices[:, k + 1 :] = choices[:, k, None]
    return None


def _next(seeds: list[int], episode: list[int], j: int) -> int:
    """The seed of a lane's next episode: steps of the golden ratio, so that lanes hardly meet."""
    episode[j] += 1
    return (seeds[j] + 0x9E3779B1 * episode[j]) % 2**31


def chosen(policy: Any, theta: np.ndarray, observations: Any, kept: Any, noise: Any, used: int) -> tuple[Any, Any, Any]:
    """The policy's choices and actions, and what it keeps; None where a choice that is used is no number."""
    choose, action, memory = policy
    with np.errstate(all="ignore"):
        choice = choose(theta, np.concatenate([observations, kept], 1) if memory else observations, noise)
        if memory:
            choice, kept = choice[:, :-memory], choice[:, -memory:]
        acts = action(choice)
    fine = np.isfinite(choice[:used]).all() and (acts is choice or np.isfinite(acts[:used]).all())
    return (choice, acts, kept) if fine else (None, None, None)


def _short(x: Any) -> str:
    return f"a tuple of {len(x)}" if isinstance(x, tuple) else f"a {type(x).__name__}"


def diverged(out: Any) -> None:
    """Fill a part's arrays with what has no number."""
    observations, choices, rewards, alive, terminated = out
    observations[:], choices[:], rewards[:], alive[:], terminated[:] = np.nan, 0, np.nan, True, False
