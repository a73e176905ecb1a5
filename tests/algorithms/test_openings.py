"""What comes before the first round, and how directions become steps: measured observations, and local optimisers."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import reference as ref
from fastfedpg import centralised_pg, fast_fedpg, fedavg_pg, independent_pg, loop, scaffold_pg, simulate, with_oracle
from fastfedpg.algorithms.wrappers.normalised import normalised
from fastfedpg.core import Evaluation, Oracle, Problem, Sums, key_for, sgd
from fastfedpg.envs import Env, Environments, Step, play
from fastfedpg.optimisers import OPTIMISERS, make
from fastfedpg.policies import linear
from fastfedpg.problems import tabular_exact, with_policy
from fastfedpg.runtime import Schedule, loop_records, message_sizes, simulate_records
from fastfedpg.spaces import Discrete, box

N, B, K, O = 3, 4, 5, 2
TASKS = np.array([1.0, 4.0, 9.0])


def seen(state):
    return jnp.stack([state, 100 + 3 * state])


def walking():
    """A walk to the left or right that ends beyond 2; where an agent starts is its task, so that each sees its own."""

    def reset(task, key):
        state = task + jax.random.uniform(key, dtype=float)
        return state, seen(state)

    def step(task, state, action, key):
        new = state + (2 * action[0] - 1) * jax.random.uniform(key, dtype=float)
        return Step(new, seen(new), action[0] * task / 10, jnp.abs(new - task) > 1.2)

    env = Env(reset, step, box(O), Discrete(2))
    go = lambda policy, task, theta, key, B, K: play(env, policy, task, theta, key, B, K)
    return Environments("walking", box(O), Discrete(2), TASKS, go, K, 0.9)


POLICY = linear(box(O), Discrete(2), normalise=True)
ENVIRONMENTS = walking()
PROBLEM = with_policy(ENVIRONMENTS, POLICY, "gpomdp", B=B, episodes=2)
THETA = np.concatenate([np.zeros(2 * O), np.random.default_rng(60).normal(size=POLICY.size - 2 * O)])
PLAIN = {
    "fast_fedpg": fast_fedpg(0.3, 2),
    "fedavg_pg": fedavg_pg(0.3, 2),
    "scaffold_pg": scaffold_pg(0.3, 2),
    "independent_pg": independent_pg(0.3, 2),
    "centralised_pg": centralised_pg(0.3),
}
OPENED = {name: normalised(algorithm, O, POLICY.normalise) for name, algorithm in PLAIN.items()}
ESTIMATES = {"fast_fedpg": 3, "fedavg_pg": 2, "scaffold_pg": 2, "independent_pg": 2, "centralised_pg": 1}
LEARNED = np.arange(POLICY.size) >= 2 * O


def sample_of(task, key):
    """Five observations of an agent."""
    return task + jax.random.normal(key, (5, O), float) * jnp.array([0.5, 3.0])


def noisy(task):
    """An oracle that is quickly compiled: a noisy gradient towards the task, and five observations around it."""
    return Oracle(
        init=lambda key: (),
        sample=lambda theta, own, key, size: (jax.random.normal(key, theta.shape, theta.dtype), own),
        gradient=lambda theta, own, batch: LEARNED * (theta - task + 0.1 * batch),
        steps=lambda batch: 7,
        observe=lambda own, key, o: (summed(sample_of(task, key)), 5),
    )


def summed(x):
    return Sums(jnp.array(float(len(x))), x.sum(axis=0), (x**2).sum(axis=0))


def unvalued(thetas, seeds=None):
    none = np.zeros(len(thetas))
    return Evaluation(none, none, none, np.zeros((len(thetas), N)))


NOISY = Problem(TASKS, np.arange(N, dtype=np.int32), noisy, unvalued, THETA)


@jax.jit
def observed(task, key):
    episodes = ENVIRONMENTS.play(POLICY, task, jnp.zeros(POLICY.size), key, B, K)
    return episodes.observations[:, :-1], episodes.alive


def moments(shown):
    """shift and log-scale."""
    return np.concatenate([shown.mean(axis=0), np.log(shown.std(axis=0))])


@pytest.mark.parametrize("run", [loop, simulate], ids=["loop", "simulate"])
def test_the_observations_of_all_agents_are_measured(run):
    """Mean and spread of all that theta = 0 shows, played by hand; some episodes end early, and padding is not counted.

    The rest of theta is where it was.
    """
    shown = []
    for i, task in enumerate(TASKS):
        observations, alive = observed(task, key_for(0, 0, "observations", i))
        shown.append(np.asarray(observations)[np.asarray(alive)])
    shown, d = np.concatenate(shown), 2 * O
    assert len(shown) < N * B * K
    opened = OPENED["fast_fedpg"]
    measured = run(PROBLEM, opened._replace(exchanges=opened.exchanges[:1]), 1, theta0=THETA)
    np.testing.assert_allclose(measured.theta[0, :d], moments(shown), rtol=1e-9)
    np.testing.assert_array_equal(measured.theta[0, d:], THETA[d:])
    assert measured.final("env_steps")[0] == len(shown)


@pytest.mark.parametrize("name", OPENED)
def test_measured_once_and_never_changed(name):
    """Both runtimes agree to 1e-12, and what was measured in round 1 is there to the bit after round 3.

    An agent that learns alone has measured its own observations. Five steps of each agent are round 1's alone; a run
    that goes on after it measures nothing. FedAvg's average of three equal numbers rounds.
    """
    algorithm, d, schedule = OPENED[name], 2 * O, Schedule(3, theta0=THETA)
    stood = {}
    one = [*loop_records(NOISY, algorithm, schedule)]
    two = [*simulate_records(NOISY, algorithm, schedule, lambda t, now: stood.setdefault(t, now()), pause=1)]
    for a, b in zip(one, two, strict=True):
        np.testing.assert_allclose(a.theta, b.theta, rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(a.env_steps, b.env_steps)
    of_round = N * 7 * ESTIMATES[name]
    assert [int(r.env_steps[0]) for r in two] == [0, *(5 * N + t * of_round for t in (1, 2, 3))]
    first, last = two[1].theta[0], two[-1].theta[0]
    shown = [np.asarray(sample_of(task, key_for(0, 0, "observations", i))) for i, task in enumerate(TASKS)]
    wanted = np.stack([*map(moments, shown)]) if name == "independent_pg" else moments(np.concatenate(shown))
    np.testing.assert_allclose(first[..., :d], wanted, rtol=1e-9)
    np.testing.assert_allclose(last[..., :d], first[..., :d], rtol=1e-15 if name == "fedavg_pg" else 0)
    assert np.abs(last[..., d:] - first[..., d:]).min() > 1e-4, "the others are learned"
    going_on = [*simulate_records(NOISY, algorithm, schedule, start=stood[1])]
    np.testing.assert_array_equal(going_on[-1].theta, two[-1].theta)
    np.testing.assert_array_equal(going_on[-1].env_steps, two[-1].env_steps)


@pytest.mark.parametrize("name", OPENED)
def test_only_the_first_round_has_it(name):
    """The messages that are counted are those of every round, with and without it."""
    opened, plain = OPENED[name], PLAIN[name]
    names = [e.name for e in plain.exchanges]
    assert [[e.name for e in opened.in_round(t)] for t in (0, 1, 7)] == [["observations", *names], names, names]
    theta = np.zeros(POLICY.size)
    assert message_sizes(NOISY, opened, theta) == message_sizes(NOISY, plain, theta)


def test_what_comes_after_is_the_algorithm_itself():
    """Started without an opening from where it leads: the same numbers to the bit."""
    opened = OPENED["scaffold_pg"]
    start = simulate(NOISY, opened._replace(exchanges=opened.exchanges[:1]), 1, theta0=THETA).theta[0]
    found, plain = simulate(NOISY, opened, 2, theta0=THETA), simulate(NOISY, PLAIN["scaffold_pg"], 2, theta0=start)
    np.testing.assert_array_equal(found.theta, plain.theta)


def test_an_oracle_that_sees_nothing_cannot_be_normalised():
    known = with_oracle(ref.small_problem(N=2, S=2, A=2), "exact")
    with pytest.raises(ValueError, match="this oracle sees none"):
        loop(known, normalised(fast_fedpg(0.1, 1), 1, POLICY.normalise), 1)


P = ref.small_problem(N=4, S=3, A=3, seed=61)
TAU = 0.2
EXACT = with_oracle(P, "exact", TAU)
BEST = np.log(tabular_exact.optimum(P, TAU).policy).reshape(-1)
START = np.random.default_rng(62).normal(size=9)


def gradients(theta):
    """(N, d): the agents' exact gradients."""
    return tabular_exact.gradients(P, theta, TAU).reshape(P.N, -1)


