"""Gymnasium's environments as those of agents: played by processes beside JAX, on all cores."""

import ast
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from fastfedpg.envs.environments import Environments
from fastfedpg.envs.fingerprint import told
from fastfedpg.errors import EnvironmentFailed, InputError, missing_extra
from fastfedpg.gym_workers import make_env
from fastfedpg.gym_workers.playing import frames, play
from fastfedpg.gym_workers.pool import LARGEST, Pool, cores
from fastfedpg.gym_workers.shared_memory import ANY
from fastfedpg.gym_workers.worker_handle import Job, Sent, pickled
from fastfedpg.memory import check_fits
from fastfedpg.spaces import Space, said

Factory = Callable[..., Any]
"""Returns a gymnasium.Env or a gymnasium.vector.VectorEnv; it may take render_mode."""

LEAST = 1000
"""Bytes that an agent takes, with next to nothing in it."""

HORIZON = 1000
"""Steps of an episode where nothing says otherwise."""


def environments(
    envs: str | Factory | Sequence[str | Factory],
    rewards: Sequence[Callable[[Any], Any]] | None = None,
    agents: int | None = None,
    gamma: float = 0.99,
    horizon: int | None = None,
    reward_range: tuple[float, float] | None = None,
    reward_scale: float = 1.0,
    name: str | None = None,
    workers: int | None = None,
    patience: float = 60.0,
    first: int = 0,
    vectors: bool = True,
) -> Environments:
    """N agents in Gymnasium's environments.

    Args:
        envs: N ids or factories; or one of them, with rewards or agents.
        rewards: N wrappers, from an environment to one with another reward.
        agents: N, for agents that are all alike.
        gamma: discount factor in [0, 1).
        horizon: steps of an episode; without it the specification's own, or else 1000.
        reward_range: (lo, hi); a reward outside it ends the run.
        reward_scale: cost = -reward_scale * reward.
        name: what it is called.
        workers: number of processes; without it, the cores this process may use. The results do not depend on it.
        patience: the seconds an environment may take for a step before it is given up.
        first: the number of the first agent, where the others are elsewhere.
        vectors: whether an id that has a vector environment of its own is played in it.
    """
    _gymnasium()
    made = _agents(envs, rewards, agents)
    if reward_range is not None and not reward_range[0] <= reward_range[1]:
        raise InputError(f"reward_range = {reward_range}: its first number must not be the larger one")
    if workers is not None and workers < 1:
        raise InputError(f"workers = {workers}; it takes at least 1 process")
    if not patience > 0:
        raise InputError(f"patience = {patience:g}; it must be a positive number of seconds")
    found = [(specified(env, reward, vectors) if isinstance(env, str) else env, reward) for env, reward in made]
    together = [make_env.is_together(env) for env, _ in found]
    sent = [pickled(x, f"the environment of agent {first + i}") for i, x in enumerate(found)]
    pool = Pool(sent, workers or cores(), patience, first)
    about = _looked_at(pool, sent)
    steps = max((x["steps"] or 0 for x in about), default=0)
    known = [
        PickledAgent(x, _words(*pair) + ", together" * alike, ANY if alike else seen["part"], seen["wants"])
        for x, pair, alike, seen in zip(sent, made, together, about, strict=True)
    ]
    return _together(
        known,
        pool,
        name=name or ", ".join(dict.fromkeys(_short(env) for env, _ in made)),
        observations=about[0]["observations"],
        actions=about[0]["actions"],
        horizon=horizon if horizon is not None else steps or HORIZON,
        gamma=gamma,
        reward_range=reward_range,
        reward_scale=reward_scale,
        native=about[0]["native"],
        fps=about[0]["fps"],
    )


class PickledAgent(NamedTuple):
    """What an agent's environment is made of, pickled and in words.

    `part` is how many episodes a vector environment plays at once, or ANY; 0 where they are single ones. `wants` is
    what it says of its own reward, where it says anything.
    """

    sent: Sent
    words: str
    part: int
    wants: str


def _together(agents: Sequence[PickledAgent], pool: Pool, **common: Any) -> Environments:
    """Agents whose environments have been looked at, and what they have in common: fields of Environments."""
    reward_range = common["reward_range"]
    limits = (-LARGEST, LARGEST) if reward_range is None else (float(reward_range[0]), float(reward_range[1]))
    widths = common["observations"].width, common["actions"].width

    def one(i: int) -> Environments:
        alone = Pool([agents[i].sent], pool.count, pool.patience, pool.first + i)
        return _together([agents[i]], alone, **common)

    return Environments(
        **common,
        tasks=np.arange(len(agents), dtype=np.int32),
        agents=tuple(x.wants or f"agent {i}" for i, x in enumerate(agents)),
        play=partial(play, pool, tuple(x.part for x in agents), limits, widths),
        source=f"gymnasium {_gymnasium().__version__}: {'; '.join(x.words for x in agents)}",
        host_error=pool.host_error,
        frames=partial(frames, pool),
        release=pool.release,
        one=one,
    )


def _gymnasium() -> Any:
    try:
        import gymnasium
    except ModuleNotFoundError as why:
        raise missing_extra("an environment of Gymnasium", str(why.name), "gym") from None
    return gymnasium


