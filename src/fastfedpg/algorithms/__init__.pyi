import fastfedpg.registry

from .centralised_pg import centralised_pg as centralised_pg
from .decentralised_pg import decentralised_pg as decentralised_pg
from .fast_fedpg import fast_fedpg as fast_fedpg
from .fedavg_pg import fedavg_pg as fedavg_pg
from .fedkl import fedkl as fedkl
from .fednpg import fednpg as fednpg
from .fednpg_admm import fednpg_admm as fednpg_admm
from .independent_pg import independent_pg as independent_pg
from .mdpgt import mdpgt as mdpgt
from .pavg import pavg as pavg
from .qavg import qavg as qavg
from .scaffold_pg import scaffold_pg as scaffold_pg

ALGORITHMS: fastfedpg.registry.Table