@pytest.mark.parametrize("name", ["sgd", "momentum"])
def test_the_optimum_stays_where_it_is(name):
    """Fast-FedPG's direction is 0 there at every agent; FedAvg's agents walk off to their own optima."""
    stay = simulate(EXACT, fast_fedpg(0.5, 5, optimiser=make(name)), 2, theta0=BEST, metrics_every=2)
    np.testing.assert_allclose(stay.theta[0], BEST, atol=1e-11)
    away = simulate(EXACT, fedavg_pg(0.5, 5, optimiser=make(name)), 2, theta0=BEST, metrics_every=2)
    assert np.abs(away.theta[0] - BEST).max() > 1e-3


BOWLS = (np.array([1.0, 2.0, 3.0]), np.array([1.0, 1.0, -2.0]))


def bowl(task):
    """Agent i's gradient is h_i theta - t_i, and the t_i add up to 0 in floating point too."""
    h, t = task
    return noisy(0.0)._replace(gradient=lambda theta, own, batch: h * theta - t)


@pytest.mark.parametrize("name", OPTIMISERS)
def test_a_stationary_point_stays_to_the_bit_whatever_takes_the_steps(name):
    """Where the direction is 0 to the bit: Adam and RMSProp make a whole step of any that is 1e-7 instead."""
    problem = NOISY._replace(tasks=BOWLS, oracle=bowl, theta0=np.zeros(2))
    stay, away = (f(0.05, 4, optimiser=make(name)) for f in (fast_fedpg, fedavg_pg))
    np.testing.assert_array_equal(loop(problem, stay, 2).theta, np.zeros((1, 2)))
    assert np.abs(loop(problem, away, 2).theta).min() > 1e-3


