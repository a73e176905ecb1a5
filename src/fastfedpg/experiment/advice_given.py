"""Advice that was given: what was measured and tried, what each method would cost, and why one is advised."""

import math
from typing import Any, NamedTuple

from fastfedpg.experiment.config import Config
from fastfedpg.experiment.tried import Tried
from fastfedpg.theory import Measured, advice
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
    tried: Tried | None = None  # nothing where no gap is known

    @property
    def best(self) -> Cost:
        """The one that is advised."""
        return self.costs[0]

    @property
    def chosen(self) -> str:
        """The settings that were chosen, or stayed, in words."""
        args = self.config.choice("algorithm").args
        said = {name: args.get(name) for name in ("eta", "H", "B0")}
        return ", ".join(f"{name} = {value:g}" for name, value in said.items() if value is not None)

    def by_theorem(self) -> str:
        """Theorem 2's inverse with its own constants, for Fast-FedPG at the H that is advised."""
        mine = next(c for c in self.costs if c.method.name == "fast_fedpg")
        rounds = advice.theorem2_rounds(self.at, mine.method.H, self.target)
        said = f"Theorem 2 with its own constants promises fast_fedpg this gap after {rounds:.3g} rounds"
        return f"{said}, with H = {mine.method.H}"

    def reason(self) -> str:
        """Why this method, in a sentence."""
        name, others = self.best.method.name, [c for c in self.costs if c.method.name != advice.ALONE]
        plain = next((c for c in others if c.method.name == "fedavg_pg"), None)
        apart = f"zeta^2 = {max(0.0, self.measured.zeta_sq.mean):.3g} and sigma^2 = {self.at.sigma_sq:.3g}"
        if name == "fedavg_pg":
            return (
                f"noise decides: with {apart} the agents' own drift is small beside it, and a correction would not pay"
            )
        if name == "centralised_pg":
            return f"neither noise nor drift decides: with {apart} one averaged step a round is enough for this target"
        times = math.inf if plain is None else plain.toll / self.best.toll
        worse = f"without one FedAvg-PG would cost {times:.3g} times as much" if times < math.inf else "it pays"
        return f"drift decides: with {apart} a correction pays; {worse}"

    def trial(self) -> str:
        """What a few rounds of it showed, in a sentence: where the numbers of rounds are from."""
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
            "costs": [
                {"method": c.method.label, "eta": c.eta, "H": c.method.H, "rounds": c.rounds, "samples": c.samples}
                | {"bytes": c.bytes, "floor": c.floor * self.scale}
                for c in self.costs
            ],
            "tried": None if tried is None else tried._asdict() | {"gaps": (tried.gaps * self.scale).tolist()},
            "notes": self.notes,
        }
