"""What the contenders' years cost, in words and numbers."""

from collections.abc import Sequence

import numpy as np
from managing.contenders import Judged

from fastfedpg.crossed import crossed

AGAINST = "night setback"


def difference(one: Judged, other: Judged) -> np.ndarray:
    """How much more one's years cost than the other's, in the same weather: (seeds, years); rules have no seeds."""
    return np.asarray(one.costs.total - other.costs.total.mean(axis=0))


def plus_minus(x: np.ndarray, sign: str = "") -> str:
    """The mean and half of its interval."""
    mean, low, high = crossed(x)
    return f"{mean:{sign},.0f} ± {(high - low) / 2:,.0f}" if np.isfinite(low) else f"{mean:{sign},.0f}"


def table(found: Sequence[Judged]) -> str:
    """A row for each, the dearest first; hours are those with people, outside the comfort band and by more than 1 K."""
    against = next(j for j in found if j.contender.name == AGAINST)
    head = f"{'':34}{'energy':>7}{'discomfort':>11}{'total':>12}{'minus setback':>14}{'hours':>6}{'>1 K':>5}"
    rows = [
        f"{j.contender.name:<34.33}{j.costs.energy.mean():>7,.0f}{j.costs.discomfort.mean():>11,.0f}"
        f"{plus_minus(j.costs.total):>12}{plus_minus(difference(j, against), '+'):>14}"
        f"{j.costs.outside.mean():>6,.0f}{j.costs.far.mean():>5,.0f}"
        for j in sorted(found, key=lambda j: -j.costs.total.mean())
    ]
    offices, years = len(against.contender.offices.preferred), against.costs.total.shape[1]
    about = f"{offices} offices, {years} weather years: euros a year for an office, and 95% intervals"
    return "\n".join([about, head, "─" * len(head), *rows])


def verdicts(found: Sequence[Judged]) -> list[str]:
    """Each learned policy against the best rules."""
    rivals = [j for j in found if j.contender.name in (AGAINST, "best common rule", "best personal rule")]
    return [_verdict(j, rival) for j in found if j.contender.kind == "learned" for rival in rivals]


def _verdict(one: Judged, rival: Judged) -> str:
    mean, low, high = (100 * x / rival.costs.total.mean() for x in crossed(difference(one, rival)))
    so = "cheaper" if high < 0 else "dearer" if low > 0 else "not distinguishable"
    return f"{one.contender.name} against the {rival.contender.name}: {mean:+.1f}%, {low:+.1f} to {high:+.1f}: {so}"
