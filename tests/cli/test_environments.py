"""Environments from the command line and in deployments: a user's own module, failures, films, equal numbers."""

import json
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

from commands import command
from fastfedpg.core import key_for
from fastfedpg.errors import EnvironmentFailed
from fastfedpg.experiment import resume, run
from fastfedpg.experiment.config import Config
from fastfedpg.experiment.plan import plan
from fastfedpg.federation import protocol, site, wire
from fastfedpg.federation.agent import Agent
from fastfedpg.runtime import loop
from fastfedpg.runtime.loop import serve, stack
from fastfedpg.runtime.pytrees import arrays_of, restored

OWN = """
import os, time
from pathlib import Path
import gymnasium as gym, numpy as np

class Walk(gym.Env):
    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = gym.spaces.Discrete(3)
    metadata = {"render_modes": ["rgb_array"]}

    def __init__(self, target, render_mode=None):
        self.target, self.render_mode = target, render_mode

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.x = self.np_random.normal(3, 0.5)
        self.t = 0
        return np.array([self.x, 1.0]), {}

    def step(self, action):
        self.x += 0.2 * (action - 1) + self.np_random.normal(0, 0.05)
        self.t += 1
        if self.t == 4 and self.target < 0 and Path("broken").exists():
            what = Path("broken").read_text()
            if what == "raises":
                raise RuntimeError("the motor is hot")
            if what == "hangs":
                time.sleep(1000)
            if what == "nan":
                return np.array([np.nan, 1.0]), 0.0, False, False, {}
            return np.array([self.x, 1.0]), 7.5, False, False, {}
        return np.array([self.x, 1.0]), -min(abs(self.x - self.target), 5.0) / 5, False, self.t == 6, {}

    def render(self):
        return np.full((8, 12, 3), min(255, int(40 * abs(self.x))), np.uint8)

def make(agent, render_mode=None):
    return Walk((-1.0, 2.0)[agent], render_mode)

def other(agent):
    env = make(agent)
    if agent:
        env.observation_space = gym.spaces.Box(-1, 1, (3,))
    return env

def nothing():
    return 3
"""

