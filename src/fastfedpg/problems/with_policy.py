"""From environments, a policy and an oracle's name to what the runtimes take."""

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fastfedpg.core import Evaluation, Problem, RngKey, Task, key_for
from fastfedpg.envs.environments import Environments
from fastfedpg.envs.episodes import Episodes
from fastfedpg.errors import EnvironmentFailed, InputError, unknown
from fastfedpg.memory import check_fits
from fastfedpg.oracles import PLAYED
from fastfedpg.oracles.played import Game
from fastfedpg.policies import Policy
from fastfedpg.precision import float64
from fastfedpg.problems.tabular_checks import oracle_settings as checked
from fastfedpg.registry import is_own

EVALUATION = 2**31 - 1
"""The seed of the episodes that say what a policy is worth: no run's own. Each training seed has its own of them."""


def settings_of(oracle: str) -> dict[str, bool]:
    """The names of an oracle's own settings, and whether each must be given; K is every oracle's."""
    if oracle not in PLAYED and not is_own(oracle):
        raise unknown("oracle for environments that are played", oracle, PLAYED)
    return {"K": False} | PLAYED.takes(oracle)


def with_policy(
    environments: Environments,
    policy: Policy,
    oracle: str = "gpomdp",
    tau: float = 0.0,
    K: int | None = None,
    episodes: int = 16,
    evaluate: Literal["sampled", "mode", "both"] = "sampled",
    **settings: Any,
) -> Problem:
    """N agents that play the policy in their own environments, and estimate gradients by the named oracle.

    Args:
        environments: as from `fastfedpg.envs`.
        policy: as from `fastfedpg.policies`, for the same observations and actions.
        oracle: reinforce, gpomdp, actor_critic, ppo or trpo, whose own settings follow (B, baseline, lam, …).
        tau: entropy weight, in cost units.
        K: steps of an episode, if not the environments' horizon; where an oracle plays lanes in which episodes follow
            each other, the steps of a lane, and then policies are evaluated for the whole horizon.
        episodes: so many are played to see what a policy is worth, other ones for each training seed.
        evaluate: whether it then acts by chance, as it learns, or always does what is likeliest, or first one and, for
            `Evaluation.by_mode` alone, then the other.
    """
    takes = settings_of(oracle)
    checked(oracle, takes, settings)
    if not (np.isfinite(tau) and tau >= 0):
        raise InputError(f"tau = {tau:g}; the entropy weight must be finite and at least 0")
    if not 0 <= settings.get("lam", 1) <= 1:
        raise InputError(f"lam = {settings['lam']:g}; it must lie in [0, 1]")
    steps = environments.horizon if K is None else K
    for name, value in (("K", steps), ("episodes", episodes)):
        if value < 1:
            raise InputError(f"{name} = {value}; it must be at least 1")
    watched = environments.horizon if in_lanes(oracle, settings) else steps
    seen = 8 * episodes * watched * environments.observations.width * environments.N
    evaluated = f"{environments.N} agents with {episodes} episodes of {watched} steps for evaluation"
    check_fits(evaluated, seen, "take fewer")
    scale, stated = environments.reward_scale, environments.reward_range

    surely = policy if evaluate == "sampled" else policy.at_its_mode
    shown = surely if evaluate == "mode" else policy

    def game(task: Task) -> Game:
        play = lambda theta, key, B: environments.play(policy, task, theta, key, B, steps)
        segments = lambda theta, key, B: environments.play(policy, task, theta, key, B, steps, restart=True)
        return Game(policy, play, environments.gamma, scale, environments.reward_offset, stated, tau, segments)

    def worth(theta: Any, seed: Any, task: Task, i: Any) -> Worth:
        here, key = game(task), evaluation_key(seed, i)
        see = lambda policy: environments.play(policy, task, theta, key, episodes, watched)
        found, returned = see(shown), lambda found: found.rewards.sum(axis=1).mean()
        J = here.discount(here.costs(theta, found)).sum(axis=1).mean() / scale
        return Worth(J, returned(found), returned(see(surely)) if evaluate == "both" else None, found)

    ids = np.arange(environments.N, dtype=np.int32)
    make = PLAYED.resolve(oracle)
    return Problem(
        environments.tasks,
        ids,
        lambda task: make(game(task), **settings),
        Evaluator(worth, environments.tasks, ids, stated),
        np.asarray(policy.init(key_for(0, 0, "policy"))),
        explain_batch=lambda batch: explain_episodes(batch.episodes, stated),
        host_error=environments.host_error,
        release=environments.release,
        start=lambda seed: np.asarray(policy.init(key_for(seed, 0, "policy"))),
    )


