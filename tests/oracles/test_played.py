"""Oracles that play: against exact gradients, against sums written out, in both runtimes, and what they refuse."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import reference as ref
from fastfedpg import Config, Diverged, InputError, fast_fedpg, loop, scaffold_pg, simulate, with_oracle
from fastfedpg.core import estimate, key_for
from fastfedpg.envs import Env, Environments, Episodes, Step, play
from fastfedpg.envs.catalogue.point_mass import point_mass
from fastfedpg.experiment.plan import plan
from fastfedpg.oracles import critic
from fastfedpg.policies import linear, mlp, table
from fastfedpg.problems import Sparse, TabularProblem, as_environments, with_policy
from fastfedpg.problems.with_policy import evaluation_key, explain_episodes
from fastfedpg.runtime import Schedule, loop_records, message_sizes, simulate_records, walk
from fastfedpg.spaces import Discrete, box

DENSE = ref.small_problem(N=3, S=4, A=3, seed=50)
SPARSE = ref.sparse_problem(seed=51)
K, B, M = 2, 8, 4000


FEW = (8, 8)
"""Units of a critic: nothing here needs a large one."""


def tabular(problem):
    return table(Discrete(problem.S), Discrete(problem.A))


def random_theta(problem, seed=52):
    return jnp.asarray(np.random.default_rng(seed).normal(size=problem.S * problem.A))


def saying(oracle, seed=53):
    """A critic with random numbers in it."""
    rng = np.random.default_rng(seed)
    form = jax.eval_shape(oracle.init, key_for(0, 0, ""))
    return jax.tree.map(lambda x: jnp.asarray(rng.normal(size=x.shape).astype(x.dtype)), form)._replace(
        scale=jnp.array(4.0)
    )


def said(policy, theta, kept):
    """What it says of every state."""
    seen = jnp.arange(policy.width, dtype=float)[:, None]
    return kept.centre + kept.scale * critic.forward(kept.network, lambda M: policy.enter(theta, seen, M))


@pytest.mark.parametrize(
    ("problem", "tau"),
    [pytest.param(DENSE, 0.0, id="dense", marks=pytest.mark.long), pytest.param(SPARSE, 0.3, id="sparse with entropy")],
)
def test_means_are_the_exact_truncated_gradients(problem, tau):
    """4,000 estimates of 8 episodes: each of d coordinates within 4.5 standard errors, for two agents and four oracles.

    With a critic that knows nothing and lam = 1 an episode that was cut has the gradient of J_K + gamma^K E[V(s_K)]; by
    chance one of the 132 coordinates is further away with probability 0.001.
    """
    policy, theta = tabular(problem), random_theta(problem)
    environments = as_environments(problem)

    @jax.jit
    def played(tasks, ids):
        go = lambda task, i: environments.play(policy, task, theta, key_for(0, 0, "episodes", i), M * B, K)
        return jax.tree.map(lambda x: x.reshape(2, M, B, *x.shape[2:]), jax.vmap(go)(tasks, ids))

    episodes = played(environments.tasks[:2], jnp.arange(2))
    # The oracles are given what was played, as their task: it need not be played again for each.
    recorded = replace(environments, play=lambda policy, task, theta, key, B, K: task, tasks=episodes, agents=())
    made = {
        "reinforce": with_policy(recorded, policy, "reinforce", tau, K, B=B),
        "gpomdp": with_policy(recorded, policy, "gpomdp", tau, K, B=B),
        "leave-one-out": with_policy(recorded, policy, "gpomdp", tau, K, B=B, baseline="leave-one-out"),
        "critic": with_policy(recorded, policy, "actor_critic", tau, K, B=B, lam=1.0, critic_hidden=FEW),
    }
    exact = with_oracle(problem, "truncated", tau, K=K)
    kept = saying(made["critic"].oracle(None))
    V = said(policy, theta, kept)

    @jax.jit
    def every(episodes):
        key, own = key_for(0, 0, ""), {name: kept if name == "critic" else () for name in made}
        one = lambda name, task: estimate(made[name].oracle(task), theta, own[name], key)[0]
        return {name: jax.vmap(jax.vmap(lambda task, name=name: one(name, task)))(episodes) for name in made}

    def terminal(theta):
        """gamma^K E[V(s_K)]."""
        P = jnp.asarray(written_out(problem.P))
        d, pi = jnp.asarray(problem.rho), jax.nn.softmax(theta.reshape(problem.S, problem.A))
        for _ in range(K):
            d = jnp.einsum("s,sa,sap->p", d, pi, P)
        return problem.gamma**K * d @ V

    bootstrap = jax.grad(terminal)(theta)
    found = every(episodes)
    for i in range(2):
        wanted = exact.oracle(jnp.asarray(exact.tasks[i])).gradient(theta, (), ())
        for name, both in found.items():
            x = np.asarray(both[i])
            error = x.std(axis=0, ddof=1) / np.sqrt(M)
            expected = wanted + bootstrap if name == "critic" else wanted
            assert (np.abs(x.mean(axis=0) - expected) < 4.5 * error + 1e-12).all(), name
            large = bootstrap if name == "critic" else wanted
            assert (np.abs(large) > 8 * error).any(), "without it the mean would be another"


def written_out(P):
    if not isinstance(P, Sparse):
        return P
    full = np.zeros((*P.p.shape[:2], P.p.shape[0]))
    for s, a, w in np.ndindex(P.p.shape):
        full[s, a, P.next[s, a, w]] += P.p[s, a, w]
    return full


def test_advantages_are_the_double_sum():
    """A_k = sum_l (gamma lam)^l (c_{k+l} + gamma V_{k+l+1} - V_{k+l}) up to the end, after which V counts 0."""
    rng, n, gamma, lam = np.random.default_rng(54), 40, 0.9, 0.7
    lengths, ended = rng.integers(1, 6, n), rng.uniform(size=n) < 0.5
    assert {(length == 5, end) for length, end in zip(lengths, ended, strict=True)} == {*np.ndindex(2, 2)}
    alive = np.arange(5) < lengths[:, None]
    c, V = np.where(alive, rng.normal(size=(n, 5)), 0), rng.normal(size=(n, 6))
    zeros = jnp.zeros((n, 6, 1))
    ends = ended[:, None] & (np.arange(5) == lengths[:, None] - 1)
    episodes = Episodes(zeros, zeros[:, :5], jnp.zeros((n, 5)), jnp.asarray(alive), jnp.asarray(ends))
    wanted = np.zeros((n, 5))
    for b, T in enumerate(lengths):
        for k in range(T):
            for l in range(T - k):
                after = 0.0 if ended[b] and k + l == T - 1 else V[b, k + l + 1]
                wanted[b, k] += (gamma * lam) ** l * (c[b, k + l] + gamma * after - V[b, k + l])
    found = critic.advantages(jnp.asarray(c), jnp.asarray(V), episodes, gamma, lam)
    np.testing.assert_allclose(found, wanted, atol=1e-13)


SMALL = ref.small_problem(N=3, S=3, A=2, seed=55)
RUNS = {
    "reinforce": ("reinforce", {}, fast_fedpg(0.5, 2)),
    "leave-one-out": ("gpomdp", {"baseline": "leave-one-out"}, scaffold_pg(0.5, 2, everybody=False)),
    "critic": ("actor_critic", {"lam": 0.5, "critic_hidden": FEW}, fast_fedpg(0.5, 2)),
}


def small(oracle, policy=None, **settings):
    return with_policy(as_environments(SMALL), policy or tabular(SMALL), oracle, K=3, B=4, **settings)


@pytest.mark.parametrize("name", [pytest.param("reinforce", marks=pytest.mark.long), "leave-one-out", "critic"])
def test_the_loop_and_the_simulation_agree(name):
    """Two of three agents take part: thetas, values, steps and all that agents keep, the critic too, to 1e-9."""
    oracle, settings, algorithm = RUNS[name]
    calls = []
    policy = tabular(SMALL)
    counted = policy._replace(log_prob=lambda *given: calls.append(0) or policy.log_prob(*given))
    problem = small(oracle, counted, **settings)
    found = []
    for records in (loop_records, simulate_records):
        stood = []
        tick = lambda done, standing, stood=stood: stood.append(standing())
        last = [*records(problem, algorithm, Schedule(3, metrics_every=3, participants=2), tick)][-1]
        found.append((last.theta, last.evaluation.J, last.evaluation.returns, last.env_steps, stood[-1][2:6]))
    assert np.abs(found[0][0]).max() > 0.01
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-9), *found)
    own = found[0][-1][-1]
    assert isinstance(own, critic.Critic) == (oracle == "actor_critic")
    before = len(calls)
    assert before
    again = [*simulate_records(problem, algorithm, Schedule(3, metrics_every=3, participants=2))][-1]
    assert len(calls) == before, "a second run of the same objects traces nothing"
    np.testing.assert_array_equal(again.theta, found[1][0])


@pytest.mark.parametrize("algorithm", [fast_fedpg(0.5, 2), scaffold_pg(0.5, 2)], ids=["fast_fedpg", "scaffold_pg"])
def test_the_critic_is_in_no_message(algorithm):
    """All that is sent is vectors of theta's length, and as many as without a critic."""
    problem, plain = small("actor_critic"), small("gpomdp")
    d = np.shape(problem.theta0)
    task = jnp.asarray(problem.tasks[0])
    ups, downs, *_ = jax.eval_shape(lambda theta: walk(algorithm, problem.oracle(task), theta, 3), np.zeros(d))
    assert {x.shape for x in jax.tree.leaves((ups, downs))} == {d}
    assert message_sizes(problem, algorithm, np.zeros(d)) == message_sizes(plain, algorithm, np.zeros(d))