WORDS = ("--policy", "linear", "--agents", "2", "--B", "4", "--H", "2", "--rounds", "2", "--eta", "0.1")
ADAM = ("--optimiser", "adam")


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A folder with a user's own module, under a name that no other test has imported."""
    name = f"own_{abs(hash(str(tmp_path)))}"
    (tmp_path / f"{name}.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


@pytest.mark.docs
def test_a_users_own_module_in_a_file_runs_is_compared_and_filmed(own, tmp_path, capsys):
    """In `make test` each step has its own test above and in test_gymnasium.py."""
    Path("job.toml").write_text(
        f'problem = "{own}:make"\nagents = 2\npolicy = "linear"\noracle = "gpomdp"\nnormalise = true\nB = 4\nH = 2\n'
        "K = 6\n"
        "rounds = 2\nseeds = 2\nreward_range = [-1, 0]\n[problem_args]\ngamma = 0.9\nworkers = 1\n"
    )
    methods = ("--algorithms", "fast_fedpg", "independent_pg")
    assert command("compare", "--config", "job.toml", *methods, "--out", "all") == 0
    said = capsys.readouterr().out
    assert "mean return of an episode" in said
    assert "smallest a t-test could tell" in said
    for name in ("curves.png", "agents.png", "table.csv", "fast_fedpg/final.npz"):
        assert Path("all", name).exists()
    # Every method starts from the same theta, and is evaluated on the same episodes.
    first = [np.load(f"all/{m}/agents.npz")["returns"][:, 0] for m in methods[1:]]
    np.testing.assert_array_equal(*first)
    assert command("film", "all/fast_fedpg", "--agent", "1") == 0
    with Image.open("all/fast_fedpg/agent-1.gif") as film:
        assert (film.size, film.n_frames > 1) == ((12, 8), True)
    assert command("film", "all/fast_fedpg", "--agent", "2") == 2
    assert "agent = 2; " in capsys.readouterr().err
    # In the plain loop, and in one round of the agents themselves, the numbers are those of the simulation.
    config = Config(
        f"{own}:make", agents=2, policy="linear", oracle="gpomdp", normalise=True, B=4, H=2, K=6, rounds=2,
        eta=0.1, problem_args={"gamma": 0.9, "workers": 1},
    )  # fmt: skip
    planned = plan(config)
    plain = loop(planned.problem, planned.algorithm, rounds=2, theta0=planned.problem.theta0)
    np.testing.assert_allclose(run(config).theta, plain.theta, rtol=0, atol=1e-12)
    deployed(config, planned, plain.theta[0], tmp_path)


def deployed(config, planned, expected, folder):
    """Two agents at sites of their own answer as bytes, the server's half done by hand."""
    algorithm, problem = planned.algorithm, planned.problem
    agents = [Agent(site.build(config, i), folder / f"agent-{i}") for i in range(2)]
    run_name = "0" * 32
    theta = problem.theta0[0]
    declared = protocol.declaration(config, 2, theta, "counter")
    for agent in agents:
        assert "refused" not in wire.unpack(agent.answer(protocol.hello(run_name, declared, theta))).about
    state, down, _ = algorithm.init(jnp.asarray(theta), 2)
    talks = {t.name: t for t in protocol.talks(algorithm, theta, 2)}
    links = [protocol.beginning(run_name, i, theta) for i in range(2)]
    asked = []
    for t in range(2):
        base = [*links]
        for e in algorithm.in_round(t):
            asked.append((t, e.name))
            arrays = arrays_of("down", down)
            ups = []
            for i, agent in enumerate(agents):
                question = protocol.question(run_name, t, e.name, base[i], links[i], arrays)
                message = wire.unpack(agent.answer(question))
                assert "refused" not in message.about, message.about
                ups.append(restored("up", talks[e.name].up, message.arrays))
                links[i] = message.about["link"]
            state, down = serve(e, 1.0, state, e.combine.merge(stack(ups)), key_for(0, t, e.name))
    assert asked == [(0, "observations"), (0, "gradient"), (0, "local"), (1, "gradient"), (1, "local")]
    np.testing.assert_allclose(np.asarray(algorithm.policy(state)), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("raises", "step 3 of trajectory 0: raised RuntimeError: the motor is hot"),
        ("hangs", "no sign of life for 1 s"),
        ("nan", "agent 0, step 3 of trajectory 0"),
        ("reward", "step 3 of trajectory 0: the reward 7.5 lies outside reward_range = (-1, 0)"),
    ],
)
def test_what_fails_is_named_and_the_last_checkpoint_kept(own, what, says, capsys):
    """It breaks after the first round; one of them is repaired, and goes on from there to the same numbers."""
    config = Config(
        f"{own}:make", policy="linear", oracle="gpomdp", agents=2, B=4, H=1, K=5, rounds=2, checkpoint_rounds=1,
        eta=0.1, problem_args={"workers": 1, "patience": 1}, reward_range=(-1.0, 0.0),
    )  # fmt: skip
    broken = lambda done, *_: Path("broken").write_text(what) if done == 1 else None
    with pytest.raises(EnvironmentFailed, match="agent 0") as failed:
        run(config, "out", report=broken, note=lambda words: None)
    assert says in str(failed.value)
    assert json.loads(Path("out/summary.json").read_text())["state"] == "failed"
    assert "1" in {p.name.lstrip("0") for p in Path("out/checkpoints").iterdir()}
    if what == "raises":
        assert command("resume", "out") == 1
        said = f"fastfedpg: failed: problem '{own}:make': the environment of agent 0, step 3"
        assert said in capsys.readouterr().err
        Path("broken").unlink()
        Path(f"{own}.py").write_text(OWN + "# repaired")
        heard = []
        np.testing.assert_array_equal(resume("out", note=heard.append).theta, run(config).theta)
        assert "the environments' source has changed since" in heard[0]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--problem", "{own}:other", *WORDS, "--oracle", "gpomdp"), "the observations of agents 0 and 1 differ: Box"),
        (("--problem", "{own}:nothing", *WORDS, "--oracle", "gpomdp"), "returns a int; it must return a gymnasium env"),
        (("--problem", "{own}:make", "--policy", "mlp", "--oracle", "gpomdp"), "give --agents, how many there are"),
        (("--problem", "cart-pole", "--oracle", "gpomdp"), "name one with --policy (table, linear, fourier, "),
        (("--problem", "cart-pole", *WORDS), "oracle 'exact' knows a finite MDP; problem 'cart-pole' can only be"),
        (
            ("--problem", "compromise", "--policy", "mlp"),
            "policy 'mlp' plays problem 'compromise' as an environment, and oracle 'exact' knows tables",
        ),
        (("--problem", "cart-pole", *WORDS, "--policy", "mlpp", "--oracle", "gpomdp"), "did you mean 'mlp'?"),
        (
            ("--problem", "cart-pole", *WORDS, "--oracle", "gpomdp", "--policy", "table"),
            "table",
        ),
        (("--problem", "gym:NoSuch-v1", *WORDS, "--oracle", "gpomdp"), "unknown environment 'NoSuch-v1'"),
        (("--problem", "lqr", "--policy", "mlp"), "has its own: a gain for every state"),
        (("--problem", "compromise", "--normalise"), "normalise is for observations in environments"),
        (("--problem", "cart-pole", *WORDS, "--oracle", "gpomdp", "--schedule", "theorem2"), "can only be played"),
        (
            ("--problem", "cart-pole", *WORDS, "--oracle", "gpomdp", "--algorithm", "scaffold_pg", *ADAM),
            "with another optimiser take option I",
        ),
        (("--problem", "cart-pole", *WORDS, "--oracle", "actor_critic", "--lam", "1.5"), "lam = 1.5; it must lie in"),
    ],
)  # fmt: skip
def test_mistakes_are_told_in_a_line(own, words, says, capsys):
    assert command("run", *(w.format(own=own) for w in words), "--out", "out") == 2
    said = capsys.readouterr().err
    assert says in said
    assert said.startswith("fastfedpg: ")
    assert not Path("out").exists()


