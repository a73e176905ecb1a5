"""How often `fastfedpg advise` names the best method, or one that can't be told from it.

python benchmarks/advice.py [OUT] from the repository's folder: on every stored comparison, and with OUT on tuned
comparisons of tables that it runs itself, into that folder (what is there is not run again). What is advised is not
tried, since a trial changes step sizes and rounds, and not the method.
"""

import io
import shlex
import sys
import tempfile
import tomllib
from collections.abc import Collection, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import NamedTuple

from fastfedpg.cli import main
from fastfedpg.comparison.members import tied, typical
from fastfedpg.comparison.run_cells import compare_runs
from fastfedpg.errors import InputError
from fastfedpg.experiment import advised
from fastfedpg.experiment.advice_given import Advice
from fastfedpg.experiment.config import Config, from_toml
from fastfedpg.statistics import FEWEST

STUDIES = Path(__file__).resolve().parent.parent / "docs" / "studies"
METHODS = ("fast_fedpg", "heavy_anchor", "fedavg_pg", "scaffold_pg", "minibatch_pg")
PLAIN = ("fast_fedpg", "fedavg_pg", "scaffold_pg")
"""Those that are worth a run without noise, where more estimates at one point are the same one again."""
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


class Scored(NamedTuple):
    """One comparison: what was advised, who could have been, who won, and whether all are tuned at equal samples."""

    chosen: str
    there: list[str]
    winners: list[str]
    asks_the_same: bool

    @property
    def told(self) -> bool:
        """Whether anything is: where all are as good as the best no advice is wrong."""
        return set(self.winners) != set(self.there)


def cells(folder: Path) -> dict[str, Path]:
    """The runs of the methods that there is a model of, whatever their labels; Fast-FedPG without `reuse`."""
    found: dict[str, Path] = {}
    for file in sorted(folder.glob("*/config.toml")):
        config = from_toml(file)
        if config.algorithm in METHODS and not config.get("reuse"):
            found.setdefault(config.algorithm, file.parent)
    return {name: found[name] for name in METHODS if name in found}


def tells(folder: Path) -> bool:
    """Whether there are two methods to choose from and, where there is noise, seeds enough for a verdict."""
    runs = cells(folder)
    if len(runs) < 2:
        return False
    config = from_toml(next(iter(runs.values())) / "config.toml")
    return not config.get("oracle.B") or config.seeds >= FEWEST


def best(runs: dict[str, Path]) -> list[str]:
    """The best method, and those that are not worse than it, by the rule of `fastfedpg compare` (docs/compare.md)."""
    with tempfile.TemporaryDirectory() as place:
        report = compare_runs(list(runs.values()), Path(place) / "out", note=lambda words: None)
    order = sorted(zip(runs, report.lines, tied(report, None), strict=True), key=lambda each: typical(each[1]).mean)
    return [name for name, _, is_tied in order if is_tied]


def named(config: Config, there: Collection[str]) -> tuple[str, Advice | None]:
    """The method that is advised among those compared; their step sizes are not told."""
    own = ("eta", "reuse", "B0")
    given = {name: value for name, value in config.given.items() if name.rpartition(".")[2] not in own}
    try:
        found = advised.advise(config.but(algorithm="fast_fedpg", seeds=1, given=given))
    except InputError as error:
        return str(error), None
    return next(c.method.name for c in found.costs if c.method.name in there), found


def score(name: str, folder: Path) -> Scored:
    """One comparison, printed: `any` where no advice could be wrong."""
    runs, asked = cells(folder), tomllib.loads((folder / "compare.toml").read_text())
    same = bool(asked["tune"]) and asked["budget"] == "samples" and "participants" not in asked
    winners = best(runs)
    chosen, found = named(from_toml(next(iter(runs.values())) / "config.toml"), runs)
    scored = Scored(chosen, list(runs), winners, same)
    balance = "" if found is None else f"{found.balance[0]:9.3g}"
    right = ("right" if chosen in winners else "WRONG") if scored.told else "any"
    print(
        f"{name + ('' if same else ' *'):<31} {balance:>9}  {chosen:<12} {right:<6} {' = '.join(winners)}", flush=True
    )
    return scored


def total(words: str, scores: Sequence[Scored]) -> None:
    """How often each rule is right."""
    told = [x for x in scores if x.told]
    print(f"\n{words}: {len(scores)}, of which {len(told)} tell methods apart; right of these:")
    rules = {"advised": [x.chosen in x.winners for x in told]}
    rules |= {f"always {method}": [method in x.winners for x in told if method in x.there] for method in METHODS}
    for rule, right in rules.items():
        print(f"  {rule:<20} {sum(right):>2} of {len(right)}")


def run() -> None:
    """Every stored comparison and every quick one, and the score."""
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    advised.try_out = lambda *given: None
    print(f"{'comparison':<31} {'balance':>9}  {'advised':<12} {'':<6} best, and what can't be told from it")
    stored = sorted(file.parent for file in STUDIES.rglob("compare.toml") if tells(file.parent))
    scores = [score(str(folder.relative_to(STUDIES)), folder) for folder in stored]
    for k, (name, words) in enumerate(QUICK.items() if out is not None else ()):
        assert out is not None
        folder, sampled = out / str(k), "seeds" in words
        if not (folder / "table.csv").is_file():
            tuned = "--tune --tune-seeds 4 --metrics-every 20" if sampled else "--tune --tune-seeds 1 --seeds 1"
            with redirect_stdout(io.StringIO()):
                names = METHODS if sampled else PLAIN
                main(["compare", "--algorithms", *names, *shlex.split(f"{words} {tuned} --out {folder}")])
        scores.append(score(name, folder))
    total("all comparisons", scores)
    total("those with every method tuned, at one budget of samples", [x for x in scores if x.asks_the_same])


if __name__ == "__main__":
    run()
