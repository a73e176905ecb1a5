"""Federated and multi-task policy gradients: Fast-FedPG and its rivals, one definition for every runtime.

Names are loaded when they are first asked for, so that importing the package costs nothing until JAX is needed.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastfedpg import core as core
    from fastfedpg import envs as envs
    from fastfedpg import policies as policies
    from fastfedpg import problems as problems
    from fastfedpg.algorithms import ALGORITHMS as ALGORITHMS
    from fastfedpg.algorithms import centralised_pg as centralised_pg
    from fastfedpg.algorithms import fast_fedpg as fast_fedpg
    from fastfedpg.algorithms import fedavg_pg as fedavg_pg
    from fastfedpg.algorithms import independent_pg as independent_pg
    from fastfedpg.algorithms import scaffold_pg as scaffold_pg
    from fastfedpg.config import Config as Config
    from fastfedpg.config import Settings as Settings
    from fastfedpg.core import Algorithm as Algorithm
    from fastfedpg.core import Exchange as Exchange
    from fastfedpg.core import Oracle as Oracle
    from fastfedpg.core import Problem as Problem
    from fastfedpg.envs import Environments as Environments
    from fastfedpg.errors import EnvironmentFailed as EnvironmentFailed
    from fastfedpg.errors import InputError as InputError
    from fastfedpg.problems import TabularProblem as TabularProblem
    from fastfedpg.problems import with_oracle as with_oracle
    from fastfedpg.problems import with_policy as with_policy
    from fastfedpg.runtime import Diverged as Diverged
    from fastfedpg.runtime import Result as Result
    from fastfedpg.runtime import loop as loop
    from fastfedpg.runtime import simulate as simulate
    from fastfedpg.study import Comparison as Comparison
    from fastfedpg.study import Interrupted as Interrupted
    from fastfedpg.study import compare as compare
    from fastfedpg.study import resume as resume
    from fastfedpg.study import run as run

__version__ = version("fastfedpg")

_HOMES = {
    "algorithms": (
        "ALGORITHMS",
        "centralised_pg",
        "fast_fedpg",
        "fedavg_pg",
        "independent_pg",
        "scaffold_pg",
    ),
    "config": ("Config", "Settings"),
    "core": ("Algorithm", "Exchange", "Oracle", "Problem"),
    "envs": ("Environments",),
    "errors": ("EnvironmentFailed", "InputError"),
    "problems": ("TabularProblem", "with_oracle", "with_policy"),
    "runtime": ("Diverged", "Result", "loop", "simulate"),
    "study": ("Comparison", "Interrupted", "compare", "resume", "run"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}
_MODULES = ("core", "envs", "policies", "problems")

__all__ = sorted((*_HOME, *_MODULES, "__version__"))


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"fastfedpg.{name}")
    if name in _HOME:
        return getattr(import_module(f"fastfedpg.{_HOME[name]}"), name)
    raise AttributeError(f"module 'fastfedpg' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
