"""A result as people look at it: in words, as a table and as a picture; and metrics that are asked for by name."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax.tree_util import DictKey

from fastfedpg.errors import InputError, missing_extra, unknown
from fastfedpg.statistics import Interval, bootstrap, spread, spread_words

if TYPE_CHECKING:
    from fastfedpg.runtime.result import Result

WORDS = {
    "gap": "gap to the best common policy, $J - J^*$",
    "J": "mean cost of the agents, $J$",
    "return_mean": "mean return of the agents",
    "return_worst": "worst agent's return",
    "return_mode": "mean return of the agents, by the mode",
    "grad_norm_sq": "squared norm of the gradient",
}
"""What the axis of a picture says; others are called by their name."""


class Metrics(dict[str, np.ndarray]):
    """Metrics by name; one that is not there is an error with the nearest that is."""

    def __missing__(self, name: object) -> np.ndarray:
        """Say what there is."""
        raise unknown("metric", str(name), self)


def _flatten(metrics: Metrics) -> tuple[list[tuple[DictKey, np.ndarray]], tuple[str, ...]]:
    names = tuple(sorted(metrics))
    return [(DictKey(name), metrics[name]) for name in names], names


# A tree like any other dictionary: checkpoints name its arrays by their place.
jax.tree_util.register_pytree_with_keys(
    Metrics, _flatten, lambda names, arrays: Metrics(zip(names, arrays, strict=True))
)


def leading(result: "Result") -> str:
    """The metric that says most of a run."""
    return leads(result.metrics["gap"], result.metrics["grad_norm_sq"])


def leads(gap: np.ndarray, grad_norm_sq: np.ndarray) -> str:
    """The gap where J* is known, J where only that is, and in environments the return in the user's units."""
    if not np.isnan(gap).all():
        return "gap"
    return "return_mean" if np.isnan(grad_norm_sq).all() else "J"


LABELS = {
    "gap": "gap to the best common policy",
    "J": "J (no gap: kernels or starts differ)",
    "grad_norm_sq": "squared gradient norm",
    "return_mean": "mean return of the agents",
    "return_worst": "worst agent's return",
    "env_steps": "environment steps, all agents",
    "bytes": "bytes per agent, up and down",
    "syncs": "synchronisations",
}
PLAYED = {
    "return_mean": "mean return of an episode",
    "return_mode": "mean return, by the mode",
    "return_worst": "worst agent's return",
    "J": "J, discounted cost",
}
COUNTS = ("env_steps", "bytes", "syncs")


def in_the_end(metrics: Mapping[str, np.ndarray]) -> dict[str, tuple[bool, Interval]]:
    """The last record by what people call its numbers: whether one is a count, and its mean and interval over seeds.

    First the gap, or where there is none J, or in environments the return.
    """
    leading = leads(metrics["gap"], metrics["grad_norm_sq"])
    hidden = {"gap": ("J",), "J": ("gap",), "return_mean": ("gap", "grad_norm_sq")}[leading]
    labels = {**PLAYED, **LABELS, **PLAYED} if leading == "return_mean" else LABELS
    ways = {"bytes": ("bytes_up", "bytes_down")}
    there = (*ways, *metrics)
    rows = {label: name for name, label in labels.items() if name in there and name not in hidden}
    final = lambda name: np.sum([metrics[way][..., -1] for way in ways.get(name, (name,))], axis=0)
    return {label: (name in COUNTS, bootstrap(final(name))) for label, name in rows.items()}


def words(result: "Result") -> str:
    """A line or two: how long, how many, and where it ended."""
    name = leading(result)
    runs = result.final(name)
    seeds = f"{runs.shape[-1]} seed{'s' * (runs.shape[-1] != 1)}"
    settings = f"{runs.shape[0]} settings, " if runs.ndim > 1 else ""
    head = f"Result: {int(result.rounds[-1])} rounds in {len(result.rounds)} records, {settings}{seeds}"
    if runs.ndim > 1:
        means = runs.mean(axis=-1)
        return f"{head}\n{name} {np.nanmin(means):.4g} to {np.nanmax(means):.4g} in the end, means of each setting"
    mean, low, high = bootstrap(runs)
    interval = "" if np.isnan(low) else f", 95% interval {low:.4g} to {high:.4g}"
    return f"{head}\n{'mean ' * (len(runs) > 1)}{name} {mean:.4g} in the end{interval}"


