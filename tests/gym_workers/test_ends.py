"""How a run in Gymnasium's environments ends: Ctrl-C is Ctrl-C wherever it comes, and whatever was made is closed."""

import gc
import os
import threading
from dataclasses import replace

import pytest

import fastfedpg
import noted_envs
from commands import command
from fastfedpg import Config, InputError
from fastfedpg.errors import EnvironmentFailed
from fastfedpg.experiment import Interrupted
from fastfedpg.gym_workers import host_callback
from fastfedpg.gym_workers.pool import Pool
from fastfedpg.runtime import Diverged
from stopped_runs import flags, numbers, state

CONFIG = Config(
    "noted_envs:make", {"workers": 1}, agents=2, algorithm="fedavg_pg", policy="linear", oracle="gpomdp", B=2, K=3, H=1,
    eta=0.01, rounds=3, evaluation_episodes=2, checkpoint_rounds=1,
)  # fmt: skip
"""One exchange a round: programs that call the host are compiled anew by each run."""


@pytest.fixture(autouse=True)
def _book(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(noted_envs.BOOK, str(tmp_path / "book"))
    monkeypatch.setenv(noted_envs.TOP, str(os.getpid()))


@pytest.fixture(scope="module", autouse=True)
def _what_others_left():
    """A million objects of other files' tests are looked through once, and not after each test here."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def threads(monkeypatch):
    """Whether each call of the host came in the main thread."""
    seen, real = [], Pool.play

    def play(self, *args):
        seen.append(threading.current_thread() is threading.main_thread())
        return real(self, *args)

    monkeypatch.setattr(Pool, "play", play)
    return seen


def all_closed(fewest):
    gc.collect()  # pools of what was refused
    made, closed = noted_envs.lives()
    assert len(made) >= fewest
    assert len({*made}) == len(made)
    assert sorted(made) == sorted(closed), "each of them once"


MOMENTS = ("made 2", "reset 1", "step 2", "step 40")
"""Asked for spaces, built for play, in the first evaluation (twice), in a round or a later evaluation."""


@pytest.mark.parametrize(
    ("moment", "runtime"),
    [
        pytest.param(MOMENTS[2], "simulate", marks=pytest.mark.long),  # as the command at MOMENTS[1], below
        *((MOMENTS[-1], runtime) for runtime in ("simulate", "loop")),
    ],
)
def test_ctrl_c_in_a_callback_is_ctrl_c(moment, runtime, threads, never_stopped, monkeypatch):
    """No error of JAX's, whichever thread the callback is in; resumed, it ends as if it had never been stopped.

    In the loop by JAX's own callback, as where there is no C compiler: small programs with it run in the main thread.
    """
    monkeypatch.setenv(noted_envs.WHEN, moment)
    if runtime == "loop":
        monkeypatch.setattr(host_callback, "_compiled_calls", lambda: False)
    config = replace(CONFIG, runtime=runtime)
    with pytest.raises(Interrupted, match=r"interrupted after round \d of 3"):
        fastfedpg.run(config, "out")
    assert any(threads) or runtime == "simulate", "or nothing is tested"
    assert state("out") == "interrupted"
    monkeypatch.delenv(noted_envs.WHEN)
    fastfedpg.experiment.resume("out")
    assert numbers("out") == never_stopped[runtime]
    all_closed(8)


@pytest.fixture(scope="module")
def never_stopped(tmp_path_factory):
    """What is written by a run that is left alone, in either runtime."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(noted_envs.BOOK, str(folder / "book"))
        patch.setenv(noted_envs.TOP, str(os.getpid()))
        for runtime in ("simulate", "loop"):
            fastfedpg.run(replace(CONFIG, runtime=runtime), folder / runtime)
    return {runtime: numbers(folder / runtime) for runtime in ("simulate", "loop")}


@pytest.mark.parametrize("moment", [MOMENTS[0], MOMENTS[1], MOMENTS[3]])
def test_the_command_says_one_line(moment, monkeypatch, capsys):
    monkeypatch.setenv(noted_envs.WHEN, moment)
    assert command("run", *flags(CONFIG)[:2], *_words(CONFIG), "--out", "out") == 130
    said = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("fedavg_pg on ")]
    assert len(said) == 1
    assert said[0].startswith("fastfedpg: interrupted ")
    all_closed(1)


def _words(config):
    words = flags(config)[2:]
    k = words.index("--problem-args")
    return [*words[:k], "--problem-args", "workers=2", *words[k + 2 :]]


def test_at_the_end_every_environment_was_closed_once():
    """One in this process, which says what it is; the others in two processes."""
    fastfedpg.run(CONFIG.but(problem_args={"workers": 2}))
    all_closed(1 + 2 * 2)


def test_a_close_that_raises_does_not_keep_the_others_open():
    fastfedpg.run(CONFIG.but(problem="noted_envs:closing_raises"))
    all_closed(1 + 2)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"problem": "noted_envs:second_raises"}, EnvironmentFailed),
        ({"problem": "noted_envs:second_unbuilt"}, EnvironmentFailed),
        ({"problem": "noted_envs:built"}, InputError),
        ({"policy": "table"}, InputError),
        ({"eta": 1.7e308, "rounds": 20}, Diverged),
    ],
    ids=["another raises", "another can't be built", "built ones", "refused later", "diverged"],
)
def test_after_an_error_they_are_closed_too(changes, error):
    with pytest.raises(error):
        fastfedpg.run(CONFIG.but(**changes))
    all_closed(1)


def test_one_that_hangs_is_killed_and_the_others_are_closed():
    """Its own process had four, of which the one that hangs is deaf; nothing else is left open."""
    with pytest.raises(EnvironmentFailed, match="no sign of life"):
        fastfedpg.run(CONFIG.but(problem="noted_envs:second_hangs", problem_args={"workers": 2, "patience": 0.5}))
    made, closed = noted_envs.lives()
    left = {name.partition("-")[0] for name in {*made} - {*closed}}
    assert len(left) == 1, "environments of one process alone"
    assert len({*closed}) == len(closed)
