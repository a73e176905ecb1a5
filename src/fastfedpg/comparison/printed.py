"""A comparison's table for people, laid out so that no number and no name is ever broken.

Quantities down and methods across, where that fits; where it is narrow, a row for each method, in several tables.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fastfedpg.columns import Column, lay_out, least
from fastfedpg.comparison.table import Line
from fastfedpg.statistics import Interval


class Quantity(NamedTuple):
    """What is said of every method, in full and as the head of a narrow column."""

    label: str
    short: str
    cells: list[str]


def tables(lines: Sequence[Line], title: str, shared: bool, width: int, played: bool = False) -> list[list[str]]:
    """The lines of the tables that fit so many columns."""
    said, names = quantities(lines, shared, played), [line.label for line in lines]
    across = [Column("", [q.label for q in said], whole=True, right=False)]
    across += [Column(name, [q.cells[k] for q in said]) for k, name in enumerate(names)]
    if least(across) <= width:
        return [[title, *lay_out(across, width)]]
    parts = [[Column("", names, whole=True, right=False)]]
    for q in said:
        column = Column(q.short, q.cells)
        if len(parts[-1]) > 1 and least([*parts[-1], column]) > width:
            parts.append(parts[0][:1])
        parts[-1].append(column)
    return [[*[title] * (k == 0), *lay_out(part, width)] for k, part in enumerate(parts)]


def quantities(lines: Sequence[Line], shared: bool, played: bool = False) -> list[Quantity]:
    """What is said of every method; in environments the return in the user's units comes first."""
    several = any(line.noise for line in lines) and max(line.seeds for line in lines) > 1
    one_unit = len({line.unit for line in lines}) == 1
    unit = lines[0].unit if one_unit else "samples"
    samples = lambda x, n: _count(n) if one_unit or not np.isfinite(n) else f"{_count(n)} {x.unit}"
    interval = f"  95% interval over {lines[0].seeds} seeds"
    against = lambda x, of: of(x.difference) if x.difference else ""
    row = lambda label, short, of: Quantity(label, short, [of(line) for line in lines])
    J = "J, the mean discounted cost" if played else "J, the mean cost (there is no J*)"
    value = [
        row(*(("gap to the best common policy", "gap") if shared else (J, "J")), lambda x: _number(x.value.mean)),
        *[row(interval, "95% interval", lambda x: _range(x.value))] * several,
    ]
    if len(lines) > 1:
        value.append(
            row(
                f"  minus that of {lines[0].label}", "minus first",
                lambda x: against(x, lambda d: _number(d.interval.mean, "+")),
            )
        )  # fmt: skip
        paired = lambda x: against(x, lambda d: _range(d.interval, "+"))
        value += [row("  its interval, paired", "its interval", paired)] * several
        value.append(row("  so it is", "so it is", lambda x: against(x, lambda d: d.verdict)))
        told = lambda x: against(x, lambda d: _number(d.detectable))
        value += [row("  smallest a t-test could tell", "could tell", told)] * several
    mean = "mean return of an episode" if played else "mean return of the agents"
    returns = [
        row(mean, "mean return", lambda x: _number(x.return_mean.mean)),
        *[row(interval, "95% interval", lambda x: _range(x.return_mean))] * (several and played),
        row("worst agent's return", "worst agent", lambda x: _number(x.return_worst.mean)),
    ]
    arrival = [
        row("rounds to 1% of the first gap", "rounds to 1%", lambda x: _count(x.rounds_to)),
        row(f"  {unit} until then", f"{unit} to 1%", lambda x: samples(x, x.samples_to)),
        *[row("  seeds that got there", "got there", lambda x: f"{x.arrived} of {x.seeds}")] * several,
    ]
    return [
        row("step size eta", "eta", lambda x: "–" if np.isnan(x.eta) else f"{x.eta:g}"),
        *((returns + value) if played else (value + returns)),
        *arrival * shared,
        row("rounds", "rounds", lambda x: _count(x.rounds)),
        row(f"{unit}, all agents", unit, lambda x: samples(x, x.samples)),
        row("bytes per agent, up and down", "bytes", lambda x: _count(x.bytes)),
        row("synchronisations", "syncs", lambda x: _count(x.syncs)),
        row("seconds", "seconds", lambda x: "–" if np.isnan(x.seconds) else f"{x.seconds:.1f}"),
    ]


def _number(x: float | np.ndarray, sign: str = "") -> str:
    return "–" if np.isnan(x) else f"{x:{sign}.4g}"


def _range(x: Interval, sign: str = "") -> str:
    return "–" if np.isnan(x.low) else f"{_number(x.low, sign)} to {_number(x.high, sign)}"


def _count(x: float) -> str:
    return "–" if np.isnan(x) else "not reached" if np.isinf(x) else f"{x:,.0f}"
