"""From a run to its use: the policy that it learned, which acts, is evaluated and exported."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from fastfedpg.core import key_for
from fastfedpg.errors import InputError
from fastfedpg.experiment import results, run_folder
from fastfedpg.experiment.config import from_toml
from fastfedpg.experiment.plan import Plan, plan
from fastfedpg.experiment.spoken import Spoken
from fastfedpg.files import write_atomically
from fastfedpg.policies import Policy, plain
from fastfedpg.precision import float64
from fastfedpg.problems.npz import read_npz
from fastfedpg.runtime.diagnosis import in_own_words
from fastfedpg.statistics import bootstrap


class Returns(NamedTuple):
    """The mean return in the user's units, and the ends of its 95% interval; both are the mean where it is exact."""

    mean: float
    low: float
    high: float
    returns: np.ndarray  # of each episode; empty where none was played


@dataclass(frozen=True, eq=False, repr=False)
class Learned:
    """A run's last policy.

    Args:
        planned: the run.
        theta: its parameters (d,).
        policy: what they are the parameters of.
        spoken: how observations and actions are said.
        agent: whose problem it is evaluated in; all agents' unless one is chosen.
    """

    planned: Plan
    theta: np.ndarray
    policy: Policy
    spoken: Spoken
    agent: int | None = None

    def __repr__(self) -> str:
        """What it acts on."""
        return f"Learned: a policy for {self.planned.name}, theta of {len(self.theta)} numbers"

    def act(self, observation: Any, rng: np.random.Generator | None = None, deterministic: bool = False) -> Any:
        """The action for an observation, or the actions for a batch of them.

        Args:
            observation: a state's number or vector, or what the environment's own space says; or an array of several.
            rng: where chance comes from; a new `numpy.random.default_rng()` unless given.
            deterministic: the likeliest action, or the mean, instead of a random one.
        """
        if self.policy.memory:
            raise InputError("this policy remembers: actor = learned.episode(), and actor(observation) for each step")
        rows, one = self.spoken.heard(observation)
        return self.spoken.said(self._chosen(rows, rng or np.random.default_rng(), deterministic)[0], one)

    def episode(self, rng: np.random.Generator | None = None, deterministic: bool = False) -> Callable[[Any], Any]:
        """What acts in one episode, from its first observation on, and remembers it where the policy does."""
        return self._acting(self.spoken, rng or np.random.default_rng(), deterministic)

    def _acting(self, spoken: Spoken, rng: np.random.Generator, deterministic: bool) -> Callable[[Any], Any]:
        kept: list[Any] = [None]

        def act(observation: Any) -> Any:
            rows, one = spoken.heard(observation)
            action, kept[0] = self._chosen(rows, rng, deterministic, kept[0])
            return spoken.said(action, one)

        return act

    def _chosen(
        self, rows: np.ndarray, rng: np.random.Generator, deterministic: bool, kept: Any = None
    ) -> tuple[np.ndarray, Any]:
        """Actions, and what the policy keeps for the next ones."""
        parts, theta, m = self.policy.parts, self.theta, self.policy.memory
        policy = self.policy.at_its_mode if deterministic else self.policy
        if parts is None:
            noise = policy.noise(jax.random.key(rng.integers(2**31)), rows.shape[:1], theta.dtype)
        else:
            noise = parts.head.draw(rng, rows.shape[:1])
        told = np.concatenate([rows, np.zeros((len(rows), m)) if kept is None else kept], 1) if m else rows
        choice = policy.choose(theta, told, np.asarray(noise))
        choice, kept = (choice[:, :-m], choice[:, -m:]) if m else (choice, None)
        return np.asarray(policy.action(choice)), kept

    @float64
    def evaluate(self, env: Any = None, episodes: int = 100, seed: int = 0, deterministic: bool = False) -> Returns:
        """What the policy is worth, in an environment of Gymnasium's or in the run's own problem.

        In an environment it is the return of an episode, undiscounted. Without one it is exact, and discounted, where
        the problem is known, and else as in an environment; the mean over the agents, unless one was chosen.
        """
        if episodes < 1:
            raise InputError(f"episodes = {episodes}; it must be at least 1")
        if env is not None:
            return _interval(self._episodes(env, episodes, seed, deterministic))
        known, problem = self.planned.here, self.planned.problem
        if not known.played:
            if deterministic:
                raise InputError("deterministic is for environments; here returns are exact, and the policy's")
            returns = known.evaluator()(self.theta[None]).returns[0]
            exact = float(returns.mean() if self.agent is None else returns[self.agent])
            return Returns(exact, exact, exact, np.zeros(0))
        try:
            return _interval(self._played(known.as_environments(), episodes, seed, deterministic))
        finally:
            if problem.release is not None:
                problem.release()

    def _played(self, known: Any, episodes: int, seed: int, deterministic: bool) -> np.ndarray:
        """The returns of episodes in the run's own environments, their mean over the agents."""
        chosen = np.arange(known.N) if self.agent is None else np.array([self.agent])
        tasks = jax.tree.map(lambda x: np.asarray(x)[chosen], known.tasks)

        policy = self.policy.at_its_mode if deterministic else self.policy

        def returns(theta: Any, task: Any, i: Any) -> Any:
            key = key_for(seed, 0, "evaluate", i)
            return known.play(policy, task, theta, key, episodes, self.planned.episode).rewards.sum(axis=1)

        with in_own_words(self.planned.problem):
            found = np.asarray(
                jax.jit(jax.vmap(returns, in_axes=(None, 0, 0)))(self.theta.astype(float), tasks, chosen)
            )
        return found.mean(axis=0)

    def _episodes(self, env: Any, episodes: int, seed: int, deterministic: bool) -> np.ndarray:
        if not hasattr(env, "reset") or not hasattr(env, "observation_space"):
            raise InputError(f"an environment is needed, as gymnasium.make returns it, not {type(env).__name__}")
        spoken, rng = self.spoken.like(env), np.random.default_rng(seed)
        returns = np.zeros(episodes)
        for k in range(episodes):
            seen, over = env.reset(seed=seed + k)[0], False
            act = self._acting(spoken, rng, deterministic)
            while not over:
                seen, reward, terminated, truncated, _ = env.step(act(seen))
                returns[k] += float(reward)
                over = terminated or truncated
        return returns

    def export(self, path: Path | str) -> Path:
        """Write the policy as an `.npz` that NumPy alone can act with; `examples/act_with_numpy.py` reads it."""
        path = Path(path)
        if path.suffix != ".npz":
            raise InputError(f"{path}: an exported policy is an .npz file; name it {path.name}.npz")
        arrays = plain.arrays(self.policy, self.theta)
        path.parent.mkdir(parents=True, exist_ok=True)
        with write_atomically(path) as part:
            np.savez(part, allow_pickle=False, **arrays)
        return path


