"""Environments whose value is known: estimates, values, evaluation and learning agree with it, and mutants do not.

Statistical tests have a fixed seed, and ask each coordinate's mean to lie within 4.5 standard errors of the exact one:
of some 2,000 coordinates one fails by chance with probability 0.014. All probes of a policy are played by one program,
and the oracles are then given these episodes: compiling is what takes time.
"""

from functools import cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fastfedpg import centralised_pg, fast_fedpg, simulate
from fastfedpg.core import key_for
from fastfedpg.envs import Environments
from fastfedpg.envs.catalogue import probes
from fastfedpg.oracles import critic, played
from fastfedpg.oracles.played import Game
from fastfedpg.policies import fourier, linear, mlp, table
from fastfedpg.problems import with_policy
from fastfedpg.spaces import Discrete, box

GAMMA, K = 0.7, 2  # probes of one step have ended before the second
M, B = 1500, 32  # estimates that are averaged, and the episodes of each
TASKS = np.array([1.0, 0.5])

FEW = (12, 12)
"""Units of a critic: probes are learned by few."""

ORACLES = {
    "reinforce": ("reinforce", {}),
    "gpomdp": ("gpomdp", {}),
    "leave-one-out": ("gpomdp", {"baseline": "leave-one-out"}),
    "critic, lam 1": ("actor_critic", {"lam": 1.0, "critic_hidden": FEW}),
    "critic, lam .95": ("actor_critic", {"lam": 0.95, "critic_hidden": FEW}),
}
KINDS = {
    "linear": lambda actions: linear(box(1), actions),
    "table": lambda actions: table(Discrete(3), actions),
    "fourier": lambda actions: fourier(box(1), actions, features=6),
    "mlp": lambda actions: mlp(box(1), actions, hidden=(4, 3)),
    "gaussian": lambda actions: mlp(box(1), actions, hidden=(3,), log_std=-0.3),
    "squashed": lambda actions: linear(box(1), box(1, -2, 2), log_std=-0.3, squash=True),
}
NODES = np.linspace(-9, 9, 601)
WEIGHTS = np.exp(-(NODES**2) / 2) / np.exp(-(NODES**2) / 2).sum()  # trapezoids: exact to 1e-14 for smooth integrands


def by_last_action(gamma):
    """Two steps; the second action pays the task: J_i = gamma task p, p that of the second step."""
    paid = lambda task, state, a: task * (state.k == 1) * a
    return probes._probe("by_last_action", lambda task, p: gamma * task * p, paid, 2, gamma)


MADE = {name: make(GAMMA) for name, make in {**probes.PROBES, "by_last_action": by_last_action}.items()}
DISCRETE = [name for name in MADE if name != "by_force"]
STEERED = [name for name in MADE if name.startswith("by_")]  # where it matters what is done
PLAYED = {
    "linear": DISCRETE,
    "table": ["by_action", "by_first_action", "by_last_action"],
    "fourier": ["by_observation", "by_last_action"],
    "mlp": ["by_observation", "by_first_action"],
    "gaussian": ["by_force"],
    "squashed": ["by_force"],
}


