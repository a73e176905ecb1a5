"""A comparison's table for people, laid out so that no number and no name is ever broken.

Quantities down and methods across, where that fits; where it is narrow, a row for each method, in several tables.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fastfedpg.columns import Column, lay_out, least
from fastfedpg.comparison.repeats import NUDGE
from fastfedpg.comparison.table import Line, chaotic, reference
from fastfedpg.statistics import Interval


class Quantity(NamedTuple):
    """What is said of every method, in full and as the head of a narrow column."""

    label: str
    short: str
    cells: list[str]


def tables(lines: Sequence[Line], title: str, shared: bool, width: int, played: bool = False) -> list[list[str]]:
    """The lines of the tables that fit so many columns."""
    return arranged(quantities(lines, shared, played), [line.label for line in lines], title, width)


def arranged(said: Sequence[Quantity], names: Sequence[str], title: str, width: int) -> list[list[str]]:
    """Quantities down and methods across, or where that is too wide the other way round, in several tables."""
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
    most, least_seeds = max(line.seeds for line in lines), min(line.seeds for line in lines)
    several = any(line.noise for line in lines) and most > 1
    seeds = f"{most if most == least_seeds else f'{least_seeds} to {most}'} seeds"
    one_unit = len({line.unit for line in lines}) == 1
    unit = lines[0].unit if one_unit else "samples"
    samples = lambda x, n: _count(n) if one_unit or not np.isfinite(n) else f"{_count(n)} {x.unit}"
    interval = f"  95% interval over {seeds}"
    row = lambda label, short, of: Quantity(label, short, [of(line) for line in lines])
    timed = not all(np.isnan(line.simulated_seconds) for line in lines)
    moded = not all(np.isnan(line.return_mode.mean) for line in lines)
    tuned = dict.fromkeys(name for line in lines for name in line.tuned)
    J = "J, the mean discounted cost" if played else "J, the mean cost (there is no J*)"
    gap = ("mean gap to best common policy", "mean gap") if several else ("gap to the best common policy", "gap")
    log = several and not all(np.isnan(x.geometric.mean) for x in lines)
    value = [
        row(*(gap if shared else (J, "J")), lambda x: number(x.value.mean)),
        *[row(f"  geometric mean, {seeds}", "geometric mean", lambda x: number(x.geometric.mean))] * log,
        *[row("  its 95% interval", "its 95% interval", lambda x: ends(x.geometric))] * log,
        *[row(interval, "95% interval", lambda x: ends(x.value))] * (several and not log),
        *[row("  seeds that diverged", "diverged", lambda x: f"{x.lost} of {x.seeds}")] * any(x.lost for x in lines),
        *_differences(lines, several),
    ]
    mean = "mean return of an episode" if played else "mean return of the agents"
    returns = [
        row(mean, "mean return", lambda x: number(x.return_mean.mean)),
        *[row(interval, "95% interval", lambda x: ends(x.return_mean))] * (several and played),
        *[row("mean return, by the mode", "by the mode", lambda x: number(x.return_mode.mean))] * moded,
        *[row(interval, "95% interval", lambda x: ends(x.return_mode))] * (moded and several and played),
        row("worst agent's return", "worst agent", lambda x: number(x.return_worst.mean)),
    ]
    arrival = [
        row("rounds to 1% of the first gap", "rounds to 1%", lambda x: _count(x.rounds_to.mean)),
        *[row("  95% interval of the median", "95% interval", lambda x: _counts(x.rounds_to))] * several,
        row(f"  {unit} until then", f"{unit} to 1%", lambda x: samples(x, x.samples_to.mean)),
        *[row("  seeds that got there", "got there", lambda x: f"{x.arrived} of {x.seeds}")] * several,
    ]
    return [
        row("step size eta", "eta", lambda x: "–" if np.isnan(x.eta) else f"{x.eta:g}"),
        *(row(f"{name}, tuned too", name, lambda x, name=name: x.tuned.get(name, "–")) for name in tuned),
        *((returns + value) if played else (value + returns)),
        *arrival * shared,
        row("rounds", "rounds", lambda x: _count(x.rounds)),
        row(f"{unit}, all agents", unit, lambda x: samples(x, x.samples)),
        row("bytes per agent, up and down", "bytes", lambda x: _count(x.bytes)),
        row("synchronisations", "syncs", lambda x: _count(x.syncs)),
        *[row("simulated seconds", "simulated s", lambda x: number(x.simulated_seconds))] * timed,
        row("seconds", "seconds", lambda x: "–" if np.isnan(x.seconds) else f"{x.seconds:.1f}"),
    ]


def _differences(lines: Sequence[Line], several: bool) -> list[Quantity]:
    """How each differs from the first, and what may be said of it."""
    if len(lines) == 1:
        return []
    log = any(line.difference is not None and line.difference.log for line in lines)
    sign = "" if log else "+"
    first = reference(lines).label
    of = lambda label, short, of: Quantity(label, short, [of(x.difference) if x.difference else "" for x in lines])
    by = (f"  times that of {first}", "times first") if log else (f"  minus that of {first}", "minus first")
    shaken = chaotic(lines)
    every = lambda label, short, of: Quantity(label, short, [of(line) for line in lines])
    return [
        *[every(f"  repeats, start moved by {NUDGE:g}", "repeats", lambda x: ends(x.repeats))] * shaken,
        *[every("  mean of the last tenth", "last tenth", lambda x: number(x.tail.mean))] * shaken,
        *[every("  repeats of that", "its repeats", lambda x: ends(x.tail))] * shaken,
        of(*by, lambda d: number(d.interval.mean, sign)),
        *[of("  its interval, paired", "its interval", lambda d: ends(d.interval, sign))] * several,
        of("  so it is", "so it is", lambda d: d.verdict),
        *[of("  chance of less on a seed", "chance of less", lambda d: number(d.chance.mean))] * several,
        *[of("  interval of the chance", "its interval", lambda d: ends(d.chance))] * several,
        *[of("  smallest a t-test could tell", "could tell", lambda d: number(d.detectable))] * several,
    ]


def number(x: float | np.ndarray, sign: str = "") -> str:
    """Four digits."""
    return "–" if np.isnan(x) else "diverged" if np.isposinf(x) else f"{x:{sign}.4g}"


def ends(x: Interval, sign: str = "") -> str:
    """The ends; an end that nothing is known of is open."""
    if not np.isfinite(x.high) and (not np.isfinite(x.low) or x.low == 0):
        return "–"
    return f"{number(x.low, sign)} to {'any' if np.isinf(x.high) else number(x.high, sign)}"


def _count(x: float | np.ndarray) -> str:
    return "–" if np.isnan(x) else "not reached" if np.isinf(x) else f"{x:,.0f}"


def _counts(x: Interval) -> str:
    return "–" if np.isnan(x.low) or np.isinf(x.low) else f"{_count(x.low)} to {_count(x.high)}"