POLICY = linear(box(1), Discrete(2))


def handmade(reward, observation=lambda state: state[None], **settings):
    """Two agents, tasks 0 and 1, in an environment whose state is drawn at the start and then grows by 1 a step."""
    reset = lambda task, key: (s := jax.random.uniform(key, dtype=float), observation(s))

    def step(task, state, action, key):
        new = state + 1
        return Step(new, observation(new), jnp.asarray(reward(task, state, action[0]), float), new >= 3)

    env = Env(reset, step, box(1), Discrete(2))
    go = lambda policy, task, theta, key, B, K: play(env, policy, task, theta, key, B, K)
    return Environments("handmade", box(1), Discrete(2), np.arange(2.0), go, 3, 0.9, **settings)


def scripted(reward, observation, **settings):
    """Two agents, tasks 0 and 1: among several episodes step 2 of number 5 shows and pays agent 1 this.

    The evaluation plays one episode, and so never meets it.
    """

    def go(policy, task, theta, key, B, K):
        seen, rewards = np.ones((B, K + 1, 1)), np.full((B, K), 0.5)
        if B > 1:
            seen[5, 2], rewards[5, 2] = observation, reward
        seen, rewards = (jnp.where(task == 1, x, 0.5) for x in (seen, rewards))
        choices = policy.choose(theta, seen[:, :-1], policy.noise(key, (B, K), theta.dtype))
        return Episodes(seen, choices, rewards, jnp.ones((B, K), bool), jnp.zeros((B, K), bool))

    environments = Environments("scripted", box(1), Discrete(2), np.arange(2.0), go, 3, 0.9, **settings)
    return with_policy(environments, POLICY, "gpomdp", B=8, episodes=1)


