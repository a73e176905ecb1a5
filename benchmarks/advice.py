"""How often `fastfedpg advise` names the best method, or one that can't be told from it.

python benchmarks/advice.py [OUT] from the repository's folder: on every stored study, and on tuned comparisons of
tables that it runs itself (into OUT, a new folder unless given; what is there is not run again).
"""

import csv
import io
import shlex
import sys
import tempfile
from contextlib import redirect_stdout
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.stats import ttest_rel

from fastfedpg.cli import main
from fastfedpg.errors import InputError
from fastfedpg.experiment.advised import Advice, advise
from fastfedpg.experiment.config import Config, from_toml

STUDIES = Path(__file__).resolve().parent.parent / "docs" / "studies"
METHODS = ("fast_fedpg", "fedavg_pg", "scaffold_pg")
SAMPLED = "--oracle gpomdp --baseline leave-one-out"
QUICK = {
    "grid, exact": "--problem compromise-grid --H 20 --eta 4 --rounds 40",
    "compromise, exact": "--problem compromise --H 10 --eta 1 --rounds 40",
    "mazes, exact": "--problem mazes --H 10 --eta 8 --rounds 40",
    "river-swim, exact": "--problem river-swim --H 10 --eta 1 --rounds 40",
    "grid": f"--problem compromise-grid {SAMPLED} --B 32 --K 50 --H 20 --eta 2 --rounds 40 --seeds 8",
    "grid, B = 4": f"--problem compromise-grid {SAMPLED} --B 4 --K 50 --H 10 --eta 1 --rounds 40 --seeds 8",
    "grid, Eq. (5)": "--problem compromise-grid --oracle reinforce --B 16 --H 20 --eta .25 --rounds 40 --seeds 8",
    "compromise": f"--problem compromise {SAMPLED} --B 8 --K 10 --H 10 --eta 1 --rounds 40 --seeds 8",
    "random": f"--problem random {SAMPLED} --B 8 --K 20 --H 10 --eta 2 --rounds 40 --seeds 8",
    "random, Eq. (5)": "--problem random --oracle reinforce --B 8 --K 20 --H 10 --eta .25 --rounds 40 --seeds 8",
    "garnet, 16 agents": f"--problem garnet --agents 16 {SAMPLED} --B 4 --K 20 --H 5 --eta 2 --rounds 40 --seeds 8",
    "opposed-line": f"--problem opposed-line {SAMPLED} --B 16 --K 40 --H 10 --eta 1 --rounds 40 --seeds 8",
}
"""Tuned comparisons: each method at its own best step size, on one budget of samples."""


class Ends(NamedTuple):
    """Where a method ended: the last and the first J of each seed."""

    last: np.ndarray
    first: np.ndarray


def ends(folder: Path) -> Ends:
    """From a run's metrics.csv."""
    rows: dict[str, list[float]] = {}
    with (folder / "metrics.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            rows.setdefault(row["seed"], []).append(float(row["J"]))
    return Ends(np.array([each[-1] for each in rows.values()]), np.array([each[0] for each in rows.values()]))


def best(found: dict[str, Ends]) -> list[str]:
    """The method with the least mean J, and those that can't be told from it: by a paired t-test at 5% in all.

    Without noise a method is told from it by more than 1% of what the best improved J by.
    """
    order = sorted(found, key=lambda name: found[name].last.mean())
    first, others = found[order[0]], order[1:]
    level = 0.05 / len(others)
    if len(first.last) == 1 or not np.ptp(first.last):
        margin = 0.01 * float(first.first.mean() - first.last.mean())
        return [order[0], *(n for n in others if found[n].last.mean() - first.last.mean() < margin)]
    return [order[0], *(n for n in others if not ttest_rel(found[n].last, first.last).pvalue < level)]


def advised(config: Config) -> tuple[str, Advice | None]:
    """The method that is advised among those compared; step sizes were tuned, so none is given."""
    given = {
        name: value for name, value in config.given.items() if name.rpartition(".")[2] not in ("eta", "reuse", "B0")
    }
    try:
        found = advise(config.but(algorithm="fast_fedpg", seeds=1, given=given))
    except InputError as error:
        return str(error), None
    return next(c.method.name for c in found.costs if c.method.name in METHODS), found


def score(name: str, folder: Path) -> tuple[str, list[str]]:
    """One comparison: what was advised, and who won; whether that is right is printed."""
    there = [method for method in METHODS if (folder / method / "metrics.csv").is_file()]
    winners = best({method: ends(folder / method) for method in there})
    chosen, found = advised(from_toml(folder / there[0] / "config.toml"))
    right = chosen in winners
    balance = "" if found is None else f"{found.balance[0]:9.3g}"
    print(f"{name:<20} {balance:>9}  {chosen:<12} {'right' if right else 'WRONG':<6} {' = '.join(winners)}", flush=True)
    return chosen, winners


def run() -> None:
    """Every study and every quick comparison, and the score."""
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp())
    print(f"{'comparison':<20} {'balance':>9}  {'advised':<12} {'':<6} best, and what can't be told from it")
    hits = [score(folder.name, folder) for folder in sorted(STUDIES.iterdir())]
    for k, (name, words) in enumerate(QUICK.items()):
        folder = out / str(k)
        if not (folder / "table.csv").is_file():
            tuned = (
                "--tune --tune-seeds 4 --metrics-every 20" if "seeds" in words else "--tune --tune-seeds 1 --seeds 1"
            )
            with redirect_stdout(io.StringIO()):
                main(["compare", "--algorithms", *METHODS, *shlex.split(f"{words} {tuned} --out {folder}")])
        hits.append(score(name, folder))
    rules = {"advised": [chosen in won for chosen, won in hits]}
    rules |= {f"always {method}": [method in won for _, won in hits] for method in METHODS}
    print(f"\nthe best method, or one that can't be told from it, of {len(hits)} comparisons:")
    for rule, right in rules.items():
        print(f"  {rule:<20} {sum(right)}")


if __name__ == "__main__":
    run()
