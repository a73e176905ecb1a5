"""Somebody's own code that goes elsewhere, hangs, leaves or says what can't be said: one line, and nothing is lost."""

import time
from pathlib import Path

import pytest

from commands import command
from fastfedpg import Config
from fastfedpg.errors import printable
from fastfedpg.experiment import checkpoints, plan, recorded_run

pytest.importorskip("gymnasium")

OWN = """
import os, time
import gymnasium, numpy as np
from fastfedpg import algorithms

os.chdir("/")

class Env(gymnasium.Env):
    observation_space, action_space = gymnasium.spaces.Box(-1, 1, (2,)), gymnasium.spaces.Discrete(2)
    paid = 1.0
    def reset(self, seed=None, options=None):
        return np.zeros(2, np.float32), {}
    def step(self, action):
        return np.zeros(2, np.float32), self.paid, False, False, {}

class BadClose(Env):
    def close(self):
        raise SystemExit("close \\x1b[31m\\nx")

class HangClose(Env):
    def close(self):
        time.sleep(1000)

class Text(Env):
    paid = "1.0"

class Undecided(Env):
    def step(self, action):
        return np.zeros(2, np.float32), 1.0, None, False, {}

class Counted(Env):
    def step(self, action):
        return np.zeros(2, np.float32), 1.0, np.array(False), 0, {}

class Unsaid(Env):
    def step(self, action):
        class Error(Exception):
            def __str__(self):
                raise RuntimeError
        raise Error

def goes(eta=0.1, H=2, odd=object()):
    os.chdir("/")
    return algorithms.fedavg_pg(eta, H)

def goes_in():
    os.chdir("/")
    return Env()
"""
BAD = """
import os, jax, jax.numpy as jnp
from fastfedpg import algorithms

def _served(change, policy=None):
    made = algorithms.fedavg_pg(0.1, 2)
    only = made.exchanges[0]
    made = made._replace(exchanges=(only._replace(server=lambda *given: change(*only.server(*given))),))
    return made if policy is None else made._replace(policy=policy)

def wrong_shape():
    return _served(lambda state, down: (jnp.zeros(7), jnp.zeros(7)))

def text_back():
    return _served(lambda state, down: ("a", "b"))

def imaginary():
    return _served(lambda state, down: (state * 1j, down))

def odd_policy():
    return _served(lambda *both: both, lambda state: "x")

def two_policies():
    return _served(lambda *both: both, lambda state: (state, state))

class Calls:
    def __init__(self, error):
        self.error, self.number = error, 0
    def __call__(self, x):
        self.number += 1
        if self.number > 4:
            raise self.error
        return x

def _calls(error, vmap=None):
    form = lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype)
    call = Calls(error)
    return _served(lambda state, down: (jax.pure_callback(call, form(state), state, vmap_method=vmap), down))

def raises():
    return _calls(ValueError("in callback \\x1b[31m\\nnext"))

def raises_in_step():
    return _calls(ValueError("in callback \\x1b[31m\\nnext"), "sequential")

def interrupts():
    return _calls(KeyboardInterrupt(), "sequential")

def goes_away():
    def serve(*both):
        os.chdir("/")
        return both
    return _served(serve)

def exits():
    return _calls(SystemExit("out \\x1b[31m\\nnext"))
"""
PLAYED = ("--oracle", "gpomdp", "--B", 2, "--K", 3, "--H", 1, "--evaluation-episodes", 2, "--policy", "linear")


@pytest.fixture
def own(tmp_path, monkeypatch):
    """The file's name, another in each test: a module of its name may be known already."""
    monkeypatch.chdir(tmp_path)
    Path(f"{tmp_path.name}.py").write_text(OWN)
    return f"{tmp_path.name}.py"


def played(problem: str, out: str = "out") -> int:
    return command("run", "--problem", problem, *PLAYED, "--rounds", 1, "--out", out)


