"""The right-hand sides of the paper's lemmas and theorems, with every constant written out."""

from typing import Any, NamedTuple, TypeAlias

Value: TypeAlias = Any
"""A number, or an array of them."""


def beta(eta: float, L: float, H: int) -> float:
    """The factor of Lemma 2's recursion: (1 + 1/H)(1 + 3 eta L); beta^H < 8 if 3 eta L H <= 1."""
    return (1 + 1 / H) * (1 + 3 * eta * L)


def G(norm_sq: Value, sigma_sq: Value, truncation_sq: Value) -> Value:
    """Of Lemma 2: E||grad J(theta_bar)||^2 + 18 sigma^2 + 18 D^2 gamma^(2K)."""
    return norm_sq + 18 * sigma_sq + 18 * truncation_sq


def lemma2_right(eta: Value, H: int, G: Value) -> Value:
    """(18): E||Delta_{i,l}||^2 <= 32 eta^2 H^2 G for all i and l, if 3 eta L H <= 1."""
    return 32 * eta**2 * H**2 * G


class Lemma1(NamedTuple):
    """The terms of (17): E[J(next)] - E[J(theta_bar)] <= their sum; `progress` is negative where alpha L < 1/8."""

    progress: Value  # -alpha/2 (1 - 8 alpha L) E||grad J||^2
    drift: Value  # alpha L (L + 4 alpha L^2)/(NH) sum_{i,l} E||Delta_{i,l}||^2
    truncation: Value  # (alpha + 2 alpha^2 L) D^2 gamma^(2K)
    noise: Value  # 2 alpha^2 L sigma^2/(NH)


def lemma1_terms(
    alpha: Value,
    L: Value,
    N: int,
    H: int,
    norm_sq: Value,
    drift_sum: Value,
    sigma_sq: Value,
    truncation_sq: Value,
) -> Lemma1:
    """(17), term by term; drift_sum is sum_{i,l} E||Delta_{i,l}||^2, truncation_sq is D^2 gamma^(2K)."""
    return Lemma1(
        -alpha / 2 * (1 - 8 * alpha * L) * norm_sq,
        alpha * L * (L + 4 * alpha * L**2) / (N * H) * drift_sum,
        (alpha + 2 * alpha**2 * L) * truncation_sq,
        2 * alpha**2 * L * sigma_sq / (N * H),
    )


def lemma1_right(
    alpha: Value,
    L: Value,
    N: int,
    H: int,
    norm_sq: Value,
    drift_sum: Value,
    sigma_sq: Value,
    truncation_sq: Value,
) -> Value:
    """The right side of (17), less E[J(theta_bar)]."""
    return sum(lemma1_terms(alpha, L, N, H, norm_sq, drift_sum, sigma_sq, truncation_sq))


class Theorem1(NamedTuple):
    """(18) put into (17), alpha_g = 1: E[J(next)] <= E[J] - progress E||grad J||^2 + noise + truncation."""

    progress: Value  # alpha (1/2 - 4x - 32 x^2 (1 + 4x)) with x = alpha L: at least alpha/4 if x <= 1/(4C)
    noise: Value  # 2 alpha^2 L sigma^2/(NH) + 576 alpha^3 L^2 (1 + 4x) sigma^2
    truncation: Value  # alpha (1 + 2x + 576 x^2 (1 + 4x)) D^2 gamma^(2K)


def theorem1_terms(alpha: Value, L: Value, N: int, H: int, sigma_sq: Value, truncation_sq: Value) -> Theorem1:
    """(11) with its constants: the drift term of (17) is 32 alpha x^2 (1 + 4x) G, and 32 * 18 = 576."""
    x = alpha * L
    bent = x**2 * (1 + 4 * x)
    return Theorem1(
        alpha * (0.5 - 4 * x - 32 * bent),
        2 * alpha**2 * L * sigma_sq / (N * H) + 576 * alpha * bent * sigma_sq,
        alpha * (1 + 2 * x + 576 * bent) * truncation_sq,
    )


def theorem1_right(
    alpha: Value, L: Value, N: int, H: int, norm_sq: Value, sigma_sq: Value, truncation_sq: Value
) -> Value:
    """The right side of (11), less E[J(theta_bar)], with the alpha/4 that it states."""
    terms = theorem1_terms(alpha, L, N, H, sigma_sq, truncation_sq)
    return -alpha / 4 * norm_sq + terms.noise + terms.truncation


def theorem2_floor(alpha: Value, mu: Value, L: Value, N: int, H: int, sigma_sq: Value, truncation_sq: Value) -> Value:
    """What (13) leaves for T to infinity: 4/(alpha mu) times Theorem 1's noise and truncation, a geometric sum."""
    terms = theorem1_terms(alpha, L, N, H, sigma_sq, truncation_sq)
    return 4 / (alpha * mu) * (terms.noise + terms.truncation)


def theorem2_right(
    T: Value,
    G0: Value,
    alpha: Value,
    mu: Value,
    L: Value,
    N: int,
    H: int,
    sigma_sq: Value,
    truncation_sq: Value,
) -> Value:
    """(13): E[J(theta_bar^(T)) - J*] <= (1 - alpha mu/4)^T G0 + the floor, where G0 is the first gap."""
    floor = theorem2_floor(alpha, mu, L, N, H, sigma_sq, truncation_sq)
    return (1 - alpha * mu / 4) ** T * G0 + floor


def theorem3_right(
    T: Value,
    fall: Value,
    alpha: Value,
    L: Value,
    N: int,
    H: int,
    sigma_sq: Value,
    truncation_sq: Value,
) -> Value:
    """Theorem 3: the mean of E||grad J||^2 over T rounds is at most this; fall = E[J(theta^(0)) - J(theta^(T))]."""
    terms = theorem1_terms(alpha, L, N, H, sigma_sq, truncation_sq)
    return 4 / alpha * (fall / T + terms.noise + terms.truncation)
