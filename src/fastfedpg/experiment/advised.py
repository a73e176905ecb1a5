"""Which method a problem asks for: measured by a few rounds' samples, and what each would cost until a target."""

import math
from collections.abc import Iterator

import jax
import numpy as np

from fastfedpg.errors import InputError
from fastfedpg.experiment import budgets
from fastfedpg.experiment.advice_given import Advice
from fastfedpg.experiment.config import Config
from fastfedpg.experiment.plan import Plan, plan
from fastfedpg.experiment.problem import PRIVATE
from fastfedpg.experiment.tried import LARGER, SHARES, by_trial, try_out
from fastfedpg.precision import float64
from fastfedpg.theory import Measured, advice, measure, truncation_bound
from fastfedpg.theory.advice import Cost, Landscape, Method
from fastfedpg.theory.estimates import Estimate

REPLICAS, FIRST = 32, 8
"""Estimates of each agent at most, and how many are tried first."""

PART = 0.01
"""The target, where none is given, as a part of the first gap."""

LOCAL_STEPS = (2, 5, 10, 20, 50)
"""H that are tried where none is given."""

ROUNDING = 1e-20
"""Noise below this part of ||grad J||^2 is rounding."""

REGRET = 2.0
"""How many times the best method's toll the advised one's may be, at either end of zeta^2's interval."""


@float64
def advise(config: Config, target: float | None = None, replicas: int = REPLICAS) -> Advice:
    """Measure a problem at its start and say which method, step size and local steps; what is given stays."""
    if config.problem == PRIVATE or config.parameters is not None:
        raise InputError(
            f"problem '{config.problem}' can't be sampled here: it is known at its agents' sites alone, and advice "
            "needs gradient estimates of every agent"
        )
    if target is not None and not (math.isfinite(target) and target > 0):
        raise InputError(f"target = {target:g}; it must be a positive number, a gap")
    config = config.but(algorithm="fast_fedpg")
    base = plan(config.but(schedule=None))
    try:
        return _advise(config, base, target, replicas)
    finally:
        if base.problem.release is not None:
            base.problem.release()


def _advise(config: Config, base: Plan, target: float | None, replicas: int) -> Advice:
    methods, eta = list(_methods(config, base)), config.eta if _given(config, "eta") else None
    theta, R = np.atleast_2d(base.problem.theta0)[0], min(FIRST, replicas)
    while True:
        m = measure(base.problem, theta, R, config.first_seed)
        at, notes, hidden = _landscape(base, m, theta)
        wanted = PART * at.gap if target is None else target / base.here.scale
        if wanted >= at.gap:
            raise InputError(
                f"target = {wanted * base.here.scale:.3g} is met where the problem begins: the first gap is "
                f"{at.gap * base.here.scale:.3g}; ask for a smaller one"
            )
        costs = [advice.cost(method, at, wanted, eta) for method in methods]
        best = advice.ranked(costs)[0]
        ends = [[advice.cost(x, end, wanted, eta) for x in methods] for end in advice.cases(at, *m.zeta_sq[1:])]
        regret = advice.regret(best.method, ends)
        if replicas <= R or (not hidden and (regret <= REGRET or math.isinf(best.rounds))):
            break
        R = min(2 * R, replicas)
    if math.isinf(best.rounds):
        _refuse_target(config, methods, at, wanted, base.here.scale, eta)
    if regret > REGRET:
        raise InputError(
            f"{R} estimates of each agent are too few to tell: zeta^2 = {m.zeta_sq.mean:.3g} lies in "
            f"[{m.zeta_sq.low:.3g}, {m.zeta_sq.high:.3g}], and at one end {best.method.name} costs {regret:.3g} times "
            f"what the best would; it takes about {_needed(m, at)}: --replicas {_needed(m, at)}"
        )
    balances = [advice.balance(at.sigma_sq, z, at.N) for z in m.zeta_sq]
    shares = LARGER + SHARES if hidden else SHARES
    etas = [float(f"{share * best.eta:.3g}") for share in shares] if eta is None else [eta]
    tried = try_out(plan(_followed(config, best), base), etas, wanted)
    costs = by_trial(_best_of_each(costs), tried)
    return Advice(
        _followed(config, costs[0]),
        base.name,
        m,
        at,
        wanted,
        costs,
        (balances[0], balances[1], balances[2]),
        base.here.scale,
        budgets.unit(base),
        [*notes, *_horizon(config, base, at, wanted)],
        tried,
    )


def _given(config: Config, name: str) -> bool:
    return any(n.rpartition(".")[2] == name and v is not None for n, v in config.given.items())


