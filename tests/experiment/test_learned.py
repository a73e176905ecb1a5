"""From a run to its use: ff.load acts, evaluates and chooses among seeds and agents; what is wrong is said in words."""

import json
from pathlib import Path

import numpy as np
import pytest

import fastfedpg as ff
from fastfedpg import Config, InputError
from fastfedpg.experiment.spoken import Spoken
from fastfedpg.problems import LQRProblem, TabularProblem
from fastfedpg.spaces import Box, Discrete, MultiDiscrete

gymnasium = pytest.importorskip("gymnasium")
GAMMA = 0.5


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """Runs of several kinds; not to be written to."""
    out = tmp_path_factory.mktemp("runs")
    # One state and two actions, gamma = 1/2: a policy with probability p of action 0 has the returns 2p and 2(1 - p).
    TabularProblem(P=np.ones((1, 2, 1)), reward=[[[1, 0]], [[0, 1]]], rho=[1], gamma=GAMMA).save(out / "bandit.npz")
    LQRProblem(A=[[0.5]], B=[[1]], Q=[[[1]]], R=[[[1]]], Sigma0=[[1]], gamma=0.9, noise=0.1).save(out / "lqr.npz")
    finite = {"problem": str(out / "bandit.npz"), "H": 1, "rounds": 3, "seeds": 2, "first_seed": 4}
    ff.run(Config(**finite, oracle="gpomdp", B=2, K=3), out / "finite")
    ff.run(Config(**finite, algorithm="independent_pg"), out / "own")
    ff.run(Config(str(out / "lqr.npz"), H=1, rounds=2, eta=0.01), out / "lqr")
    return out


def test_it_is_the_runs_last_policy(runs):
    learned = ff.load(runs / "finite")
    with np.load(runs / "finite/final.npz") as file:
        theta = file["theta"].reshape(2, 2)
    np.testing.assert_array_equal(learned.theta, theta[0])
    np.testing.assert_array_equal(ff.load(runs / "finite", seed=5).theta, theta[1])
    assert "bandit.npz" in repr(learned) or "problem.npz" in repr(learned)


def test_acting_in_a_finite_mdp(runs):
    """theta = (log 3, 0) has the probabilities 3/4 and 1/4: 4,000 actions, to four standard errors of 0.0068."""
    learned = ff.load(runs / "finite")
    learned.theta[:] = np.log(3), 0
    acts = learned.act(np.zeros(4000, int), np.random.default_rng(0))
    assert acts.shape == (4000,)
    assert acts.dtype.kind == "i"
    assert np.mean(acts == 0) == pytest.approx(0.75, abs=4 * 0.0068)
    assert learned.act(0, deterministic=True) == 0
    assert isinstance(learned.act(0), int)
    same = [learned.act(0, np.random.default_rng(7)) for _ in range(5)]
    assert len({*same}) == 1, "the generator alone decides"


def test_evaluation_is_exact_where_the_problem_is_known(runs):
    """2p and 2(1 - p) with p = 3/4: 1.5 and 0.5, and 1 on average."""
    for agent, worth in ((None, 1.0), (0, 1.5), (1, 0.5)):
        learned = ff.load(runs / "finite", agent=agent)
        learned.theta[:] = np.log(3), 0
        found = learned.evaluate()
        assert found[:3] == pytest.approx((worth, worth, worth), abs=1e-12)
        assert len(found.returns) == 0


def test_every_agent_has_its_own(runs):
    with pytest.raises(InputError, match="every agent has its own policy: say whose, with agent=0 to 1"):
        ff.load(runs / "own")
    a, b = (ff.load(runs / "own", agent=i).act(0, deterministic=True) for i in (0, 1))
    assert (a, b) == (0, 1), "each has learned what pays for it"