def _interval(returns: np.ndarray) -> Returns:
    mean, low, high = bootstrap(returns)
    return Returns(float(mean), float(low), float(high), returns)


def load(folder: Path | str, seed: int | None = None, agent: int | None = None) -> Learned:
    """The policy of a run that has finished or was interrupted.

    Args:
        folder: the run's, as from `fastfedpg run --out`; of a comparison the method's, such as "cmp/fast_fedpg".
        seed: which of the run's seeds; its first unless given.
        agent: whose policy, where every agent has its own; and whose problem it is evaluated in.

    Examples:
        >>> import fastfedpg as ff, tempfile
        >>> out = tempfile.mkdtemp()
        >>> result = ff.run(ff.Config("compromise", rounds=2), f"{out}/my-run")
        >>> ff.load(f"{out}/my-run").act(0, deterministic=True)
        2
    """
    folder = Path(folder)
    planned = plan(_config(folder))
    thetas, seeds = _thetas(folder, planned)
    chosen = seeds[0] if seed is None else seed
    if chosen not in seeds:
        raise InputError(f"seed = {seed}; {folder} has seeds {seeds[0]} to {seeds[-1]}")
    if agent is not None and not 0 <= agent < planned.problem.N:
        raise InputError(f"agent = {agent}; {planned.name} has agents 0 to {planned.problem.N - 1}")
    theta = thetas[seeds.index(chosen)]
    if theta.ndim == 2:
        if agent is None:
            raise InputError(f"{folder}: every agent has its own policy: say whose, with agent=0 to {len(theta) - 1}")
        theta = theta[agent]
    return Learned(planned, theta, *_acting(planned, agent), agent)


def _acting(planned: Plan, agent: int | None) -> tuple[Policy, Spoken]:
    own, played = planned.here.acting(), planned.here.as_environments()
    if own is not None:
        return own.policy, Spoken(own.observations, own.actions)
    assert planned.policy is not None
    assert played is not None
    if played.context is None:
        return planned.policy, Spoken(played.observations, played.actions, played.native)
    own = None if agent is None else played.context[agent]
    return planned.policy, Spoken(
        played.shown or played.observations, played.actions, played.native, played.context.shape[1], own
    )


def _config(folder: Path) -> Any:
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder")
    if (folder / run_folder.COMPARISON).is_file():
        runs = ", ".join(f'"{x.parent}"' for x in sorted(folder.glob("*/config.toml")))
        raise InputError(f"{folder}: a comparison; load one of its runs{runs and ': '}{runs}")
    if not (folder / "config.toml").is_file():
        raise InputError(f"{folder}: not a run: there is no config.toml in it")
    if run_folder.ended(folder) == "diverged":
        raise InputError(f"{folder}: the run diverged, and what it had learned by then is no policy to use")
    return from_toml(folder / "config.toml")


def _thetas(folder: Path, planned: Plan) -> tuple[np.ndarray, list[int]]:
    """theta (seeds, d) or (seeds, N, d), and the seeds."""
    if planned.known is None:
        raise InputError(f"{folder}: the problem is private, so what theta means is known at its agents' sites alone")
    if (folder / results.FILE).exists():
        found = results.read(folder / results.FILE)
        run_folder.check_config(folder, found, planned.config)
        return found.result.theta, list(found.seeds)
    if not (folder / "final.npz").exists():
        raise InputError(f"{folder}: nothing was recorded yet; fastfedpg resume {folder} goes on with the run")
    theta = read_npz(folder / "final.npz", ("theta",))["theta"]
    warnings.warn(
        f"{folder / results.FILE}: no such file; final.npz is read instead, which has no settings: whether they were "
        "edited can't be told",
        stacklevel=3,
    )
    axes = len(planned.theta_shape)
    first = planned.schedule.first_seed
    return theta.reshape(*theta.shape[:-axes], -1), list(range(first, first + len(theta)))
