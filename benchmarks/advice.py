"""How often `fastfedpg advise` names the best method, or one that can't be told from it.

python benchmarks/advice.py [OUT] from the repository's folder: on every stored study, and on tuned comparisons of
tables that it runs itself (into OUT, a new folder unless given; what is there is not run again).
"""

import io
import shlex
import sys
import tempfile
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path

from fastfedpg.cli import main
from fastfedpg.comparison.members import tied, typical
from fastfedpg.comparison.run_cells import compare_runs
from fastfedpg.errors import InputError
from fastfedpg.experiment.advice_given import Advice
from fastfedpg.experiment.advised import advise
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


def best(folder: Path, methods: Sequence[str]) -> list[str]:
    """The best method, and those that are not worse than it, by the rule of `fastfedpg compare` (docs/compare.md)."""
    with tempfile.TemporaryDirectory() as place:
        report = compare_runs([folder / name for name in methods], Path(place) / "out", note=lambda words: None)
    order = sorted(zip(methods, report.lines, tied(report, None), strict=True), key=lambda each: typical(each[1]).mean)
    return [name for name, _, is_tied in order if is_tied]


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


def asks_the_same(folder: Path) -> bool:
    """Whether a stored comparison has all methods, each at its best step size, at one budget of samples."""
    named = all((folder / method / "config.toml").is_file() for method in METHODS)
    return named and not {"communication", "speedup"} & {*folder.parts}


def score(name: str, folder: Path) -> tuple[str, list[str]]:
    """One comparison: what was advised, and who won; whether that is right is printed."""
    there = [method for method in METHODS if (folder / method / "config.toml").is_file()]
    winners = best(folder, there)
    chosen, found = advised(from_toml(folder / there[0] / "config.toml"))
    right = chosen in winners
    balance = "" if found is None else f"{found.balance[0]:9.3g}"
    print(f"{name:<28} {balance:>9}  {chosen:<12} {'right' if right else 'WRONG':<6} {' = '.join(winners)}", flush=True)
    return chosen, winners


def run() -> None:
    """Every study and every quick comparison, and the score."""
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp())
    print(f"{'comparison':<28} {'balance':>9}  {'advised':<12} {'':<6} best, and what can't be told from it")
    stored = sorted(file.parent for file in STUDIES.rglob("compare.toml") if asks_the_same(file.parent))
    hits = [score(str(folder.relative_to(STUDIES)), folder) for folder in stored]
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
