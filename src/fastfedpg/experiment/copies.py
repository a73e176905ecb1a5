"""Copies of the files that a configuration names, so that a run's folder stands alone."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from fastfedpg import graph_files
from fastfedpg.experiment.config import Config
from fastfedpg.experiment.problem import is_file
from fastfedpg.files import read_bytes, write_atomically
from fastfedpg.problems import AnyProblem

CONTEXT = "context.npz"
"""The name of a context's copy."""


def described(config: Config) -> Config:
    """The configuration as it stands in the run's own folder, beside copies of the files it names."""
    if is_file(config.problem):
        config = replace(config, problem="problem.npz")
    if config.theta0 is not None:
        config = replace(config, theta0="theta0.npz")
    if config.context is not None:
        config = replace(config, context=CONTEXT)
    return _with_graphs(config, graph_files.copy_name)


def placed(config: Config, out: Path) -> Config:
    """The configuration with the copies of graphs that are in a folder: whoever wrote the files may change them."""
    return _with_graphs(config, lambda name: str(out / graph_files.copy_name(name)))


def _with_graphs(config: Config, name: Callable[[str], str]) -> Config:
    given = graph_files.renamed(config.given, name)
    return config if given == config.given else replace(config, given=given)


def copy_files(out: Path, config: Config, problem: AnyProblem | None, theta0: np.ndarray | None) -> None:
    """The problem, the start and the context that a configuration names."""
    if problem is not None and is_file(config.problem):
        with write_atomically(out / "problem.npz") as part:
            problem.save(part)
    if theta0 is not None:
        with write_atomically(out / "theta0.npz") as part:
            np.savez(part, theta=theta0)
    context: Any = getattr(problem, "context", None)  # only environments have one
    if context is not None:
        with write_atomically(out / CONTEXT) as part:
            np.savez(part, context=context)


Graphs: TypeAlias = dict[str, bytes]
"""Files of graphs by their copies' names; read before an earlier run's are removed, of which they may be."""


def read_graphs(*tables: Mapping[str, Any]) -> Graphs:
    """Those that tables of settings name."""
    files = {Path(name) for table in tables for name in graph_files.named(table)}
    return {graph_files.copy_name(str(file)): read_bytes(file) for file in files}


def write_graphs(out: Path, graphs: Graphs) -> None:
    """Their copies."""
    for name, data in graphs.items():
        with write_atomically(out / name) as part:
            part.write_bytes(data)
