"""Local optimisers by name; all but `sgd` are optax's."""

from collections.abc import Callable
from typing import Any

from fastfedpg.core import MakeOptimiser, sgd
from fastfedpg.errors import missing_extra, unknown
from fastfedpg.kinds import OPTIMISERS


def make(name: str) -> MakeOptimiser:
    """From a name to a function of the step size: always the same one, so that nothing is compiled twice."""
    if name not in OPTIMISERS:
        raise unknown("optimiser", name, OPTIMISERS)
    return _MADE[name]


def _optax(of: Callable[[Any, Any], Any], what: str) -> MakeOptimiser:
    def make(eta: Any) -> Any:
        try:
            import optax
        except ImportError:
            raise missing_extra(f"optimiser '{what}'", "optax", "neural") from None
        return of(optax, eta)

    return make


_MADE: dict[str, MakeOptimiser] = {
    "sgd": sgd,
    "momentum": _optax(lambda optax, eta: optax.sgd(eta, momentum=0.9), "momentum"),
    "rmsprop": _optax(lambda optax, eta: optax.rmsprop(eta), "rmsprop"),
    "adam": _optax(lambda optax, eta: optax.adam(eta), "adam"),
}
