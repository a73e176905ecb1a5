"""Fast-FedPG and its oracles with one thing broken, each in a wrapper around the real one: rows must catch them all."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fastfedpg.algorithms.fast_fedpg import Memory, fast_fedpg
from fastfedpg.core import (
    Algorithm,
    Batch,
    Combine,
    Down,
    Exchange,
    Info,
    Oracle,
    Own,
    Problem,
    RngKey,
    Task,
    Theta,
    estimate,
    pairwise_mean,
    watch,
)
from fastfedpg.problems import AnyProblem, with_oracle
from fastfedpg.verify.controls import flipped

AGAIN = 2**20
"""Folded into a key for what no local step draws."""

Agent = Callable[..., tuple[Any, Own, Theta, Info]]


class Mutant(NamedTuple):
    """What is planted in a Subject: another `make`, or another `ask`; with `estimator` rows about those come first."""

    name: str
    make: Callable[..., Algorithm] = fast_fedpg
    ask: Callable[..., Problem] = with_oracle
    estimator: bool = False


# The algorithm


def _wrapped(number: int, wrap: Callable[[Agent], Agent]) -> Callable[..., Algorithm]:
    """Fast-FedPG whose agents' half of one exchange is another."""

    def make(*settings: Any) -> Algorithm:
        algorithm = fast_fedpg(*settings)
        exchanges = list(algorithm.exchanges)
        exchanges[number] = exchanges[number]._replace(agent=wrap(exchanges[number].agent))
        return algorithm._replace(exchanges=tuple(exchanges))

    return make


