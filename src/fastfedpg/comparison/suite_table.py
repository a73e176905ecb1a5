"""A suite's tables for people: one over all problems, and one problem by problem."""

from collections.abc import Sequence

import numpy as np

from fastfedpg.columns import Column, lay_out, least
from fastfedpg.comparison import aggregate
from fastfedpg.comparison.aggregate import Place
from fastfedpg.comparison.members import SHORT, Member, short
from fastfedpg.comparison.printed import Quantity, arranged, ends, number
from fastfedpg.statistics import FEWEST


def over_all(found: Sequence[Place], members: Sequence[Member], title: str, width: int) -> list[list[str]]:
    """Every method over all problems."""
    row = lambda label, of: Quantity(label, label.strip(), [of(k, p) for k, p in enumerate(found)])
    other = lambda label, of: row(label, lambda k, p: of(p) if p.difference is not None else "")
    count = lambda word: lambda k, p: str(sum(short(x.verdict[k]) == word for x in members)) if k else ""
    noise = any(x.noise for x in members)
    said = [
        row("score", lambda k, p: number(p.score.mean)),
        *[row("  95% interval", lambda k, p: ends(p.score))] * noise,
        other("minus first", lambda p: number(p.difference.mean, "+")),
        *[other("  its interval", lambda p: ends(p.difference, "+"))] * noise,
        other("  so it is", lambda p: short(p.verdict)),
        other("mean difference", lambda p: number(p.mean, "+")),
        other("  p-value", lambda p: f"{p.p:.2g}"),
        other("chance of more", lambda p: number(p.chance.mean)),
        *[other("  its interval", lambda p: ends(p.chance))] * noise,
        *(row(f"{word} on", count(word)) for word in SHORT),
        row("best or tied on", lambda k, p: str(sum(x.tied[k] for x in members))),
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
    few = ", ".join(m.label for m in members if m.few)
    lost = int(sum(np.isinf(m.last[:, : None if m.noise else 1]).sum() for m in members))
    each = "1 seed diverged: it has" if lost == 1 else f"{lost} seeds diverged: each has"
    return [
        "score: the share of what there was to gain that was gained, (J_0 - J)/(J_0 - J*), on each seed; 1 is the best "
        "common policy. The number is the mean over the middle half of all runs; problems count alike",
        *[f"no J* is known of {stated}: the best J that other seeds had reached is in its place"] * bool(stated),
        "intervals: seeds drawn anew within each problem, the same for all methods; of what is beside "
        f"{first} {level}. Equivalent: all of it within {aggregate.MARGIN:g}; open: it can't be told",
        *[f"no noise on {still}: one value for each method, which adds nothing to an interval"] * bool(still),
        *[f"fewer than {FEWEST} seeds on {few}: no intervals, and nothing is told over all problems"] * bool(few),
        "mean difference: of all runs' scores, seed by seed; its p-value is that of a sign-flip test, by Holm for all "
        f"{others}. Chance of more: of a higher score than {first} on a seed, the mean over problems",
        f"problems: better or worse than {first}, equivalent or open, as fastfedpg compare says of each with its own "
        "margin; tied is what is not worse than the best method there",
        *[f"{each} the score {1 - aggregate.WORST:g}, and nothing has less"] * bool(lost),
    ]
