"""How many rounds `fastfedpg advise` says, and how many a run of its advice takes: by the model alone, and tried.

python benchmarks/advised_rounds.py from the repository's folder. Runs have other seeds than trials, 8 where there is
noise, and the mean of their gaps counts.
"""

import tempfile
from pathlib import Path

import numpy as np

from fastfedpg import runtime
from fastfedpg.errors import InputError
from fastfedpg.experiment import advised
from fastfedpg.experiment.advice_given import Advice
from fastfedpg.experiment.config import Config
from fastfedpg.experiment.plan import plan
from fastfedpg.precision import float64
from fastfedpg.problems import TabularProblem
from fastfedpg.runtime import Schedule

MOST, FIRST_SEED, SEEDS = 1000, 1000, 8
NAMES = ("mazes", "compromise-grid", "compromise", "random", "garnet", "river-swim", "opposed-line", "corridor")
SAMPLED = {"oracle": "gpomdp", "baseline": "leave-one-out", "B": 16}


def corridor(folder: Path) -> str:
    """The problem of docs/problems.md, as a file."""
    P = np.stack([np.eye(3)[where] for where in ([0, 0, 1], [0, 1, 2], [1, 2, 2])], axis=1)
    reward = np.zeros((2, 3, 3))
    reward[0, 0] = reward[1, 2] = 5.0
    TabularProblem(P, reward, np.full(3, 1 / 3), 0.9, reward_range=(0.0, 5.0)).save(folder / "corridor.npz")
    return str(folder / "corridor.npz")


def needed(found: Advice) -> int | None:
    """Rounds until the mean gap is at the target; nothing where MOST do not get there."""
    planned = plan(found.config)
    seeds = SEEDS if found.config.get("oracle.B") else 1
    schedule = Schedule(MOST, seeds, first_seed=FIRST_SEED)
    for record in runtime.simulate_records(planned.problem, planned.algorithm, schedule):
        if np.mean(record.evaluation.gap) <= found.target * found.scale:
            return record.round
    return None


def by_the_model(config: Config) -> Advice:
    """Advice that nobody tried."""
    trial, advised.try_out = advised.try_out, lambda *given: None
    try:
        return advised.advise(config)
    finally:
        advised.try_out = trial


def told(found: Advice) -> str:
    """Rounds said and taken."""
    tried = found.tried
    said = f"{found.best.rounds:,.0f}"
    if tried is not None and tried.low < tried.high < np.inf:
        said = f"{tried.low:,.0f} to {tried.high:,.0f}"
    took = needed(found)
    return f"{found.best.eta:>7.3g} {said:>12} {f'> {MOST:,}' if took is None else f'{took:,}':>8}"


@float64
def run() -> None:
    """Every problem, without noise and with it."""
    with tempfile.TemporaryDirectory() as place:
        own = corridor(Path(place))
        print(f"{'':<25} {'the model alone':^29}   {'tried':^29}")
        print(f"{'':<25}" + 2 * f" {'eta':>7} {'rounds said':>12} {'taken':>8}  ")
        for settings in ({}, SAMPLED):
            for name in NAMES:
                config = Config(own if name == "corridor" else name, **settings)
                words = f"{name}, {'sampled' if settings else 'exact'}"
                try:
                    before, after = by_the_model(config), advised.advise(config)
                    print(f"{words:<25} {told(before)}   {told(after)}  {after.best.method.name}", flush=True)
                except InputError as error:
                    print(f"{words:<25} {error}", flush=True)


if __name__ == "__main__":
    run()
