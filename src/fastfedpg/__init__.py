"""Federated and multi-task policy gradients: Fast-FedPG and its rivals, one definition for every runtime."""

from importlib.metadata import version

from fastfedpg import core, problems
from fastfedpg.algorithms import (
    ALGORITHMS,
    centralised_pg,
    fast_fedpg,
    fedavg_pg,
    independent_pg,
    scaffold_pg,
)
from fastfedpg.config import Config
from fastfedpg.core import Algorithm, Exchange, Oracle, Problem
from fastfedpg.errors import InputError
from fastfedpg.problems import TabularProblem, with_oracle
from fastfedpg.runtime import Diverged, Result, loop, simulate
from fastfedpg.study import Interrupted, run

__version__ = version("fastfedpg")

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "Config",
    "Diverged",
    "Exchange",
    "InputError",
    "Interrupted",
    "Oracle",
    "Problem",
    "Result",
    "TabularProblem",
    "__version__",
    "centralised_pg",
    "core",
    "fast_fedpg",
    "fedavg_pg",
    "independent_pg",
    "loop",
    "problems",
    "run",
    "scaffold_pg",
    "simulate",
    "with_oracle",
]