@pytest.mark.parametrize("run", [loop, simulate], ids=["loop", "simulate"])
@pytest.mark.parametrize(
    ("reward", "observation", "said"),
    [
        (7.5, 1.0, "the reward of step 2 of trajectory 5 is 7.5, outside the stated range 0 to 1"),
        (0.5, np.nan, r"the observation .* of trajectory 5 is not finite \(\[nan\]\)"),
    ],
    ids=["reward", "observation"],
)
def test_what_can_not_be_ends_the_run_in_words(run, reward, observation, said):
    """The agent, the step and the value are named."""
    with pytest.raises(Diverged, match=f"agent 1 .*{said}") as caught:
        run(scripted(reward, observation, reward_range=(0.0, 1.0)), fast_fedpg(0.1, 1), 2)
    assert (caught.value.round, caught.value.exchange, caught.value.agent) == (1, "gradient", 1)


@pytest.mark.parametrize(("value", "said"), [(-2.0, "-2, outside"), (np.nan, "nan"), (np.inf, "inf"), (1.0, "")])
def test_what_is_amiss_is_said_with_step_and_value(value, said):
    """But not of what stands after an episode's end."""
    rewards, alive = np.full((2, 3), 0.5), np.ones((2, 3), bool)
    rewards[1, 1], alive[1, 2], rewards[1, 2] = value, False, 9.0
    seen = jnp.zeros((2, 4, 1))
    episodes = Episodes(seen, seen[:, :3], jnp.asarray(rewards), jnp.asarray(alive), jnp.zeros((2, 3), bool))
    found = explain_episodes(episodes, (0.0, 1.0))
    assert found.startswith(f"the reward of step 1 of trajectory 1 is {said}" if said else "")
    assert bool(found) == bool(said)


