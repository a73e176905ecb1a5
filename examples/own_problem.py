"""Your own MDP, Fast-FedPG beside its rivals, and a table: two warehouses that disagree, and a depot between them."""

from pathlib import Path

import numpy as np
from rich.console import Console

from fastfedpg import Comparison, Settings, TabularProblem, compare
from fastfedpg.experiment.progress import progress

S, left, stay, right = 7, 0, 1, 2  # a road of 7 places; the agents' warehouses are at its ends


def main() -> None:
    P = np.zeros((S, 3, S))
    for s in range(S):
        for action, to in ((left, max(s - 1, 0)), (stay, s), (right, min(s + 1, S - 1))):
            P[s, action, to] += 0.9
            P[s, action, s] += 0.1  # one time in ten the van does not start
    reward = np.zeros((2, S, 3))
    reward[0, 0], reward[1, -1], reward[:, S // 2] = 10.0, 10.0, 6.0  # each its own end, and the depot for both
    road = TabularProblem(P, reward, rho=np.full(S, 1 / S), gamma=0.9, reward_range=(0.0, 10.0))
    Path("runs").mkdir(exist_ok=True)
    road.save(Path("runs/road.npz"))
    settings = Settings(problem="runs/road.npz", H=20, rounds=100)  # the file has its reward_range
    console = Console()
    report = compare(
        Comparison(settings, ("fast_fedpg", "fedavg_pg", "scaffold_pg"), eta={"all": 0.2}),
        Path("runs/road"),
        overwrite=True,
        show=lambda title, rounds: progress(console, title, rounds),
        note=console.print,
    )
    print(report)


if __name__ == "__main__":
    main()
