"""Fast-FedPG with one thing broken: what the lemmas say must then be seen to fail."""

from collections.abc import Callable
from typing import Any

from fastfedpg.algorithms.fast_fedpg import fast_fedpg
from fastfedpg.core import Algorithm, Down, Info, Memory, Oracle, Own, RngKey, Theta


def flipped(eta: Any, H: int, *settings: Any) -> Algorithm:
    """The correction with its sign turned round: x - eta (g_i(x) + g_i(theta_bar) - g(theta_bar))."""
    return _with(fast_fedpg(eta, H, *settings), lambda memory, g_bar: (memory._replace(g_i=-memory.g_i), -g_bar))


def without_guide(eta: float, H: int) -> Algorithm:
    """The correction without the global gradient: x - eta (g_i(x) - g_i(theta_bar)), which goes nowhere."""
    return _with(fast_fedpg(eta, H), lambda memory, g_bar: (memory, 0 * g_bar))


def _with(algorithm: Algorithm, change: Callable[[Memory, Down], tuple[Memory, Down]]) -> Algorithm:
    gradient, local = algorithm.exchanges

    def agent(memory: Memory, own: Own, g_bar: Down, oracle: Oracle, key: RngKey) -> tuple[Memory, Own, Theta, Info]:
        memory, g_bar = change(memory, g_bar)
        return local.agent(memory, own, g_bar, oracle, key)

    return algorithm._replace(exchanges=(gradient, local._replace(agent=agent)))
