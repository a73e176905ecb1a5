"""Local optimisers that go on from one round to the next, instead of beginning afresh."""

from typing import Any, NamedTuple

from fastfedpg.core import Algorithm, Carried, Down, Exchange, Info, Memory, Oracle, Own, RngKey, Theta, Up, watch


class Kept(NamedTuple):
    """What the algorithm keeps at an agent, and what its optimiser does."""

    memory: Memory
    optimiser: Any


def lasting(algorithm: Algorithm, optimiser: Any) -> Algorithm:
    """The algorithm, whose agents keep their optimiser's state (momentum, scales, step count) between rounds.

    Never sent. An agent's step is P_i v with a P_i of its own. Where every agent's direction v is 0, as with the
    corrected gradient of Fast-FedPG at a point where grad J = 0, and nothing is left of older directions, theta stays,
    whatever the P_i are. Without a correction (fedavg_pg) theta stays where mean_i P_i grad J_i = 0: agents are
    re-weighted by their own scales, even with H = 1.

    It goes on around another point than the one at which it was collected: theta_bar, and not the agent's last iterate.
    """

    def through(e: Exchange) -> Exchange:
        def agent(kept: Kept, own: Own, down: Down, oracle: Oracle, key: RngKey) -> tuple[Kept, Own, Up, Info]:
            given = Carried(own, kept.optimiser)
            memory, after, up, info = e.agent(kept.memory, given, down, beside(oracle), key)
            return Kept(memory, after.optimiser), after.own, up, info

        return e._replace(agent=agent)

    def open(memory: Memory, theta: Theta, oracle: Oracle, own: Own, key: RngKey) -> Kept:
        state = optimiser.init(theta)
        if algorithm.open is not None:
            memory = algorithm.open(memory, theta, beside(oracle), Carried(own, state), key)
        return Kept(memory, state)

    personal = algorithm.personalise
    return algorithm._replace(
        exchanges=tuple(map(through, algorithm.exchanges)),
        open=open,
        personalise=None if personal is None else lambda theta, kept: personal(theta, kept.memory),
    )


def beside(oracle: Oracle) -> Oracle:
    """The oracle, for an `own` that has an optimiser's state beside what the oracle keeps."""

    def sample(answer: Any, theta: Theta, own: Carried, key: RngKey, size: int | None) -> tuple[Any, Carried]:
        batch, after = answer(theta, own.own, key, size)
        return batch, own._replace(own=after)

    told: dict[str, Any] = {"gradient": lambda answer, theta, own, batch: answer(theta, own.own, batch)}
    if oracle.credit is not None:
        told["credit"] = lambda answer, theta, own, batch: answer(theta, own.own, batch)
    if oracle.observe is not None:
        told["observe"] = lambda answer, own, key, o: answer(own.own, key, o)
    return watch(oracle, sample=sample, **told)