class Case(NamedTuple):
    """A policy at a theta without symmetries, and what it has played in each of its probes: (probes, N, M, B, …)."""

    names: list
    policy: object
    theta: object
    episodes: object

    def probability(self, theta, seen):
        """pi(1 | seen)."""
        return jnp.exp(self.policy.log_prob(theta, jnp.array([seen]), jnp.array([1.0])))

    def worth(self, name, theta, task):
        """The closed form, of the policy's own probabilities; with Gaussian actions by quadrature over its noise."""
        value, p = MADE[name].value, partial(self.probability, theta)
        if name == "by_force":
            act = lambda noise: self.policy.action(self.policy.choose(theta, jnp.zeros(1), noise))[0]
            actions = jax.vmap(act)(jnp.asarray(NODES)[:, None])
            return value(jnp.asarray(task)[..., None], actions, 0.0) @ WEIGHTS
        if name == "by_observation":
            return value(task, p(-1.0), p(1.0))
        return value(task, p(1.0 if name == "by_last_action" else 0.0))

    def gradients(self):
        """(probes, N, d): the exact gradients of J_i = -worth."""
        costs = lambda theta: jnp.stack([-self.worth(name, theta, jnp.asarray(TASKS)) for name in self.names])
        return np.asarray(jax.jit(jax.jacrev(costs))(self.theta))

    def recorded(self, oracle, **settings):
        """An oracle whose tasks are the episodes that it plays."""
        name, own = ORACLES[oracle]
        tasks = jax.tree.map(lambda x: x[:, 0, 0], self.episodes)
        play = lambda policy, episodes, theta, key, B, K: episodes
        environments = Environments("recorded", box(1), Discrete(2), tasks, play, K, GAMMA)
        return with_policy(environments, self.policy, name, B=B, **own, **settings)

    def only(self, *names):
        """The same with some of the probes."""
        rows = np.array([self.names.index(name) for name in names])
        return self._replace(names=list(names), episodes=jax.tree.map(lambda x: x[rows], self.episodes))


@cache
def case(kind):
    names = PLAYED[kind]
    policy = KINDS[kind](MADE[names[0]].environments.actions)
    theta = 0.7 * np.random.default_rng([*kind.encode()]).normal(size=policy.size)

    @jax.jit
    def play(theta, keys):
        at = lambda name, task, key: MADE[name].environments.play(policy, task, theta, key, M * B, K)
        return [[at(name, task, key) for task, key in zip(TASKS, keys, strict=True)] for name in names]

    found = play(jnp.asarray(theta), [key_for(1, 0, "episodes", i) for i in range(2)])
    stack = lambda *x: np.stack(x).reshape(len(names), 2, M, B, *x[0].shape[1:])
    return Case(names, policy, jnp.asarray(theta), jax.tree.map(stack, *[each for row in found for each in row]))


def critics(here, knowing=None):
    """(probes, N): critics that know nothing and say something, or the given ones."""
    if knowing is not None:
        return knowing
    form, rng = (
        jax.eval_shape(here.recorded("critic, lam 1").oracle(None).init, key_for(0, 0, "")),
        np.random.default_rng(2),
    )
    drawn = lambda x: rng.normal(size=x.shape).astype(x.dtype)
    return jax.tree.map(lambda x: np.broadcast_to(drawn(x), (len(here.names), 2, *x.shape)), form)


def estimates(here, oracles=ORACLES, knowing=None):
    """name -> (probes, N, M, d): independent estimates by every oracle, from the same episodes."""
    made = {name: here.recorded(name) for name in oracles}

    def one(name, kept, episodes):
        oracle = made[name].oracle(episodes)
        batch, own = oracle.sample(here.theta, kept if "critic" in name else (), key_for(0, 0, "", 0), None)
        return oracle.gradient(here.theta, own, batch)

    def every(kept, episodes):
        return {name: jax.vmap(lambda e, name=name: one(name, kept, e))(episodes) for name in made}

    found = jax.jit(jax.vmap(jax.vmap(every)))(critics(here, knowing), here.episodes)
    return {name: np.asarray(x) for name, x in found.items()}


def trained(here, batches=25, steps=20):
    """(probes, N): critics after so many batches of one policy."""
    make = here.recorded("critic, lam .95", critic_eta=0.03, critic_steps=steps).oracle

    def train(episodes):
        learn = lambda kept, e: (make(e).sample(here.theta, kept, key_for(0, 0, "", 0), None)[1], None)
        return jax.lax.scan(learn, make(None).init(key_for(3, 0, "own", 0)), episodes)[0]

    return jax.jit(jax.vmap(jax.vmap(train)))(jax.tree.map(lambda x: x[:, :, :batches], here.episodes))


def values(here, kept, k, seen):
    """(N, len(seen)): what the critics of probe k say, a cost-to-go."""
    enter = lambda M: here.policy.enter(here.theta, jnp.array(seen)[:, None], M)
    mine = [jax.tree.map(lambda x, i=i: x[k, i], kept) for i in range(2)]
    return np.stack([own.centre + own.scale * critic.forward(own.network, enter) for own in mine])


