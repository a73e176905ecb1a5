"""sumo-rl's RESCO: traffic lights of real towns, simulated by SUMO, with agents that want different things of them."""

import importlib.util
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from fastfedpg.envs.environments import Environments
from fastfedpg.errors import missing_extra, unknown
from fastfedpg.gym_workers import traffic
from fastfedpg.gym_workers.adapter import check_agents, environments, meant
from fastfedpg.gym_workers.mo_gymnasium import rows

DECISIONS = 720
"""Of an hour, one every 5 seconds."""


def sumo_environments(
    name: str,
    weights: Sequence[Sequence[float]] | str | None = None,
    agents: int | None = None,
    arguments: Mapping[str, Any] | None = None,
    **given: Any,
) -> Environments:
    """N agents at one intersection, who weigh four wishes: r_i = w_i . (waiting, speed, queue, pressure).

    These are sumo-rl's own rewards: what the cars' summed waiting time fell by, in hundreds of seconds; their mean
    speed as a part of what is allowed; minus the number that stand; and the number on outgoing lanes minus that on
    incoming ones. An action is the next green phase; a decision takes 5 seconds, and an episode an hour.

    Args:
        name: cologne1 or ingolstadt1, the nets of RESCO that have one light.
        weights: w, a row of four numbers for each agent; without it agent i has the wish i mod 4, and no other.
        agents: N, where there are no weights to count; 4 unless given.
        arguments: of sumo_rl.SumoEnvironment's own, such as min_green.
        given: see `fastfedpg.gym_workers.adapter.environments`.
    """
    if name not in traffic.NETS:
        raise unknown("net of RESCO with one intersection", name, traffic.NETS)
    absent = [package for package in ("libsumo", "sumo_rl") if importlib.util.find_spec(package) is None]
    if absent:
        raise missing_extra(f"sumo:{name}", " and ".join(absent), "sumo")
    m = len(traffic.WISHES)
    check_agents(agents)
    if weights is None:
        found = [tuple(float(j == i % m) for j in range(m)) for i in range(m if agents is None else agents)]
    else:
        found = rows(weights, agents, m)
    own = {k: meant(v) for k, v in (arguments or {}).items()}
    makers = [partial(traffic.made, name, row, own) for row in found]
    return environments(makers, **{"name": f"sumo:{name}", "horizon": DECISIONS, **given})
