"""A suite's tables for people: one over all problems, and one problem by problem."""

from collections.abc import Sequence

import numpy as np

from fastfedpg.columns import Column, lay_out, least
from fastfedpg.comparison import aggregate, paired
from fastfedpg.comparison.aggregate import Place
from fastfedpg.comparison.members import Member, short
from fastfedpg.comparison.printed import Quantity, arranged, ends, number


def over_all(found: Sequence[Place], members: Sequence[Member], title: str, width: int) -> list[list[str]]:
    """Every method over all problems."""
    first, m = found[0].label, len(members)
    row = lambda label, short, of: Quantity(label, short, [of(k, p) for k, p in enumerate(found)])
    other = lambda label, short, of: row(label, short, lambda k, p: of(p) if p.difference is not None else "")
    count = lambda word: lambda k, p: str(sum(short(x.verdict[k]) == word for x in members)) if k else ""
    noise = any(x.noise for x in members)
    said = [
        row("score, interquartile mean", "score", lambda k, p: number(p.score.mean)),
        *[row("  95% interval", "95% interval", lambda k, p: ends(p.score))] * noise,
        other(f"  minus that of {first}", "minus first", lambda p: number(p.difference.mean, "+")),
        *[other("  its interval, paired", "its interval", lambda p: ends(p.difference, "+"))] * noise,
        other("  so it is", "so it is", lambda p: p.verdict),
        other("  mean difference of scores", "mean difference", lambda p: number(p.mean, "+")),
        other("  p-value of its sign flips", "p-value", lambda p: f"{p.p:.2g}"),
        other("chance of a higher score", "chance of more", lambda p: number(p.chance.mean)),
        *[other("  its interval", "its interval", lambda p: ends(p.chance))] * noise,
        row(f"problems, of {m}: better", "better", count("better")),
        row("  worse", "worse", count("worse")),
        row("  equivalent", "equivalent", count("equivalent")),
        row("  open", "open", count("open")),
        row("  best, or not worse than it", "best or tied", lambda k, p: str(sum(x.tied[k] for x in members))),
    ]
    return arranged(said, [p.label for p in found], title, width)


def each(methods: Sequence[str], members: Sequence[Member], width: int) -> list[list[str]]:
    """Problem by problem, three lines each; where that is too wide, some methods after the others."""
    heads = [(m.label if m.metric == "gap" else f"{m.label}, {m.metric}", "  at eta", "  so it is") for m in members]
    names = Column("", [line for three in heads for line in three], whole=True, right=False)
    eta = lambda x: "–" if np.isnan(x) else f"{x:.4g}"
    columns = [
        Column(method, [cell for m in members for cell in (number(m.value[k]), eta(m.eta[k]), short(m.verdict[k]))])
        for k, method in enumerate(methods)
    ]
    parts = [[names]]
    for column in columns:
        if len(parts[-1]) > 1 and least([*parts[-1], column]) > width:
            parts.append([names])
        parts[-1].append(column)
    title = "problem by problem: the gap at the end, or J where that is said"
    return [[*[title] * (k == 0), *lay_out(part, width)] for k, part in enumerate(parts)]


def footnotes(found: Sequence[Place], members: Sequence[Member]) -> list[str]:
    """What a reader must know to read the tables rightly."""
    first, others = found[0].label, len(found) - 1
    level = "95%" if others == 1 else f"95% for all {others} together"
    stated = ", ".join(m.label for m in members if m.metric == "J")
    still = ", ".join(m.label for m in members if not m.noise)
    lone = ", ".join(m.label for m in members if m.noise and len(m.seeds) == 1)
    lost = int(sum(np.isinf(m.last).sum() for m in members))
    return [
        "score: the share of what there was to gain that was gained, (J_0 - J)/(J_0 - J*), on each seed; 1 is the best "
        "common policy. The mean is over the middle half of all runs, and problems count alike",
        *[f"no J* is known of {stated}: the best J that other seeds had reached is in its place"] * bool(stated),
        "intervals: seeds drawn anew within each problem, the same for all methods; of differences to "
        f"{first} {level}. Equivalent: all of it within {aggregate.MARGIN:g}",
        *[f"no noise on {still}: one value for each method, which adds nothing to an interval"] * bool(still),
        *[f"one seed on {lone}: its noise is in no interval"] * bool(lone),
        f"the p-value is for the mean difference over problems, signs flipped seed by seed, by Holm for all {others}; "
        "chance of a higher score on a seed: the mean over problems",
        "problem by problem as fastfedpg compare says it: better or worse than "
        f"{first}, equivalent within its margin, open where that can't be told; {paired.MARGIN:g} is a factor of "
        f"{1 + paired.MARGIN:g} between gaps",
        *[f"{lost} seeds diverged: each has the score {1 - aggregate.WORST:g}, and nothing has less"] * bool(lost),
    ]
