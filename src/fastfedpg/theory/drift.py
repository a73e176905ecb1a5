"""How far agents come from theta_bar within a round: to leading order, as a bound, and what it makes of Theorem 1."""

import math
from typing import Any, NamedTuple, TypeAlias

Value: TypeAlias = Any
"""A number, or an array of them."""


def drift_law(
    eta: Value, l: Value, norm_sq: Value, sigma_sq: Value, N: int, B_over_B0: float = 1.0, reuse: bool = False
) -> Value:
    """E||Delta_{i,l}||^2 of Fast-FedPG to leading order in eta, as a mean over agents.

        eta^2 [l^2 ||grad J||^2 + l sigma^2 + l^2 (1 - 1/N) sigma^2 B/B0]

    `sigma_sq` is the mean over agents of E||estimate - its mean||^2 for B trajectories at theta_bar, and grad J is
    truncated after K steps if estimates are. The l fresh estimates are independent; the l copies of g(theta_bar) -
    g_i(theta_bar) are one and the same, and its two parts are correlated: hence l^2, and 1 - 1/N instead of 1 + 1/N.
    With `reuse` local step 0 takes g_i(theta_bar) too, and (l - 1) sigma^2 + ((l - 1)^2 (1 - 1/N) + 1/N) sigma^2 B/B0
    is the noise's part, for l >= 1.
    """
    if reuse:
        noise = (l - 1) + ((l - 1) ** 2 * (1 - 1 / N) + 1 / N) * B_over_B0
        return eta**2 * (l**2 * norm_sq + (l > 0) * noise * sigma_sq)
    return eta**2 * (l**2 * norm_sq + (l + l**2 * (1 - 1 / N) * B_over_B0) * sigma_sq)


def drift_bound(eta: Value, l: Value, L: Value, norm_sq: Value, sigma_sq: Value, N: int, B_over_B0: float = 1) -> Value:
    """E||Delta_{i,l}||^2 <= (1 + eta L)^(2l) times `drift_law`, for any eta, where nothing is truncated.

    sigma^2 is then Assumption 3's, and grad J that of J. It takes the place of Lemma 2's 32 eta^2 H^2 G.
    """
    return (1 + eta * L) ** (2 * l) * drift_law(eta, l, norm_sq, sigma_sq, N, B_over_B0)


class DriftConstants(NamedTuple):
    """alpha^2 (gradient ||grad J||^2 + noise sigma^2) is the mean of `drift_law` over l < H, with alpha = eta H."""

    gradient: float  # in the place of Lemma 2's 32
    noise: float  # in the place of its 32 * 18 = 576


def drift_constants(N: int, H: int, B_over_B0: float = 1.0) -> DriftConstants:
    """(H-1)(2H-1)/(6H^2), at most 1/3; and (1 - 1/N) B/B0 times that, plus (H-1)/(2H^2), at most 1/(2H)."""
    square = (H - 1) * (2 * H - 1) / (6 * H**2)
    return DriftConstants(square, (1 - 1 / N) * B_over_B0 * square + (H - 1) / (2 * H**2))


def sharper_C() -> float:
    """The least C of Theorem 1 with `drift_bound` for Lemma 2: 1/(4x), 4x + x^2 (1 + 4x) e^(2x)/3 = 1/4; about 4.03.

    For every H and N, where nothing is truncated: (1 + eta L)^(2l) <= e^(2x), and the mean of l^2/H^2 is at most 1/3.
    """
    low, high = 0.0, 1.0
    while low < (x := (low + high) / 2) < high:
        low, high = (x, high) if 4 * x + x**2 * (1 + 4 * x) * math.exp(2 * x) / 3 <= 0.25 else (low, x)
    return 1 / (4 * low)