def _methods(config: Config, base: Plan) -> Iterator[Method]:
    """Every method that there is a model of at every H, and Fast-FedPG with its anchors."""
    B = config.get("oracle.B")
    steps: tuple[int, ...] = LOCAL_STEPS
    each = base.problem.N * (B or 1) * (base.steps if budgets.plays(base) else 1)
    if _given(config, "H"):
        steps = (int(config.get("H")),)
    for name in advice.KNOWN:
        try:
            sizes = plan(config.but(algorithm=name, schedule=None), base).sizes
        except InputError:  # settings that it can't have, as another optimiser
            continue
        traffic, syncs = sizes.bytes_up + sizes.bytes_down, sizes.syncs
        for H in (1,) if name == "centralised_pg" else steps:
            yield Method(name, H, each * (H + (name == "fast_fedpg")), traffic, syncs)
            if name == "fast_fedpg" and not _given(config, "B0"):
                yield Method(name, H, each * H, traffic, syncs, reuse=True)
                if B is not None and not _given(config, "reuse"):
                    yield Method(name, H, each * (H + 4), traffic, syncs, B_over_B0=0.25)


def _landscape(base: Plan, m: Measured, theta: np.ndarray) -> tuple[Landscape, list[str], bool]:
    """What was measured as numbers to reckon with; where noise hides one, its upper end, and that is said."""
    notes, told = [], []
    for name, found in (("||grad J||^2", m.norm_sq), ("L", m.L)):
        hidden = found.low <= 0 < found.high
        told.append(found.high if hidden else found.mean)
        if hidden:
            notes.append(
                f"{name} can't be told from noise by {m.replicas} estimates of each agent: its upper end, "
                f"{found.high:.3g}, is reckoned with, and steps may be too small; {_to_tell(found, m.replicas)}"
            )
    norm_sq, L = told
    if not (norm_sq > 0 and L > 0):
        raise InputError("the gradient is zero where the problem begins: there is nothing to learn from; give --theta0")
    known = base.here
    if known.played:
        gap = norm_sq / (2 * L)
        notes.append("J* is not known: the first gap is reckoned as ||grad J||^2/(2L), a parabola's with that L")
    else:
        gap = float(jax.jit(known.gap(base.config.tau))(theta))
    mu = min(norm_sq / gap, 2 * L)
    sigma_sq = m.sigma_sq.mean if m.sigma_sq.mean > ROUNDING * norm_sq else 0.0
    return (
        Landscape(gap, mu, L, sigma_sq, max(0.0, m.zeta_sq.mean), base.problem.N),
        notes,
        told != [m.norm_sq.mean, m.L.mean],
    )


def _refuse_target(
    config: Config, methods: list[Method], at: Landscape, target: float, scale: float, eta: float | None
) -> None:
    common = [method for method in methods if method.name != "independent_pg"]
    least = min(advice.least_target(method, at, eta) for method in common) * scale
    where = f"at eta = {eta:g}" if eta is not None else f"that {advice.MOST_ROUNDS:,} rounds can reach"
    raise InputError(
        f"target = {target * scale:.3g} is below the noise floor {where}, {least:.3g}: ask for a larger target, "
        f"{'a smaller --eta' if eta is not None else 'or more trajectories (--B)'}"
    )


def _needed(m: Measured, at: Landscape) -> int:
    """Estimates with which zeta^2's interval would leave out where noise and drift balance: errors fall like R^-1/2."""
    half = (m.zeta_sq.high - m.zeta_sq.low) / 2
    edge = (1 - 1 / at.N) * at.sigma_sq / at.N
    apart = max(abs(m.zeta_sq.mean - edge), half / 30)
    return max(2 * m.replicas, math.ceil(m.replicas * (half / apart) ** 2))


def _to_tell(found: Estimate, R: int) -> str:
    """How many estimates would tell a number from 0, if it is what it seems to be: errors fall like R^-1/2."""
    if found.mean <= 0:
        return "how many would tell is not known: more trajectories (--B) tell sooner"
    needed = max(2 * R, math.ceil(R * ((found.mean - found.low) / found.mean) ** 2))
    return f"it takes about {needed}: --replicas {needed}"


def _best_of_each(costs: list[Cost]) -> list[Cost]:
    found: dict[str, Cost] = {}
    for cost in advice.ranked(costs):
        found.setdefault(cost.method.label, cost)
    return list(found.values())


def _horizon(config: Config, base: Plan, at: Landscape, target: float) -> Iterator[str]:
    """Whether trajectories are too short, by the bound on what cutting off leaves: D(K)^2 gamma^(2K)/mu."""
    sizes, gamma = base.here.sizes, base.here.gamma
    if base.here.played or config.oracle == "exact" or "A" not in sizes:
        return
    left = lambda K: (truncation_bound(gamma, sizes["A"], K, config.tau) * gamma**K) ** 2 / at.mu
    K = next((K for K in range(1, 10_000) if left(K) <= target / 2), None)
    if K is not None and base.steps < K:
        yield f"K = {base.steps}: the bound on what is cut off asks for K = {K} at this target"


def _followed(config: Config, best: Cost) -> Config:
    method, takes = best.method, {"eta": best.eta if _given(config, "eta") else float(f"{best.eta:.3g}")}
    if method.name != "centralised_pg":
        takes |= {"H": method.H}
    if method.name == "fast_fedpg":
        takes |= {"reuse": method.reuse or bool(config.get("reuse"))}
        if method.B_over_B0 != 1:
            takes |= {"B0": round(config.get("oracle.B") / method.B_over_B0)}
    return config.but(algorithm=method.name, **takes)
