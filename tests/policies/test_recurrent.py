"""Policies that remember: one definition for a step and for sequences, and what memory is worth."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fastfedpg as ff
from fastfedpg import policies
from fastfedpg.core import key_for
from fastfedpg.envs.catalogue.recall import recall
from fastfedpg.envs.episodes import Episodes
from fastfedpg.errors import InputError
from fastfedpg.gym_workers.adapter import environments as gymnasium_environments
from fastfedpg.oracles.played import Game
from fastfedpg.policies import plain
from fastfedpg.problems import with_policy
from fastfedpg.spaces import Discrete, box

M, O, K = 3, 2, 7
RNG = np.random.default_rng(0)
RNG_KEY = key_for(0, 0, "y")


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def by_hand(theta, observations, fresh, q):
    """A unit of M numbers written out from its equations: the logits (K, q) of one sequence."""
    at, parts = 0, []
    for shape in ((O, 3 * M), (3 * M,), (M, 3 * M), (M,), (M, q), (q,)):
        size = int(np.prod(shape))
        parts.append(theta[at : at + size].reshape(shape))
        at += size
    W, b, U, c, V, v = parts
    h, found = np.zeros(M), []
    for x, begins in zip(observations, fresh, strict=True):
        h = np.zeros(M) if begins else h
        a, g = x @ W + b, h @ U
        z, r = sigmoid(a[:M] + g[:M]), sigmoid(a[M : 2 * M] + g[M : 2 * M])
        h = (1 - z) * np.tanh(a[2 * M :] + r * (g[2 * M :] + c)) + z * h
        found.append(h @ V + v)
    return np.array(found)


def log_softmax(z):
    return z - np.log(np.exp(z).sum(-1, keepdims=True))


@pytest.mark.parametrize("xp", [np, jnp], ids=["numpy", "jax"])
def test_sequences_are_the_unit_by_hand(xp):
    """log pi, entropy and KL of sequences with episodes in them, for NumPy and JAX."""
    policy = policies.gru(box(O), Discrete(3), units=M)
    theta, other = RNG.normal(size=(2, policy.size))
    seen, fresh = RNG.normal(size=(4, K, O)), RNG.random((4, K)) < 0.3
    fresh[:, 0] = True
    choice = RNG.integers(3, size=(4, K, 1))
    told = xp.asarray(np.concatenate([seen, fresh[..., None]], -1))
    log = log_softmax(np.stack([by_hand(theta, *each, 3) for each in zip(seen, fresh, strict=True)]))
    there = log_softmax(np.stack([by_hand(other, *each, 3) for each in zip(seen, fresh, strict=True)]))
    given = xp.asarray(theta), xp.asarray(other)
    want = np.take_along_axis(log, choice, -1)[..., 0]
    np.testing.assert_allclose(policy.log_prob(given[0], told, xp.asarray(choice)), want, rtol=1e-12)
    np.testing.assert_allclose(policy.entropy(given[0], told), -(np.exp(log) * log).sum(-1), rtol=1e-12)
    np.testing.assert_allclose(policy.kl(*given, told), (np.exp(log) * (log - there)).sum(-1), rtol=1e-10)


def sure(policy, scale=1e4):
    """A theta whose choices are all but certain: what is chosen shows what is remembered."""
    theta = RNG.normal(size=policy.size)
    theta[-policy.last_layer :] *= scale
    return jnp.asarray(theta)


def certainty(policy, theta, episodes):
    """The least log pi of any step, with what the policy remembers computed anew; and if it never forgot."""
    game = Game(policy, None, 0.9)
    told = game.seen(episodes)
    never = told.at[:, 1:, -1].set(0)
    least = lambda told: jnp.where(episodes.alive, policy.log_prob(theta, told, episodes.choices), 0).min()
    return float(least(told)), float(least(never))


def test_what_is_played_is_what_is_differentiated():
    """In lanes of episodes every choice has the probability 1 under the unrolled unit, if it forgets at their ends."""
    policy = policies.gru(box(O), Discrete(2), units=M)
    theta, envs = sure(policy), recall(agents=1)
    played = jax.jit(lambda key: envs.play(policy, envs.tasks[0], theta, key, 16, 23, restart=True))(key_for(0, 0, "x"))
    assert not bool(played.alive.all()), "several episodes in a lane"
    right, without_end = certainty(policy, theta, played)
    assert right > -1e-3
    assert without_end < -1


def test_a_worker_remembers_and_forgets_alike():
    """Gymnasium's CartPole, in lanes: what a process that never loads JAX has chosen is what the unrolled unit says.

    One number h, that goes half of its way to 1 in every step, from 0: .5, .75, …; the choice is whether it is above
    .6, all but certainly. So an episode's first action is 0 and all others are 1, and falls end each within 40 steps.
    """
    envs = gymnasium_environments("CartPole-v1", workers=1)
    policy = policies.gru(envs.observations, envs.actions, units=1)
    theta = np.zeros(policy.size)
    theta[3 * 4 + 2], theta[-4:] = 20, 1e4 * np.array([-1, 1, 0.6, -0.6])
    theta = jnp.asarray(theta)
    try:
        played = jax.jit(lambda key: envs.play(policy, envs.tasks[0], theta, key, 4, 40, restart=True))(RNG_KEY)
        right, without_end = certainty(policy, theta, played)
    finally:
        envs.release()
    alive = np.asarray(played.alive)
    begins = np.concatenate([np.ones((4, 1), bool), ~alive[:, :-1]], axis=1)
    np.testing.assert_array_equal(np.asarray(played.choices)[..., 0][alive], ~begins[alive])
    assert not alive.all(), "several episodes in a lane"
    assert right > -1e-3
    assert without_end < -1


def test_gradients_go_back_through_time():
    """By central differences, of a sequence whose second episode must not feel the first."""
    policy = policies.gru(box(O), Discrete(2), units=M)
    theta = RNG.normal(size=policy.size) / 2
    alive = np.array([[True, True, True, False, True, True, True]])
    played = Episodes(RNG.normal(size=(1, K + 1, O)), np.ones((1, K, 1)), None, jnp.asarray(alive), None)
    game = Game(policy, None, 0.9)
    last = jax.jit(lambda theta: game.log_prob(theta, played)[0, -1])
    g, step = np.asarray(jax.grad(last)(jnp.asarray(theta))), 1e-5 * np.eye(policy.size)
    by_differences = [(last(theta + e) - last(theta - e)) / 2e-5 for e in step]
    np.testing.assert_allclose(g, by_differences, atol=1e-8)
    of_first = jax.grad(lambda seen: game.log_prob(theta, played._replace(observations=seen))[0, -1])
    felt = np.abs(of_first(jnp.asarray(played.observations))[0]).sum(-1) > 0
    assert felt.tolist() == [False] * 4 + [True] * 3 + [False]


def test_ppo_takes_whole_lanes():
    """At theta = old the parts' mean is the whole gradient, and that is credit times scores."""
    policy = policies.gru(box(O), Discrete(2), units=M)
    envs = recall(agents=1)
    made = lambda **more: with_policy(envs, policy, "ppo", B=4, K=9, epochs=1, **more).oracle(envs.tasks[0])
    oracle, theta = made(minibatches=2), jnp.asarray(RNG.normal(size=policy.size) / 2)

    @jax.jit
    def both(key):
        batch, own = oracle.sample(theta, oracle.init(key), key, None)
        rows = oracle.replay.order(batch, key)
        parts = [oracle.gradient(theta, own, oracle.replay.part(batch, row)) for row in rows]
        credit = oracle.credit(theta, own, batch)
        scored = jax.grad(lambda theta: jnp.sum(credit * oracle.log_prob(theta, batch)) / 4)(theta)
        return rows, oracle.gradient(theta, own, batch), sum(parts) / len(parts), scored

    rows, whole, parts, scored = both(key_for(0, 0, "x"))
    assert sorted(np.ravel(rows)) == [0, 1, 2, 3]
    np.testing.assert_allclose(parts, whole, atol=1e-14)
    np.testing.assert_allclose(scored, whole, atol=1e-14)
    torn = made(minibatches=3)
    with pytest.raises(InputError, match="minibatches = 3 does not divide B = 4"):
        jax.eval_shape(lambda key: torn.replay.order(torn.sample(theta, torn.init(key), key, None)[0], key), RNG_KEY)


