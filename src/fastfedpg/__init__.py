"""Federated and multi-task policy gradients: Fast-FedPG and its rivals, one definition for every runtime."""

from fastfedpg import problems
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
from fastfedpg.runtime import Result, loop, simulate
from fastfedpg.study import run

__version__ = "0.1.0"

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "Config",
    "Exchange",
    "InputError",
    "Oracle",
    "Problem",
    "Result",
    "TabularProblem",
    "centralised_pg",
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
