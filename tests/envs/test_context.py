"""Context: what an agent's policy is told beside each observation, and what nobody else is told."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fastfedpg import InputError, centralised_pg, simulate
from fastfedpg.core import key_for
from fastfedpg.envs import Env, Environments, Step, play, with_context
from fastfedpg.envs.catalogue.point_mass import point_mass
from fastfedpg.policies import linear, table
from fastfedpg.problems import TabularProblem, with_policy
from fastfedpg.spaces import Box, Discrete, MultiDiscrete, box

OWN = np.array([[-1.0, 0.5], [1.0, 0.25]])


def aims(observations=None):
    """One step: agent i is paid -(a - t_i)^2, t = -1 and 1, and sees nothing that depends on i."""
    seen = jnp.ones(1)
    reset = lambda task, key: (jnp.zeros(()), seen)
    step = lambda task, state, action, key: Step(state, seen, -((action[0] - task) ** 2), jnp.bool_(True))
    env = Env(reset, step, observations or box(1), box(1))
    how = lambda *given: play(env, *given)
    return Environments("aims", env.observations, env.actions, np.array([-1.0, 1.0]), how, horizon=1, gamma=0.5)


def worth(environments, rounds=40):
    """Each agent's return after learning one common linear policy with noise of std 0.1."""
    policy = linear(environments.observations, environments.actions, log_std=np.log(0.1), learn_std=False)
    problem = with_policy(environments, policy, "gpomdp", B=64, episodes=64, baseline="leave-one-out")
    return simulate(problem, centralised_pg(0.2), rounds, metrics_every=rounds).returns[0, -1]


def test_one_policy_does_what_each_agent_wants_with_a_context_and_can_not_without():
    """E[-(a - t)^2] = -(m - t)^2 - 0.01, with m = w . (1, context, 1). With context t the best is -0.01; without one
    m is the same for both, and the mean of (m + 1)^2 and (m - 1)^2 at least 1."""
    told = worth(with_context(aims(), [[-1.0], [1.0]]))
    assert told.min() > -0.03
    assert worth(aims()).mean() < -0.95


def test_a_policy_sees_the_observation_and_then_the_context():
    """Choices are those of the policy at (o, context), episodes have both, and the rest is as it was."""
    plain = point_mass(agents=2)
    told = with_context(plain, OWN)
    assert told.observations == Box(
        (*plain.observations.low, -np.inf, -np.inf), (*plain.observations.high, np.inf, np.inf)
    )
    policy = linear(told.observations, told.actions)
    theta = jnp.asarray(np.random.default_rng(0).normal(size=policy.size))
    task = jax.tree.map(lambda x: jnp.asarray(x[1]), told.tasks)
    seen = told.play(policy, task, theta, key_for(0, 0, "x"), 3, 4)
    assert seen.observations.shape == (3, 5, plain.observations.width + 2)
    np.testing.assert_array_equal(seen.observations[..., -2:], np.broadcast_to(OWN[1], (3, 5, 2)))
    noise = jax.random.split(jax.random.fold_in(key_for(0, 0, "x"), 0), 3)[1]
    right = policy.choose(theta, seen.observations[0, :4], policy.noise(noise, (4,), theta.dtype))
    np.testing.assert_allclose(seen.choices[0], right, rtol=1e-10)
    lanes = told.play(policy, task, theta, key_for(0, 0, "x"), 3, 4, restart=True)
    np.testing.assert_array_equal(lanes.observations[..., -2:], np.broadcast_to(OWN[1], (3, 5, 2)))
    lanes = told.play(policy, task, theta, key_for(0, 0, "x"), 3, 4, restart=True)
    np.testing.assert_array_equal(lanes.observations[..., -2:], seen.observations[..., -2:])
    other = told.play(policy, (task[0], -task[1]), theta, key_for(0, 0, "x"), 3, 4)
    assert np.abs(other.choices - seen.choices).min() > 1e-6


@pytest.mark.parametrize(("space", "n"), [(Discrete(3), 3), (MultiDiscrete((2, 3)), 5)])
def test_discrete_observations_stand_beside_it_one_hot(space, n):
    inner = aims(space)
    seen = np.array([[1.0]] if n == 3 else [[1.0, 2.0]])
    hot = [0, 1, 0] if n == 3 else [0, 1, 0, 0, 1]
    told = with_context(inner, OWN)
    assert told.observations == Box((*[0.0] * n, -np.inf, -np.inf), (*[1.0] * n, np.inf, np.inf))
    from fastfedpg.policies.informed import beside

    np.testing.assert_array_equal(beside(np, space, seen, OWN[0]), [[*hot, -1.0, 0.5]])
    with pytest.raises(InputError, match="a table has a row for each"):
        table(told.observations, told.actions)


def test_it_is_part_of_what_a_problem_is_and_of_no_other_agents():
    plain, told, other = aims(), with_context(aims(), OWN), with_context(aims(), OWN[::-1])
    assert {*told.arrays()} - {*plain.arrays()} == {"context"}
    differ = [not np.array_equal(x, y) for x, y in zip(told.identity(), other.identity(), strict=True)]
    assert sum(differ) == 1
    alone = told.only(1)
    assert alone.N == 1
    np.testing.assert_array_equal(alone.context, OWN[1:])
    np.testing.assert_array_equal(alone.tasks[1], OWN[1:])
    np.testing.assert_array_equal(alone.only(0).context, OWN[1:])
    assert told.describe()["context"] == "2 of these are the agent's own"
    known = TabularProblem(np.ones((1, 2, 1)), np.zeros((2, 1, 2)), np.ones(1), 0.5).as_environments()
    assert {*with_context(known, OWN).arrays()} == {*known.arrays(), "context"}


def test_sums_that_are_sent_for_normalisation_have_nothing_of_it():
    """Only what the environment shows is measured: here 1, in each of the 4 steps."""
    told = with_context(aims(), OWN)
    problem = with_policy(told, linear(told.observations, told.actions, normalise=True), "gpomdp", B=4)
    oracle = problem.oracle(jax.tree.map(lambda x: jnp.asarray(x[0]), told.tasks))
    sums, steps = oracle.observe((), key_for(0, 0, "x"), 1)
    assert (float(sums.n), sums.x.tolist(), sums.xx.tolist(), int(steps)) == (4, [4.0], [4.0], 4)


@pytest.mark.parametrize(
    ("context", "words"),
    [
        ([[1.0]], "the context has 1 rows, and there are 2 agents"),
        ([[1.0], [2.0, 3.0]], "the context of agent 1 has 2 numbers, and that of agent 0 1; all must have as many"),
        ([[1.0], []], "the context of agent 1 is no row of numbers"),
        ([1.0, 2.0], "the context of agent 0 is no row of numbers"),
        (3.0, "the context has 0 rows"),
        ([[1.0, 2.0], [0.0, np.nan]], "number 1 in the context of agent 1 is nan; it must be finite"),
        ([[np.inf], [0.0]], "number 0 in the context of agent 0 is inf"),
        ([["a"], ["b"]], "the context holds what is no number"),
    ],
)
def test_mistakes_are_named_before_anything_starts(context, words):
    with pytest.raises(InputError) as error:
        with_context(aims(), context)
    assert words in str(error.value)


def test_all_columns_come_at_once():
    with pytest.raises(InputError, match="have a context already"):
        with_context(with_context(aims(), OWN), OWN)
