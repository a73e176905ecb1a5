"""A winter week in one office, and what a year costs all of them, whoever controls them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from managing.contenders import Judged
from managing.table import AGAINST, difference

from fastfedpg.crossed import crossed
from fastfedpg.draw import style
from fastfedpg.envs.catalogue.office import BAND
from fastfedpg.envs.catalogue.office_years import Log, log

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
BLUE, ORANGE, GREEN, YELLOW, GREY = "#0072B2", "#D55E00", "#009E73", "#F0E442", "#666666"
COLOURS = {"rule": GREY, "searched": ORANGE, "learned": BLUE}
KINDS = {"rule": "what managers set", "searched": "best of many rules", "learned": "learned"}


def week(judged: Judged, office: int, monday: int, seed: int) -> Log:
    """Monday to Sunday, after a week that takes the start away; of several seeds the first."""
    one = lambda tree: jax.tree.map(lambda x: np.asarray(x)[office], tree)
    contender = judged.contender
    place, own = one(contender.offices), one(contender.own[0])
    days = jax.jit(lambda: log(place, contender.make(place, own), 14, seed, monday - 7))()
    return jax.tree.map(lambda x: np.asarray(x)[-168:], days)


def picture(found: Sequence[Judged], stem: Path, office: int = 20, monday: int = 14, seed: int = 1) -> list[Path]:
    """The cheapest learned policy, or rule, beside the night setback for a week; beside it all of them for years."""
    best = min(found, key=lambda j: (j.contender.kind != "learned", j.costs.total.mean()))
    setback = next(j for j in found if j.contender.name == AGAINST)
    with style.drawing() as Figure:
        figure = Figure(figsize=(15, 7.5), layout="constrained")
        left, right = figure.subfigures(1, 2, width_ratios=(1.15, 1))
        _draw_week(left, setback, best, office, monday, seed)
        _draw_years(right, found)
        return style.save(figure, stem)


def _draw_week(figure: Any, rule: Judged, best: Judged, office: int, monday: int, seed: int) -> None:
    air, power, out, price = figure.subplots(4, 1, sharex=True, height_ratios=(3, 1.2, 1, 0.7))
    time, preferred = np.arange(168) / 24, float(np.asarray(best.contender.offices.preferred)[office])
    for judged, colour in ((rule, COLOURS["rule"]), (best, COLOURS[best.contender.kind])):
        seen, name = week(judged, office, monday, seed), style.plain(judged.contender.name)
        air.plot(time, seen.hours.indoor, color=colour, linewidth=2, label=f"room: {name}")
        air.step(time, seen.heat_to, where="post", color=colour, linestyle=":", label="its set point")
        power.step(time, seen.hours.power, where="post", color=colour, linewidth=1.5)
    hours = seen.hours
    low, high = preferred - BAND, preferred + BAND
    air.fill_between(
        time, low, high, hours.occupied, step="post", color=YELLOW, alpha=0.5, label="comfortable, people are there"
    )
    out.plot(time, hours.outdoor, color="black")
    out.axhline(0, color="#CCCCCC", linewidth=1, zorder=0)
    price.fill_between(time, 100 * hours.price, step="post", color="#CCCCCC")
    figure.suptitle(f"A week in January, in an office that likes {preferred - BAND:.1f} to {preferred + BAND:.1f} °C")
    air.legend(ncols=3, loc="lower left", bbox_to_anchor=(0, 1), fontsize=style.SMALL, frameon=False)
    price.set(ylim=(0, 50), xlim=(0, 7), xticks=np.arange(0.5, 7), xticklabels=DAYS)
    price.tick_params(axis="x", length=0)
    labels = ("indoors, °C", "heat pump,\nkW", "outdoors,\n°C", "price,\nct/kWh")
    for axes, label in zip((air, power, out, price), labels, strict=True):
        axes.vlines(np.arange(1, 7), 0, 1, transform=axes.get_xaxis_transform(), color="#DDDDDD", linewidth=1, zorder=0)
        axes.set_ylabel(label)
    figure.align_ylabels([air, power, out, price])


def _draw_years(figure: Any, found: Sequence[Judged]) -> None:
    rows = sorted(found, key=lambda j: -j.costs.total.mean())
    setback = next(j for j in found if j.contender.name == AGAINST)
    euros, saved = figure.subplots(1, 2, sharey=True, width_ratios=(1.4, 1))
    gaps = [crossed(difference(judged, setback)) for judged in rows]
    reach = 1.6 * max(abs(gap.mean) for gap, j in zip(gaps, rows, strict=True) if j.contender.kind == "searched")
    for y, (judged, gap) in enumerate(zip(rows, gaps, strict=True)):
        colour, costs = COLOURS[judged.contender.kind], judged.costs
        energy = costs.energy.mean()
        euros.barh(y, energy, 0.6, color=colour)
        euros.barh(y, costs.discomfort.mean(), 0.6, left=energy, color="white", edgecolor=colour, hatch="////")
        euros.text(25, y + 0.12, f"{costs.total.mean():,.0f} €", va="center", color="white", fontweight="bold")
        words = f"{costs.far.mean():,.0f} hours too cold or warm"
        euros.text(25, y - 0.15, words, va="center", color="white", fontsize=style.SMALL)
        _whisker(saved, y, gap, colour, reach)
    saved.axvline(0, color="#CCCCCC", linewidth=1, zorder=0)
    saved.set(xlim=(-reach, reach), xlabel="€ minus night setback,\n95% interval")
    euros.set_yticks(range(len(rows)), [style.plain(j.contender.name, 1.3) for j in rows])
    euros.set_xlabel("€ a year: electricity and (hatched) discomfort;\ntoo cold or warm: by more than 1 °C")
    euros.xaxis.set_major_formatter("{x:,.0f}")
    kinds = [euros.barh(0, 0, color=COLOURS[kind], label=words) for kind, words in KINDS.items()]
    figure.legend(handles=kinds, ncols=3, loc="outside lower center", fontsize=style.SMALL, frameon=False)
    euros.tick_params(axis="y", length=0)
    saved.tick_params(axis="y", length=0)
    offices, years = len(rows[0].contender.offices.preferred), rows[0].costs.total.shape[1]
    figure.suptitle(f"What a year costs: mean of {offices} offices and {years} weather years")


def _whisker(axes: Any, y: int, gap: Any, colour: str, reach: float) -> None:
    """A mean with its interval; an arrow at the edge where it is further away."""
    if abs(gap.mean) > 0.9 * reach:
        side = np.sign(gap.mean)
        axes.plot(side * 0.95 * reach, y, ">" if side > 0 else "<", color=colour, clip_on=False)
        axes.text(side * 0.88 * reach, y, f"{gap.mean:+,.0f} €", ha="right" if side > 0 else "left", va="center")
        return
    axes.plot([gap.low, gap.high], [y, y], color=colour, linewidth=3, solid_capstyle="butt")
    axes.plot(gap.mean, y, "o", color=colour)
    words = f"{gap.mean:+,.0f} €" if gap.mean else "0 €"
    axes.text(gap.mean, y + 0.18, words, ha="center", va="top", fontsize=style.SMALL)