def _half(number: int) -> Callable[..., Algorithm]:
    """Fast-FedPG whose server hears the first half of the agents only, in one exchange."""
    first = lambda ups: jax.tree.map(lambda x: x[: -(-len(x) // 2)], ups)
    deaf = Combine(lambda ups, who=None, key=None: pairwise_mean(first(ups)))

    def make(*settings: Any) -> Algorithm:
        algorithm = fast_fedpg(*settings)
        change = lambda k, e: e._replace(combine=deaf) if k == number else e
        exchanges: tuple[Exchange, ...] = tuple(change(k, e) for k, e in enumerate(algorithm.exchanges))
        return algorithm._replace(exchanges=exchanges)

    return make


def _ignoring_alpha_g(eta: Any, H: int, alpha_g: Any = 1.0, *settings: Any) -> Algorithm:
    return fast_fedpg(eta, H, 1.0, *settings)


def _half_eta(eta: Any, *settings: Any) -> Algorithm:
    return fast_fedpg(eta / 2, *settings)


def _reusing(eta: Any, H: int, alpha_g: Any = 1.0, reuse: bool = False, *settings: Any) -> Algorithm:
    return fast_fedpg(eta, H, alpha_g, True, *settings)


def _never_kept(agent: Agent) -> Agent:
    """The memory stays what it was before the first round: zero."""

    def send(memory: Memory, own: Own, theta_bar: Down, oracle: Oracle, key: RngKey) -> tuple[Memory, Own, Theta, Info]:
        _, own, g_i, info = agent(memory, own, theta_bar, oracle, key)
        return Memory(theta_bar, memory.g_i), own, g_i, info

    return send


def _kept_once(agent: Agent) -> Agent:
    """The memory of the first round stays, in which it is right; it is told from none by being other than zero."""

    def send(memory: Memory, own: Own, theta_bar: Down, oracle: Oracle, key: RngKey) -> tuple[Memory, Own, Theta, Info]:
        _, own, g_i, info = agent(memory, own, theta_bar, oracle, key)
        kept = jnp.where(jnp.any(memory.g_i != 0), memory.g_i, g_i)
        return Memory(theta_bar, kept), own, g_i, info

    return send


def _sampled_again(agent: Agent) -> Agent:
    """What is subtracted in (6) is not the gradient that was sent, but a new estimate of it."""

    def send(memory: Memory, own: Own, g_bar: Down, oracle: Oracle, key: RngKey) -> tuple[Memory, Own, Theta, Info]:
        g_i, own, _ = estimate(oracle, memory.theta_bar, own, jax.random.fold_in(key, AGAIN))
        return agent(memory._replace(g_i=g_i), own, g_bar, oracle, key)

    return send


def _one_noise(agent: Agent) -> Agent:
    """All local steps of a round draw with one key."""

    def send(memory: Memory, own: Own, g_bar: Down, oracle: Oracle, key: RngKey) -> tuple[Memory, Own, Theta, Info]:
        same = lambda sample, theta, own, _, B: sample(theta, own, key, B)
        return agent(memory, own, g_bar, watch(oracle, sample=same), key)

    return send


# Its oracles


def _answering(gradient: Callable[..., Theta]) -> Callable[..., Problem]:
    """Sampled problems whose estimates are gradient(oracle, theta, own, batch)."""

    def ask(known: AnyProblem, oracle: str, tau: float, **settings: Any) -> Problem:
        return _with(with_oracle(known, oracle, tau, **settings), gradient)

    return ask


def _with(problem: Problem, gradient: Callable[..., Theta]) -> Problem:
    def of_task(task: Task) -> Oracle:
        inner = problem.oracle(task)
        return inner._replace(gradient=lambda theta, own, batch: gradient(inner, theta, own, batch))

    return problem._replace(oracle=of_task)


def _weighted(oracle: Oracle, theta: Theta, batch: Batch, credit: Any) -> Theta:
    """The sum of scores, weighted by `credit` (B, K), over B."""
    assert oracle.log_prob is not None
    log_prob = oracle.log_prob
    return jax.grad(lambda theta: jnp.sum(credit * log_prob(theta, batch)) / credit.shape[0])(theta)


def _wrong_score(oracle: Oracle, theta: Theta, own: Own, batch: Batch) -> Theta:
    """e - 1/A in the place of e - pi, which is the score of the uniform policy alone."""
    assert oracle.credit is not None
    return _weighted(oracle, jnp.zeros_like(theta), batch, oracle.credit(theta, own, batch))


def _short(known: AnyProblem, oracle: str, tau: float, **settings: Any) -> Problem:
    """A horizon of K - 1."""
    return with_oracle(known, oracle, tau, **{**settings, "K": max(1, settings["K"] - 1)})


def _undiscounted(known: AnyProblem, oracle: str, tau: float, **settings: Any) -> Problem:
    """gpomdp whose scores are weighted by what is to come as seen from step k: gamma^k is missing."""
    problem = with_oracle(known, oracle, tau, **settings)
    gamma = known.gamma

    def gradient(oracle: Oracle, theta: Theta, own: Own, batch: Batch) -> Theta:
        assert oracle.credit is not None
        credit = oracle.credit(theta, own, batch)
        return _weighted(oracle, theta, batch, credit / gamma ** jnp.arange(credit.shape[1]))

    return _with(problem, gradient) if oracle == "gpomdp" else problem


def _batch_mean(known: AnyProblem, oracle: str, tau: float, **settings: Any) -> Problem:
    """The mean of the whole batch, its own trajectory included, in the place of the leave-one-out baseline."""
    if settings.get("baseline") != "leave-one-out":
        return with_oracle(known, oracle, tau, **settings)

    def gradient(oracle: Oracle, theta: Theta, own: Own, batch: Batch) -> Theta:
        assert oracle.credit is not None
        credit = oracle.credit(theta, own, batch)
        return _weighted(oracle, theta, batch, credit - credit.mean(axis=0))

    return _with(with_oracle(known, oracle, tau, **{**settings, "baseline": "none"}), gradient)


def _keys(of: Callable[[np.ndarray], np.ndarray]) -> Callable[..., Problem]:
    """Sampled problems whose agents' numbers in the random keys are others."""

    def ask(known: AnyProblem, oracle: str, tau: float, **settings: Any) -> Problem:
        problem = with_oracle(known, oracle, tau, **settings)
        return problem._replace(ids=of(np.asarray(problem.ids)))

    return ask


MUTANTS = (
    Mutant("sign of the correction in (6)", flipped),
    Mutant("memory never written", _wrapped(0, _never_kept)),
    Mutant("memory of the first round kept", _wrapped(0, _kept_once)),
    Mutant("alpha_g ignored", _ignoring_alpha_g),
    Mutant("eta halved", _half_eta),
    Mutant("horizon K - 1", ask=_short, estimator=True),
    Mutant("gamma^k missing", ask=_undiscounted, estimator=True),
    Mutant("batch-mean baseline", ask=_batch_mean, estimator=True),
    Mutant("one key for all agents", ask=_keys(lambda ids: 0 * ids)),
    Mutant("pairs of agents share keys", ask=_keys(lambda ids: ids // 2)),
    Mutant("half of the agents in the gradient", _half(0)),
    Mutant("half of the agents in (7)", _half(1)),
    Mutant("one noise for all local steps", _wrapped(1, _one_noise)),
    Mutant("g_i sampled again", _wrapped(1, _sampled_again)),
    Mutant("score e - 1/A", ask=_answering(_wrong_score), estimator=True),
    Mutant("reuse always", _reusing),
)