def test_wherever_it_goes_we_stay_where_this_was_started(own, capsys, tmp_path):
    """Its file and its folder are found again; a default that can't be written down stays the function's own."""
    assert command("run", "--problem", "compromise", "--algorithm", f"{own}:goes", "--rounds", 2, "--out", "a") == 0
    assert Path.cwd() == tmp_path
    assert command("run", "--config", "a/config.toml", "--out", "b") == 0
    assert Path("a/metrics.csv").read_bytes() == Path("b/metrics.csv").read_bytes()
    assert "odd" not in Path("a/config.toml").read_text()
    assert played(f"{own}:goes_in") == 0
    assert Path.cwd() == tmp_path
    assert Path("out/summary.json").exists()


def test_close_may_leave_and_may_hang(own, capsys, monkeypatch):
    monkeypatch.setattr("fastfedpg.gym_workers.worker_handle.CLOSE_SECONDS", 0.2)
    began = time.monotonic()
    for number, name in enumerate(("BadClose", "HangClose")):
        assert played(f"{own}:{name}", f"{number}") == 0
    said = capsys.readouterr()
    assert "close \\x1b" not in printable(said.out + said.err)
    assert time.monotonic() - began < 100  # of the 1,000 s that it hangs


WORDS = {
    "Undecided": "terminated is None, a NoneType; it must be True or False",
    "Counted": "truncated is 0, a int; it must be True or False",
    "Text": "the reward is '1.0', a str; it must be a number",
    "Unsaid": "raised Error: (what it says is not known: its own __str__ raised RuntimeError)",
}


@pytest.mark.parametrize("name", WORDS)
def test_an_environment_that_says_what_it_cannot_say(name, own, capsys):
    assert played(f"{own}:{name}") == 1
    said = capsys.readouterr().err.splitlines()[-1]
    assert WORDS[name] in said
    assert printable(said) == said
    assert "exit code" not in said