def away(found, exact):
    """How many standard errors the mean over axis 1 is away from the exact one, at most."""
    error = found.std(axis=1, ddof=1) / np.sqrt(found.shape[1])
    return (np.abs(found.mean(axis=1) - exact) / (error + 1e-9)).max()


@pytest.fixture(scope="module")
def knowing():
    """Critics that have seen the linear policy play."""
    return trained(case("linear"))


@pytest.mark.parametrize("kind", KINDS)
def test_every_estimate_has_the_mean_that_is_known(kind, knowing):
    """The exact gradient, whatever the critic says, since these episodes end or pay constants; with one exception.

    Where what was done is not seen, the critic of by_first_action can't tell: of the reward a step later lam is kept.
    """
    here, every = case(kind), kind == "linear"
    gradients = here.gradients()
    oracles = ORACLES if every else ["leave-one-out", "critic, lam .95"]
    for oracle, found in estimates(here, oracles, knowing if every else None).items():
        for k, (name, exact) in enumerate(zip(here.names, gradients, strict=True)):
            kept = 0.95 if (name, oracle) == ("by_first_action", "critic, lam .95") else 1.0
            assert away(found[k], kept * exact) < 4.5, (oracle, name)
            if name in STEERED:
                assert away(found[k], 0 * exact) > 20, "the gradient is no accident"
            if kept < 1 and every:  # a critic that knows leaves little noise
                assert away(found[k], exact) > 4.5


def test_evaluate_says_what_a_policy_is_worth():
    """J is the discounted closed form, within 4.5 standard errors, and returns are plain sums of rewards."""
    for kind in ("linear", "gaussian"):
        here = case(kind)
        for k, name in enumerate(here.names):
            flat = jax.tree.map(lambda x, k=k: x[k].reshape(2, M * B, *x.shape[4:]), here.episodes)
            play = lambda policy, episodes, theta, key, B, K: episodes
            environments = Environments("recorded", box(1), Discrete(2), flat, play, K, GAMMA)
            found = with_policy(environments, here.policy, "gpomdp", B=1).evaluate(np.asarray(here.theta)[None])
            sums = flat.rewards @ GAMMA ** np.arange(K)
            error = np.sqrt((sums.var(axis=1) / sums.shape[1]).sum()) / 2
            shown = 1 - GAMMA**K if name == "endless" else 1.0
            exact = -shown * np.mean(here.worth(name, here.theta, TASKS))
            assert abs(found.J[0] - exact) < 4.5 * error + 1e-9, name
            np.testing.assert_allclose(found.returns[0], flat.rewards.sum(axis=2).mean(axis=1), atol=1e-12)


def costs_to_go(here):
    """name -> observations, and agent 0's exact values there; agent 1's are half of them."""
    p = lambda seen: float(here.probability(here.theta, seen))
    return {
        "constant": ([0.0], [1]),
        "by_action": ([0.0], [p(0.0)]),
        "late": ([0.0, 1.0], [GAMMA, 1]),
        "by_observation": ([-1.0, 1.0], [1 - p(-1.0), p(1.0)]),
        "by_first_action": ([0.0, 1.0], [GAMMA * p(0.0), p(0.0)]),
        "by_last_action": ([0.0, 1.0], [GAMMA * p(1.0), p(1.0)]),
        "ending": ([0.0, 1.0], [1 + GAMMA, 1]),
        "endless": ([0.0], [1 / (1 - GAMMA)]),
    }


def wrong(here, kept, k, name):
    """The largest error of a trained critic."""
    seen, worth = costs_to_go(here)[name]
    return np.abs(values(here, kept, k, seen) + TASKS[:, None] * np.array(worth)).max()


def test_a_trained_critic_knows_the_values(knowing):
    """To 0.02 where all is certain, and 0.2 where batches of 32 differ.

    `ending` and `endless` begin alike; what comes after the two steps is nothing in one and gamma^2 V in the other.
    """
    here = case("linear")
    for k, name in enumerate(here.names):
        assert wrong(here, knowing, k, name) < (0.2 if name in STEERED else 0.02), name


