import fastfedpg.registry

from .adaptive_anchor import adaptive_anchor as adaptive_anchor
from .afedpg import afedpg as afedpg
from .centralised_pg import centralised_pg as centralised_pg
from .decentralised_pg import decentralised_pg as decentralised_pg
from .fast_fedpg import fast_fedpg as fast_fedpg
from .fedavg_pg import fedavg_pg as fedavg_pg
from .fedhapg_m import fedhapg_m as fedhapg_m
from .fedkl import fedkl as fedkl
from .fedlin_pg import fedlin_pg as fedlin_pg
from .fednpg import fednpg as fednpg
from .fednpg_admm import fednpg_admm as fednpg_admm
from .fedpg_br import fedpg_br as fedpg_br
from .fedprox_pg import fedprox_pg as fedprox_pg
from .fedsvrpg_m import fedsvrpg_m as fedsvrpg_m
from .heavy_anchor import heavy_anchor as heavy_anchor
from .incremental_pg import incremental_pg as incremental_pg
from .independent_pg import independent_pg as independent_pg
from .mdpgt import mdpgt as mdpgt
from .mfpo import mfpo as mfpo
from .minibatch_pg import minibatch_pg as minibatch_pg
from .pavg import pavg as pavg
from .personal_heads import personal_heads as personal_heads
from .proxskip_pg import proxskip_pg as proxskip_pg
from .qavg import qavg as qavg
from .rc_pg import rc_pg as rc_pg
from .scaffold_pg import scaffold_pg as scaffold_pg

ALGORITHMS: fastfedpg.registry.Table
