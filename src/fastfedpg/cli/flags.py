"""Which flags a run has: those of its settings and of what is chosen. Nothing here imports JAX.

The names are read first, and the signatures of what they name say which flags there are. What another method would
take is accepted too, so that one set of flags serves all.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

from fastfedpg.experiment import choices
from fastfedpg.experiment.config import Config
from fastfedpg.experiment.run_settings import SETTINGS, RunSettings
from fastfedpg.experiment.words import PAIRS
from fastfedpg.kinds import SIZES, TEXT
from fastfedpg.parameters import Parameter

PROBLEM = (
    "A problem's name (see `fastfedpg list`); the path of an .npz file with P (or next, p), reward, rho, gamma or, for "
    "a linear-quadratic regulator, with A, B, Q, R, Sigma0, gamma; gym:ID, gymnax:ID, mo:ID or sumo:NET; or a "
    "module:function of your own that makes each agent's environment."
)
NAMES = {
    "problem": PROBLEM,
    "algorithm": "An algorithm's name; auto, which follows `fastfedpg advise`; or your own, module:function.",
    "oracle": "exact, truncated, reinforce, gpomdp; in environments reinforce, gpomdp, actor_critic, ppo, trpo; or "
    "your own.",
    "policy": "In environments: table, linear, fourier, mlp, cnn, gru, bits, or your own; Gaussian for real actions.",
}
GROUP = {"oracle": "gradient"}
"""Where help puts what is chosen, if not under its own name."""

GROUPS = ("problem", "algorithm", "gradient", "policy", "run", "output", "advanced")


class Flag(NamedTuple):
    """One flag: `name` says where its value goes, `shown` what is typed."""

    name: str
    shown: str
    parameter: Parameter
    default: Any
    group: str


def flags_of(
    base: Config,
    arguments: Sequence[str],
    kinds: Sequence[str] = choices.KINDS,
    explain: Mapping[str, str] | None = None,
    methods: Sequence[str] = (),
) -> list[Flag]:
    """The flags of a run's settings and of what is chosen, and those of another method that the arguments name."""
    named = {kind: value_of(f"--{kind}", arguments) or getattr(base, kind) for kind in choices.KINDS}
    own: list[tuple[str, Parameter, Any]] = []
    for kind in choices.KINDS:
        same = named[kind] == getattr(base, kind)
        given = dict(base.arguments(kind)) if named[kind] is not None and same else {}
        for p in _taken(kind, named[kind], methods).values():
            own.append((kind, p, given.get(p.name, base.given.get(p.name, p.default))))
    bare = [*SETTINGS, *(p.name for _, p, _ in own), *("out", "config", "overwrite")]
    found = [
        Flag(
            kind,
            kind,
            Parameter(kind, TEXT, None, (explain or {}).get(kind, NAMES[kind])),
            getattr(base, kind),
            GROUP.get(kind, kind),
        )
        for kind in kinds
    ]
    for kind in ("problem", "policy"):
        words = "the problem's maker, as in n=7 mid=.6" if kind == "problem" else "the policy, as in hidden=64x64"
        same = named[kind] == getattr(base, kind)
        args = Parameter(f"{kind}_args", PAIRS, None, f"Parameters of {words}; each is a flag of its own, too.")
        found.append(Flag(f"{kind}_args", f"{kind}-args", args, getattr(base, f"{kind}_args") if same else {}, kind))
    for kind, p, default in own:
        shown = p.name if bare.count(p.name) == 1 else f"{kind}.{p.name}"
        found.append(Flag(f"{kind}.{p.name}", shown, p, default, GROUP.get(kind, kind)))
    for f in fields(RunSettings):
        found.append(Flag(f.name, f.name, SETTINGS[f.name], getattr(base, f.name), f.metadata["group"]))
    typed = {word[2:].partition("=")[0].replace("-", "_") for word in arguments if word.startswith("--")}
    for name, p in choices.common_arguments().items():
        if name in typed and name not in bare and not (methods and name == "eta"):
            found.append(Flag(name, name, p, p.default, GROUP.get(choices.kind_with(name), "algorithm")))
    return found


def _taken(kind: str, name: str | None, methods: Sequence[str]) -> dict[str, Parameter]:
    """What something chosen takes; several methods have step sizes of their own, and all else in common."""
    if kind != "algorithm" or not methods:
        return choices.takes(kind, name)
    every = {k: p for method in reversed(methods) for k, p in choices.takes(kind, method).items()}
    return {k: p for k, p in every.items() if k != "eta"}


def words_of(config: Config, also: Sequence[str] = ()) -> list[str]:
    """The flags that make this configuration of nothing: what is chosen, what is not as usual, what `also` names."""
    base = Config(config.problem, algorithm=config.algorithm, oracle=config.oracle, policy=config.policy)
    said, flat = list[str](), config.flat()
    for kind in choices.KINDS:
        said += [f"--{kind}", flat[kind]] if kind in flat else []
    for flag in flags_of(base, []):
        value = flat.get(flag.name)
        if flag.name not in choices.KINDS and value is not None and (value != flag.default or flag.name in also):
            name = flag.shown.replace("_", "-")
            said += [f"--{'no-' * (value is False)}{name}"]
            said += [] if isinstance(value, bool) else _words(value, flag.parameter)
    return said


def _words(value: Any, parameter: Parameter) -> list[str]:
    if isinstance(value, tuple | list):
        words = [_words(x, parameter)[0] for x in value]
        return ["x".join(words)] if parameter.kind is SIZES else words
    return [repr(value).removesuffix(".0") if isinstance(value, float) else str(value)]


def value_of(flag: str, arguments: Sequence[str]) -> str | None:
    """What follows a flag, before the flags are parsed; the last one counts."""
    value = None
    for k, word in enumerate(arguments):
        if word == flag and k + 1 < len(arguments):
            value = arguments[k + 1]
        if word.startswith(flag + "="):
            value = word.split("=", 1)[1]
    return value