def learned(policy, oracle="gpomdp", **more):
    given = {"agents": 2, "delay": 2, "spread": 0.0}
    agents = given.pop("agents")
    config = ff.Config(
        "recall", given, agents=agents, policy=policy, oracle=oracle, algorithm="fedavg_pg", H=1, eta=0.03,
        optimiser="adam", keep_optimiser=True, rounds=60, metrics_every=60, evaluation_episodes=256, evaluate_by="mode",
        **{"B": 32, **more},
    )  # fmt: skip
    return float(ff.run(config).returns[0, -1].mean())


def test_memory_is_worth_what_it_is():
    """Every answer right, where a policy without memory has 1/2: of 512 fair coins less than .6 but for 4.5 sd."""
    assert learned("gru", policy_args={"units": 6}, baseline="leave-one-out") == 1.0


@pytest.mark.long
@pytest.mark.parametrize(
    ("policy", "more", "right"),
    [
        ("linear", {"baseline": "leave-one-out"}, False),
        ("gru", {"oracle": "ppo", "segments": False, "minibatches": 2, "epochs": 4}, True),
        ("gru", {"oracle": "actor_critic", "lam": 1.0}, True),
    ],
)
def test_memory_with_every_oracle(policy, more, right):
    """More of the same: what stays in `make test` is the test before this one."""
    found = learned(policy, **more)
    assert found == 1.0 if right else abs(found - 0.5) < 0.1


def test_what_a_policy_with_memory_can_not_do():
    envs, policy = recall(agents=2), policies.gru(box(O), Discrete(2), units=M)
    with pytest.raises(InputError, match="units = 0"):
        policies.gru(box(O), Discrete(2), units=0)
    with pytest.raises(InputError, match="context is for policies without memory"):
        ff.envs.with_context(envs, [[0.0], [1.0]]).play(policy, (envs.tasks[0], np.zeros(1)), np.zeros(3), None, 1, 1)
    with pytest.raises(InputError, match="memory can't be written as layers"):
        plain.arrays(policy, np.zeros(policy.size))
    with pytest.raises(InputError, match="delay = 0"):
        recall(delay=0)
