"""An intersection of RESCO, built in a process that plays, with libsumo in that process."""

import importlib.util
import os
from pathlib import Path
from typing import Any

NETS = {"cologne1": (25200, 28800), "ingolstadt1": (57600, 61200)}
"""Those with one traffic light, and the seconds of the day that are simulated, as sumo-rl's resco_envs has them."""

WISHES = {"waiting": "diff-waiting-time", "speed": "average-speed", "queue": "queue", "pressure": "pressure"}
"""What can be wanted, and sumo-rl's name for it."""


def made(net: str, weights: tuple[float, ...], arguments: dict[str, Any]) -> Any:
    """One intersection, as a vector environment of one: in a process libsumo has one simulation at a time."""
    place = importlib.util.find_spec("sumo_data")
    assert place is not None
    assert place.submodule_search_locations is not None
    # Both must be there when traci is first imported, and "quiet" keeps it from telling so.
    os.environ["SUMO_HOME"] = str(Path(next(iter(place.submodule_search_locations))))
    os.environ["LIBSUMO_AS_TRACI"] = "quiet"
    import gymnasium
    import sumo_rl

    rewards = sumo_rl.TrafficSignal.reward_fns
    wanted = [(w, rewards[their]) for w, their in zip(weights, WISHES.values(), strict=True) if w]
    folder, (begin, end) = Path(sumo_rl.__file__).parent / "nets" / "RESCO" / net, NETS[net]

    def intersection() -> Any:
        return sumo_rl.SumoEnvironment(
            **{
                "net_file": str(folder / f"{net}.net.xml"),
                "route_file": str(folder / f"{net}.rou.xml"),
                "begin_time": begin,
                "num_seconds": end - begin,
                "single_agent": True,
                "reward_fn": lambda light: float(sum(w * reward(light) for w, reward in wanted)),
                "add_system_info": False,
                "add_per_agent_info": False,
                "sumo_warnings": False,
                "additional_sumo_cmd": "--no-step-log",
                **arguments,
            }
        )

    envs = gymnasium.vector.SyncVectorEnv([intersection])
    names = [name if w == 1 else f"{w:.3g} {name}" for w, name in zip(weights, WISHES, strict=True) if w]
    envs.wants = " + ".join(names)  # type: ignore[attr-defined]
    return envs
