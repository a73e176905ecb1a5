"""Optimisers by name, for local steps and for the server's.

Adam, Yogi and RMSProp are written here, and not optax's: a corrected step is divided by the size of the agent's own
gradient too, which optax can't be told. Where nothing is corrected they are optax's.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Int

from fastfedpg.core import MakeOptimiser, Optimiser, Theta, sgd
from fastfedpg.errors import InputError, missing_extra, unknown
from fastfedpg.kinds import OPTIMISERS


def make(name: str, clip_norm: float | None = None, decay: str | None = None, steps: int = 0) -> MakeOptimiser:
    """From a name to a function of the step size: always the same one, so that nothing is compiled twice.

    Args:
        clip_norm: a direction longer than this is shortened to it first.
        decay: "linear" or "cosine": the step size falls to 0 over so many `steps`, which the optimiser counts itself.
    """
    if name not in OPTIMISERS:
        raise unknown("optimiser", name, OPTIMISERS)
    if clip_norm is not None and not 0 < clip_norm < float("inf"):
        raise InputError(f"clip_norm = {clip_norm:g}; it must be positive and finite")
    if clip_norm is None and decay is None:
        return _MADE[name]
    return _made(name, clip_norm, decay, steps)


@lru_cache(maxsize=64)
def _made(name: str, clip_norm: float | None, decay: str | None, steps: int) -> MakeOptimiser:
    def of(optax: Any, eta: Any) -> Any:
        rate = eta
        if decay is not None:
            rate = (
                optax.linear_schedule(eta, 0.0, steps) if decay == "linear" else optax.cosine_decay_schedule(eta, steps)
            )
        clip = optax.identity() if clip_norm is None else optax.clip_by_global_norm(clip_norm)
        if name in _SCALES:
            return adaptive(_SCALES[name], rate, lambda v: clip.update(v, clip.init(v))[0])
        return optax.chain(clip, _STEPS[name](optax, rate))

    return _optax(of, name)


def _optax(of: Callable[[Any, Any], Any], what: str) -> MakeOptimiser:
    def make(eta: Any) -> Any:
        try:
            import optax
        except ImportError:
            raise missing_extra(f"optimiser '{what}'", "optax", "neural") from None
        return of(optax, eta)

    return make


class Scale(NamedTuple):
    """How squares are remembered, nu <- remember(nu, x^2), and what step t's momentum is divided by, root(nu, t)."""

    momentum: float
    remember: Callable[[Theta, Theta], Theta]
    root: Callable[[Theta, Any], Theta]


class Scaled(NamedTuple):
    """What such an optimiser keeps."""

    steps: Int[Array, ""]
    mu: Theta
    nu: Theta


def adaptive(scale: Scale, rate: Any, shortened: Callable[[Theta], Theta] = lambda v: v) -> Optimiser:
    """Steps -eta mu_hat / root(nu): mu follows the directions v, and nu the larger of v^2 and g^2, by coordinates.

    g is the agent's own gradient, and v whatever an algorithm has made of it. Where v is g these are Adam, Yogi and
    RMSProp as optax has them, but that Yogi begins with nothing. A corrected v falls to 0 near a common optimum.
    Divided by its own size alone it would be made large again, and theta would circle the optimum at a distance of
    about eta / 2. With g beside it theta comes there, if eta H L is small beside every agent's own gradient at the
    optimum, in every coordinate; an agent that has none in a coordinate circles in it as before. By g alone, what the
    others want of such a coordinate would be divided by nothing. The price: where own gradients are many times as
    large as v, steps are as many times shorter.

    Args:
        rate: eta, or a function of how many steps there were.
        shortened: what is taken in the place of v, and of g.

    Examples:
        >>> agent = adaptive(_SCALES["rmsprop"], 0.1)
        >>> step, _ = agent.corrected(jnp.array([1.0]), jnp.array([100.0]), agent.init(jnp.zeros(1)), jnp.zeros(1))
        >>> round(float(step[0]), 5)  # 1 beside 100 is a hundredth of the step that 100 would be
        -0.00316
    """
    b = scale.momentum

    def corrected(v: Theta, g: Theta, state: Any, theta: Theta) -> tuple[Theta, Any]:
        v, g, t = shortened(v), shortened(g), state.steps + 1
        mu, nu = b * state.mu + (1 - b) * v, scale.remember(state.nu, jnp.maximum(v * v, g * g))
        eta = rate(state.steps) if callable(rate) else rate
        change = -eta * mu / (1 - b**t) / scale.root(nu, t)
        return change.astype(theta.dtype), Scaled(t, mu, nu)

    return Optimiser(
        init=lambda theta: Scaled(jnp.zeros((), jnp.int32), jnp.zeros_like(theta), jnp.zeros_like(theta)),
        update=lambda v, state, theta: corrected(v, v, state, theta),
        corrected=corrected,
    )


_SCALES = {
    "adam": Scale(0.9, lambda nu, s: 0.999 * nu + 0.001 * s, lambda nu, t: jnp.sqrt(nu / (1 - 0.999**t)) + 1e-8),
    "yogi": Scale(
        0.9, lambda nu, s: nu - 0.001 * jnp.sign(nu - s) * s, lambda nu, t: jnp.sqrt(nu / (1 - 0.999**t)) + 1e-3
    ),
    "rmsprop": Scale(0.0, lambda nu, s: 0.9 * nu + 0.1 * s, lambda nu, t: jnp.sqrt(nu + 1e-8)),
}

_STEPS: dict[str, Callable[[Any, Any], Any]] = {
    "sgd": lambda optax, eta: optax.sgd(eta),
    "momentum": lambda optax, eta: optax.sgd(eta, momentum=0.9),
    "adagrad": lambda optax, eta: optax.adagrad(eta),  # what it divides by only grows, so small directions stay small
}

_MADE: dict[str, MakeOptimiser] = {
    "sgd": sgd,
    **{name: _optax(_STEPS[name], name) for name in ("momentum", "adagrad")},
    **{name: partial(adaptive, scale) for name, scale in _SCALES.items()},
}
