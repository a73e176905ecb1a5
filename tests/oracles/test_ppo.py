"""PPO's oracle: against sums written out in NumPy, the clip, the stop, one scale for all, and what it refuses."""

from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from fastfedpg import InputError, fast_fedpg, fedavg_pg, loop, optimisers, simulate
from fastfedpg.algorithms.wrappers.lasting import lasting
from fastfedpg.algorithms.wrappers.scaled import Scaled, beside, scaled
from fastfedpg.core import Combine, key_for, local_steps, mean, sgd
from fastfedpg.envs import Env, Environments, Episodes, Step, play
from fastfedpg.oracles import critic
from fastfedpg.oracles import running_critic as here
from fastfedpg.oracles.played import Game
from fastfedpg.oracles.ppo import ppo
from fastfedpg.oracles.running_critic import shuffled
from fastfedpg.oracles.surrogate import Played, rows_of
from fastfedpg.policies import linear
from fastfedpg.problems import with_policy
from fastfedpg.runtime import Schedule
from fastfedpg.spaces import Discrete, box
from fastfedpg.stepping import SHUFFLE

B, K, GAMMA, LAM, CLIP = 4, 6, 0.9, 0.7, 0.2
POLICY = linear(box(1), Discrete(3))
KEY = key_for(0, 0, "", 0)


def scripted(seed=0):
    """Two episodes in some lanes: 3 steps and an end, a step that is not taken, then others that are cut."""
    rng = np.random.default_rng(seed)
    alive, ends = np.ones((B, K), bool), np.zeros((B, K), bool)
    alive[:2, 3], ends[:2, 2] = False, True
    seen, choices = rng.normal(size=(B, K + 1, 1)), rng.integers(0, 3, (B, K, 1)).astype(float)
    rewards = np.where(alive, rng.normal(size=(B, K)), 0)
    return Episodes(*map(jnp.asarray, (seen, choices, rewards, alive, ends)))


def game_of(episodes, reward_scale=1.0):
    go = lambda theta, key, B: episodes
    return Game(POLICY, go, GAMMA, reward_scale, segments=go)


@cache
def made(**settings):
    """The oracle and, of one batch, what it keeps."""
    oracle = ppo(
        game_of(scripted()),
        B,
        LAM,
        **{"clip": CLIP, "minibatches": 2, "critic_hidden": (8,), **settings},
    )
    theta = jnp.asarray(np.random.default_rng(1).normal(size=POLICY.size))
    batch, own = jax.jit(lambda key: oracle.sample(theta, oracle.init(key), key, None))(KEY)
    return oracle, theta, own, batch


def log_policy(theta, seen):
    z = seen @ theta.reshape(2, 3)[:1] + theta.reshape(2, 3)[1]
    return z - np.log(np.exp(z).sum(-1, keepdims=True))


def surrogate(theta, old, episodes, gain, scale):
    """The mean over all B K places, by hand."""
    total = 0.0
    for b, k in np.argwhere(np.asarray(episodes.alive)):
        seen, a = np.asarray(episodes.observations)[b, k], int(episodes.choices[b, k, 0])
        now, before = log_policy(theta, seen), log_policy(old, seen)
        r, A = np.exp(now[a] - before[a]), gain[b, k] / scale
        total += max(r * A, min(max(r, 1 - CLIP), 1 + CLIP) * A)
    return total / (B * K)


def advantages_by_hand(episodes):
    """A_k of each episode alone, of a critic that says 0, less their mean; their spread, and that mean."""
    c, alive = np.asarray(-episodes.rewards), np.asarray(episodes.alive)
    A = np.zeros((B, K))
    for b, k in np.argwhere(alive):
        for l in range(k, K):
            if not alive[b, l]:
                break
            A[b, k] += (GAMMA * LAM) ** (l - k) * c[b, l]
    mean = A[alive].mean()
    return np.where(alive, A - mean, 0), A[alive].std(), mean


