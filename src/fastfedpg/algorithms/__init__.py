"""Every algorithm, by name: one paper per file, each a factory that returns a `core.Algorithm`."""

from collections.abc import Callable

from fastfedpg.algorithms.centralised_pg import centralised_pg
from fastfedpg.algorithms.fast_fedpg import fast_fedpg
from fastfedpg.algorithms.fedavg_pg import fedavg_pg
from fastfedpg.algorithms.independent_pg import independent_pg
from fastfedpg.algorithms.scaffold_pg import scaffold_pg
from fastfedpg.core import Algorithm

ALGORITHMS: dict[str, Callable[..., Algorithm]] = {
    "fast_fedpg": fast_fedpg,
    "fedavg_pg": fedavg_pg,
    "scaffold_pg": scaffold_pg,
    "centralised_pg": centralised_pg,
    "independent_pg": independent_pg,
}

__all__ = ["ALGORITHMS", "centralised_pg", "fast_fedpg", "fedavg_pg", "independent_pg", "scaffold_pg"]
