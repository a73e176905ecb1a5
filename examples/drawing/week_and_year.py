"""A week in one office and a year in all of them, as a building manager wants to see it."""

from pathlib import Path

import jax
import numpy as np
from matplotlib.figure import Figure

from fastfedpg.envs.catalogue.office import BAND, Hour

LOOKS = {"learned together": ("#0072B2", "o"), "each alone": ("#009E73", "s")}
LOOKS |= {"night setback": ("#D55E00", "^"), "fixed setting": ("#CC79A7", "D")}
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def picture(years: dict[str, Hour], preferred: np.ndarray, file: Path, office: int = 20, monday: int = 14) -> None:
    """`years` are hours (offices, 8760) by the name of who controls them, all in the same weather."""
    figure = Figure(figsize=(13, 7), layout="constrained", dpi=110)
    grid = figure.add_gridspec(4, 2, width_ratios=(1.55, 1), height_ratios=(2.6, 1, 1, 0.7))
    air, out, power, cost = rows = [figure.add_subplot(grid[k, 0]) for k in range(4)]
    hours, part = np.arange(168) / 24, lambda x: x[office, 24 * monday :][:168]
    for name in [name for name in LOOKS if name in years][-2::-1]:
        week, colour = jax.tree.map(part, years[name]), LOOKS[name][0]
        air.plot(hours, week.indoor, color=colour, label=name)
        power.step(hours, week.power, where="post", color=colour)
    low, high, yellow = preferred[office] - BAND, preferred[office] + BAND, "#F0E442"
    air.fill_between(hours, low, high, week.occupied, step="post", color=yellow, alpha=0.5, label="comfort if occupied")
    out.plot(hours, week.outdoor, color="black")
    cost.step(hours, 100 * week.price, where="post", color="black")
    air.set(title=f"A week in January: office {office} prefers {preferred[office]:.1f} °C")
    air.legend(ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.03), frameon=False)
    cost.set(ylim=(0, 50), xticks=np.arange(0.5, 7), xticklabels=DAYS)
    for axes, label in zip(rows, ("indoors, °C", "outdoors, °C", "heat pump, kW", "ct/kWh"), strict=True):
        axes.vlines(np.arange(1, 7), 0, 1, transform=axes.get_xaxis_transform(), color="#DDDDDD", linewidth=1, zorder=0)
        axes.tick_params(axis="x", length=0, labelbottom=axes is cost)
        axes.set(xlim=(0, 7), ylabel=label)
    year = figure.add_subplot(grid[:, 1])
    for name, all_hours in years.items():
        kwh, outside = all_hours.energy.sum(axis=1), all_hours.outside(preferred[:, None]).sum(axis=1)
        bill = (all_hours.price * all_hours.energy).sum(axis=1).mean()
        label = f"{name}: {kwh.mean():,.0f} kWh for {bill:,.0f} €, {outside.mean():,.0f} degree-hours"
        year.plot(outside, kwh, LOOKS[name][1], color=LOOKS[name][0], alpha=0.75, label=label)
    year.set_xscale("symlog", linthresh=10, linscale=0.3)
    year.set(xlim=(-3, None), xlabel="degree-hours outside the comfort band while people are there")
    year.set(ylim=(0, None), ylabel="electricity, kWh", title=f"A year in each of {len(preferred)} offices")
    year.legend(loc="lower left", title="mean of the offices", fontsize=9)
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(file)