def frame(result: "Result") -> Any:
    """A pandas DataFrame with a row for each run and record."""
    try:
        import pandas  # type: ignore[import-untyped]
    except ImportError:
        raise missing_extra("a data frame", "pandas", "frame") from None
    shape = result.metrics["J"].shape
    *setting, seed, record = np.indices(shape)
    columns: dict[str, Any] = dict(zip(["setting"], setting, strict=False))
    columns |= {"seed": result.first_seed + seed, "round": result.rounds[record]}
    return pandas.DataFrame({name: np.ravel(values) for name, values in {**columns, **result.metrics}.items()})


POINTS = 2000
"""Of a longer curve a picture shows no more than this many."""


def drawn(records: int) -> np.ndarray:
    """Which records of a run a picture shows: all, or so many at equal distances, with the first and the last."""
    return np.unique(np.linspace(0, records - 1, min(records, POINTS)).round().astype(int))


LONG = 36
"""Letters from which on an axis's label takes two lines."""

DECADES = 3
"""A gap that falls by less than this factor is drawn on a plain axis."""


PLAIN = 1e-4, 1e5
"""Between these a logarithmic axis has plain numbers, all of them, and beyond powers of ten, all of them."""


def decades(axis: Any) -> None:
    """Numbers of a logarithmic axis, of one kind; between the powers of ten where there is hardly one of them."""
    from matplotlib.ticker import LogFormatter, LogFormatterMathtext, LogFormatterSciNotation

    class Plain(LogFormatter):
        def __call__(self, x: float, pos: int | None = None) -> str:
            return f"{x:g}" if super().__call__(x, pos) else ""

    low, high = axis.get_view_interval()
    plain = PLAIN[0] <= low and high <= PLAIN[1]
    axis.set_major_formatter(Plain() if plain else LogFormatterMathtext())
    between = Plain if plain else LogFormatterSciNotation
    axis.set_minor_formatter(between(labelOnlyBase=False, minor_thresholds=(1.5, 0.5)))


def plot(result: "Result", metric: str | None = None) -> Any:
    """A matplotlib Figure: a metric over rounds, its mean over seeds and the interval of that mean, or their range."""
    try:
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator
    except ImportError:
        raise missing_extra("figures", "matplotlib", "plot") from None
    name = metric or leading(result)
    shown = drawn(len(result.rounds))
    values, rounds = np.asarray(result.metrics[name][..., shown], float), result.rounds[shown]
    if values.ndim != 2:
        raise InputError("a result of several settings has no single curve; draw each, as metrics[name][setting]")
    if np.isnan(values).all():
        raise InputError(f"metric '{name}' is not defined in this run")
    mean, low, high = spread(values)
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axis = figure.add_subplot()
    axis.plot(rounds, mean, color="#0072B2", linewidth=1.8, marker="o" if len(mean) < 20 else "", markersize=4)
    if np.isfinite(low).any():
        axis.fill_between(rounds, low, high, color="#0072B2", alpha=0.2, linewidth=0)
    top, bottom = np.nanmax(np.fmax(mean, high)), np.nanmin(np.where(low > 0, low, mean))
    if name in ("gap", "grad_norm_sq") and np.nanmin(mean) > 0 and top > DECADES * bottom:
        axis.set_yscale("log")
        axis.set_ylim(max(bottom, np.nanmin(mean) / 10) / 1.3, 1.3 * top)
        decades(axis.yaxis)
    axis.set_xlabel("communication rounds")
    label = WORDS.get(name, name)
    axis.set_ylabel(label if len(label) < LONG else label.replace(", $", "\n$"))  # a formula is not broken
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)
    axis.set_title(spread_words([len(values)]), fontsize=9)
    return figure
