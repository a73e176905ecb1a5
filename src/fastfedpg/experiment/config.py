"""One frozen dataclass is the Python arguments, the TOML file and the command line's flags."""

import inspect
import math
import sys
import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import tomli_w
import tyro

from fastfedpg.errors import InputError, unknown


def _parse_pairs(words: list[str]) -> dict[str, str]:
    for word in words:
        if "=" not in word[1:]:
            raise ValueError(f"'{word}' is not of the form name=value")
    return dict(word.split("=", 1) for word in words)


def table_of_words(metavar: str, parse: Callable[[list[str]], Any], write: Callable[[Any], list[str]]) -> Any:
    """How a flag with words such as name=value becomes a dictionary, and is shown again."""
    return tyro.constructors.PrimitiveConstructorSpec(
        nargs="*",
        metavar=metavar,
        instance_from_str=parse,
        is_instance=lambda value: isinstance(value, dict),
        str_from_instance=write,
    )


def _write_pairs(pairs: dict[str, Any]) -> list[str]:
    return [f"{k}={v}" for k, v in pairs.items()]


Pairs = Annotated[dict[str, Any], table_of_words("NAME=VALUE …", _parse_pairs, _write_pairs)]


@dataclass(frozen=True)
class Settings:
    """What the methods of a comparison have in common."""

    problem: str = "compromise-grid"
    """A problem's name (see `fastfedpg list`); the path of an .npz file with P (or next, p), reward, rho, gamma or, for
    a linear-quadratic regulator, with A, B, Q, R, Sigma0, gamma; gym:ID or gymnax:ID; or a module:function of your own
    that makes each agent's environment."""
    problem_args: Pairs = field(default_factory=dict)
    """Parameters of the problem's maker, as in n=7 mid=.6."""
    agents: int | None = None
    """The number of agents N; the problem's own unless given."""
    reward_range: tuple[float, float] | None = None
    """LO HI of the rewards in a file, if not 0 1; results are in these units. In an environment a reward outside them
    ends the run."""

    parameters: int | None = None
    """The length of theta, for a server whose problem is 'private': known at the agents' own sites alone."""

    H: int = 10
    """Local steps in a round."""
    alpha_g: float = 1.0
    """Server step size of fast_fedpg and scaffold_pg, in (0, 1]."""
    reuse: bool = False
    """fast_fedpg: local step 0 uses the gradient already sent."""
    B0: int | None = None
    """fast_fedpg: trajectories for the gradient that is sent; B unless given."""
    option: Literal["I", "II"] = "II"
    """scaffold_pg: how control variates are renewed."""
    optimiser: Literal["sgd", "momentum", "rmsprop", "adam"] = "sgd"
    """What takes the local steps; all but sgd are optax's, start afresh in every round and keep only the fixed
    point."""

    policy: str | None = None
    """In environments: table, linear, fourier or mlp; with Gaussian actions where they are continuous."""
    policy_args: Pairs = field(default_factory=dict)
    """Parameters of the policy, as in hidden=64x64, features=100, log_std=-0.5, squash=true."""
    normalise: bool = False
    """In environments: measure the observations' mean and spread once, before the first round, and keep them."""
    evaluation_episodes: int = 16
    """In environments: episodes of each agent, on fixed seeds, that say what a policy is worth."""

    oracle: str = "exact"
    """exact, truncated, reinforce or gpomdp; in environments reinforce, gpomdp or actor_critic."""
    B: int = 16
    """Trajectories in an estimate."""
    K: int | None = None
    """Steps in a trajectory; an environment's own horizon, or 50, unless given."""
    baseline: Literal["none", "leave-one-out"] = "none"
    """gpomdp: what is subtracted from the return."""
    lam: float = 0.95
    """actor_critic: lambda of the generalised advantages, from 0 (the critic alone) to 1 (only a baseline)."""
    critic_eta: float = 0.003
    """actor_critic: step size of each agent's own value network."""
    critic_steps: int = 8
    """actor_critic: steps of the value network after each batch."""
    tau: float = 0.0
    """Entropy weight, in cost units."""

    rounds: int = 100
    """Communication rounds T."""
    seeds: int = 1
    """How many seeds run side by side."""
    first_seed: int = 0
    """The first of them."""
    metrics_every: int = 1
    """Rounds between two records."""
    participants: int | None = None
    """How many agents take part in a round; all unless given."""
    theta0: str | None = None
    """An .npz file with theta of shape (S, A) or (seeds, S, A) to start from; the uniform policy unless given. A
    regulator's theta is its gain, (m, n)."""
    runtime: Literal["simulate", "loop"] = "simulate"
    """Compiled, or the plain loop: the same numbers."""
    agent_batch: int | None = None
    """simulate: agents computed at a time, for less memory; all unless given. Numbers stay, but for last bits."""
    shards: int | None = None
    """simulate: devices that the agents are split over; one unless given. Numbers stay, but for last bits."""
    checkpoint_rounds: int | None = None
    """Rounds between two checkpoints; by the clock alone unless given."""
    checkpoint_seconds: float = 30.0
    """Seconds between two checkpoints."""


