"""A context by its file: read, checked, copied into the run's folder, used by a learned policy, kept at a site."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import own_envs
from fastfedpg import Config, InputError
from fastfedpg.core import Sums
from fastfedpg.envs import with_context
from fastfedpg.experiment import checkpoints, finished_run, learned, run_folder
from fastfedpg.experiment.config import from_toml
from fastfedpg.experiment.plan import plan
from fastfedpg.federation import site
from fastfedpg.gym_workers.adapter import environments
from fastfedpg.policies import linear

OWN = np.array([[-1.0, 0.5], [1.0, 0.25]])
CSV = "# place, price\n-1, 0.5\n\n1,0.25  # the other one\n"


def config(context, **more):
    given = {"agents": 2, "policy": "linear", "oracle": "gpomdp", "B": 2, "K": 3, "H": 1, "rounds": 1}
    return Config("point-mass", context=None if context is None else str(context), **{**given, **more})


@pytest.fixture
def csv(tmp_path):
    (tmp_path / "own.csv").write_text(CSV)
    return tmp_path / "own.csv"


def test_it_is_read_and_copied_and_a_run_with_another_is_another(csv, tmp_path):
    """The copy in the run's folder says the same, whatever becomes of the file; checkpoints know another one."""
    planned = plan(config(csv))
    np.testing.assert_array_equal(planned.known.context, OWN)
    assert planned.policy.size == plan(config(None)).policy.size + 2 * 2
    run_folder.describe(tmp_path, planned.config, planned.known, planned.theta0)
    csv.write_text("0, 0\n0, 0\n")
    again = plan(from_toml(tmp_path / "config.toml"))
    np.testing.assert_array_equal(again.known.context, OWN)
    who = lambda p: checkpoints.identity(p.config, p.known, p.theta0, "now").problem
    other = plan(config(csv))
    assert who(again) == who(planned) != who(other)
    assert not finished_run._unequal(again.known, other.known), "J is of the same environments"


def test_normalisation_measures_what_the_environment_shows_and_leaves_the_rest(csv):
    """Sums of 4 numbers are sent, not of 6; theta begins with the shifts and log-scales of 6, of which the context's
    are 0. Here n = 2, and x sums to 2 and its squares to 10: a mean of 1 and a standard deviation of 2."""
    planned = plan(config(csv, normalise=True))
    opening = planned.algorithm.exchanges[0]
    state, _, _ = planned.algorithm.init(jnp.zeros(planned.policy.size), 2)
    four = jnp.ones(4)
    state, _ = opening.server(state, Sums(jnp.array(2.0), 2 * four, 10 * four), 0.5, jax.random.key(0))
    found = np.asarray(planned.algorithm.policy(state))
    np.testing.assert_allclose(found[:12], [1, 1, 1, 1, 0, 0, *[np.log(2)] * 4, 0, 0], rtol=1e-6)


def test_a_learned_policy_acts_with_its_agents_own(csv):
    """theta looks at the first number of the context alone: agent 0 has -1 there, and agent 1 has 1."""
    planned = plan(config(csv, policy_args={"log_std": -30.0, "learn_std": False}))
    theta = np.zeros((7, 2))
    theta[4] = 0.5
    for agent, sign in ((0, -1), (1, 1)):
        made = learned.Learned(planned, theta.ravel(), *learned._acting(planned, agent), agent)
        np.testing.assert_allclose(made.act(np.ones(4), deterministic=True), [sign * 0.5] * 2, rtol=1e-12)
        np.testing.assert_allclose(made.act(np.ones((3, 4))), [[sign * 0.5] * 2] * 3, rtol=1e-9)
    with pytest.raises(InputError, match=r"say whose, as in load\(folder, agent=0\)"):
        learned.Learned(planned, theta.ravel(), *learned._acting(planned, None)).act(np.ones(4))


def test_a_site_has_its_own_row_alone(csv, tmp_path):
    """From a file with all rows, or with its own; and another row is another site."""
    (tmp_path / "mine.csv").write_text("1, 0.25\n")
    (tmp_path / "new.csv").write_text("1, 0.75\n")
    whole, mine, new = (site.build(config(tmp_path / f"{name}.csv"), 1) for name in ("own", "mine", "new"))
    for built in (whole, mine):
        np.testing.assert_array_equal(built.problem.tasks[1], OWN[1:])
        assert "context" not in str(built.declared)
    assert mine.declared == new.declared
    assert mine.own != new.own
    (tmp_path / "three.csv").write_text("1\n2\n3\n")
    with pytest.raises(InputError, match=r"three\.csv: the context has 3 rows, and there are 2 agents"):
        site.build(config(tmp_path / "three.csv"), 1)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1, 2\n3\n", "own.csv: the context of agent 1 has 1 number, and that of agent 0 2"),
        ("1\n2\n3\n", "own.csv: the context has 3 rows, and there are 2 agents"),
        ("1\nnan\n", "own.csv: number 0 in the context of agent 1 is nan; it must be finite"),
        ("1\nwarm\n", "own.csv, line 2: 'warm' is no number"),
        ("1\n2,\n", "own.csv, line 2: '' is no number"),
        ("", "own.csv: the context has 0 rows"),
    ],
)
def test_mistakes_in_a_file_are_named(csv, text, words):
    csv.write_text(text)
    with pytest.raises(InputError) as error:
        plan(config(csv))
    assert words in str(error.value)


def test_mistakes_in_other_files_and_places(tmp_path):
    np.savez(tmp_path / "flat.npz", context=np.ones(3))
    with pytest.raises(InputError, match=r"context has type float64 and shape \(3,\)"):
        plan(config(tmp_path / "flat.npz"))
    with pytest.raises(InputError, match=r"must be a \.csv or an \.npz file"):
        plan(config(tmp_path / "own.txt"))
    with pytest.raises(InputError, match=r"own\.csv: no such file"):
        plan(config(tmp_path / "own.csv"))
    np.savez(tmp_path / "own.npz", context=OWN)
    with pytest.raises(InputError, match="context is for policies in environments; problem 'compromise' is"):
        plan(Config("compromise", context=str(tmp_path / "own.npz")))
    with pytest.raises(InputError, match="is private, and so are contexts"):
        plan(Config("private", agents=2, parameters=3, context=str(tmp_path / "own.npz")))


def test_gymnasiums_environments_know_nothing_of_it():
    """Actions are those of the policy at (o, context), in a process without JAX; here at place + 100 context > 0."""
    envs = with_context(environments([own_envs.Line] * 2, workers=1), [[-1.0], [1.0]])
    policy = linear(envs.observations, envs.actions)
    theta = jnp.zeros((3, 2)).at[:, 1].set(jnp.array([1.0, 100, 0])).reshape(-1)
    try:
        both = jax.vmap(lambda task: envs.play(policy, task, theta, jax.random.key(0), 3, 4))(
            jax.tree.map(jnp.asarray, envs.tasks)
        )
        alone = envs.only(1)
        np.testing.assert_array_equal(alone.context, [[1.0]])
    finally:
        envs.release()
    np.testing.assert_array_equal(both.choices[0], 0)
    np.testing.assert_array_equal(both.choices[1], 1)
    np.testing.assert_array_equal(both.observations[..., 1], np.array([-1.0, 1.0])[:, None, None] * np.ones((2, 3, 5)))
    np.testing.assert_array_equal(np.diff(both.observations[1, ..., 0]), 1)