def test_gradients_are_those_of_the_surrogate_written_out():
    """At the policy that played, where nothing is clipped, and away from it, where half of the steps are.

    The reference is NumPy's, with central differences: 1e-6 apart, good to 1e-8.
    """
    oracle, theta, own, batch = made()
    gain, scale, _ = advantages_by_hand(batch.episodes)
    np.testing.assert_allclose(batch.weights, gain, atol=1e-12)
    np.testing.assert_allclose([own.spread, own.common], [scale, scale], atol=1e-12)
    for x in (np.asarray(theta), np.asarray(theta) + 0.6 * np.random.default_rng(2).normal(size=POLICY.size)):
        want = np.zeros(POLICY.size)
        for i, e in enumerate(1e-6 * np.eye(POLICY.size)):
            ends = (surrogate(x + d, np.asarray(theta), batch.episodes, gain, scale) for d in (e, -e))
            want[i] = (next(ends) - next(ends)) / 2e-6
        np.testing.assert_allclose(oracle.gradient(jnp.asarray(x), own, batch), want, atol=1e-7)
    assert oracle.replay.note(jnp.asarray(x), batch)["clipped"] > 0.2


def test_where_it_was_played_the_gradient_is_that_of_scores_and_credit():
    """So algorithms that weigh scores themselves, as fedkl does, have the same estimate."""
    oracle, theta, own, batch = made()
    score = jax.grad(lambda x: jnp.sum(oracle.credit(theta, own, batch) * oracle.log_prob(x, batch)) / B)(theta)
    np.testing.assert_allclose(oracle.gradient(theta, own, batch), score, atol=1e-12)
    assert np.abs(score).max() > 1e-3
    weighed = made(gamma_weights=True)[3]
    powers = GAMMA ** np.array([[0, 1, 2, 0, 0, 1]] * 2 + [[0, 1, 2, 3, 4, 5]] * 2)
    np.testing.assert_allclose(weighed.weights, np.asarray(batch.weights) * powers, atol=1e-12)


def test_parts_are_a_partition_in_each_epoch_and_their_mean_is_the_whole():
    oracle, theta, own, batch = made(epochs=3, minibatches=4)
    order = oracle.replay.order(batch, KEY)
    assert order.shape == (12, 6)
    for epoch in np.asarray(order).reshape(3, -1):
        np.testing.assert_array_equal(np.sort(epoch), np.arange(B * K))
    assert (np.asarray(order)[:4] != np.asarray(order)[4:8]).any()
    parts = [oracle.gradient(theta, own, oracle.replay.part(batch, row)) for row in order[:4]]
    np.testing.assert_allclose(np.mean(parts, axis=0), oracle.gradient(theta, own, batch), atol=1e-12)
    np.testing.assert_allclose(rows_of(game_of(scripted()), batch).old[:3], batch.old[0, :3])


def test_no_more_steps_are_taken_once_the_policy_is_too_far():
    """With the largest distance on the first four parts as the limit the steps are those without one, up to a later."""
    oracle, theta, own, batch = made(epochs=8)
    path, far = [theta], []
    for row in oracle.replay.order(batch, jax.random.fold_in(jax.random.fold_in(KEY, 0), SHUFFLE)):
        part = oracle.replay.part(batch, row)
        by = log_policy_of(path[-1], part) - part.old
        far.append(float(np.mean(np.where(part.alive, np.exp(by) - 1 - by, 0)) / np.mean(part.alive)))
        path.append(path[-1] - 0.6 * oracle.gradient(path[-1], own, part))
    limit = 1.001 * max(far[:4])
    taken = next(n for n, x in enumerate(far) if x > limit)
    limited = ppo(game_of(scripted()), B, LAM, CLIP, epochs=8, minibatches=2, kl_stop=limit)
    step = lambda oracle: local_steps(oracle, lambda x, g: g, sgd(0.6), theta, own, KEY, 1, batch=batch)
    (found, _, info), (free, _, other) = step(limited), step(oracle)
    np.testing.assert_allclose(found, path[taken], atol=1e-12)
    np.testing.assert_allclose(free, path[-1], atol=1e-12)
    assert (info.extra["steps_taken"], other.extra["steps_taken"]) == (taken / 16, 1)
    assert info.extra["kl"] > 0


def log_policy_of(theta, part):
    every = log_policy(np.asarray(theta), np.asarray(part.seen))
    return np.where(part.alive, every[np.arange(len(every)), np.asarray(part.choices)[:, 0].astype(int)], part.old)