def test_show_and_verify_know_environments(capsys):
    assert command("show", "thermostats") == 0
    said = capsys.readouterr().out
    assert "32 (" in said
    assert "fastfedpg film" in said
    assert command("verify", "--problem", "pendulum", "--out", "nowhere") == 2
    assert "can only be played" in capsys.readouterr().err


def test_a_film_of_a_table_is_refused_in_words(tmp_path, capsys):
    assert command("run", "--problem", "compromise", "--rounds", "1", "--out", tmp_path / "out") == 0
    assert command("film", tmp_path / "out") == 2
    assert "is no environment, and can't be filmed" in capsys.readouterr().err
    assert command("film", tmp_path) == 2
    assert jax.config.jax_enable_x64


@pytest.mark.docs
def test_the_pages_own_example_runs(tmp_path, monkeypatch):
    """my_envs.py and carts.toml as they stand in docs/environments.md, with less of everything.

    In `make test` the same flags are those of the tests above.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    page = (Path(__file__).parents[2] / "docs" / "environments.md").read_text()
    for name, text in re.findall(r"<!-- example: (\S+) -->\n```\w+\n(.*?)```", page, flags=re.S):
        Path(name).write_text(text)
    less = ("--rounds", "1", "--B", "2", "--H", "1", "--K", "10", "--evaluation-episodes", "2")
    assert command("run", "--config", "carts.toml", *less, "--out", "carts") == 0
    assert command("film", "carts", "--agent", "3", "--steps", "3") == 0
    assert Path("carts/agent-3.gif").read_bytes()[:6] == b"GIF89a"