def in_lanes(oracle: str, settings: Mapping[str, Any]) -> bool:
    """Whether an oracle plays lanes in which episodes follow each other, so that K is no episode's length."""
    usual = PLAYED.describe(oracle).parameters.get("segments")
    return bool(settings.get("segments", usual is not None and usual.default))


def evaluation_key(seed: Any, agent: Any) -> RngKey:
    """The same for every method and round, so that differences are differences of policies.

    And other ones for every seed: their error, too, is then in the spread over seeds, and in intervals made from it.
    """
    return jax.random.fold_in(key_for(EVALUATION, 0, "evaluation", agent), seed)


class Worth(NamedTuple):
    """What a policy is worth to an agent: its mean discounted cost, its mean return, and the episodes that say so.

    And its mean return where it does what is likeliest, if that is shown as well.
    """

    J: Any
    returned: Any
    by_mode: Any
    episodes: Episodes


class Evaluator:
    """What policies are worth: each agent's mean discounted cost and its return, over the episodes of a seed."""

    def __init__(
        self,
        worth: Callable[[Any, Any, Task, Any], Worth],
        tasks: Task,
        ids: np.ndarray,
        stated: tuple[float, float] | None,
    ) -> None:
        self.tasks, self.ids, self.stated = tasks, ids, stated
        self.one = jax.jit(worth)

        def every(thetas: Any, seeds: Any, tasks: Task, ids: Any) -> tuple[Any, ...]:
            own = None if thetas.ndim == 2 else 0
            agents = jax.vmap(lambda *given: worth(*given)[:3], in_axes=(own, None, 0, 0))
            return jax.vmap(agents, in_axes=(0, 0, None, None))(thetas, seeds, tasks, ids)

        self.compiled = jax.jit(every)

    @float64
    def __call__(self, thetas: Any, seeds: Any = None) -> Evaluation:
        """One policy (runs, d), or one for every agent (runs, N, d); there is neither J* nor an exact gradient."""
        seeds = np.zeros(len(thetas), np.int32) if seeds is None else np.asarray(seeds, np.int32)
        thetas = np.asarray(thetas, np.float64)
        found = self.compiled(thetas, seeds, self.tasks, self.ids)
        J, returns, by_mode = (None if x is None else np.asarray(x, np.float64) for x in found)
        assert J is not None
        for r, i in np.argwhere(~np.isfinite(J)):
            self.explain(np.asarray(thetas[r] if np.ndim(thetas) == 2 else thetas[r][i]), seeds[r], int(i))
        nothing = np.full(len(J), np.nan)
        return Evaluation(J.mean(axis=1), nothing, nothing, returns, by_mode)

    def explain(self, theta: np.ndarray, seed: Any, i: int) -> None:
        """Raise what is amiss with an agent's environment, if something is; a policy that diverged is not that."""
        if not np.isfinite(theta).all():
            return
        task = jax.tree.map(lambda x: jnp.asarray(x[i]), self.tasks)
        if said := explain_episodes(self.one(jnp.asarray(theta), seed, task, self.ids[i]).episodes, self.stated):
            raise EnvironmentFailed(f"agent {self.ids[i]}, while a policy was evaluated: {said}")


def explain_episodes(episodes: Episodes, stated: tuple[float, float] | None) -> str:
    """What is wrong with what was played, in words; nothing where all is well. Steps are counted from 0."""
    seen, r = np.asarray(episodes.observations), np.asarray(episodes.rewards)
    for b, k in np.argwhere(~np.isfinite(seen).all(axis=2)):
        return f"the observation before step {k} of trajectory {b} is not finite ({seen[b, k]})"
    for b, k in np.argwhere(~np.isfinite(r)):
        return f"the reward of step {k} of trajectory {b} is {r[b, k]}"
    if stated is not None:
        low, high = stated
        for b, k in np.argwhere((r < low) | (r > high)):
            if bool(episodes.alive[b, k]):
                stated_range = f"the stated range {low:g} to {high:g}"
                return f"the reward of step {k} of trajectory {b} is {r[b, k]:g}, outside {stated_range}"
    return ""
