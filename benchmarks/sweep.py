"""16 step sizes x 8 seeds as one call of `simulate`, beside 128 calls; everything is in the seconds, compiling too."""

import time

import jax
import numpy as np

from fastfedpg import fast_fedpg, problems, simulate
from fastfedpg.problems import with_oracle

ETAS, SEEDS, H = np.geomspace(0.01, 1.0, 16), 8, 10


def measure(rounds: int, singles: int) -> dict:
    """Seconds of the sweep, and of `singles` pairs of single runs, from which the 128 are extrapolated.

    The first run of a pair is a new step size, hence a new program; the second is another seed of the same program.
    """
    problem = with_oracle(problems.compromise_grid(), "gpomdp", B=16, K=50, baseline="leave-one-out")
    new, again = [], []
    with jax.enable_x64(True):
        for k in np.linspace(0, len(ETAS) - 1, singles).astype(int):
            algorithm = fast_fedpg(float(ETAS[k]), H)
            for seed, took in enumerate((new, again)):
                began = time.perf_counter()
                simulate(problem, algorithm, rounds, metrics_every=rounds, first_seed=seed)
                took.append(time.perf_counter() - began)
        began = time.perf_counter()
        swept = simulate(problem, lambda eta: fast_fedpg(eta, H), rounds, SEEDS, metrics_every=rounds, sweep=ETAS)
        sweep = time.perf_counter() - began
    runs = len(ETAS) * SEEDS
    assert swept.theta.shape[:2] == (len(ETAS), SEEDS)
    return {
        "rounds": rounds,
        "runs": runs,
        "sweep": sweep,
        "new": new,
        "again": again,
        "each_compiled": runs * float(np.median(new)),
        "each_setting_compiled": len(ETAS) * float(np.median(new)) + (runs - len(ETAS)) * float(np.median(again)),
    }
