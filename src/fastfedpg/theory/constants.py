"""Constants of the paper's assumptions. A bound says so in its name."""

import math


def smoothness_bound(gamma: float, A: int, tau: float = 0.0) -> float:
    """A bound on L of Assumption 1 for softmax tables and costs in [0, 1]: (8 + tau (4 + 8 log A)) / (1 - gamma)^3.

    Mei et al. 2020: Lemma 7 for the plain value, Lemma 14 for its entropy.
    """
    return (8 + tau * (4 + 8 * math.log(A))) / (1 - gamma) ** 3


def lemma2_step_limit(L: float, H: int) -> float:
    """The largest local step size that Lemma 2 covers, from 3 eta L H <= 1."""
    return 1 / (3 * L * H)
