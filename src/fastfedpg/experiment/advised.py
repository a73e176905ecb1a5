"""Which method a problem asks for: measured by a few rounds' samples, and what each would cost until a target."""

import math
from collections.abc import Iterator

import jax
import numpy as np

from fastfedpg.errors import InputError
from fastfedpg.experiment import budgets
from fastfedpg.experiment.advice_given import Advice
from fastfedpg.experiment.candidates import followed, given, methods
from fastfedpg.experiment.choices import PRIVATE
from fastfedpg.experiment.config import Config
from fastfedpg.experiment.plan import Plan, plan
from fastfedpg.experiment.tried import LARGER, SHARES, by_trial, try_out
from fastfedpg.precision import float64
from fastfedpg.theory import Measured, advice, inverses, measure, not_covered, truncation_bound
from fastfedpg.theory.advice import Cost, Landscape, Method
from fastfedpg.theory.estimates import Estimate

REPLICAS, FIRST = 32, 8
"""Estimates of each agent at most, and how many are tried first."""

PART = 0.01
"""The target, where none is given, as a part of the first gap."""

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
    weighed, eta = list(methods(config, base)), config.eta if given(config, "eta") else None
    theta, R = np.atleast_2d(base.problem.theta0)[0], min(FIRST, replicas)
    first = float(jax.jit(base.here.gap(config.tau))(theta)) if base.here.shared else None
    while True:
        m = measure(base.problem, theta, R, config.first_seed)
        at, notes, hidden = _landscape(base, m, first)
        wanted = PART * at.gap if target is None else target / base.here.scale
        if wanted >= at.gap:
            raise InputError(
                f"target = {wanted * base.here.scale:.3g} is met where the problem begins: the first gap is "
                f"{at.gap * base.here.scale:.3g}; ask for a smaller one"
            )
        costs = [advice.cost(method, at, wanted, eta) for method in weighed]
        best = advice.ranked(costs)[0]
        ends = [[advice.cost(x, end, wanted, eta) for x in weighed] for end in advice.cases(at, *m.zeta_sq[1:])]
        regret = advice.regret(best.method, ends)
        if replicas <= R or (not hidden and (regret <= REGRET or math.isinf(best.rounds))):
            break
        R = min(2 * R, replicas)
    if math.isinf(best.rounds):
        _refuse_target(weighed, at, wanted, base.here.scale, eta)
    if regret > REGRET:
        raise InputError(
            f"{R} estimates of each agent are too few to tell: zeta^2 = {m.zeta_sq.mean:.3g} lies in "
            f"[{m.zeta_sq.low:.3g}, {m.zeta_sq.high:.3g}], and at one end {best.method.name} costs {regret:.3g} times "
            f"what the best would; it takes about {_needed(m, at)}: --replicas {_needed(m, at)}"
        )
    balances = [advice.balance(best.method.noise * at.sigma_sq, z, at.N) for z in m.zeta_sq]
    shares = LARGER + SHARES if hidden else SHARES
    etas = [float(f"{share * best.eta:.3g}") for share in shares] if eta is None else [eta]
    tried = None
    if base.here.shared:
        trial = followed(config, best)
        same = trial.get("oracle.B") == config.get("oracle.B")
        tried = try_out(plan(trial, base if same else None), etas, wanted)
    costs = by_trial(_best_of_each(costs), tried)
    return Advice(
        followed(config, costs[0]),
        base.name,
        m,
        at,
        wanted,
        costs,
        (balances[0], balances[1], balances[2]),
        base.here.scale,
        budgets.unit(base),
        [*notes, *_too_short(base, at, wanted)],
        _horizon(base, at, wanted),
        _unpromised(config, base),
        base.here.shared,
        tried,
    )


def _unpromised(config: Config, base: Plan) -> str:
    """Why Theorem 2 says nothing of Fast-FedPG here, in words; nothing where it does."""
    known, absent = base.here, 0 if config.participants is None else base.problem.N - config.participants
    if known.played:
        return "of what can only be played neither J* nor (12) is known"
    taken = config.get("alpha_g") or 1.0, False, absent, config.get("optimiser") or "sgd"
    return known.undominated(config.tau) or " and ".join(not_covered("fast_fedpg", *taken))


def _landscape(base: Plan, m: Measured, gap: float | None) -> tuple[Landscape, list[str], bool]:
    """What was measured as numbers to reckon with; where noise hides one, its upper end, and that is said.

    `gap` is the first one, where it is known.
    """
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
    if gap is None:
        gap = norm_sq / (2 * L)
        why = "" if known.played else " where kernels or starts differ"
        notes.append(f"J* is not known{why}: the first gap is reckoned as ||grad J||^2/(2L), a parabola's with that L")
    mu = min(norm_sq / gap, 2 * L)
    sigma_sq = m.sigma_sq.mean if m.sigma_sq.mean > ROUNDING * norm_sq else 0.0
    return (
        Landscape(gap, mu, L, sigma_sq, max(0.0, m.zeta_sq.mean), base.problem.N),
        notes,
        told != [m.norm_sq.mean, m.L.mean],
    )


def _refuse_target(weighed: list[Method], at: Landscape, target: float, scale: float, eta: float | None) -> None:
    common = [method for method in weighed if method.name != advice.ALONE]
    least = min(advice.least_target(method, at, eta) for method in common) * scale
    where = f"at eta = {eta:g}" if eta is not None else f"that {advice.MOST_ROUNDS:,} rounds can reach"
    enough = [
        f"{number:,} {what}"
        for what, found in (
            ("agents of their kind", inverses.agents_for),
            ("trajectories in an estimate (--B)", inverses.trajectories_for),
        )
        if (number := found(target, common, at, eta)) is not None
    ]
    by_more = f"; by the model {', or '.join(enough)}, would be enough" if enough else ""
    raise InputError(
        f"target = {target * scale:.3g} is below the noise floor {where}, {least:.3g}: ask for a larger target, "
        f"{'a smaller --eta' if eta is not None else 'or more trajectories (--B)'}{by_more}"
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


def _horizon(base: Plan, at: Landscape, target: float) -> tuple[int, int | None] | None:
    """K, and the least for a target by the bound on what cutting off leaves, D(K)^2 gamma^(2K)/mu, if there is one."""
    sizes, gamma = base.here.sizes, base.here.gamma
    if not budgets.plays(base):
        return None
    if base.here.played or "A" not in sizes:
        return base.steps, None
    left = lambda K: (truncation_bound(gamma, sizes["A"], K, base.config.tau) * gamma**K) ** 2 / at.mu
    return base.steps, next((K for K in range(1, 10_000) if left(K) <= target / 2), None)


def _too_short(base: Plan, at: Landscape, target: float) -> Iterator[str]:
    """Whether trajectories are too short by that bound."""
    K, least = _horizon(base, at, target) or (0, None)
    if least is not None and least > K:
        yield f"K = {K}: the bound on what is cut off asks for K = {least} at this target"
