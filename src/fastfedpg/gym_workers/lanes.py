"""Environments that take their steps side by side: single ones, or those of one vector environment."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from fastfedpg.gym_workers.faults import TRUTHS, Refused, Wrong, checked, each, returned, short
from fastfedpg.gym_workers.flatten import each_action, reader, row, rows, writers
from fastfedpg.gym_workers.shared_memory import part

NUMBERS = frozenset({float, int, np.float32, np.float64})
REAL = frozenset(map(np.dtype, ("float32", "float64", "int32", "int64")))
TRUTH = np.dtype(bool)
"""What rewards and ends are as a rule: only how large a reward is has to be looked at, which is done for many steps."""

MODES = ("NextStep", "SameStep", "Disabled")
"""When a vector environment begins an episode in another's place; one that does not say does so in the next step."""

Begun = Sequence[tuple[int, int]]
"""Which environments begin another episode, and with which seed."""
Show = Callable[[Any, Any], None]
"""What puts observations, of which lanes and what they are, in their places: NumPy is silent where one is too large."""
ALL = slice(None)
Said = tuple[Any, Any, Any]
"""Rewards, terminated and truncated of every lane; of one that took no step, anything."""


class Lanes(NamedTuple):
    """Who does what in a step."""

    up: np.ndarray  # whether each takes it
    moving: np.ndarray | None  # whose observation is another after it, unless everybody's is
    begun: Begun  # who begins another episode in its place, where the environments don't do so by themselves


class Singles:
    """Environments of one agent, which take their steps together; more are made as a part asks for them."""

    by_itself = False

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make, self.envs = make, [make()]
        self.read = reader(self.envs[0].observation_space)
        self.write = each_action(self.envs[0].action_space)

    def get_ready(self, B: int, first: int) -> int:
        """Have an environment for each trajectory of the part of B that begins with one; how many a part has."""
        self.size = part(B)
        while len(self.envs) < min(self.size, B - first):
            env = self.make()
            if any(env is x for x in self.envs):
                raise Refused("its factory returns the same object each time; every call must make a new one")
            self.envs.append(env)
        return self.size

    def reset(self, seeds: list[int], show: Show, beat: Any) -> None:
        """Begin as many episodes as there are seeds."""
        for j, seed in enumerate(seeds):
            beat[1] = j
            show(j, self.read(returned(self.envs[j].reset(seed=seed), "reset")[0]))

    def step(self, actions: np.ndarray, lanes: Lanes, show: Show, limits: Any, beat: Any) -> Said:
        """One step of those that are up. Others begin anew."""
        for j, seed in lanes.begun:
            beat[1] = j
            show(j, self.read(returned(self.envs[j].reset(seed=seed), "reset")[0]))
        envs, read, playing = self.envs, self.read, np.flatnonzero(lanes.up)
        taken = self.write(actions[: len(lanes.up)])
        paid, ended, cut = [], [], []
        for j in playing.tolist():
            beat[1] = j
            then = envs[j].step(taken[j])
            if type(then) is not tuple or len(then) != 5:
                returned(then, "step")
            seen, reward, terminated, truncated, _ = then
            show(j, read(seen))
            paid.append(reward)
            ended.append(terminated)
            cut.append(truncated)
        said = paid, ended, cut
        if NUMBERS.issuperset(map(type, paid)) and TRUTHS.issuperset(map(type, ended + cut)):
            with suppress(OverflowError):  # an int beyond the largest float
                return _spread(playing, said, len(lanes.up))
        return _spread(playing, checked(playing, said, limits, beat), len(lanes.up))