def test_what_is_stated_is_no_limit_to_what_is_within():
    """Rewards at the ends of the range are in it; without a range nothing is checked."""
    at_the_ends = handmade(lambda task, s, a: task, reward_range=(0.0, 1.0))
    assert np.isfinite(with_policy(at_the_ends, linear(box(1), Discrete(2)), B=4).evaluate(np.zeros((1, 4))).J).all()
    free = handmade(lambda task, s, a: 1e6 * task)
    assert np.isfinite(with_policy(free, linear(box(1), Discrete(2)), B=4).evaluate(np.zeros((1, 4))).J).all()


def paid(task, s, a):
    """Agent 0 for one action, agent 1 twice that for the other, and a bit for where it started."""
    return jnp.where(task > 0, 2 * (1 - a), a) + 0.1 * (s % 1)


ENVIRONMENTS = handmade(paid)


def test_evaluation_is_the_same_episodes_for_all_methods_and_others_for_each_seed():
    """Played by hand with each agent's key: J is a discounted cost, returns are sums, of each theta's own task."""
    problem = with_policy(ENVIRONMENTS, POLICY, "gpomdp", B=2, episodes=5)
    thetas, seeds = np.random.default_rng(56).normal(size=(2, 2, 4)), [3, 8]
    J, returns = np.zeros((2, 2)), np.zeros((2, 2))
    go = jax.jit(lambda task, theta, seed, i: ENVIRONMENTS.play(POLICY, task, theta, evaluation_key(seed, i), 5, 3))
    for run, i in np.ndindex(2, 2):
        found = go(float(i), thetas[run, i], seeds[run], i)
        J[run, i] = -np.mean(found.rewards @ 0.9 ** np.arange(3))
        returns[run, i] = np.mean(found.rewards.sum(axis=1))
    own = problem.evaluate(thetas, seeds)
    np.testing.assert_allclose(own.J, J.mean(axis=1), atol=1e-12)
    np.testing.assert_allclose(own.returns, returns, atol=1e-12)
    assert np.isnan(own.gap).all()
    swapped = problem.evaluate(thetas[:, ::-1], seeds)
    assert np.abs(swapped.returns - own.returns).max() > 0.1, "it matters whose theta is whose"
    common = problem.evaluate(thetas[:, 0], seeds)
    np.testing.assert_allclose(common.returns[:, 0], returns[:, 0], atol=1e-12)
    again = with_policy(ENVIRONMENTS, POLICY, "reinforce", B=7, episodes=5).evaluate(thetas[:, 0], seeds)
    np.testing.assert_array_equal(again.J, common.J)
    same = np.broadcast_to(thetas[0, 0], (2, 4))
    one, two = (problem.evaluate(same, pair).J for pair in ([3, 8], [8, 3]))
    assert one[0] != one[1]
    np.testing.assert_array_equal(one, two[::-1])
    for algorithm, records in ((fast_fedpg(0.1, 1), loop_records), (scaffold_pg(0.1, 1), simulate_records)):
        begin = next(records(problem, algorithm, Schedule(1, seeds=6, theta0=thetas[0, 0], first_seed=3)))
        np.testing.assert_array_equal(begin.evaluation.J[[0, 5]], one)