def test_a_correction_counts_by_the_share_of_steps_that_are_not_clipped():
    """Four corrected epochs on a batch against NumPy: all of it at the policy that played, and less and less after."""
    oracle, theta, own, batch = made(epochs=4, minibatches=1)
    correction = 0.5 * jnp.asarray(np.random.default_rng(3).normal(size=POLICY.size))
    x, shares = theta, []
    for row in oracle.replay.order(batch, jax.random.fold_in(jax.random.fold_in(KEY, 0), SHUFFLE)):
        part = oracle.replay.part(batch, row)
        r = np.exp(np.asarray(log_policy_of(x, part)) - np.asarray(part.old))
        A = np.asarray(part.weights)
        clipped = np.where(A < 0, r > 1 + CLIP, r < 1 - CLIP) & (A != 0)
        alive = np.asarray(part.alive)
        shares.append(1 - clipped[alive].sum() / alive.sum())
        x = x - 0.6 * (oracle.gradient(x, own, part) + shares[-1] * correction)
    found, _, _ = local_steps(oracle, lambda x, g: g + correction, sgd(0.6), theta, own, KEY, 1, batch=batch)
    np.testing.assert_allclose(found, x, atol=1e-12)
    assert shares[0] == 1
    assert 0.2 < shares[-1] < 0.8


def test_the_critic_says_the_same_in_new_units_and_learns_what_comes():
    """Another batch's targets move centre and scale to those of both together, and with no steps no value."""
    _, theta, own, batch = made(epochs=30)
    seen, alive = batch.episodes.observations[:, :-1].reshape(-1, 1), batch.episodes.alive.reshape(-1)
    given = lambda network, seen: critic.forward(network, lambda M: POLICY.enter(theta, seen, M))
    value = lambda kept: kept.centre + kept.scale * given(kept.network, seen)
    other = 7 - 3 * jnp.sin(seen[:, 0])
    fit = jax.jit(lambda kept, order: here.fitted(optax.adam(1e-2), kept, given, seen, other, alive, order))
    still = fit(own, jnp.zeros((0, 4), jnp.int32))
    both = np.concatenate([np.asarray(x)[np.asarray(alive)] for x in (first_targets(batch).reshape(-1), other)])
    np.testing.assert_allclose([still.centre, still.scale], [both.mean(), both.std()], rtol=1e-12)
    assert abs(still.centre - own.centre) > 1
    np.testing.assert_allclose(value(still), value(own), atol=1e-12)
    kept = fit(own, shuffled(KEY, B * K, 300, 2))
    off = np.asarray(value(kept) - other)[np.asarray(alive)]
    assert np.abs(off).mean() < 0.2 * np.asarray(other).std()


def first_targets(batch):
    """A_k of a critic that says 0."""
    gain, _, mean = advantages_by_hand(batch.episodes)
    return np.where(np.asarray(batch.episodes.alive), gain + mean, 0)


def bandits(target, scales):
    """Agents who are each paid for one action, on a scale of their own."""
    step = lambda task, s, a, key: Step(s, jnp.ones(1), task[1] * (a[0] == task[0]), jnp.bool_(True))
    env = Env(lambda task, key: (jnp.zeros(1), jnp.ones(1)), step, box(1), Discrete(2))
    go = lambda *given, restart=False: play(env, *given, restart=restart)
    return Environments("bandits", box(1), Discrete(2), (np.array(target), np.asarray(scales, float)), go, 8, 0.9)


def test_one_scale_for_all_agents_counts_them_as_J_does():
    """Two agents are paid 1 for action 1, one is paid 5 for the other: J says the other, own scales say two to one."""
    policy, method = linear(box(1), Discrete(2)), fedavg_pg(0.1, 1)
    problem = with_policy(bandits([0, 1, 1], [5, 1, 1]), policy, "ppo", B=16, epochs=2, minibatches=1, episodes=1)

    def chance(algorithm):
        z = np.asarray(simulate(problem, algorithm, 25, metrics_every=25).theta).reshape(2, 2).sum(axis=0)
        return 1 / (1 + np.exp(z[0] - z[1]))

    assert chance(scaled(method)) < 0.3
    assert chance(own_scales(method)) > 0.6


def own_scales(algorithm):
    """Every agent divides by what it measured last itself."""

    def through(e):
        def agent(memory, own, down, oracle, key):
            memory, own, up, info = e.agent(memory, own, down, oracle, key)
            return memory, own._replace(common=own.spread), up, info

        return e._replace(agent=agent)

    return algorithm._replace(exchanges=tuple(map(through, algorithm.exchanges)))


