"""Agents that weigh a vector reward: the weights, the rewards they make, and what is refused."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import own_envs
from fastfedpg import problems
from fastfedpg.errors import InputError
from fastfedpg.gym_workers import mo_gymnasium
from fastfedpg.gym_workers.faults import Refused
from fastfedpg.gym_workers.mo_gymnasium import rows
from fastfedpg.gym_workers.weighted import given, share

KEY = jax.random.key(5)


def test_shares_of_two_objectives_are_midpoints():
    np.testing.assert_allclose([share(i, 4, 2) for i in range(4)], [[7, 1], [5, 3], [3, 5], [1, 7]] / np.float64(8))


def test_shares_of_one_agent_by_hand():
    """u = 1/2 everywhere: of three, w_1 = 1 - sqrt(1/2), and the rest is halved."""
    left = 0.5**0.5
    np.testing.assert_allclose(share(0, 1, 3), [1 - left, left / 2, left / 2])
    np.testing.assert_allclose(share(2, 3, 1), [1.0])


def test_shares_use_the_golden_ratio():
    """Agent 1 of 2 and three objectives: u = (3/4, 1/2 + 1/phi mod 1), with phi^2 = phi + 1."""
    u = 0.75, (0.5 + 2 / (1 + 5**0.5)) % 1
    left = u[0] ** 0.5
    np.testing.assert_allclose(share(1, 2, 3), [1 - left, left * (1 - u[1]), left * u[1]], rtol=1e-14)


@pytest.mark.parametrize("m", [2, 3, 4, 6])
def test_shares_are_spread_over_the_simplex(m):
    """Moments of the uniform distribution: E w_j = 1/m and E w_j^2 = 2 / (m (m + 1)).

    Of 2,000 random points the mean of w_j would be off by 1.0% (m = 2) to 1.5% (m = 6) on average.
    """
    w = np.array([share(i, 2000, m) for i in range(2000)])
    np.testing.assert_allclose(w.sum(1), 1)
    assert (w > 0).all()
    np.testing.assert_allclose(w.mean(0), 1 / m, rtol=0.012)
    np.testing.assert_allclose((w**2).mean(0), 2 / (m * (m + 1)), rtol=0.04)


def test_shares_of_few_agents_are_far_apart():
    """Of 8 agents with three objectives no two are nearer than 0.27; of 8 random ones the nearest two have 0.1."""
    w = np.array([share(i, 8, 3) for i in range(8)])
    assert (np.linalg.norm(w[:, None] - w[None], axis=-1) + np.eye(8)).min() > 0.27


@pytest.mark.filterwarnings("ignore:.*precision lowered by casting")
@pytest.mark.parametrize(
    ("name", "weights"), [("mo-mountaincar-v0", None), ("deep-sea-treasure-v0", "[[2, -1], [0.25, 3]]")]
)
def test_rewards_are_weighted_sums_of_the_vectors(name, weights):
    """Agent 1 of two, against mo-gymnasium stepped by hand with the same seed and actions."""
    mo = pytest.importorskip("mo_gymnasium")
    envs = problems.make(
        f"mo:{name}", {"workers": 1, **({"weights": weights} if weights else {})}, None if weights else 2
    )
    policy = own_envs.linear(envs.observations.width, envs.actions.n)
    got = envs.play(policy, jnp.int32(1), jnp.zeros(policy.size), KEY, 2, 30)
    envs.release()
    w = np.array([0.25, 3]) if weights else np.array(share(1, 2, 3))
    assert envs.N == 2
    assert envs.agents[1] == ("0.25 3" if weights else " ".join(f"{x:.3g}" for x in w))
    env, total = mo.make(name), 0.0
    for b in range(2):
        key = jax.random.split(jax.random.fold_in(KEY, b))[0]
        env.reset(seed=int(jax.random.bits(key, dtype=jnp.uint32) >> 1))
        for k in range(int(got.alive[b].sum())):
            r = env.step(int(got.choices[b, k, 0]))[1]
            assert r.shape == w.shape
            np.testing.assert_allclose(got.rewards[b, k], w @ r, rtol=1e-12)
            total += abs(w @ r)
    assert total > 0


def test_arguments_go_to_the_environment_itself(capfd):
    """The float one makes two numbers of a place that are otherwise the number of a cell; nothing is said of spaces."""
    pytest.importorskip("mo_gymnasium")
    envs = problems.make("mo:deep-sea-treasure-v0", {"float_state": "true", "gamma": 0.9, "workers": 1}, 3)
    assert (envs.N, envs.gamma, envs.horizon) == (3, 0.9, 100)
    assert envs.observations.high == (1.0, 1.0)
    assert envs.only(2).agents == envs.agents[2:] == ("0.167 0.833",)
    assert capfd.readouterr().err == ""


class Vector(gymnasium.Wrapper):
    """An environment that has a vector reward, in words alone."""

    reward_space = gymnasium.spaces.Box(0, 1, (3,))
    unwrapped = property(lambda self: self)


@pytest.mark.parametrize(
    ("weights", "agents", "words"),
    [
        ("[[1, 0], [1]]", None, r"agent 1 are \[1.0\]; they must be 2, as those of agent 0"),
        ([[1, 0], [0, 0]], None, "agent 1 are .*; one of them must differ from 0"),
        ([[1, float("nan")]], None, "agent 0 are .*; they must be finite"),
        ("[[1, 1e999]]", None, "agent 0 are .*; they must be finite"),
        ([[1, 0]], 2, "1 rows of weights for agents = 2; give one for each"),
        ("1,0", None, "weights is '1,0'; it must be rows of numbers"),
        ("even", None, "weights is 'even'; it must be rows of numbers"),
        (["10", "01"], None, "must be rows of numbers"),
        ([], None, "weights is empty"),
    ],
)
def test_weights_that_are_none(weights, agents, words):
    with pytest.raises(InputError, match=words):
        rows(weights, agents)


def test_weights_of_another_length_than_the_reward():
    with pytest.raises(Refused, match=r"its weights are 1 0; the reward of .* has 3 numbers"):
        given(Vector(own_envs.Line()), (1.0, 0.0))
    with pytest.raises(Refused, match="is no vector; mo:ID is for mo-gymnasium's own"):
        given(own_envs.Line(), (1.0, 0.0))


def test_a_suite_that_is_not_installed(monkeypatch):
    def missing(name):
        raise ModuleNotFoundError(f"No module named '{name}'")

    monkeypatch.setattr(mo_gymnasium, "import_module", missing)
    with pytest.raises(InputError, match=r"mo:some-v0 needs mo-gymnasium .*: pip install 'fastfedpg\[mo\]'"):
        problems.make("mo:some-v0")


def test_an_environment_that_there_is_not():
    pytest.importorskip("mo_gymnasium")
    with pytest.raises(InputError, match="unknown environment 'mo_gymnasium:deep-see-v0'"):
        problems.make("mo:deep-see-v0")


def test_more_agents_than_there_is_memory_for():
    pytest.importorskip("mo_gymnasium")
    with pytest.raises(InputError, match=r"agents = 1000000000000.*take fewer"):
        problems.make("mo:deep-sea-treasure-v0", agents=10**12)
