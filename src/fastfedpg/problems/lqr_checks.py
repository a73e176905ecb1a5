"""What can be wrong with a linear-quadratic regulator, said so that it can be put right."""

from typing import Any

import numpy as np

from fastfedpg.errors import InputError
from fastfedpg.problems import tabular_checks

SYMMETRIC = 1e-9
"""A matrix is symmetric if it is, to this part of its largest entry; what is left is averaged away."""

ZERO = 1e-12
"""What counts as zero beside the size of a matrix."""


def shapes(A: np.ndarray, B: np.ndarray, Q: np.ndarray, R: np.ndarray, Sigma0: np.ndarray) -> None:
    """Every axis against what A, B and Q say it should be."""
    n = A.shape[0] if A.ndim else 0
    if A.shape != (n, n) or not n:
        raise InputError(f"A has shape {A.shape}; it must be (n, n): states, states")
    if B.ndim != 2 or len(B) != n or not B.size:
        raise InputError(f"B has shape {B.shape}; beside A of shape {A.shape} it must be ({n}, m): states, inputs")
    if Q.ndim != 3 or Q.shape[1:] != (n, n) or not len(Q):
        raise InputError(f"Q has shape {Q.shape}; beside A of shape {A.shape} it must be (N, {n}, {n}): one per agent")
    m = B.shape[1]
    for name, x, right in (("R", R, (len(Q), m, m)), ("Sigma0", Sigma0, (n, n))):
        if x.shape != right:
            raise InputError(
                f"{name} has shape {x.shape}; beside B of shape {B.shape} and Q of shape {Q.shape} it must be {right}"
            )


def symmetric(name: str, x: np.ndarray) -> np.ndarray:
    """The matrix, exactly symmetric, if it nearly is."""
    off = np.abs(x - x.T)
    if off.max() > SYMMETRIC * np.abs(x).max():
        j, k = np.unravel_index(off.argmax(), x.shape)
        raise InputError(f"{name} is not symmetric: [{j}, {k}] is {x[j, k]:g} and [{k}, {j}] is {x[k, j]:g}")
    return (x + x.T) / 2


def positive(name: str, x: np.ndarray, definite: bool) -> None:
    """No eigenvalue below zero, or none that is zero either."""
    values = np.linalg.eigvalsh(x)
    size = ZERO * max(abs(values[0]), abs(values[-1]))
    if values[0] < -size or (definite and values[0] <= size):
        kind = "positive definite" if definite else "positive semidefinite"
        raise InputError(f"{name} must be {kind}; its smallest eigenvalue is {values[0]:.6g}")


def noise(value: Any) -> float:
    """The standard deviation of the policy."""
    result = tabular_checks.array("noise", value)
    if result.size != 1 or not 0 <= result.item() <= 1e100:
        raise InputError(f"noise is {result.tolist()}; it must be one number in [0, 1e100]: a standard deviation")
    return float(result.item())


def stabilisable(A: np.ndarray, B: np.ndarray, gamma: float) -> None:
    """Whether some gain is stable: sqrt(gamma) A has no mode outside the unit circle that B can't reach (Hautus)."""
    a, b = np.sqrt(gamma) * A, np.sqrt(gamma) * B
    size = max(1.0, float(np.linalg.norm(np.hstack([a, b]), 2)))
    for value in np.linalg.eigvals(a):
        reach = np.linalg.svd(np.hstack([a - value * np.eye(len(a)), b.astype(complex)]), compute_uv=False)[-1]
        if abs(value) >= 1 and reach <= 1e-9 * size:
            said = f"{value.real:.6g}" if abs(value.imag) < ZERO * size else f"{value:.6g}"
            raise InputError(
                f"(A, B) can't be stabilised: the eigenvalue {said} of sqrt(gamma) A is uncontrollable and not inside "
                "the unit circle; give B a way to reach its mode, or take a smaller gamma"
            )
