"""Federated and multi-task policy gradients: Fast-FedPG and its rivals."""

from fastfedpg import problems
from fastfedpg.algorithms import centralised_pg, fast_fedpg, fedavg_pg, independent_pg, scaffold_pg
from fastfedpg.problems import TabularProblem, with_oracle
from fastfedpg.runtime import loop, simulate

__version__ = "0.1.0"