def flipped(self, theta, episodes, costs=Game.costs):
    return -costs(self, theta, episodes)


MUTANTS = {
    "a flipped sign": ("costs", flipped, "by_action"),
    "gamma^(k+1)": (
        "discount",
        lambda self, c, k=None: c * self.gamma ** jnp.arange(1, 1 + c.shape[1]),
        "by_first_action",
    ),
    "no gamma^k": ("discount", lambda self, c, k=None: c, "by_last_action"),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_mutants_of_the_costs_are_rejected(mutant, monkeypatch):
    function, by, name = MUTANTS[mutant]
    here = case("linear").only(name)
    monkeypatch.setattr(Game, function, by)
    for oracle, found in estimates(here, ["reinforce", "critic, lam 1"]).items():
        assert away(found[0], here.gradients()[0]) > 4.5, oracle


@pytest.mark.parametrize(("name", "said"), [("ending", False), ("endless", True)], ids=["after the end", "not cut"])
def test_mutants_of_the_bootstrap_are_rejected(name, said, monkeypatch):
    """A critic that goes on after episodes that terminated, or does not after those that were cut."""
    here, honest = case("linear").only(name), critic.advantages

    def mutant(c, V, episodes, gamma, lam):
        alive = episodes.alive
        last = alive & ~jnp.concatenate([alive[:, 1:], jnp.zeros_like(alive[:, :1])], axis=1)
        return honest(c, V, episodes._replace(terminated=last & said), gamma, lam)

    monkeypatch.setattr(critic, "advantages", mutant)
    assert wrong(here, trained(here), 0, name) > 0.1


@pytest.mark.parametrize("mutant", [False, True], ids=["honest", "mutant"])
def test_what_stands_after_the_end_has_no_weight(mutant, monkeypatch):
    """Garbage in the padding of one-step episodes changes no bit; without the mask it does."""
    if mutant:
        everywhere = lambda batch: batch._replace(episodes=batch.episodes._replace(alive=jnp.ones((B, K), bool)))
        honest = played.weighted_scores
        monkeypatch.setattr(
            played, "weighted_scores", lambda game, theta, batch: honest(game, theta, everywhere(batch))
        )
    here = case("mlp").only("by_observation")
    assert not here.episodes.alive[..., 1].any()
    assert here.episodes.terminated.any(axis=-1).all()
    seen, choices = here.episodes.observations.copy(), here.episodes.choices.copy()
    seen[..., 1, :], choices[..., 1, :] = 3.0, 1.0
    spoilt = here._replace(episodes=here.episodes._replace(observations=seen, choices=choices))
    one, two = (estimates(each, ["reinforce"])["reinforce"] for each in (here, spoilt))
    assert np.array_equal(one, two) != mutant


BEST = {"by_action": 0.75, "by_first_action": GAMMA * 0.75, "by_observation": 0.75, "by_force": -0.0625}
LEARN = {
    "by_action": ("table", centralised_pg(4.0), *ORACLES["critic, lam 1"]),
    "by_first_action": ("linear", centralised_pg(6.0), "gpomdp", {"baseline": "leave-one-out"}),
    "by_observation": ("mlp", fast_fedpg(1.0, 4), "reinforce", {}),
    "by_force": ("squashed", centralised_pg(0.3), "gpomdp", {"baseline": "leave-one-out"}),
}


@pytest.mark.parametrize("name", LEARN)
def test_learning_comes_close_to_the_best(name):
    """The mean over agents of what is best for both: all of it but 5%, or 0.05 of by_force, where tasks differ."""
    kind, algorithm, oracle, settings = LEARN[name]
    probe = MADE[name]
    policy = KINDS[kind](probe.environments.actions)
    problem = with_policy(probe.environments, policy, oracle, B=64, **settings)
    result = simulate(problem, algorithm, 40, metrics_every=40)
    here = Case([name], policy, None, None)
    worth = lambda theta: np.mean(here.worth(name, jnp.asarray(theta), TASKS))
    assert BEST[name] - worth(result.theta[0]) < 0.05 < BEST[name] - worth(problem.theta0)