def adam(eta, theta, g, H, own=None):
    """Kingma and Ba's Algorithm 1, for H steps; v is of the larger of a direction's square and the own gradient's."""
    m = v = np.zeros_like(theta)
    for t in range(1, H + 1):
        gradient, size = g(theta), (own or g)(theta)
        m, v = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * np.maximum(gradient**2, size**2)
        theta = theta - eta * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
    return theta


def momentum(eta, theta, g, H, own=None):
    """Polyak's: m <- 0.9 m + g, theta <- theta - eta m; no size is asked for."""
    m = np.zeros_like(theta)
    for _ in range(H):
        m = 0.9 * m + g(theta)
        theta = theta - eta * m
    return theta


@pytest.mark.parametrize(("name", "steps"), [("adam", adam), ("momentum", momentum)])
def test_optimisers_against_loops_and_afresh_in_every_round(name, steps):
    """Fast-FedPG's and independent local steps of two rounds, each round's from a new state."""
    eta, H = 0.1, 3
    theta, each = START, [START] * P.N
    for _ in range(2):
        g_i = gradients(theta)
        corrected = lambda x, i, g_i=g_i: gradients(x)[i] - g_i[i] + g_i.mean(axis=0)
        own = [lambda x, i=i: gradients(x)[i] for i in range(P.N)]
        ends = [steps(eta, theta, partial(corrected, i=i), H, own[i]) for i in range(P.N)]
        theta = theta + np.mean([end - theta for end in ends], axis=0)
        each = [steps(eta, each[i], own[i], H) for i in range(P.N)]
    run = lambda algorithm: simulate(EXACT, algorithm, 2, theta0=START, metrics_every=2).theta[0]
    np.testing.assert_allclose(run(fast_fedpg(eta, H, optimiser=make(name))), theta, atol=1e-9)
    np.testing.assert_allclose(run(independent_pg(eta, H, optimiser=make(name))), each, atol=1e-9)


@pytest.mark.parametrize("name", OPTIMISERS)
def test_two_rounds_are_two_runs_of_one(name):
    """Nothing of an optimiser outlives the round."""
    algorithm = fast_fedpg(0.1, 3, optimiser=make(name))
    whole = loop(EXACT, algorithm, 2, theta0=START)
    half = loop(EXACT, algorithm, 1, theta0=START)
    np.testing.assert_array_equal(loop(EXACT, algorithm, 1, theta0=half.theta[0]).theta, whole.theta)


def test_sgd_is_a_step_of_eta_times_the_direction_to_the_bit():
    theta, v = jnp.asarray(START), jnp.asarray(gradients(START)[0])
    for eta in (0.1, 0.3, 1e-3):
        optimiser = make("sgd")(eta)
        change, state = optimiser.update(v, optimiser.init(theta), theta)
        np.testing.assert_array_equal(theta + change, theta - eta * v)
        assert state == ()
    assert make("sgd") is sgd


def test_scaffold_reads_gradients_off_gradient_steps_alone():
    """Option II is refused with Adam; option I agrees with a loop that renews the variates by gradients."""
    with pytest.raises(ValueError, match=r"option II reads gradients off gradient steps; .* take option I"):
        scaffold_pg(0.1, 2, optimiser=make("adam"))
    eta, H, theta = 0.1, 2, START
    c, c_i = np.zeros(9), np.zeros((P.N, 9))
    for _ in range(2):
        own = [lambda x, i=i: gradients(x)[i] for i in range(P.N)]
        ends = [adam(eta, theta, lambda x, i=i: own[i](x) - c_i[i] + c, H, own[i]) for i in range(P.N)]
        new = gradients(theta)
        theta, c, c_i = np.mean(ends, axis=0), new.mean(axis=0), new
    algorithm = scaffold_pg(eta, H, option="I", optimiser=make("adam"))
    found = simulate(EXACT, algorithm, 2, theta0=START, metrics_every=2).theta[0]
    np.testing.assert_allclose(found, theta, atol=1e-9)


def test_optimisers_are_always_the_same_objects():
    """So that nothing is compiled twice; and an unknown one is named."""
    assert all(make(name) is make(name) for name in OPTIMISERS)
    with pytest.raises(ValueError, match="unknown optimiser 'adamm'; did you mean 'adam'"):
        make("adamm")
