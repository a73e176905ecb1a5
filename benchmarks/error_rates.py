"""How often `compare` says better, worse or equivalent where it must not: `python error_rates.py` prints a table.

Two methods with 8 seeds each and one geometric mean, many times over. "before" is the rule that was: a bootstrap
interval and a sign-flip test of plain differences. Errors are of one side, of which 2.5% are allowed; two minutes.
"""

import sys
from collections.abc import Callable

import numpy as np
from scipy.stats import permutation_test

from fastfedpg.comparison.paired import BETTER, EQUIVALENT, MARGIN, WORSE, difference
from fastfedpg.statistics import bootstrap

SEEDS = 8
Draw = Callable[[np.random.Generator], tuple[np.ndarray, np.ndarray]]


def lognormal(first: float, other: float, common: float = 0.0, ratio: float = 1.0) -> Draw:
    """Gaps whose logarithms have these standard deviations, and one more that is common to a seed's two."""

    def draw(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        seed, a, b = rng.normal(size=(3, SEEDS))
        return np.exp(common * seed + first * a), ratio * np.exp(common * seed + other * b)

    return draw


def known_mean(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A first method that always reaches the other's arithmetic mean: what the rule before was about."""
    return np.full(SEEDS, np.exp(0.5)), np.exp(rng.normal(size=SEEDS))


CASES: dict[str, Draw] = {
    "lognormal(1), independent": lognormal(1.0, 1.0),
    "lognormal(1), half of it common": lognormal(0.7, 0.7, 0.7),
    "lognormal(0.1) and lognormal(1)": lognormal(0.1, 1.0),
    "a constant and lognormal(1)": lognormal(0.0, 1.0),
    "lognormal(2), independent": lognormal(2.0, 2.0),
}


def before(first: np.ndarray, other: np.ndarray) -> str:
    """The rule that was, with fewer resamples."""
    d = other - first
    _, low, high = bootstrap(d, resamples=2000)
    test = permutation_test((d,), np.mean, permutation_type="samples", n_resamples=np.inf, vectorized=True)
    return "" if low <= 0 <= high or test.pvalue > 0.05 else WORSE if low > 0 else BETTER


def now(first: np.ndarray, other: np.ndarray) -> str:
    """The rule as it is."""
    return difference(first, other, log=True).verdict


def rates(rule: Callable[..., str], draw: Draw, times: int, seed: int = 0) -> dict[str, float]:
    """The share of all times in which a rule says so."""
    rng = np.random.default_rng(seed)
    said = [rule(*draw(rng)) for _ in range(times)]
    return {word: said.count(word) / times for word in (BETTER, WORSE, EQUIVALENT)}


def main(times: int) -> None:
    """Print them all."""
    print(f"{times:,} times, {SEEDS} seeds; a rate of 2.5% is known to {2 * np.sqrt(0.025 * 0.975 / times):.2%}\n")
    print(f"{'one geometric mean':<36}{'before':>18}{'now':>18}\n{'':<36}{'better  worse':>18}{'better  worse':>18}")
    for name, draw in CASES.items():
        found = [rates(rule, draw, times) for rule in (before, now)]
        print(f"{name:<36}" + "".join(f"{x[BETTER]:>11.1%}{x[WORSE]:>7.1%}" for x in found))
    lost = rates(before, known_mean, times)
    print(f"{'one arithmetic mean, constant':<36}{lost[BETTER]:>11.1%}{lost[WORSE]:>7.1%}{'(not its question)':>18}")
    for spread in (0.02, 0.1, 0.2):
        wrong = rates(now, lognormal(spread, spread, 1.0, 1 + MARGIN), times)[EQUIVALENT]
        right = rates(now, lognormal(spread, spread, 1.0), times)[EQUIVALENT]
        print(f"said to be equivalent, spread {spread:g}: {wrong:.1%} at a ratio of {1 + MARGIN:g}, {right:.1%} at 1")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 4000)
