"""The methods and settings that advice weighs, and the configuration that follows one of them."""

from collections.abc import Iterator

from fastfedpg.errors import InputError
from fastfedpg.experiment import budgets
from fastfedpg.experiment.config import Config
from fastfedpg.experiment.plan import Plan, plan
from fastfedpg.theory import advice
from fastfedpg.theory.advice import Cost, Method

LOCAL_STEPS = (2, 5, 10, 20, 50)
"""H that are weighed where none is given."""

TIMES = (1 / 4, 1, 4)
"""And B where none is given, as parts of what it is unless given: sigma^2 is one over B, samples are as B."""


def given(config: Config, name: str) -> bool:
    """Whether a setting has a value of the user's own."""
    return any(n.rpartition(".")[2] == name and v is not None for n, v in config.given.items())


def methods(config: Config, base: Plan) -> Iterator[Method]:
    """Every method that there is a model of, at every H and B, and Fast-FedPG with its anchors."""
    B = config.get("oracle.B")
    each = base.problem.N * (base.steps if budgets.plays(base) else 1)
    steps = (int(config.get("H")),) if given(config, "H") else LOCAL_STEPS
    for name in advice.KNOWN:
        if name in ("minibatch_pg", "heavy_anchor") and B is None:
            continue  # without noise more estimates at one point are the same one again
        try:
            sizes = plan(config.but(algorithm=name, schedule=None), base).sizes
        except InputError:  # settings that it can't have, as another optimiser
            continue
        traffic, syncs = sizes.bytes_up + sizes.bytes_down, sizes.syncs
        for H in (1,) if name == "centralised_pg" else steps:
            if name == "heavy_anchor" and H < 4:
                continue  # with q = 1 it is fast_fedpg with reuse
            for b in (None,) if B is None else _trajectories(config, int(B)):
                noise, of_estimate = (1.0, each) if b is None else (B / b, each * b)
                plain = Method(name, H, of_estimate * H, traffic, syncs, B=b, noise=noise)
                yield plain._replace(samples=of_estimate * (H + 1)) if name == "fast_fedpg" else plain
                if name == "fast_fedpg" and not given(config, "B0"):
                    yield plain._replace(reuse=True)
                    if b is not None and not given(config, "reuse"):
                        yield plain._replace(samples=of_estimate * (H + 4), B_over_B0=0.25)


def _trajectories(config: Config, B: int) -> list[int]:
    return [B] if given(config, "B") else sorted({max(2, round(times * B)) for times in TIMES})


def followed(config: Config, best: Cost) -> Config:
    """The configuration that a cost is of; what was given stays."""
    method, takes = best.method, {"eta": best.eta if given(config, "eta") else float(f"{best.eta:.3g}")}
    if method.name != "centralised_pg":
        takes |= {"H": method.H}
    if method.B is not None and config.get("oracle.B") != method.B:
        takes |= {"B": method.B}
    if method.name == "fast_fedpg":
        takes |= {"reuse": method.reuse or bool(config.get("reuse"))}
        if method.B_over_B0 != 1:
            takes |= {"B0": round((method.B or 1) / method.B_over_B0)}
    return config.but(algorithm=method.name, **takes)
