"""A run's results: one file of arrays that is read back, and exports of it for people and other programs.

results.npz, and not the safetensors of checkpoints: NumPy alone opens it, and zip's checksums tell a damaged file.
"""

import csv
import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fastfedpg.errors import InputError
from fastfedpg.files import write_atomically
from fastfedpg.runtime import Result

FILE = "results.npz"
EXPORTS = ("metrics.csv", "final.npz", "agents.npz")
METRIC = "metrics/"
"""Before a metric's name, so that it may have any."""


class Stored(NamedTuple):
    """What a run recorded, and the seeds along its arrays' first axis."""

    result: Result
    seeds: tuple[int, ...]


def write(out: Path, result: Result, shape: tuple[int, ...]) -> None:
    """results.npz with everything, and after it the exports."""
    seeds = result.first_seed + np.arange(len(result.theta))
    metrics = {METRIC + name: values for name, values in result.metrics.items()}
    _save(out / FILE, seeds=seeds, rounds=result.rounds, returns=result.returns, theta=result.theta, **metrics)
    _save(out / "final.npz", theta=result.theta.reshape(result.theta.shape[:-1] + shape))
    _save(out / "agents.npz", returns=result.returns, round=result.rounds)
    with write_atomically(out / "metrics.csv") as part, part.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["seed", "round", *result.metrics])
        for s, seed in enumerate(seeds):
            for r, number in enumerate(result.rounds):
                rows.writerow([seed, number, *(_cell(values[s, r]) for values in result.metrics.values())])


def read(path: Path) -> Stored:
    """Everything that a run recorded; arrays that do not fit together are refused."""
    try:
        with path.open("rb") as opened:  # which NumPy leaves open where it is damaged
            file = np.load(opened, allow_pickle=False)
            arrays = {name: np.asarray(file[name]) for name in file.files}
        seeds, rounds, returns, theta = (arrays.pop(name) for name in ("seeds", "rounds", "returns", "theta"))
        metrics = {name.removeprefix(METRIC): values for name, values in arrays.items()}
        shape = seeds.shape + rounds.shape
        fits = returns.shape[:2] == shape and theta.shape[:1] == seeds.shape
        if len(shape) != 2 or not fits or "J" not in metrics or any(x.shape != shape for x in metrics.values()):
            raise ValueError("its arrays do not fit together")
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except Exception as error:  # numpy, zipfile and zlib each have their own for a damaged file
        raise InputError(f"{path}: not the results of a run ({error})") from None
    return Stored(Result(rounds, metrics, returns, theta, int(seeds[0])), tuple(map(int, seeds)))


def _save(path: Path, **arrays: np.ndarray) -> None:
    with write_atomically(path) as part:
        np.savez(part, allow_pickle=False, **arrays)


def _cell(x: Any) -> str:
    if math.isnan(x):
        return ""
    return str(int(x)) if float(x).is_integer() and abs(x) < 2**53 else repr(float(x))