REFUSED = {
    "wrong_shape": ": the server's state: float64[3] when a round begins, and float64[7] when it has ended; it must",
    "text_back": ", in its first round: TypeError: ",
    "imaginary": ": the server's state: float64[3] when a round begins, and complex128[3] when it has ended",
    "odd_policy": ", in its first round: TypeError: ",
    "two_policies": ": its policy is float64[3], float64[3]; it must be theta, numbers of shape (3,)",
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_algorithm_that_cannot_go_on_is_refused_before_it_begins(name, own, capsys):
    Path(own).write_text(BAD)
    words = ("--problem", "compromise", "--algorithm", f"{own}:{name}", "--rounds", 3, "--out", "out")
    assert command("run", *words, "--runtime", "loop") == 2
    said = capsys.readouterr().err
    assert f"fastfedpg: algorithm '{own}:{name}'{REFUSED[name]}" in said
    assert said.count("\n") == 1
    assert not Path("out").exists()


RAISED = {
    "raises": (("--runtime", "loop"), "ValueError: in callback \\x1b[31m next"),
    "exits": (("--runtime", "loop"), "SystemExit: out \\x1b[31m next"),
    "raises, compiled": ((), "NotImplementedError: vmap is only supported for the pure_callback primitive when"),
    "raises_in_step, compiled": ((), "ValueError: in callback \\x1b[31m next"),
}


@pytest.mark.parametrize("which", RAISED)
def test_what_an_algorithm_raises_in_a_run_is_one_line(which, own, capsys):
    Path(own).write_text(BAD)
    more, says = RAISED[which]
    name = f"{own}:{which.partition(',')[0]}"
    words = ("--problem", "compromise", "--algorithm", name, "--rounds", 9, "--out", "out")
    assert command("run", *words, *more) == 1
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith(f"fastfedpg: failed: algorithm '{name}': {says}")
    assert "; kept in out: config.toml" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("more", [(), ("--tune", "--tune-seeds", 1)], ids=["run", "tuned"])
@pytest.mark.parametrize("name", ["raises_in_step", "raises"])
def test_what_an_algorithm_raises_in_a_comparison_is_one_line_with_its_name(name, more, own, capsys):
    """Of two that are somebody's own the one that raised; what was finished before it is kept, and is gone on with."""
    Path(own).write_text(BAD + "\ndef fine(eta=0.1):\n    return algorithms.fedavg_pg(eta, 2)\n")
    methods = (f"{own}:fine", f"bad={own}:{name}")
    words = ("--problem", "compromise", "--algorithms", *methods, "--rounds", 9, "--seeds", 1, "--out", "out")
    if more:
        Path(own).write_text(Path(own).read_text().replace(f"def {name}():", f"def {name}(eta=0.1):"))
    assert command("compare", *words, *more) == 1
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith(f"fastfedpg: failed: method 'bad', algorithm '{own}:{name}': ")
    assert "Error: " in said
    assert "; kept in out: compare.toml" in said
    assert "Traceback" not in said
    if not more:
        assert "fine (finished), bad (failed); fastfedpg resume out goes on" in said
        assert Path("out/fine/summary.json").exists()


def test_what_an_algorithm_raises_in_a_sweep_is_one_line_with_its_name(own, capsys):
    Path(own).write_text(BAD)
    swept = ("--problem", "compromise", "--algorithm", f"{own}:exits", "--participants", 1, 2, "--runtime", "loop")
    assert command("sweep", *swept, "--rounds", 9, "--seeds", 1, "--out", "out") == 1
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith(f"fastfedpg: failed: method 'participants=1', algorithm '{own}:exits': SystemExit: out ")
    assert "; kept in out: compare.toml, participants=1 (failed); fastfedpg resume out goes on" in said


def test_what_an_environment_raises_in_a_comparison_is_one_line_with_its_name(own, capsys):
    words = ("--algorithms", "fedavg_pg", "--agents", 2, "--rounds", 1, "--seeds", 1, "--out", "out")
    assert command("compare", "--problem", f"{own}:Unsaid", *PLAYED, *words) == 1
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith(f"fastfedpg: failed: method 'fedavg_pg', problem '{own}:Unsaid': ")
    assert WORDS["Unsaid"] in said
    assert "; kept in out: compare.toml, fedavg_pg (failed)" in said


BOTH = pytest.mark.parametrize("runtime", ["loop", "simulate"])


@BOTH
def test_ctrl_c_in_a_servers_callback_is_ctrl_c(runtime, own, capsys):
    Path(own).write_text(BAD)
    words = ("--problem", "compromise", "--algorithm", f"{own}:interrupts", "--rounds", 9, "--out", "out")
    assert command("run", *words, "--runtime", runtime) == 130
    assert "fastfedpg: interrupted after round 4 of 9; kept in out: " in capsys.readouterr().err.splitlines()[-1]


@BOTH
def test_a_round_that_goes_elsewhere_while_it_is_traced_leaves_us_where_we_were(runtime, own, tmp_path, capsys):
    """Checkpoints, which are written while rounds go on, and results are in the folder that was named."""
    Path(own).write_text(BAD)
    name, seen, real = f"{own}:goes_away", [], checkpoints.write
    words = ("--problem", "compromise", "--algorithm", name, "--rounds", 3, "--checkpoint-rounds", 1, "--out", "out")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoints, "write", lambda *given: seen.append(Path.cwd()) or real(*given))
        assert command("run", *words, "--runtime", runtime) == 0
    assert {*seen} == {tmp_path}
    assert Path.cwd() == tmp_path
    assert Path("out/summary.json").exists()
    assert "no checkpoint" not in capsys.readouterr().err


def test_a_lemma_is_quoted_to_the_method_that_it_is_about(own):
    """Lemma 2 is Fast-FedPG's; L = 4 on `compromise`, and with H = 2 its limit is 1/(3 * 4 * 2)."""
    Path(own).write_text(BAD + "\ndef mine(eta=0.1):\n    return algorithms.fedavg_pg(eta, 2)\n")
    of = lambda name, **more: recorded_run._advice(plan(Config("compromise", algorithm=name, **more)))
    assert "Lemma 2 asks for at most 1/(3LH) = 0.0417" in of("fast_fedpg", H=2, eta=3.0)
    for name in ("fedavg_pg", f"{own}:mine"):
        assert of(name, eta=3.0) == "The step size is eta = 3; try a smaller one."
    assert of(f"{own}:goes_away") == "Try smaller steps."