def made(name: str, arguments: Mapping[str, Any]) -> str | Factory:
    """An id, or with arguments of its own a factory of it; numbers and truth values may be given as words."""
    if not arguments:
        return name
    return partial(make_env.made, specification(name), {k: meant(v) for k, v in arguments.items()})


def meant(value: Any) -> Any:
    """A word as the number, truth or list that it looks like."""
    if not isinstance(value, str):
        return value
    try:
        return ast.literal_eval(value.title() if value.lower() in ("true", "false", "none") else value)
    except (ValueError, SyntaxError):
        return value


def is_environment(x: Any) -> bool:
    """Whether this is an environment of Gymnasium's, or several as one."""
    try:
        return make_env.is_environment(x)
    except ModuleNotFoundError:
        return False


def check_agents(agents: int | None) -> None:
    """Refuse more agents than there is memory for, before anything is made for each."""
    check_fits(f"agents = {agents}", LEAST * (agents or 1), "take fewer")


def _agents(envs: Any, rewards: Any, agents: int | None) -> list[tuple[Any, Any]]:
    """What each agent's environment is made of: an id or a factory, and a wrapper or None."""
    check_agents(agents)
    several = not isinstance(envs, str) and not callable(envs)
    every = list(envs) if several else [envs]
    if several and rewards is None and agents is None:
        wraps: list[Any] = [None] * len(every)
    elif len(every) != 1:
        raise InputError(f"{len(every)} environments together with rewards or agents; give one, or the others alone")
    else:
        wraps = [None] * (1 if agents is None else agents) if rewards is None else list(rewards)
        if agents is not None and len(wraps) != agents:
            raise InputError(f"{len(wraps)} rewards for agents = {agents}; give one for each, or leave agents out")
        every *= len(wraps)
    if not every:
        raise InputError("no environments were given; it takes at least one agent")
    for i, (env, wrap) in enumerate(zip(every, wraps, strict=True)):
        if not isinstance(env, str) and not callable(env):
            raise InputError(
                f"the environment of agent {i} is {type(env).__name__}; give an id or a factory, not a built one"
            )
        if wrap is not None and not callable(wrap):
            raise InputError(f"the reward of agent {i} is {type(wrap).__name__}; give a function of an environment")
    return list(zip(every, wraps, strict=True))


def specification(name: str) -> Any:
    """What an id stands for; known to the processes too, whoever registered it."""
    gymnasium = _gymnasium()
    module, _, own = name.rpartition(":")
    try:
        if module:
            __import__(module)
        return gymnasium.spec(own)
    except ModuleNotFoundError as why:
        raise InputError(f"'{name}': {why}; what stands before the colon is the module that registers it") from None
    except gymnasium.error.Error as why:
        raise InputError(f"unknown environment '{name}': {why}") from None


def specified(name: str, reward: Any, vectors: bool) -> Any:
    """What an id stands for; if it has a vector environment of its own, and nothing stands against it, that."""
    spec = specification(name)
    own = f"{spec.vector_entry_point or ''}"  # those of phys2d are not compiled, and slower than single ones
    fits = vectors and reward is None and own and not spec.additional_wrappers and ".phys2d." not in own
    return partial(make_env.together, spec) if fits else spec


def _looked_at(pool: Pool, sent: list[Sent]) -> list[dict[str, Any]]:
    """The spaces of every agent, which must be alike; agents made of the same are looked at once."""
    firsts = {x.digest: i for i, x in reversed([*enumerate(sent)])}
    order = sorted(firsts.values())
    try:
        seen = dict(zip(order, pool.work([Job(i, "described") for i in order]), strict=True))
    except (EnvironmentFailed, InputError):
        pool.host_error()  # it is raised here and now
        raise
    for i in order:
        for kind, example in (("observations", "FlattenObservation"), ("actions", "FlattenAction or TransformAction")):
            if isinstance(seen[i][kind], str):
                right = "Box, Discrete or MultiDiscrete"
                right += ", MultiBinary, or a Dict or Tuple of these" * (kind == "observations")
                raise InputError(
                    f"the {kind} of agent {i} are {seen[i][kind]}; they must be {right}: a "
                    f"wrapper such as gymnasium.wrappers.{example} makes them so"
                )
            if not seen[i][kind].width:
                raise InputError(f"the {kind} of agent {i} are an empty box; they must hold at least one number")
            if seen[i][kind] != seen[0][kind]:
                raise InputError(
                    f"the {kind} of agents 0 and {i} differ: {_told(seen[0][kind], seen[i][kind])}; "
                    "one policy needs one kind"
                )
        if seen[i]["names"] != seen[0]["names"]:
            names = [", ".join(seen[k]["names"]) or "nothing" for k in (0, i)]
            differ = f"the observations of agents 0 and {i} differ: {names[0]}, and {names[1]}"
            raise InputError(f"{differ}; one policy needs the same names")
    return [seen[firsts[x.digest]] for x in sent]


def _told(one: Space, other: Space) -> str:
    """Two spaces in words, in full where the short words are the same."""
    return f"{said(one)} and {said(other)}" if said(one) != said(other) else f"{one} and {other}"


def _short(env: Any) -> str:
    return env if isinstance(env, str) else str(getattr(env, "__name__", type(env).__name__))


def _words(env: Any, reward: Any) -> str:
    return f"{env if isinstance(env, str) else told(env)}{f' with {told(reward)}' if reward else ''}"