def test_every_seed_starts_from_a_policy_of_its_own():
    """In Python as on the command line: two seeds differ at round 0, and a theta0 that is given stays."""
    policy = mlp(box(1), Discrete(2), hidden=(2,))
    problem = with_policy(ENVIRONMENTS, policy, "gpomdp", B=1, episodes=1)
    starts = np.asarray(Schedule(1, seeds=2, first_seed=5).starts(problem))
    np.testing.assert_array_equal(starts, [policy.init(key_for(seed, 0, "policy")) for seed in (5, 6)])
    assert (starts[0] != starts[1]).any()
    given = Schedule(1, seeds=2, theta0=starts[1]).starts(problem)
    np.testing.assert_array_equal(given, [starts[1], starts[1]])


def test_the_spread_over_seeds_has_the_error_of_the_episodes_in_it():
    """One policy, 400 seeds of 5 episodes: its worth lies within 4 standard errors of their mean (1 in 16,000 not)."""
    theta, few, many = np.full(4, 0.4), *(with_policy(ENVIRONMENTS, POLICY, B=1, episodes=n) for n in (5, 50_000))
    found = few.evaluate(np.broadcast_to(theta, (400, 4)), np.arange(400)).J
    error = found.std(ddof=1) / 20
    assert error > 1e-3, "the episodes differ"
    assert abs(found.mean() - many.evaluate(theta[None], [400]).J[0]) < 4 * error


def gradient(problem, task, theta):
    """One estimate."""
    one = lambda task, theta: estimate(problem.oracle(task), theta, (), key_for(0, 0, "", 0))[0]
    return jax.jit(one)(jnp.asarray(task), jnp.asarray(theta))


def test_reward_scale_scales_gradients_and_no_result():
    scaled = replace(ENVIRONMENTS, reward_scale=8.0)
    one, two = (with_policy(e, POLICY, "gpomdp", B=4) for e in (ENVIRONMENTS, scaled))
    theta = np.full((1, 4), 0.3)
    for a, b in zip(jax.tree.leaves(one.evaluate(theta)), jax.tree.leaves(two.evaluate(theta)), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)
    g = [gradient(p, 1.0, theta[0]) for p in (one, two)]
    np.testing.assert_allclose(8 * g[0], g[1], rtol=1e-12)
    assert np.abs(g[0]).max() > 0.01


