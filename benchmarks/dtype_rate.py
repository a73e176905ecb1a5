"""Rounds in float32 beside the same in float64: processor seconds, in turns, so that a busy machine slows both.

python benchmarks/dtype_rate.py --turns 5
"""

import argparse
import time

import numpy as np
from measuring import ratio

import fastfedpg as ff
from fastfedpg.experiment.plan import plan
from fastfedpg.precision import precision_of

CONFIG = {
    "problem": "cart-pole", "agents": 8, "policy": "mlp", "algorithm": "fast_fedpg", "oracle": "gpomdp",
    "baseline": "leave-one-out", "B": 8, "K": 100, "H": 4, "eta": 0.01, "evaluation_episodes": 1,
}  # fmt: skip


def program(dtype, rounds):
    """A function that runs the rounds, and returns the processor seconds that they took."""
    planned = plan(ff.Config(**CONFIG, rounds=rounds, metrics_every=rounds, dtype=dtype))

    def seconds():
        with precision_of(planned.problem.theta0):
            before = time.process_time()
            ff.simulate(planned.problem, planned.algorithm, rounds, metrics_every=rounds)
            return time.process_time() - before

    return seconds


def main():
    """Print the ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=10)
    asked = parser.parse_args()
    wide, narrow = (program(dtype, asked.rounds) for dtype in ("float64", "float32"))
    wide(), narrow()  # compiled
    found = np.array([(wide(), narrow()) for _ in range(asked.turns)])
    print(f"{asked.rounds} rounds, processor seconds in turns, float64 and float32:")
    print("\n".join(f"  {a:.2f}  {b:.2f}" for a, b in found))
    times, low, high = ratio(*found.T)
    print(f"float64 over float32: {times:.2f} [{low:.2f}, {high:.2f}]")


if __name__ == "__main__":
    main()
