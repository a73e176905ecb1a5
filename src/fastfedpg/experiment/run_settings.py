"""How a run is run, whatever it runs: each setting with its default, and what help says of it."""

from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_type_hints

from fastfedpg.parameters import of_type


def setting(default: Any, group: str, help: str) -> Any:
    """A field of a configuration: what it is unless given, and where and how help explains it."""
    return field(default=default, metadata={"group": group, "help": help})


@dataclass(frozen=True)
class RunSettings:
    """How a run is run, whatever it runs."""

    agents: int | None = setting(None, "problem", "The number of agents N; the problem's own unless given.")
    reward_range: tuple[float, float] | None = setting(
        None,
        "problem",
        "LO HI of the rewards in a file, if not 0 1; results are in these units. In an environment a reward outside "
        "them ends the run.",
    )
    tau: float = setting(0.0, "gradient", "Entropy weight, in cost units.")
    normalise: bool = setting(
        False,
        "policy",
        "In environments: measure the observations' mean and spread once, before the first round, and keep them.",
    )
    context: str | None = setting(
        None,
        "policy",
        "In environments: a .csv or .npz file with a row of numbers for each agent, which its policy sees beside every "
        "observation and nobody else does.",
    )
    evaluation_episodes: int = setting(
        16, "policy", "In environments: episodes of each agent that say what a policy is worth, others for each seed."
    )
    evaluate_by: Literal["sampled", "mode", "both"] = setting(
        "sampled",
        "policy",
        "In environments: whether an evaluated policy acts by chance, as it learns, or does what is likeliest; with "
        "both J is of the first, and return_mode is of the second.",
    )
    keep_optimiser: bool = setting(
        False, "run", "Each agent's optimiser lasts from round to round, instead of starting afresh; it is never sent."
    )
    clip_norm: float | None = setting(None, "run", "A local step's direction longer than this is shortened to it.")
    decay: Literal["linear", "cosine"] | None = setting(
        None, "run", "The local step size falls to 0 over the run, with an optimiser that lasts."
    )
    rounds: int = setting(100, "run", "Communication rounds T.")
    seeds: int = setting(1, "run", "How many seeds run side by side.")
    first_seed: int = setting(0, "run", "The first of them.")
    metrics_every: int = setting(1, "run", "Rounds between two records.")
    participants: int | None = setting(None, "run", "How many agents take part in a round; all unless given.")
    order: Literal["random", "cyclic", "arrival"] = setting(
        "random", "run", "Which agents these are: drawn anew in every round, in turn, or those that arrive first."
    )
    speeds: tuple[float, ...] | None = setting(
        None, "run", "arrival: how often each agent arrives, on average; all alike unless given."
    )
    theta0: str | None = setting(
        None,
        "run",
        "An .npz file with theta of shape (S, A) or (seeds, S, A) to start from; the uniform policy unless given. A "
        "regulator's theta is its gain, (m, n).",
    )
    schedule: Literal["theorem2", "theorem3"] | None = setting(
        None,
        "run",
        "Take eta and K from this theorem, with L and mu of an exact pilot run; values other than the defaults stay.",
    )
    runtime: Literal["simulate", "loop"] = setting(
        "simulate",
        "advanced",
        "Compiled, or the plain loop: the same but for rounding, which grows if steps are large.",
    )
    dtype: Literal["float64", "float32"] = setting(
        "float64", "advanced", "Numbers of theta, messages and gradients; policies are evaluated in float64 anyway."
    )
    agent_batch: int | None = setting(
        None,
        "advanced",
        "simulate: agents computed at a time, for less memory; all unless given. Numbers stay: docs/scale.md.",
    )
    shards: int | None = setting(
        None,
        "advanced",
        "simulate: devices that the agents are split over; one unless given. Numbers stay: docs/scale.md.",
    )
    parameters: int | None = setting(
        None,
        "advanced",
        "The length of theta, for a server whose problem is 'private': known at the agents' own sites alone.",
    )
    checkpoint_rounds: int | None = setting(
        None, "output", "Rounds between two checkpoints; by the clock alone unless given."
    )
    checkpoint_seconds: float = setting(30.0, "output", "Seconds between two checkpoints.")
    track: tuple[str, ...] | None = setting(
        None,
        "output",
        "As the run goes, write its records for tensorboard, mlflow or wandb (offline) too, into its folder: "
        "docs/tracking.md.",
    )


_TYPES = get_type_hints(RunSettings)
SETTINGS = {f.name: of_type(f.name, _TYPES[f.name], f.default, f.metadata["help"]) for f in fields(RunSettings)}
"""How a run is run, as the parameters of factories are described."""

COUNTS = (
    "rounds", "seeds", "metrics_every", "agents", "participants", "checkpoint_rounds", "parameters", "agent_batch",
    "shards", "evaluation_episodes",
)  # fmt: skip