class Vector:
    """The sub-environments of one vector environment; what is over is looked at only where it begins anew."""

    def __init__(self, env: Any) -> None:
        self.env, self.size = env, int(env.num_envs)
        self.space = env.single_observation_space
        self.read, self.read_one = rows(self.space, self.size), reader(self.space)
        self.write = writers(env.single_action_space, env.action_space.dtype)
        self.every, self.shape = np.arange(self.size), (self.size,)
        self.one_seed: bool | None = None  # not known before it has been reset
        # Environments of several modes may share one metadata: the environment itself knows better.
        mode = getattr(env.unwrapped, "autoreset_mode", None) or env.metadata.get("autoreset_mode")
        self.mode = getattr(mode, "value", mode) or "NextStep"
        if self.mode not in MODES:
            raise Refused(f"its autoreset_mode is {short(self.mode)}; it must be one of {', '.join(MODES)}")
        self.by_itself = self.mode not in ("SameStep", "Disabled")

    def get_ready(self, B: int, first: int) -> int:
        """How many trajectories a part has: as many as there are environments."""
        return self.size

    def reset(self, seeds: list[int], show: Show, beat: Any) -> None:
        """Begin all episodes; those without a seed of their own are given the last one.

        A vector environment with one seed for all is given the first, and with it its generator's state.
        """
        beat[1] = 0
        self.over = np.zeros(self.size, bool)
        self.seeds = seeds + seeds[-1:] * (self.size - len(seeds))
        show(ALL, self.read(self._begun(), self.every))

    def _begun(self) -> Any:
        if not self.one_seed:
            try:
                began = self.env.reset(seed=self.seeds)
            except (gymnasium.error.Error, TypeError):
                if self.one_seed is False:
                    raise
            else:
                self.one_seed = False
                return returned(began, "reset")[0]
        self.one_seed = True
        if hasattr(self.env.unwrapped, "prev_done"):  # Gymnasium's own in JAX remember who was over beyond a reset
            self.env.unwrapped.prev_done = np.zeros(self.size, bool)
        return returned(self.env.reset(seed=self.seeds[0]), "reset")[0]

    def step(self, actions: np.ndarray, lanes: Lanes, show: Show, limits: Any, beat: Any) -> Said:
        """One step of all.

        With NextStep others begin anew in it by themselves. With Disabled all take a step, so they do after it.
        """
        beat[1] = 0
        if self.by_itself:
            seen, said, about = self._taken(actions)
        else:
            seen, said, about = self._reset_by_hand(actions, lanes.begun)
        which = lanes.moving
        if which is None:
            show(ALL, self.read(seen, self.every))
        else:
            show(which, self.read(seen, which))
        if self.mode == "SameStep":
            for j in np.flatnonzero(lanes.up & self.over[: len(lanes.up)]).tolist():
                beat[1] = j
                show(j, self.read_one(self._last(about, j)))
        return self._said(said, lanes, limits, beat)

    def _taken(self, actions: np.ndarray) -> tuple[Any, list[Any], Any]:
        """A step of all: what is seen, rewards and ends as arrays with one for each, and the rest."""
        then = self.env.step(self.write(actions))
        if type(then) is not tuple or len(then) != 5:
            returned(then, "step")
        seen, paid, ended, cut, about = then
        arrays = type(paid) is type(ended) is type(cut) is np.ndarray
        if arrays and paid.shape == ended.shape == cut.shape == self.shape:
            return seen, [paid, ended, cut], about
        return seen, each(paid, ended, cut, self.size), about

    def _last(self, about: Any, j: int) -> Any:
        """The last observation of an episode within whose last step another has begun."""
        try:
            return row(self.space, about["final_obs"], j)
        except (KeyError, IndexError, TypeError):
            raise Wrong(f"info has no final_obs of environment {j}; with SameStep it must") from None

    def _reset_by_hand(self, actions: np.ndarray, begun: Begun) -> tuple[Any, list[Any], Any]:
        """The step of a vector environment that has to be told who begins anew, or does so too soon."""
        if begun and self.mode == "SameStep":
            raise Refused(
                "its autoreset_mode is SameStep, which begins an episode within another's last step; segments need "
                "NextStep or Disabled: take segments=false, another mode, or for an id vectors=false"
            )
        if self.mode == "Disabled" and self.over.any():  # one that is over takes no step before it is reset
            self._again(self.over)
        seen, said, about = self._taken(actions)
        self.over = np.logical_or(*(x if x.dtype is TRUTH else np.array([*map(bool, x)]) for x in said[1:]))
        if begun and self.mode == "Disabled":
            anew = np.zeros(self.size, bool)
            for j, seed in begun:
                anew[j], self.seeds[j] = True, seed
            seen, self.over = self._again(anew), self.over & ~anew
        return seen, said, about

    def _again(self, which: np.ndarray) -> Any:
        """Begin some episodes anew; a generator that all have in common goes on."""
        seeds = None if self.one_seed else self.seeds
        return returned(self.env.reset(seed=seeds, options={"reset_mask": which}), "reset")[0]

    def _said(self, said: list[Any], lanes: Lanes, limits: Any, beat: Any) -> Said:
        """Rewards and ends of the lanes that are in use."""
        used, (paid, ended, cut) = len(lanes.up), said
        if paid.dtype in REAL and ended.dtype is cut.dtype is TRUTH:
            return (paid, ended, cut) if used == self.size else (paid[:used], ended[:used], cut[:used])
        playing = np.flatnonzero(lanes.up)
        return _spread(playing, checked(playing, [x[playing] for x in said], limits, beat), used)


def _spread(playing: np.ndarray, said: Sequence[Any], used: int) -> Said:
    """What is said of those that took a step, in the places of all."""
    if len(playing) == used:
        return np.array(said[0], float), np.array(said[1], bool), np.array(said[2], bool)
    every = np.zeros(used), np.zeros(used, bool), np.zeros(used, bool)
    for x, own in zip(every, said, strict=True):
        x[playing] = own
    return every
