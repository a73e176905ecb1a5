"""Who stands for whom: the methods that the paper speaks of, by the makers in this package."""

from collections.abc import Callable
from typing import NamedTuple

from fastfedpg.algorithms.decentralised_pg import decentralised_pg
from fastfedpg.algorithms.fast_fedpg import fast_fedpg
from fastfedpg.algorithms.fedavg_pg import fedavg_pg
from fastfedpg.algorithms.fedlin_pg import fedlin_pg
from fastfedpg.algorithms.fedsvrpg_m import fedsvrpg_m
from fastfedpg.algorithms.incremental_pg import incremental_pg
from fastfedpg.algorithms.mfpo import mfpo
from fastfedpg.algorithms.pavg import pavg
from fastfedpg.algorithms.qavg import qavg
from fastfedpg.algorithms.scaffold_pg import scaffold_pg
from fastfedpg.core import Algorithm


class Methods(NamedTuple):
    """Each row asks these and none else, so that another can be put in one's place."""

    fast: Callable[..., Algorithm] = fast_fedpg
    fedavg: Callable[..., Algorithm] = fedavg_pg
    decentralised: Callable[..., Algorithm] = decentralised_pg
    incremental: Callable[..., Algorithm] = incremental_pg
    svrpg: Callable[..., Algorithm] = fedsvrpg_m
    mfpo: Callable[..., Algorithm] = mfpo
    fedlin: Callable[..., Algorithm] = fedlin_pg
    scaffold: Callable[..., Algorithm] = scaffold_pg
    pavg: Callable[..., Algorithm] = pavg
    qavg: Callable[..., Algorithm] = qavg


METHODS = Methods()
