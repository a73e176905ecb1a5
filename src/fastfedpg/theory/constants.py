"""Constants of the paper's assumptions, known before anything is run. A bound says so in its name.

All are for softmax tables and costs in [0, 1]; docs/theory.md derives each of them.
"""

import math
from typing import Literal

from fastfedpg.errors import InputError


def smoothness_bound(gamma: float, A: int, tau: float = 0.0) -> float:
    """A bound on L of Assumption 1 for softmax tables and costs in [0, 1], and for the entropy's part if tau > 0.

        (1 + tau (log A + (4/e)(1 - gamma) + (1 - gamma)^2)) / (2 (1 - gamma)^3)

    Along a unit direction sum_a |pi'| <= 1/sqrt(2) and sum_a |pi''| <= 1, and costs less 1/2 have the same gradient.
    """
    entropy = math.log(A) + 4 / math.e * (1 - gamma) + (1 - gamma) ** 2
    return (1 + tau * entropy) / (2 * (1 - gamma) ** 3)


def variance_bound(
    gamma: float, A: int, K: int, B: int = 1, tau: float = 0.0, oracle: Literal["reinforce", "gpomdp"] = "reinforce"
) -> float:
    """A bound on sigma^2 of Assumption 3, for B trajectories of K steps.

    Eq. (5), `reinforce`: (K/B)(1 - 1/A) R^2 with R = (1 - gamma^K)/(1 - gamma), since R bounds the return, and the K
    scores are martingale differences with E||score||^2 = 1 - ||pi(.|s)||^2 <= 1 - 1/A. `gpomdp` without a baseline:
    (1 - 1/A)/B (sum_{t<K} gamma^t sqrt(t+1))^2, by Minkowski's inequality over t.

    With tau > 0 costs have no bound, but E[log^2 pi(a|s)] <= (1 + log A)^2, as (1 + log x)^2 is concave for x >= 1; a
    sum of n scores is at most sqrt(2) n long. Minkowski: tau (1 + log A) sqrt(2) n joins sqrt(n (1 - 1/A)).
    """
    if oracle not in ("reinforce", "gpomdp"):
        raise InputError(f"no variance bound is known for oracle '{oracle}'; there are some for reinforce and gpomdp")
    each = lambda n: math.sqrt(n * (1 - 1 / A)) + tau * (1 + math.log(A)) * math.sqrt(2) * n  # n scores, one cost
    if oracle == "gpomdp":
        return sum(gamma**t * each(t + 1) for t in range(K)) ** 2 / B
    return ((1 - gamma**K) / (1 - gamma) * each(K)) ** 2 / B


def truncation_bound(gamma: float, A: int, K: int, tau: float = 0.0) -> float:
    """D(K) with ||grad_K J_i - grad J_i|| <= D(K) gamma^K: sqrt((1 - 1/A)(K + 1/(1 - gamma)))/(1 - gamma).

    Yuan et al. 2022. What is cut off is sum_{t>=K} gamma^t E[c_t S_t], where S_t has t + 1 scores, so that
    E||S_t||^2 <= (t+1)(1 - 1/A); then Jensen over t = K, K + 1, …, weighted by (1 - gamma) gamma^(t-K).
    With tau > 0 a factor 1 + tau (1 + log A), as in `variance_bound`.
    """
    entropy = 1 + tau * (1 + math.log(A))
    return entropy * math.sqrt((1 - 1 / A) * (K + 1 / (1 - gamma))) / (1 - gamma)


def lemma2_step_limit(L: float, H: int) -> float:
    """The largest local step size that Lemma 2 covers, from 3 eta L H <= 1."""
    return 1 / (3 * L * H)


C_PAPER = 164
"""C of Theorem 1 by the paper's own steps: alpha L <= 1 alone makes 4x + 32x^2 (1 + 4x) at most (4 + 32 * 5) x."""


def self_consistent_C() -> float:
    """The least C that the proof allows: 1/(4x) for the x = alpha L with 4x + 32x^2 (1 + 4x) = 1/4, about 5.66.

    Theorem 1 needs alpha (1/2 - 4x - 32x^2 (1 + 4x)) >= alpha/4; its left side falls in x, so x <= 1/(4C) is enough.
    """
    low, high = 0.0, 1.0
    while low < (x := (low + high) / 2) < high:
        low, high = (x, high) if 4 * x + 32 * x**2 * (1 + 4 * x) <= 0.25 else (low, x)
    return 1 / (4 * low)


C = self_consistent_C()


def theorem1_step_limit(L: float, H: int, C: float = C) -> float:
    """The largest local step size that Theorem 1 covers, 1/(4CLH)."""
    return 1 / (4 * C * L * H)
