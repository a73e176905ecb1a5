"""Advice that was given: what was measured and tried, what each method would cost, and why one is advised."""

import math
from typing import Any, NamedTuple

from fastfedpg.experiment.config import Config
from fastfedpg.experiment.tried import Tried
from fastfedpg.theory import Measured, advice, inverses
from fastfedpg.theory.advice import Cost, Landscape


class Advice(NamedTuple):
    """What was measured, what each method would cost, best first, and the configuration that follows the first."""

    config: Config
    name: str
    measured: Measured
    at: Landscape
    target: float  # in cost units, as all of `at` is
    costs: list[Cost]  # the best of each method
    balance: tuple[float, float, float]  # N zeta^2 over an anchor's noise, and its ends
    scale: float
    unit: str  # what samples are counted in
    notes: list[str]
    horizon: tuple[int, int | None] | None = None  # K, and the least by the bound on what is cut off; of trajectories
    unpromised: str = ""  # why Theorem 2 says nothing here
    gap_known: bool = True  # or the first gap is a parabola's
    tried: Tried | None = None  # nothing where no gap is known, or every step size diverged

    @property
    def best(self) -> Cost:
        """The one that is advised."""
        return self.costs[0]

    @property
    def own_balance(self) -> tuple[float, float, float]:
        """N zeta^2 over the noise of the correction that is advised, and its ends; over an anchor's where none is."""
        own, anchor = (advice.anchor_noise(m, 1.0, self.at.N) for m in (self.best.method, advice.ANCHOR))
        value, low, high = (anchor / own * b if own > 0 else b for b in self.balance)
        return value, low, high

    @property
    def chosen(self) -> str:
        """The settings that were chosen, or stayed, in words."""
        args = self.config.choice("algorithm").args
        said = {name: args.get(name) for name in ("eta", "H", "B0")}
        if self.best.method.B is not None:
            said["B"] = self.best.method.B
        return ", ".join(f"{name} = {value:g}" for name, value in said.items() if value is not None)

    def by_theorem(self) -> str:
        """Theorem 2's inverse with its own constants, for Fast-FedPG at the H that is advised, or why there is none."""
        if self.unpromised:
            return f"Theorem 2 promises nothing here: {self.unpromised}"
        mine = next(c for c in self.costs if c.method.name == "fast_fedpg").method
        at = self.at._replace(sigma_sq=mine.noise * self.at.sigma_sq)
        rounds = inverses.theorem2_rounds(at, mine.H, self.target)
        said = f"Theorem 2 with its own constants promises fast_fedpg this gap after {rounds:.3g} rounds"
        return f"{said}, with H = {mine.H}, if L and mu stay what they are at the start"

    def reason(self) -> str:
        """Why this method, in a sentence."""
        name, others = self.best.method.name, [c for c in self.costs if c.method.name != advice.ALONE]
        plain = next((c for c in others if c.method.name == "fedavg_pg"), None)
        zeta_sq, sigma_sq = max(0.0, self.measured.zeta_sq.mean), self.best.method.noise * self.at.sigma_sq
        apart = f"zeta^2 = {zeta_sq:.3g} and sigma^2 = {sigma_sq:.3g}"
        if self.best.method.noise != 1:
            apart += f" at B = {self.best.method.B}"
        if name == "fedavg_pg" and sigma_sq == 0:
            return (
                f"neither noise nor drift decides: without noise, and with zeta^2 = {zeta_sq:.3g}, what the agents' "
                "own drift leaves is within the target, and a correction would not pay"
            )
        if name == "fedavg_pg" and self.best.method.H == 1:
            return f"neither noise nor drift decides: with {apart}, and H = 1, nobody drifts"
        if name == "fedavg_pg":
            return (
                f"noise decides: with {apart} the agents' own drift is small beside it, and a correction would not pay"
            )
        if name == "minibatch_pg":
            decides = "noise decides" if self.balance[0] < 1 else "neither noise nor drift decides"
            return f"{decides}: with {apart} one step on a round's trajectories goes as far as H, and nobody drifts"
        if name == "centralised_pg":
            return f"neither noise nor drift decides: with {apart} one averaged step a round is enough for this target"
        times = math.inf if plain is None else plain.toll / self.best.toll
        worse = f"without one FedAvg-PG would cost {times:.3g} times as much" if times < math.inf else "it pays"
        if self.own_balance[1] <= 1:
            return f"noise or drift, it can't be told: with {apart} a correction pays by the model; {worse}"
        return f"drift decides: with {apart} a correction pays; {worse}"

    def trial(self) -> str:
        """What a few rounds of it showed, in a sentence: where the numbers of rounds are from."""
        if self.tried is None and self.gap_known:
            return "tried, and every step size diverged: rounds are the model's, and nobody knows how many it takes"
        if self.tried is None:
            return "not tried, since no gap is known here: rounds are the model's, for a parabola, and may be far off"
        eta, gaps, low, high, steps = self.tried
        begins = f"tried{f' for {steps:,} environment steps' if steps else ''}: with eta = {eta:g}"
        if self.tried.reached:
            return f"{begins} the target is met after {max(1, high):.0f} rounds"
        seen = f"{begins} the gap is {gaps[-1] * self.scale:.3g} after {len(gaps) - 1} rounds"
        if math.isinf(high):
            return f"{seen}, and does not fall any more: rounds are the model's, and nobody knows how many it takes"
        return f"{seen}; the target takes {low:,.0f} at that rate, {high:,.0f} if the gap falls like 1/rounds"

    def summary(self) -> dict[str, Any]:
        """For summary.json."""
        m, tried = self.measured, self.tried
        return {
            "chosen": self.best.method.label,
            "why": self.reason(),
            "balance": dict(zip(("value", "low", "high"), self.balance, strict=True)),
            "measured": {k: dict(getattr(m, k)._asdict()) for k in ("norm_sq", "zeta_sq", "sigma_sq", "L")},
            "estimates_of_each_agent": m.replicas,
            "env_steps": m.steps,
            "target_gap": self.target * self.scale,
            "K": None if self.horizon is None else dict(zip(("used", "by_the_bound"), self.horizon, strict=True)),
            "theorem_2": self.by_theorem(),
            "costs": [
                {
                    "method": c.method.label,
                    "eta": c.eta,
                    "H": c.method.H,
                    "B": c.method.B,
                    "rounds": c.rounds,
                    "samples": c.samples,
                }
                | {"bytes": c.bytes, "floor": c.floor * self.scale}
                for c in self.costs
            ],
            "tried": None if tried is None else tried._asdict() | {"gaps": (tried.gaps * self.scale).tolist()},
            "notes": self.notes,
        }
