"""N agents in environments of one kind: what a problem that is played, and not known, consists of."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn

import jax
import numpy as np

from fastfedpg.envs.episodes import Episodes
from fastfedpg.errors import InputError
from fastfedpg.policies import Policy
from fastfedpg.spaces import Space, said

FEW = 8
"""So many agents are named; the others are counted."""

SOURCE = "source"
"""Of `arrays`, what a checkpoint may differ in: an environment may have been repaired."""

CONTEXT = "context"
"""Of `arrays`, what policies are told and the environments are not: runs with and without one can be compared."""

Play = Callable[..., Episodes]
"""play(policy, task, theta, key, B, K, restart=False): B episodes of at most K steps, under jit and vmap. With
`restart` B lanes of K steps, in which one episode follows the other."""

Frames = Callable[[Any, Policy, np.ndarray, int, int, int, int], list[np.ndarray]]
"""frames(tasks, policy, theta, agent, seed, K, every): an episode of one of all tasks, a picture for `every` steps,
(height, width, 3) bytes."""


@dataclass(frozen=True, eq=False)
class Environments:
    """N agents whose environments share observations, actions and dynamics and reward different things.

    Args:
        name: what it is called in tables and pictures.
        observations, actions: the same for all agents.
        tasks: a pytree of arrays with leading axis N: what differs between the agents.
        play: how a policy is played.
        horizon: the steps of an episode, where K does not say otherwise.
        gamma: discount factor in [0, 1).
        reward_range: (lo, hi), where the rewards are known to lie; one outside it ends the run.
        reward_scale: cost = reward_scale * (reward_offset - reward); results are in the rewards' own units.
        reward_offset: 0, unless no episode ever terminates: then costs at least 0 have less variance.
        agents: their names.
        source: all that decides its numbers, in words: runs of different sources are not compared.
        made_of: a problem whose arrays say it all, where there is one.
        host_error: what an environment outside JAX has raised, if it did.
        frames: one episode as pictures, where it can be drawn.
        release: ends its processes until it is played again, where it has any.
        one: the same with one of the agents, where more than its task must be left of the others.
        native: Gymnasium's own spaces of observations and actions, where it is Gymnasium's.
        fps: pictures in a second of its own time, where it says so.
        context: (N, c), what each agent's policy observes beside what its environment shows: `with_context`.
        shown: what that is, where there is a context.
    """

    name: str
    observations: Space
    actions: Space
    tasks: Any
    play: Play
    horizon: int
    gamma: float = 0.99
    reward_range: tuple[float, float] | None = None
    reward_scale: float = 1.0
    reward_offset: float = 0.0
    agents: tuple[str, ...] = ()
    source: str = ""
    made_of: Any = field(default=None, repr=False)
    host_error: Callable[[], Exception | None] | None = field(default=None, repr=False)
    frames: Frames | None = field(default=None, repr=False)
    release: Callable[[], None] | None = field(default=None, repr=False)
    one: Callable[[int], "Environments"] | None = field(default=None, repr=False)
    native: tuple[Any, Any] | None = field(default=None, repr=False)
    fps: float | None = None
    context: np.ndarray | None = field(default=None, repr=False)
    shown: Space | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Check what can be seen."""
        lengths = {np.shape(x)[:1] for x in jax.tree.leaves(self.tasks)}
        if len(lengths) != 1 or () in lengths or (0,) in lengths:
            raise InputError(f"{self.name}: every array of tasks must have one row for each agent, and at least one")
        if not 0 <= self.gamma < 1:
            raise InputError(f"{self.name}: gamma = {self.gamma:g}; it must lie in [0, 1)")
        if not (np.isfinite(self.reward_scale) and self.reward_scale > 0):
            raise InputError(f"{self.name}: reward_scale = {self.reward_scale:g}; it must be positive and finite")
        if self.horizon < 1:
            raise InputError(f"{self.name}: horizon = {self.horizon}; an episode has at least 1 step")
        if self.agents and len(self.agents) != self.N:
            raise InputError(f"{self.name}: {len(self.agents)} names for {self.N} agents")
        object.__setattr__(self, "agents", tuple(self.agents) or tuple(f"agent {i}" for i in range(self.N)))

    @property
    def N(self) -> int:
        """Number of agents."""
        return int(np.shape(jax.tree.leaves(self.tasks)[0])[0])

    def only(self, i: int) -> "Environments":
        """The same environments with one of the agents; nothing is left of the others."""
        own = {"tasks": jax.tree.map(lambda x: x[i : i + 1], self.tasks)}
        if self.one is not None:
            alone, names = self.one(i), ("tasks", "play", "source", "host_error", "frames", "release", "one", "context")
            own = {name: getattr(alone, name) for name in names}
        return replace(self, **own, agents=self.agents[i : i + 1])

    def acting(self) -> None:
        """A run names one."""

    played = True
    shared = False  # there is no J* to be found
    scale = 1.0  # J is in reward units already
    theta_shape = ()  # that is the policy's
    theta_axes = "theta's length"
    no_picture = "it can only be played; fastfedpg film RUN draws a learned policy in it"

    @property
    def sizes(self) -> dict[str, int]:
        """What a summary says of it."""
        return {"observation": self.observations.width, "action": self.actions.width}

    def arrays(self) -> dict[str, Any]:
        """All that decides its numbers and can be seen, as it is compared."""
        own, told = (self.tasks, {}) if self.context is None else (self.tasks[0], {CONTEXT: self.context})
        if self.made_of is not None:
            return {**self.made_of.arrays(), **told}
        settings = [self.gamma, self.reward_range, self.reward_scale, self.reward_offset]
        tasks = {f"task {k}": np.asarray(x) for k, x in enumerate(jax.tree.leaves(own))}
        written = lambda x: np.frombuffer(repr(x).encode(), np.uint8)
        return {SOURCE: written(self.source), "settings": written(settings), **tasks, **told}

    def identity(self) -> list[Any]:
        """The arrays that a checkpoint must have in common with the run that goes on from it."""
        return [x for name, x in self.arrays().items() if name != SOURCE]

    def save(self, path: Path) -> None:
        """Write the `.npz` of what it is made of."""
        if self.made_of is None:
            raise InputError(f"problem '{self.name}' can only be played: there are no arrays to save")
        self.made_of.save(path)

    def describe(self) -> dict[str, str]:
        """What `fastfedpg show` prints."""
        stated = self.reward_range
        return {
            "agents": f"{self.N} ({', '.join(self.agents[:FEW])}{', …' * (self.N > FEW)})",
            "observations": said(self.observations),
            "actions": said(self.actions),
            **({} if self.context is None else {"context": f"{self.context.shape[1]} of these are the agent's own"}),
            "horizon": f"{self.horizon} steps, unless K says otherwise",
            "gamma": f"{self.gamma:g}",
            "rewards": "no stated range" if stated is None else f"from {stated[0]:g} to {stated[1]:g}",
        }

    def as_environments(self) -> "Environments":
        """Itself."""
        return self

    def as_table(self) -> None:
        """Nothing: no table of it is known."""

    def smoothness(self, tau: float = 0.0) -> None:
        """Nothing is known of L."""

    def facts(self, tau: float = 0.0) -> dict[str, Any]:
        """Nothing is known without running it."""
        return {}

    def with_oracle(self, oracle: str, tau: float, settings: Any) -> NoReturn:
        """Refused: the oracles of known problems are no use here."""
        raise InputError(f"{self.name} can only be played; with_policy(environments, policy, oracle) is for it")

    def _unknown(self) -> NoReturn:
        raise InputError(f"problem '{self.name}' can only be played: its numbers are not known")

    def optimum(self, tau: float = 0.0) -> NoReturn:
        """Refused, as all that needs numbers which are not known."""
        self._unknown()

    own_optima = lower_bound = evaluator = gradients = gap = undominated = optimum

    def theta_of(self, policy: np.ndarray) -> NoReturn:
        """Refused likewise."""
        self._unknown()