def test_a_regulator_acts_with_minus_F_x(runs):
    """Actions around -F x with standard deviation 0.1; 4,000 of them, to four standard errors."""
    learned = ff.load(runs / "lqr")
    F = learned.theta[0]
    assert F != 0
    np.testing.assert_allclose(learned.act([2.0], deterministic=True), [-2 * F], rtol=1e-15)
    drawn = learned.act(np.full((4000, 1), 2.0), np.random.default_rng(0))
    assert drawn.shape == (4000, 1)
    assert drawn.mean() == pytest.approx(-2 * F, abs=4 * 0.1 / np.sqrt(4000))
    assert drawn.std() == pytest.approx(0.1, rel=4 / np.sqrt(8000))
    with np.load(runs / "lqr/agents.npz") as file:
        np.testing.assert_allclose(learned.evaluate().mean, file["returns"][0, -1, 0], rtol=1e-12)


def test_a_comparison_names_its_runs(tmp_path):
    (tmp_path / "cmp").mkdir()
    (tmp_path / "cmp/compare.toml").touch()
    for name in ("fast_fedpg", "fedavg_pg"):
        ff.run(Config("compromise", H=1, rounds=1, algorithm=name), tmp_path / "cmp" / name)
    with pytest.raises(InputError, match=r'cmp: a comparison; load one of its runs: ".*cmp/fast_fedpg", ".*fedavg_pg"'):
        ff.load(tmp_path / "cmp")
    assert ff.load(tmp_path / "cmp/fast_fedpg").theta.shape == (3,)


def test_folders_that_hold_no_policy(runs, tmp_path):
    with pytest.raises(InputError, match="nowhere: no such folder"):
        ff.load(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"not a run: there is no config\.toml in it"):
        ff.load(tmp_path)
    diverged = tmp_path / "diverged"
    diverged.mkdir()
    (diverged / "config.toml").write_text((runs / "own/config.toml").read_text())
    (diverged / "problem.npz").write_bytes((runs / "bandit.npz").read_bytes())
    with pytest.raises(InputError, match="nothing was recorded yet; fastfedpg resume"):
        ff.load(diverged)
    (diverged / "summary.json").write_text(json.dumps({"state": "diverged"}))
    with pytest.raises(InputError, match="diverged: the run diverged, and what it had learned by then is no policy"):
        ff.load(diverged)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"seed": 0}, "seed = 0; .* has seeds 4 to 5"),
        ({"agent": 2}, "agent = 2; .* has agents 0 to 1"),
    ],
)
def test_seeds_and_agents_that_are_not_there(given, why, runs):
    with pytest.raises(InputError, match=why):
        ff.load(runs / "finite", **given)


@pytest.mark.parametrize(
    ("observation", "why"),
    [
        (1, r"the observation 1 is not in Discrete\(1\)"),
        (-1, "the observation -1 is not in"),
        (0.5, "the observation 0.5 is not in"),
        (np.nan, "the observation nan is not in"),
        ([[0]], r"an observation of \(1, 1\); one of Discrete\(1\) is a number, and several are \(B,\)"),
        ("left", r"an observation of str; one of Discrete\(1\) is a number"),
    ],
)
def test_wrong_observations(observation, why, runs):
    with pytest.raises(InputError, match=why):
        ff.load(runs / "finite").act(observation)


def test_a_run_of_an_older_version(runs, tmp_path):
    """Without results.npz: from final.npz, and a word about it."""
    for name in ("config.toml", "final.npz", "problem.npz", "summary.json"):
        (tmp_path / name).write_bytes((runs / "finite" / name).read_bytes())
    with pytest.warns(UserWarning, match=r"final\.npz is read instead"):
        found = ff.load(tmp_path, seed=5).theta
    np.testing.assert_array_equal(found, ff.load(runs / "finite", seed=5).theta)


# Gymnasium


