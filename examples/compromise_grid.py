"""Fast-FedPG against FedAvg-PG and SCAFFOLD-PG where every agent wants its own corner and only the centre suits all."""

import time
from dataclasses import dataclass, replace
from pathlib import Path

import tyro
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from fastfedpg import Config, run
from fastfedpg.problems import make
from fastfedpg.study import bootstrap, figures
from fastfedpg.study.progress import progress

METHODS = {"fast_fedpg": "Fast-FedPG", "fedavg_pg": "FedAvg-PG", "scaffold_pg": "SCAFFOLD-PG"}


@dataclass(frozen=True)
class Arguments:
    """What to run and where to put it."""

    rounds: int = 100
    seeds: int = 8
    out: Path = Path("runs/compromise-grid")


def main(arguments: Arguments) -> None:
    console, began = Console(), time.monotonic()
    config = Config(
        problem="compromise-grid", oracle="gpomdp", baseline="leave-one-out", H=20, eta=2.0, B=32, K=50,
        rounds=arguments.rounds, seeds=arguments.seeds,
    )  # fmt: skip
    results = {}
    for algorithm, name in METHODS.items():
        with progress(console, f"{name:<11}", config.rounds) as report:
            one = replace(config, algorithm=algorithm)
            results[name] = run(one, arguments.out / algorithm, overwrite=True, report=report)
    table = Table(title=f"After {config.rounds} rounds, mean of {config.seeds} seeds", title_justify="left", box=SIMPLE)
    for column in ("method", "gap", "95% interval", "worst", "steps", "kB up", "syncs"):
        table.add_column(column, justify="left" if column == "method" else "right", no_wrap=True)
    for name, r in results.items():
        gap = bootstrap(r.final("gap"))
        steps, sent, syncs = (r.final(c).mean() for c in ("env_steps", "bytes_up", "syncs"))
        worst, interval = f"{r.final('return_worst').mean():.3f}", f"{gap.low:.4f} to {gap.high:.4f}"
        table.add_row(
            name, f"{gap.mean:.4f}", interval, worst, f"{steps / 1e6:.1f} M", f"{sent / 1e3:.0f}", f"{syncs:.0f}"
        )
    console.print(table)
    console.print("gap: J - J*; worst: that agent's return; steps: all agents; kB: one agent", highlight=False)
    title = "4 agents, one corner each; the centre is second-best for all"
    picture, _ = figures.overview(arguments.out / "compromise-grid", results, make("compromise-grid"), title)
    console.print(f"took {time.monotonic() - began:.0f} s; runs: {arguments.out}", highlight=False, soft_wrap=True)
    console.print(f"figure: {picture}", highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main(tyro.cli(Arguments))