def test_a_policy_is_worth_what_its_likeliest_actions_are():
    """By the mode the spread has no part in J; by chance it has, but for a spread of exp(-60), where both agree."""
    envs = point_mass(agents=1)
    policy = linear(envs.observations, envs.actions)
    theta = np.tile(np.linspace(-1, 1, policy.size), (2, 1))
    theta[:, -2:] = [[-60.0], [0.0]]
    found = {
        how: with_policy(envs, policy, B=1, K=5, episodes=2, evaluate=how).evaluate(theta, [0, 0])
        for how in ("sampled", "mode", "both")
    }
    chance, mode, both = (found[how].J for how in found)
    assert found["sampled"].by_mode is None
    np.testing.assert_allclose(both, chance, rtol=1e-12)
    np.testing.assert_allclose(found["both"].by_mode, found["mode"].returns, rtol=1e-12)
    assert mode[0] == mode[1]
    np.testing.assert_allclose(chance[0], mode[0], rtol=1e-12)
    assert abs(chance[1] - mode[1]) > 1e-3
    own = policy._replace(choose=lambda theta, observation, noise: noise)
    with pytest.raises(InputError, match="deterministic actions need a policy of fastfedpg"):
        with_policy(envs, own, B=1, evaluate="mode")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"oracle": "exakt"}, "unknown oracle for environments that are played 'exakt'.*reinforce, gpomdp"),
        ({"oracle": "exact"}, "unknown oracle for environments that are played 'exact'"),
        ({"oracle": "gpomdp", "lam": 0.5}, "oracle 'gpomdp' has no setting lam; it takes K, B, baseline"),
        ({"oracle": "reinforce", "baseline": "none"}, "oracle 'reinforce' has no setting baseline; it takes K, B"),
        ({"B": 0}, "B = 0; it must be at least 1"),
        ({"K": 0}, "K = 0; it must be at least 1"),
        ({"episodes": 0}, "episodes = 0; it must be at least 1"),
    ],
)
def test_bad_settings_are_refused_in_words(given, message):
    with pytest.raises(InputError, match=message):
        with_policy(ENVIRONMENTS, POLICY, **{"B": 2, **given})


def test_one_episode_has_no_others():
    with pytest.raises(InputError, match="leave-one-out baseline needs at least 2 trajectories"):
        simulate(with_policy(ENVIRONMENTS, POLICY, B=1, baseline="leave-one-out"), fast_fedpg(0.1, 1), 1)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"policy": "linear"},
            "oracle 'exact' knows a finite MDP; problem 'point-mass' can only be played: name reinf",
        ),
        (
            {"oracle": "gpomdp"},
            r"problem 'point-mass' is played by a policy .*--policy \(table, linear, fourier, mlp, cnn, gru, bits\)",
        ),
        ({"oracle": "gpomdp", "policy": "linar"}, "unknown policy 'linar'; did you mean 'linear'"),
        ({"oracle": "gpomdp", "policy": "table"}, "a table has a row for each: take linear or mlp"),
        ({"oracle": "gpomdp", "policy": "linear", "B": 0}, "B = 0; it must be at least 1"),
        ({"oracle": "gpomdp", "policy": "linear", "K": 0}, "K = 0; it must be at least 1"),
        ({"oracle": "gpomdp", "policy": "linear", "evaluation_episodes": 0}, "evaluation_episodes = 0; it must be at"),
    ],
)
def test_bad_configurations_are_refused_in_words(given, message):
    with pytest.raises(InputError, match=message):
        plan(Config(problem="point-mass", **given))


def test_a_critic_in_a_finite_MDP_that_is_played():
    """A table problem becomes environments where the oracle asks for it, and needs a policy's name there too."""
    planned = plan(Config(problem="compromise", oracle="actor_critic", policy="table", K=3, B=2))
    assert isinstance(planned.known, Environments)
    assert planned.policy.size == 3
    with pytest.raises(InputError, match="problem 'compromise' is played by a policy"):
        plan(Config(problem="compromise", oracle="actor_critic"))


def test_a_finite_MDP_in_other_units_has_costs_of_the_same_size():
    """Rewards 0 to 10 instead of 0 to 1: costs and gradients are those of the problem in [0, 1]; returns aren't."""
    tenfold = TabularProblem(SMALL.P, 10 * SMALL.reward, SMALL.rho, SMALL.gamma, reward_range=(0.0, 10.0))
    theta = np.random.default_rng(57).normal(size=(1, 6))
    made = [with_policy(as_environments(p), tabular(SMALL), "gpomdp", K=3, B=4) for p in (SMALL, tenfold)]
    one, ten = (p.evaluate(theta) for p in made)
    np.testing.assert_allclose([10 * one.J, 10 * one.returns[:, 0]], [ten.J, ten.returns[:, 0]], atol=1e-12)
    g = [gradient(p, p.tasks[0], theta[0]) for p in made]
    np.testing.assert_allclose(*g, atol=1e-13)
