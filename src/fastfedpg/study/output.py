"""The folder of a run: config.toml, metrics.csv, final.npz, agents.npz, summary.json."""

import csv
import json
import math
import os
import shutil
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import numpy as np

from fastfedpg.config import Config
from fastfedpg.errors import InputError
from fastfedpg.problems import PROBLEMS, TabularProblem
from fastfedpg.runtime import Result

FILES = ("config.toml", "metrics.csv", "final.npz", "agents.npz", "summary.json", "problem.npz", "theta0.npz")


def check_folder(out: Path, overwrite: bool) -> None:
    """Refuse a folder that holds something, before any work is done."""
    try:
        if out.is_symlink() and not out.exists():
            raise InputError(f"{out}: a link that leads nowhere")
        if out.exists() and not out.is_dir():
            raise InputError(f"{out}: exists and is not a folder")
        if out.is_dir() and any(out.iterdir()) and not overwrite:
            raise InputError(f"{out}: the folder is not empty; choose another --out, or give --overwrite")
        for name in FILES:
            if (out / name).is_dir():
                raise InputError(f"{out / name}: a folder where a file of the run belongs")
        parent = next(p for p in (out, *out.absolute().parents) if p.exists())
    except OSError as error:
        raise InputError(f"{out}: {error.strerror}") from None
    if not os.access(parent, os.W_OK):
        raise InputError(f"{out}: no permission to write in {parent}")


def open_folder(out: Path, config: Config, problem: TabularProblem, theta0: np.ndarray | None, overwrite: bool) -> None:
    """Make the folder, clear an earlier run's files from it, and write down how to repeat the run.

    config.toml is created anew and not merely opened: of two runs that want the same folder only one begins.
    """
    new = not out.exists()
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name in FILES if overwrite else ():
            (out / name).unlink(missing_ok=True)
        (out / "config.toml").touch(exist_ok=False)
        _describe(out, config, problem, theta0)
    except FileExistsError:
        raise InputError(f"{out}: another run has begun in this folder; choose another --out") from None
    except OSError as error:
        if new:
            shutil.rmtree(out, ignore_errors=True)
        raise InputError(f"{out}: {error.strerror}; nothing was run") from None


def _describe(out: Path, config: Config, problem: TabularProblem, theta0: np.ndarray | None) -> None:
    if config.problem not in PROBLEMS:
        problem.save(out / "problem.npz")
        config = replace(config, problem="problem.npz")
    if theta0 is not None:
        np.savez(out / "theta0.npz", theta=theta0)
        config = replace(config, theta0="theta0.npz")
    head = f"# {versions()}\n# Repeat with: fastfedpg run --config THIS_FILE --out ANOTHER_FOLDER\n"
    (out / "config.toml").write_text(head + config.to_toml(), encoding="utf-8")


def write_result(out: Path, result: Result, shape: tuple[int, ...], first_seed: int) -> None:
    """metrics.csv (a row per seed and recorded round), final.npz (theta) and agents.npz (every agent's returns)."""
    np.savez(out / "final.npz", theta=result.theta.reshape(result.theta.shape[:-1] + shape))
    np.savez(out / "agents.npz", returns=result.returns, round=result.rounds)
    names = list(result.metrics)
    with (out / "metrics.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["seed", "round", *names])
        for s in range(len(result.theta)):
            for r, number in enumerate(result.rounds):
                rows.writerow([first_seed + s, number, *(_cell(result.metrics[name][s, r]) for name in names)])


def write_summary(out: Path, summary: dict[str, Any]) -> None:
    """summary.json; what is not defined is null."""
    (out / "summary.json").write_text(json.dumps(_plain(summary), indent=2) + "\n", encoding="utf-8")


def versions() -> str:
    """What made this run."""
    return f"fastfedpg {version('fastfedpg')}, jax {jax.__version__}, numpy {np.__version__}"


def _cell(x: Any) -> str:
    if math.isnan(x):
        return ""
    return str(int(x)) if float(x).is_integer() and abs(x) < 2**53 else repr(float(x))


def _plain(x: Any) -> Any:
    if isinstance(x, dict):
        return {k: _plain(v) for k, v in x.items()}
    if isinstance(x, list | tuple):
        return [_plain(v) for v in x]
    if isinstance(x, float | np.floating):
        return float(x) if math.isfinite(x) else None
    return int(x) if isinstance(x, np.integer) else x