@dataclass(frozen=True)
class Config(Settings):
    """All that is needed to repeat a run."""

    algorithm: str = "fast_fedpg"
    """An algorithm's name."""
    eta: float = 0.1
    """Local step size."""
    schedule: Literal["theorem2", "theorem3"] | None = None
    """Take eta and K from this theorem, with L and mu of an exact pilot run; values other than the defaults stay."""

    def check(self) -> None:
        """Everything that can be seen without building anything."""
        for name in (
            "H",
            "B",
            "K",
            "B0",
            "rounds",
            "seeds",
            "metrics_every",
            "agents",
            "participants",
            "checkpoint_rounds",
            "parameters",
            "agent_batch",
            "shards",
            "evaluation_episodes",
            "critic_steps",
        ):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"{name} = {value}; it must be at least 1")
            if value is not None and value >= 2**31:
                raise InputError(f"{name} = {value}; it must be below 2^31")
        if not (math.isfinite(self.eta) and self.eta > 0):
            raise InputError(f"eta = {self.eta:g}; a step size must be positive and finite")
        if not self.checkpoint_seconds >= 0:
            raise InputError(f"checkpoint_seconds = {self.checkpoint_seconds:g}; it must be at least 0")
        if not 0 < self.alpha_g <= 1:
            raise InputError(f"alpha_g = {self.alpha_g:g}; it must lie in (0, 1]")
        if not 0 <= self.lam <= 1:
            raise InputError(f"lam = {self.lam:g}; it must lie in [0, 1]")
        if not (math.isfinite(self.critic_eta) and self.critic_eta > 0):
            raise InputError(f"critic_eta = {self.critic_eta:g}; a step size must be positive and finite")
        if not 0 <= self.tau <= 1e6:
            raise InputError(f"tau = {self.tau:g}; the entropy weight must be finite and at least 0, and at most 1e6")
        if not 0 <= self.first_seed < 2**31 - self.seeds:
            raise InputError(f"first_seed = {self.first_seed}, seeds = {self.seeds}; all seeds must lie in [0, 2^31)")
        for name in ("option", "baseline", "runtime", "schedule", "optimiser"):
            value, kind = getattr(self, name), get_type_hints(Config)[name]
            optional = type(None) in get_args(kind)
            choices = get_args(get_args(kind)[0]) if optional else get_args(kind)
            if value not in choices and not (optional and value is None):
                raise unknown(name, str(value), choices)

    def taken_by(self, factory: Callable[..., Any]) -> dict[str, Any]:
        """The settings that a factory has parameters for."""
        names = inspect.signature(factory).parameters
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name in names}

    def lacked_by(self, factory: Callable[..., Any]) -> list[str]:
        """Parameters without a default that are no settings."""
        parameters = inspect.signature(factory).parameters.values()
        return [p.name for p in parameters if p.default is p.empty and not hasattr(self, p.name)]

    def differs(self, other: "Config", free: Collection[str] = ()) -> str:
        """In which settings two configurations differ, in words; nothing where they agree."""
        pairs = [(f.name, getattr(self, f.name), getattr(other, f.name)) for f in fields(self) if f.name not in free]
        return ", ".join(f"{name} is {_said(a)} there and {_said(b)} here" for name, a, b in pairs if a != b)

    def to_toml(self) -> str:
        """The settings as TOML; what is not set is left out."""
        return tomli_w.dumps({k: v for k, v in asdict(self).items() if v is not None and v != {}})


def _said(value: Any) -> Any:
    return "not set" if value is None else value


def from_toml(path: Path | str) -> Config:
    """A configuration from a TOML file; paths in it are relative to the file's own folder."""
    return from_mapping(read_toml(path), str(path), Path(path).parent)


def read_toml(path: Path | str) -> dict[str, Any]:
    """What a TOML file says."""
    path = Path(path)
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except IsADirectoryError:
        raise InputError(f"{path}: a folder; give the file, {path / 'config.toml'}") from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # no TOML, no UTF-8, or numbers and nesting beyond Python's limits
        raise InputError(f"{path}: not a TOML file ({error})") from None


S = TypeVar("S", bound=Settings)


def from_mapping(table: Mapping[str, Any], where: str = "configuration", folder: Path | None = None) -> Config:
    """A configuration from names and values, each checked for its name and type."""
    return settings_from(Config, table, where, folder)


def settings_from(kind: type[S], table: Mapping[str, Any], where: str, folder: Path | None = None) -> S:
    """Settings of one kind or the other; paths are relative to the folder."""
    kinds = get_type_hints(kind)
    settings = {}
    for name, value in table.items():
        if name not in kinds:
            error = unknown("setting", name, kinds)
            raise InputError(f"{where}: {error}")
        settings[name] = fit(f"{where}: {name}", kinds[name], value)
    if folder is not None:
        for name in ("problem", "theta0"):
            if str(settings.get(name) or "").endswith(".npz"):
                settings[name] = str(folder / settings[name])
    return kind(**settings)


def fit(what: str, kind: Any, value: Any) -> Any:
    """The value, if it is of the kind that a setting must be."""
    options = [k for k in get_args(kind) if k is not type(None)] if type(None) in get_args(kind) else [kind]
    kind = options[0]
    origin = get_origin(kind) or kind
    if origin is float and (type(value) is float or (type(value) is int and abs(value) <= sys.float_info.max)):
        return float(value)
    if origin is tuple and isinstance(value, list | tuple) and len(value) == 2:
        return tuple(fit(what, float, v) for v in value)
    if origin is Literal:
        if value in get_args(kind):
            return value
        where, name = what.rsplit(": ", 1)
        raise InputError(f"{where}: {unknown(name, str(value), get_args(kind))}")
    if origin in (int, str, bool, dict) and type(value) is origin:
        return value
    wanted = {float: "a number", int: "a whole number", str: "text", bool: "true or false", tuple: "two numbers"}
    raise InputError(f"{what} is {value!r}; it must be {wanted.get(origin, 'a table of names and values')}")