def test_spaces_of_gymnasium_are_spoken_as_they_are():
    """A Discrete that starts at 3, a Box of shape (2, 2) of float32: told and answered in those."""
    theirs = gymnasium.spaces
    spoken = Spoken(Discrete(4), Discrete(2), (theirs.Discrete(4, start=3), theirs.Discrete(2, start=-1)))
    rows, one = spoken.heard(5)
    assert (rows.tolist(), one) == ([[2.0]], True)
    assert spoken.said(np.array([[1.0]]), True) == 0
    assert spoken.said(np.array([[1.0], [0.0]]), False).tolist() == [0, -1]
    with pytest.raises(InputError, match=r"the observation 7 is not in Discrete\(4\), from 3 on"):
        spoken.heard(7)
    square = theirs.Box(-1, 1, (2, 2), np.float32)
    spoken = Spoken(Box((-1,) * 4, (1,) * 4), Box((-1,) * 4, (1,) * 4), (square, square))
    rows, one = spoken.heard(np.eye(2))
    assert (rows.tolist(), one) == ([[1, 0, 0, 1]], True)
    assert spoken.heard(np.zeros((5, 2, 2)))[0].shape == (5, 4)
    action = spoken.said(np.array([[1.0, 2, 3, 4]]), True)
    assert (action.shape, action.dtype) == ((2, 2), np.float32)
    with pytest.raises(
        InputError, match=r"one of Box of 4 numbers \(-1 to 1\) is shape \(2, 2\), and several are \(B, 2, 2\)"
    ):
        spoken.heard(np.zeros(4))
    several = Spoken(MultiDiscrete((2, 3)), MultiDiscrete((2, 3)))
    assert several.heard([1, 2])[0].tolist() == [[1, 2]]
    with pytest.raises(InputError, match="the observation 3 is not in MultiDiscrete"):
        several.heard([1, 3])


class Counting(gymnasium.Env):
    """Pays 1 for action 1, for three steps; observations are Discrete(2) from 10 on."""

    observation_space = gymnasium.spaces.Discrete(1, start=10)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return 10, {}

    def step(self, action):
        self.steps += 1
        return 10, float(action), False, self.steps == 3, {}


def test_evaluation_in_an_environment_that_is_given(runs):
    """Action 1 with probability 1/4, three steps: 0.75 on average, with variance 3 * 3/16; 500 episodes."""
    learned = ff.load(runs / "finite")
    learned.theta[:] = np.log(3), 0
    found = learned.evaluate(Counting(), episodes=500, seed=3)
    assert len(found.returns) == 500
    assert found.mean == found.returns.mean() == pytest.approx(0.75, abs=4 * np.sqrt(9 / 16 / 500))
    assert found.low < found.mean < found.high
    assert found.high - found.low == pytest.approx(2 * 1.96 * np.sqrt(9 / 16 / 500), rel=0.15)
    assert learned.evaluate(Counting(), episodes=500, seed=3).mean == found.mean, "the seed decides"
    assert learned.evaluate(Counting(), episodes=4, deterministic=True).returns.tolist() == [0.0] * 4


def test_environments_that_do_not_fit(runs):
    learned = ff.load(runs / "finite")
    with pytest.raises(
        InputError, match=r"the policy's observations are Discrete\(1\); those of the environment are Box"
    ):
        learned.evaluate(gymnasium.make("CartPole-v1"))
    with pytest.raises(InputError, match=r"an environment is needed, as gymnasium\.make returns it, not int"):
        learned.evaluate(3)
    with pytest.raises(InputError, match="episodes = 0; it must be at least 1"):
        learned.evaluate(episodes=0)
    with pytest.raises(InputError, match="deterministic is for environments; here returns are exact"):
        learned.evaluate(deterministic=True)


def test_a_run_in_environments_of_our_own(tmp_path):
    """A policy of theta = 0 is played; the interval is around the mean of 6 episodes."""
    config = Config(
        "point-mass", agents=2, policy="linear", oracle="gpomdp", B=2, K=5, H=1, rounds=1, evaluation_episodes=2
    )
    ff.run(config, tmp_path / "run")
    learned = ff.load(tmp_path / "run")
    assert learned.act(np.zeros(learned.spoken.observations.width)).shape == (2,)
    found = learned.evaluate(episodes=6)
    assert found.returns.shape == (6,)
    assert found.low <= found.mean <= found.high
    alone = ff.load(tmp_path / "run", agent=0).evaluate(episodes=6)
    assert alone.returns.shape == (6,)
    assert alone.mean != found.mean, "the agents' goals differ"
