"""Optimisers by name, for local steps and for the server's; all but `sgd` are optax's."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from fastfedpg.core import MakeOptimiser, sgd
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
        first = [] if clip_norm is None else [optax.clip_by_global_norm(clip_norm)]
        return optax.chain(*first, _STEPS[name](optax, rate))

    return _optax(of, name)


def _optax(of: Callable[[Any, Any], Any], what: str) -> MakeOptimiser:
    def make(eta: Any) -> Any:
        try:
            import optax
        except ImportError:
            raise missing_extra(f"optimiser '{what}'", "optax", "neural") from None
        return of(optax, eta)

    return make


_STEPS: dict[str, Callable[[Any, Any], Any]] = {
    "sgd": lambda optax, eta: optax.sgd(eta),
    "momentum": lambda optax, eta: optax.sgd(eta, momentum=0.9),
    "rmsprop": lambda optax, eta: optax.rmsprop(eta),
    "adam": lambda optax, eta: optax.adam(eta),
    # Without optax's first momentum of 1e-6, which would move theta where the direction is 0.
    "yogi": lambda optax, eta: optax.chain(
        optax.scale_by_yogi(initial_accumulator_value=0.0), optax.scale_by_learning_rate(eta)
    ),
    "adagrad": lambda optax, eta: optax.adagrad(eta),
}

_MADE: dict[str, MakeOptimiser] = {name: _optax(step, name) for name, step in _STEPS.items()} | {"sgd": sgd}