def test_whatever_the_rule_for_uploads_scales_are_averaged():
    """A sum of three stays one; its scale is the mean of 1, 2 and 6."""
    total = Combine(lambda ups, who=None, key=None: ups.sum(axis=0))
    heard = beside(total).merge(Scaled(jnp.array([[1.0], [2.0], [4.0]]), jnp.array([1.0, 2.0, 6.0])))
    assert (float(heard.inner[0]), float(heard.scale)) == (7, 3)
    assert beside(mean) is mean


def test_fast_fedpg_on_one_batch_in_three_runtimes(tmp_path):
    """With `reuse` the anchor's batch serves the epochs, and H = 2 are two batches; the optimiser lasts.

    In lanes of 8 places every second one is a step: 16 for 4 lanes, twice a round for each of two agents.
    """
    policy = linear(box(1), Discrete(2))
    problem = with_policy(bandits([0, 1], [1, 2]), policy, "ppo", B=4, epochs=2, minibatches=2, episodes=1)
    momentum = optimisers.make("momentum")
    algorithm = scaled(lasting(fast_fedpg(0.3, 2, reuse=True, optimiser=momentum), momentum(0.3)))
    looped, compiled = loop(problem, algorithm, 2), simulate(problem, algorithm, 2)
    np.testing.assert_allclose(looped.theta, compiled.theta, atol=1e-12)
    np.testing.assert_array_equal(compiled.metrics["env_steps"], [[0, 64, 128]])
    grid = pytest.importorskip("grid", exc_type=ImportError)
    with grid.grid_of(grid.agents_of(problem, algorithm, tmp_path)) as nodes:
        there = grid.federated(
            grid.engine_of(nodes), problem, algorithm, Schedule(2), terms=grid.Terms(evaluate="server")
        )
    np.testing.assert_allclose(there[-1].theta, compiled.theta, atol=1e-12)


@pytest.mark.parametrize("minibatches", [1, 2])
def test_where_the_mean_gradient_is_zero_corrected_steps_rest_on_the_whole_batch(minibatches):
    """g - g_i + 0 is 0 at the start on the anchor's own batch; on its halves it is not, and their mean is."""
    oracle, theta, own, batch = made(epochs=1, minibatches=minibatches)
    g_i = oracle.gradient(theta, own, batch)
    step = local_steps(oracle, lambda x, g: g - g_i, sgd(0.1), theta, own, KEY, 1, batch=batch)[0]
    assert (np.abs(step - theta).max() < 1e-14) == (minibatches == 1)


def test_policies_are_evaluated_for_whole_episodes():
    """Lanes of 3 steps where each pays 1, and a horizon of 8; without lanes K is an episode's length."""
    policy, theta = linear(box(1), Discrete(2)), np.zeros((1, 4))
    endless = bandits([0, 0], [1, 1])
    step = lambda task, s, a, key: Step(s, jnp.ones(1), jnp.ones(()), jnp.bool_(False))
    env = Env(lambda task, key: (jnp.zeros(1), jnp.ones(1)), step, box(1), Discrete(2))
    endless = replace(endless, play=lambda *given, restart=False: play(env, *given, restart=restart))
    worth = lambda **how: with_policy(endless, policy, "ppo", B=2, K=3, episodes=1, **how).evaluate(theta).returns
    np.testing.assert_array_equal(worth(), [[8, 8]])
    np.testing.assert_array_equal(worth(segments=False), [[3, 3]])


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"minibatches": 5}, "minibatches = 5 does not divide B K = 24"),
        ({"kl_stop": 0.0}, "kl_stop = 0; it must be positive"),
        ({"clip": 1.5}, "clip = 1.5; it must lie between 0 and 1"),
        ({"epochs": 0}, "epochs = 0; it must be at least 1"),
        ({"entropy": -1.0}, "entropy = -1; its weight"),
    ],
)
def test_what_it_refuses(settings, said):
    with pytest.raises(InputError, match=said):
        made(**settings)


def test_episodes_that_can_not_follow_each_other_are_refused():
    with pytest.raises(ValueError, match="segments=false"):
        ppo(game_of(scripted())._replace(segments=None), B)
    assert isinstance(made()[3], Played)
