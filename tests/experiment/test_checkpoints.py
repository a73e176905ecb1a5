"""A run that was stopped and taken up again is, to the bit, one that never was; and what is refused, and why."""

import ast
import errno
import importlib
import json
import os
import pickle
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file

import fastfedpg
import reference as ref
from commands import command
from fastfedpg import ALGORITHMS, Config, InputError, Oracle, with_oracle
from fastfedpg.core import Evaluation, Problem
from fastfedpg.experiment import Interrupted, checkpoints, files, plan, run_folder
from fastfedpg.experiment.algorithm import algorithm_of
from fastfedpg.experiment.checkpoints import FORMAT, Keeper
from fastfedpg.problems import PROBLEMS
from fastfedpg.runtime import Diverged, Schedule, collect, loop_records, message_sizes, shapes, simulate_records

SCRIPT = str(Path(sys.executable).with_name("fastfedpg"))
run = importlib.import_module("fastfedpg.experiment.run")  # and not the function of that name
FILES = {"config.toml", "results.npz", "metrics.csv", "final.npz", "agents.npz", "summary.json"}
NUMBERS = ("results.npz", "final.npz", "metrics.csv", "agents.npz")

# All that a run carries from round to round: control variates at the agents, two random streams, and each round
# other participants. Records after rounds 0, 4, 8 and 11 leave checkpoints on and between them.
ROUNDS = 11
CONFIG = Config(
    "compromise",
    agents=4,
    participants=3,
    algorithm="scaffold_pg",
    eta=0.5,
    H=2,
    oracle="gpomdp",
    B=2,
    K=3,
    seeds=2,
    rounds=ROUNDS,
    metrics_every=4,
)
OFTEN = replace(CONFIG, checkpoint_rounds=2)
WHOLE = "whole"
VERSION = "fastfedpg 0.0.1, jax 0.0.1, numpy 0.0.1"
plan_once = cache(lambda toml: plan(fastfedpg.experiment.config.from_mapping(tomllib.loads(toml))))


@pytest.fixture(autouse=True)
def _fresh_folder(tmp_path, monkeypatch):
    """A folder of its own; and runs of one configuration share what was compiled, where no file is part of it."""

    def remembered(config: Config, like=None):
        if config.problem not in PROBLEMS or config.theta0 is not None:
            return plan(config)
        plain = replace(config, checkpoint_rounds=None, checkpoint_seconds=30.0)
        return replace(plan_once(plain.to_toml()), config=config)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(run, "plan", remembered)


@pytest.fixture(scope="module")
def never_stopped(tmp_path_factory) -> dict[str, bytes]:
    out = tmp_path_factory.mktemp("never") / "stopped"
    fastfedpg.run(CONFIG, out)
    return numbers(out)


def flags(config: Config) -> list[str]:
    """The configuration on the command line."""
    given = {k: v for k, v in asdict(config).items() if v != asdict(Config())[k]}
    return [word for name, value in given.items() for word in (f"--{name.replace('_', '-')}", str(value))]


def numbers(out: Path | str) -> dict[str, bytes]:
    return {name: (Path(out) / name).read_bytes() for name in NUMBERS}


def state(out: Path | str) -> str:
    return json.loads((Path(out) / "summary.json").read_text())["state"]


def rounds_kept(out: Path | str) -> list[int]:
    return [int(p.name) for p in checkpoints.present(Path(out))]


def recorded(out: Path | str) -> list[int]:
    with np.load(Path(out) / "agents.npz") as file:
        return file["round"].tolist()


def killed(out: str = "out", at: int = 8, config: Config = OFTEN) -> Path:
    """What a kill after round `at` leaves on disk: a copy of its folder then; the run itself ends in WHOLE."""

    def report(done: int, record=None) -> None:
        if done >= at and not Path(out).exists():
            shutil.copytree("running", out, ignore=shutil.ignore_patterns(files.LOCK))

    fastfedpg.run(config, "running", report=report)
    Path("running").rename(WHOLE)
    return Path(out)


def newest(out: Path | str) -> Path:
    return checkpoints.present(Path(out))[0]


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, (path, old)
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_the_copy_that_stands_for_a_killed_run_is_one(never_stopped):
    out = killed()
    assert {p.name for p in out.iterdir()} == {"config.toml", "checkpoints"}
    assert rounds_kept(out) == [8, 6]
    assert run_folder.state(out) == "interrupted"


# Killed by the system


KILLS = 20
STARTING = 4  # of them fall into the first seconds, in which Python and JAX are imported and compiled programs loaded
AHEAD = 3  # the others wait for 1 to this many new checkpoints first
JITTER = 0.04  # and then for up to so many seconds: a few checkpoints' time, so that it ends anywhere inside of one
LONG = replace(CONFIG, rounds=400, metrics_every=7, checkpoint_rounds=1)  # 16 times 3 and what 40 ms hold: 13 at most
LIMIT = 60.0  # seconds for one child process; it needs about three


def children(tmp_path: Path) -> dict[str, str]:
    """Children share compiled programs, which saves half of their time; the numbers don't know."""
    shared = {
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    return {**os.environ, **shared, "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1"}


@contextmanager
def child(*words, environment=None):
    """`fastfedpg …` as a process of its own, with its stderr in a file; it does not outlive the test."""
    with Path("stderr").open("w") as said:
        process = subprocess.Popen([SCRIPT, *words], stdout=subprocess.DEVNULL, stderr=said, env=environment)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def until(condition, process: subprocess.Popen) -> None:
    """Wait for something that a running child does."""
    end = time.monotonic() + LIMIT
    while not condition():
        assert process.poll() is None, "the process ended before: " + Path("stderr").read_text()
        assert time.monotonic() < end, "the process takes too long: " + Path("stderr").read_text()
        time.sleep(0.001)


def last_round(out: str = "out") -> int:
    return max(rounds_kept(out), default=0)


def test_killed_at_20_random_moments_it_ends_in_the_same_bytes(tmp_path):
    """Each start but the first goes on from the newest checkpoint of the one before, which was whole at every kill."""
    environment, moments = children(tmp_path), random.Random(0)
    start = ["run", *flags(LONG), "--out", "out"]
    with child("run", *flags(replace(LONG, checkpoint_rounds=None)), "--out", "whole", environment=environment) as p:
        assert p.wait(LIMIT) == 0
    codes, reached, from_round, refused = [], [], [], 0
    for k in range(KILLS):
        before = last_round()
        with child(*start, environment=environment) as process:
            if k % (KILLS // STARTING) == 0:
                time.sleep(moments.uniform(0.2, 2.2) if k else 0.2)  # the first comes before there is a folder
            else:
                wanted = before + moments.randint(1, AHEAD)
                until(lambda: last_round() >= wanted, process)
                time.sleep(moments.uniform(0, JITTER))
            process.send_signal(signal.SIGKILL)
            codes.append(process.wait(LIMIT))
        said = Path("stderr").read_text()
        assert "refused" not in said, said
        if start[0] == "resume" and (found := re.search(r"note: from round (\d+) of 400", said)):
            from_round.append(int(found[1]))
            assert from_round[-1] == before, "the newest of all"
        reached.append(last_round())
        if Path("out/config.toml").exists():
            start = ["resume", "out"]
        else:
            assert command("resume", "out") == 2, "there is no run yet"
            refused += 1
            start = ["run", *flags(LONG), "--out", "out", "--overwrite"]
    assert codes == KILLS * [-signal.SIGKILL], "every one was at work when it was killed"
    assert refused >= 1
    assert reached == sorted(reached), "no round that was kept is lost"
    assert len(set(reached)) >= KILLS - STARTING
    assert len(from_round) >= KILLS - STARTING - 2, "all but the first, and perhaps those killed while starting"
    assert reached[-1] < LONG.rounds
    with child("resume", "out", environment=environment) as process:
        assert process.wait(LIMIT) == 0, Path("stderr").read_text()
    assert f"from round {reached[-1]} of 400" in Path("stderr").read_text()
    assert numbers("out") == numbers("whole")
    assert {p.name for p in Path("out").iterdir()} == FILES


def test_between_any_two_system_calls_a_kill_does_no_harm(monkeypatch, never_stopped, capsys):
    """The folder is copied before and after each call that changes or syncs a name: every copy is a killed run.

    What a kill leaves of a file that is being written is still under another name then, and never read.
    """
    copies = 0

    def copying(name: str) -> None:
        real = getattr(os, name)

        def copy() -> None:
            nonlocal copies
            if Path("running/config.toml").exists():
                with monkeypatch.context() as plain:
                    for other, function in originals.items():
                        plain.setattr(os, other, function)
                    shutil.copytree("running", f"copy-{copies}", ignore=shutil.ignore_patterns(files.LOCK))
                copies += 1

        def called(*args, **more):
            copy()
            result = real(*args, **more)
            copy()
            return result

        patch.setattr(os, name, called)

    originals = {name: getattr(os, name) for name in ("fsync", "rename", "replace", "unlink", "rmdir", "mkdir")}
    with monkeypatch.context() as patch:
        for name in originals:
            copying(name)
        fastfedpg.run(replace(CONFIG, checkpoint_rounds=3), "running")
    assert numbers("running") == never_stopped
    seen = set()
    for k in range(copies):
        out = Path(f"copy-{k}")
        there = sorted(out.rglob("*"))
        content = tuple((str(p.relative_to(out)), p.read_bytes() if p.is_file() else None) for p in there)
        if content in seen:
            continue
        seen.add(content)
        assert command("resume", out) == 0
        assert numbers(out) == never_stopped, content
        assert state(out) == "finished"
    assert "refused" not in capsys.readouterr().err, "what has a checkpoint's name is whole"
    assert len(seen) > 20, "three checkpoints of about five steps, a third one's removal, four files at the end"


def test_what_a_killed_process_was_writing_is_cleared_away(never_stopped, capsys):
    out = killed()
    (out / f"{files.PART}1-metrics.csv").write_text("seed,rou")
    (out / f"checkpoints/{files.PART}000000009").mkdir()
    (out / f"checkpoints/{files.PART}000000009/{checkpoints.ARRAYS}").write_bytes(b"half")
    assert command("resume", out) == 0
    assert "from round 8 of 11" in capsys.readouterr().err
    assert numbers(out) == never_stopped
    assert {p.name for p in out.iterdir()} == FILES


def test_a_kill_before_there_is_a_configuration_leaves_no_run(capsys):
    Path("out").mkdir()
    Path("out", files.LOCK).touch()
    Path("out", f"{files.PART}1-config.toml").write_text("problem = ")
    assert command("resume", "out") == 2
    assert "out: no run to go on with: there is no config.toml in it" in capsys.readouterr().err
    assert command("run", *flags(CONFIG), "--out", "out", "--overwrite") == 0
    assert {p.name for p in Path("out").iterdir()} == FILES


def test_a_folder_belongs_to_one_process_until_that_is_killed(tmp_path, capsys):
    long = replace(OFTEN, rounds=10**6)
    with child("run", *flags(long), "--out", "out", environment=children(tmp_path)) as process:
        until(lambda: last_round() > 0, process)
        assert command("resume", "out") == 2
        assert "out: another process is at work in this folder" in capsys.readouterr().err
        assert command("run", *flags(CONFIG), "--out", "out", "--overwrite") == 2
        assert "out: another process is at work in this folder" in capsys.readouterr().err
        assert run_folder.state(Path("out")) == "running"
        assert process.poll() is None, "and that one heard nothing of it"
        before = last_round()
        until(lambda: last_round() > before, process)
        process.kill()
        process.wait()
    assert run_folder.state(Path("out")) == "interrupted"
    with files.held(Path("out")):
        pass


# Stopped in any round, by any algorithm


TABULAR = ref.small_problem(N=3, S=3, A=2, seed=7)
PROBLEM = with_oracle(TABULAR, "gpomdp", B=2, K=3)
SCHEDULE = Schedule(7, seeds=2, metrics_every=3, participants=2, first_seed=4)
RUNTIMES = {"loop": loop_records, "simulate": simulate_records}
BOTH = pytest.mark.parametrize("runtime", RUNTIMES)
SETTINGS = Config(eta=0.3, H=2)
WHO = checkpoints.identity(SETTINGS, TABULAR, None, VERSION)


@cache
def algorithm(name: str):
    return algorithm_of(replace(SETTINGS, algorithm=name))


@cache
def tracking(impl: str) -> Problem:
    """Each agent is drawn to a point of its own; the oracle keeps a random key, a running mean and a count."""

    def oracle(target) -> Oracle:
        def begin(key):
            bits = jax.random.bits(key, jax.random.key_data(jax.random.key(0, impl=impl)).shape, jnp.uint32)
            return {"key": jax.random.wrap_key_data(bits, impl=impl), "mean": jnp.zeros(3), "n": jnp.int32(0)}

        def sample(theta, own, key, B=None):
            new, used = jax.random.split(own["key"])
            noise = jax.random.normal(used, (3,))
            n = own["n"] + 1
            return noise, {"key": new, "mean": own["mean"] + (theta - own["mean"]) / n, "n": n}

        return Oracle(begin, sample, lambda theta, own, noise: theta - target + noise + own["mean"], lambda batch: 1)

    def evaluate(thetas) -> Evaluation:
        x = np.asarray(thetas).sum(axis=-1)
        return Evaluation(x, x, x**2, np.stack([x, -x, 2 * x], axis=-1))

    return Problem(np.eye(3), np.arange(3, dtype=np.int32), oracle, evaluate, np.zeros(3))


def every_standing(records, problem, method, schedule=SCHEDULE):
    """The records of a run never stopped, and where it stood after each round."""
    stood = []
    noted = list(records(problem, method, schedule, lambda done, standing: stood.append(standing()), pause=1))
    assert [s.round for s in stood] == list(range(1, schedule.rounds + 1))
    return noted, stood


def taken_up(records, problem, method, noted, standing, schedule=SCHEDULE):
    """All records of a run that was put away at a standing and went on from the file."""
    sizes = message_sizes(problem, method, schedule.starts(problem)[0])
    before = [r for r in noted if r.round <= standing.recorded]
    folder = checkpoints.write(Path(), WHO, standing, collect(before, sizes), 1.5)
    found = checkpoints.read(folder, WHO, shapes(problem, method, schedule))
    assert found.seconds == 1.5
    assert bits(found.result) == bits(collect(before, sizes))
    return before + list(records(problem, method, schedule, start=found.standing))


def bits(tree) -> list[bytes]:
    return [np.asarray(x).tobytes() for x in jax.tree.leaves(asdict(tree) if hasattr(tree, "metrics") else tree)]


@BOTH
@pytest.mark.parametrize("name", ALGORITHMS)
def test_put_away_after_any_round_it_goes_on_as_if_nothing_had_been(name, runtime):
    records, method = RUNTIMES[runtime], algorithm(name)
    noted, stood = every_standing(records, PROBLEM, method)
    assert [r.round for r in noted] == [0, 3, 6, 7]
    for standing in stood:
        assert bits(taken_up(records, PROBLEM, method, noted, standing)) == bits(noted), standing.round


@BOTH
@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
def test_what_an_oracle_keeps_for_itself_is_put_away_with_it(impl, runtime):
    records, problem, method = RUNTIMES[runtime], tracking(impl), algorithm("fedavg_pg")
    noted, stood = every_standing(records, problem, method)
    for standing in stood:
        assert bits(taken_up(records, problem, method, noted, standing)) == bits(noted), standing.round


@BOTH
def test_another_own_would_give_other_numbers(runtime):
    """So the test above says something: from the second round's oracles, the third goes elsewhere."""
    records, problem, method = RUNTIMES[runtime], tracking("rbg"), algorithm("fedavg_pg")
    noted, stood = every_standing(records, problem, method)
    for name in ("key", "mean", "n"):
        wrong = stood[2]._replace(own={**stood[2].own, name: stood[1].own[name]})
        assert bits(list(records(problem, method, SCHEDULE, start=wrong))) != bits(noted[1:]), name


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize(("first", "then"), [("simulate", "loop"), ("loop", "simulate")])
def test_one_runtime_goes_on_where_another_stood(name, first, then):
    """Sums are added in another order there, so to rounding only: 1e-9 of numbers of order 1."""
    method = algorithm(name)
    noted, stood = every_standing(RUNTIMES[first], PROBLEM, method)
    for standing in (stood[1], stood[4]):
        went_on = taken_up(RUNTIMES[then], PROBLEM, method, noted, standing)
        for a, b in zip(jax.tree.leaves(went_on), jax.tree.leaves(noted), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-9)


@BOTH
def test_single_precision_is_put_away_as_such(runtime):
    records, method = RUNTIMES[runtime], algorithm("scaffold_pg")
    schedule = replace(SCHEDULE, theta0=np.zeros(6, np.float32))
    noted, stood = every_standing(records, PROBLEM, method, schedule)
    assert noted[-1].theta.dtype == np.float32
    assert bits(taken_up(records, PROBLEM, method, noted, stood[4], schedule)) == bits(noted)


# Interrupted by a person


@BOTH
@pytest.mark.parametrize("every", [1, None], ids=["before", "by"])
@pytest.mark.parametrize("at", [1, 4, 6, 11])
def test_after_ctrl_c_it_ends_as_if_never_stopped(at, every, runtime, never_stopped, capsys):
    """Put away before or by the interruption, whose own row in metrics.csv is no part of the run and gone at the end.

    Without checkpoints to make, the simulation may come up for air a few rounds later.
    """
    if runtime == "loop":
        fastfedpg.run(replace(CONFIG, runtime="loop"), "plain")
        never_stopped = numbers("plain")

    def report(done: int, record=None) -> None:
        if done >= at:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(Interrupted, match=r"after round \d+ of 11"):
        fastfedpg.run(replace(CONFIG, runtime=runtime, checkpoint_rounds=every), "out", report=report)
    reached = last_round()
    assert reached == at or (reached > at and every is None)
    assert state("out") == "interrupted"
    assert recorded("out") == sorted({0, *(r for r in (4, 8) if r <= reached), reached})
    assert command("resume", "out") == 0
    assert f"from round {reached} of 11" in capsys.readouterr().err
    assert numbers("out") == never_stopped
    assert state("out") == "finished"


def test_interrupted_again_and_again(never_stopped):
    def report(done: int, record=None) -> None:
        if done > begun:
            signal.raise_signal(signal.SIGINT)

    begun = 0
    with pytest.raises(Interrupted):
        fastfedpg.run(replace(CONFIG, checkpoint_rounds=1), "out", report=report)
    for begun in range(1, ROUNDS):
        assert last_round() == begun, "one round at a time"
        with pytest.raises(Interrupted):
            fastfedpg.experiment.resume("out", report)
    begun = ROUNDS
    fastfedpg.experiment.resume("out", report)
    assert numbers("out") == never_stopped


# When they are written, and how many are kept


@pytest.fixture
def written(monkeypatch) -> list[int]:
    """The rounds after which a checkpoint was written."""
    real, noted = checkpoints.write, []

    def write(out, who, standing, result, seconds):
        noted.append(standing.round)
        return real(out, who, standing, result, seconds)

    monkeypatch.setattr(checkpoints, "write", write)
    return noted


@BOTH
@pytest.mark.parametrize(("every", "at"), [(1, list(range(1, 12))), (3, [3, 6, 9]), (11, [11]), (12, [])])
def test_checkpoint_rounds_says_after_which_rounds(every, at, runtime, written):
    fastfedpg.run(replace(CONFIG, checkpoint_rounds=every, runtime=runtime), "out")
    assert written == at


def test_a_run_that_goes_on_keeps_to_the_same_rounds(written):
    out = killed(at=3, config=replace(CONFIG, checkpoint_rounds=3))
    written.clear()
    fastfedpg.experiment.resume(out)
    assert written == [6, 9]


def test_checkpoint_seconds_0_is_after_every_tick(written, monkeypatch):
    """But for the limit on their share of the time, which is lifted here; the loop ticks after every round."""
    monkeypatch.setattr(checkpoints, "LARGEST_SHARE", np.inf)
    fastfedpg.run(replace(CONFIG, checkpoint_seconds=0.0, runtime="loop"), "out")
    assert written == list(range(1, ROUNDS + 1))


def test_a_short_run_writes_none(written):
    fastfedpg.run(CONFIG, "out")
    assert written == []


def test_without_a_folder_there_are_none(written):
    fastfedpg.run(replace(CONFIG, checkpoint_rounds=1, checkpoint_seconds=0.0))
    assert written == []


def test_when_the_next_is_due(monkeypatch):
    """30 s after the last; but where writing took 3 s, so that they have a twentieth of the time, 60 s after it."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(checkpoints, "time", SimpleNamespace(monotonic=lambda: clock.now))
    keeper = Keeper(Config(checkpoint_seconds=30.0), 0)
    due = {}
    for clock.now in (29.9, 30.0):
        due[clock.now] = keeper.due(1)
    clock.now = 33.0
    keeper.kept(1, began=30.0)
    for clock.now in (92.9, 93.0):
        due[clock.now] = keeper.due(2)
    assert due == {29.9: False, 30.0: True, 92.9: False, 93.0: True}
    keeper = Keeper(Config(checkpoint_seconds=30.0, checkpoint_rounds=10), 25)
    assert [keeper.due(done) for done in (29, 30)] == [False, True]
    keeper.kept(30, began=0.0)
    assert [keeper.due(done) for done in (39, 40)] == [False, True], "whatever the last one took"


def test_two_are_kept_while_it_runs_and_none_afterwards():
    seen = []
    fastfedpg.run(OFTEN, "out", report=lambda done, record=None: seen.append((done, rounds_kept("out"))))
    assert dict(seen)[2] == [2]
    assert dict(seen)[4] == [4, 2]
    assert dict(seen)[10] == [10, 8]
    assert dict(seen)[11] == [10, 8]
    assert not Path("out/checkpoints").exists()


def test_rounds_are_counted_beyond_nine_digits():
    """Folders are named by nine digits; rounds may have ten."""
    _, stood = every_standing(simulate_records, PROBLEM, algorithm("fedavg_pg"))
    for number in (10**9 - 2, 10**9 - 1, 10**9, 10**9 + 1):
        checkpoints.write(Path(), WHO, stood[0]._replace(round=number, recorded=-1), None, 0.0)
    assert rounds_kept(".") == [10**9 + 1, 10**9]


# What is refused


def a_flipped_bit(folder: Path) -> None:
    data = bytearray((folder / checkpoints.ARRAYS).read_bytes())
    data[-1] ^= 1
    (folder / checkpoints.ARRAYS).write_bytes(data)


def half_a_file(folder: Path) -> None:
    data = (folder / checkpoints.ARRAYS).read_bytes()
    (folder / checkpoints.ARRAYS).write_bytes(data[: len(data) // 2])


def in_words(old: str, new: str):
    return lambda folder: edit(folder / checkpoints.ABOUT, old, new)


def without(name: str):
    return lambda folder: (folder / name).unlink()


def with_words(data: bytes):
    return lambda folder: (folder / checkpoints.ABOUT).write_bytes(data)


OTHER_FORMAT = in_words(f"format = {FORMAT}\n", f"format = {FORMAT + 1}\n")
OTHER_VERSION = in_words(run_folder.versions(), VERSION)
REFUSED = {
    "a flipped bit": (a_flipped_bit, "damaged: state.safetensors is not what was written"),
    "half a file": (half_a_file, "damaged: state.safetensors is not what was written"),
    "no arrays": (without(checkpoints.ARRAYS), "damaged: No such file or directory"),
    "no words": (without(checkpoints.ABOUT), "damaged: checkpoint.toml can't be read (No such file or directory)"),
    "garbage": (with_words(b"\xff\x00"), "damaged: checkpoint.toml can't be read ("),
    "nothing said": (with_words(b""), f"of another version: its format is None, this is {FORMAT}"),
    "another format": (OTHER_FORMAT, f"of another version: its format is {FORMAT + 1}, this is {FORMAT}"),
    "another version": (OTHER_VERSION, f"of another version: made by {VERSION}; this is {run_folder.versions()}"),
    "another step": (
        in_words("\neta = 0.5", "\neta = 0.25"),
        "of another configuration: eta is 0.25 there and 0.5 here",
    ),
    "another seed": (in_words("\nseeds = 2", "\nseeds = 3"), "of another configuration: seeds is 3 there and 2 here"),
    "no such setting": (in_words("\nseeds = 2", "\nseed = 2"), "damaged: "),
    "another round": (in_words("\nround = 8", "\nround = 9"), "damaged: "),
    "another record": (in_words("\nrecorded = 4", "\nrecorded = 8"), "damaged: "),
    "no round": (in_words("\nround = 8", "\nround = 'x'"), "damaged: "),
    "another column": (in_words('"gap"', '"gab"'), "damaged: "),
}


@pytest.mark.parametrize("mistake", REFUSED)
def test_one_that_cannot_be_used_is_refused_by_name_and_the_previous_one_used(mistake, never_stopped, capsys):
    make, says = REFUSED[mistake]
    out = killed()
    make(newest(out))
    capsys.readouterr()
    assert command("resume", out) == 0
    said = capsys.readouterr().err
    assert f"note: out/checkpoints/000000008: refused: {says}" in said
    assert "000000006: refused" not in said
    assert "note: from round 6 of 11" in said
    assert numbers(out) == never_stopped


def test_where_both_are_refused_it_starts_again_and_says_so(never_stopped, capsys):
    out = killed()
    for folder in checkpoints.present(out):
        a_flipped_bit(folder)
    assert command("resume", out) == 0
    said = capsys.readouterr().err
    for words in ("000000008: refused: damaged", "000000006: refused: damaged", "note: from the beginning"):
        assert words in said
    assert "note: no checkpoint can be used: the run starts again from its beginning" in said
    assert numbers(out) == never_stopped


def test_refused_ones_make_room_for_those_of_the_run_that_starts_again(never_stopped, capsys):
    """They are of later rounds than the new ones, which must not be taken for the older ones and removed."""
    out = killed()
    for folder in checkpoints.present(out):
        OTHER_VERSION(folder)
    seen = {}
    with pytest.warns(UserWarning, match="refused: of another version|no checkpoint can be used"):
        fastfedpg.experiment.resume(out, lambda done, record=None: seen.setdefault(done, rounds_kept(out)))
    assert 2 in seen[2]
    assert seen[4] == [4, 2]
    assert numbers(out) == never_stopped


def test_a_damaged_one_is_not_kept_as_the_previous_one(capsys):
    out = killed(config=replace(CONFIG, checkpoint_rounds=4), at=8)
    assert rounds_kept(out) == [8, 4]
    a_flipped_bit(newest(out))
    edit(out / "config.toml", "checkpoint_rounds = 4", "checkpoint_rounds = 3")
    seen = {}
    with pytest.warns(UserWarning, match="refused: damaged"):
        fastfedpg.experiment.resume(out, lambda done, record=None: seen.setdefault(done, rounds_kept(out)))
    assert seen[6] == [6, 4], "two that can be used"


def test_an_edited_configuration_is_another_run(capsys):
    out = killed()
    edit(out / "config.toml", "eta = 0.5", "eta = 0.25")
    assert command("resume", out) == 0
    said = capsys.readouterr().err
    for number in (8, 6):
        assert f"00000000{number}: refused: of another configuration: eta is 0.5 there and 0.25 here" in said
    assert "note: no checkpoint can be used: the run starts again from its beginning" in said
    fastfedpg.run(replace(CONFIG, eta=0.25), "other")
    assert numbers(out) == numbers("other")


def test_how_often_checkpoints_are_written_may_be_edited(never_stopped, capsys):
    out = killed()
    edit(out / "config.toml", "checkpoint_rounds = 2", "checkpoint_rounds = 5")
    edit(out / "config.toml", "checkpoint_seconds = 30.0", "checkpoint_seconds = 7.0")
    assert command("resume", out) == 0
    assert "note: from round 8 of 11" in capsys.readouterr().err
    assert numbers(out) == never_stopped


def killed_with_files() -> Path:
    """A run of a problem and a start from files, each a few numbers, killed after the third of four rounds."""
    two = ref.small_problem(N=2, S=2, A=2, seed=3)
    np.savez("mdp.npz", P=two.P, reward=two.reward, rho=two.rho, gamma=two.gamma)
    np.savez("start.npz", theta=np.zeros((2, 2)))
    files_too = Config("mdp.npz", theta0="start.npz", algorithm="centralised_pg", rounds=4, checkpoint_rounds=1)
    return killed(at=3, config=files_too)


def test_a_run_from_files_goes_on_in_its_own_folder(capsys):
    out = killed_with_files()
    for name in ("mdp.npz", "start.npz"):
        Path(name).unlink()
    out.rename("moved")
    assert command("resume", "moved") == 0
    assert "note: from round 3 of 4" in capsys.readouterr().err
    assert numbers("moved") == numbers(WHOLE)


@pytest.mark.parametrize("changed", ["problem.npz", "theta0.npz"])
def test_another_problem_or_start_is_another_run(changed, capsys):
    out = killed_with_files()
    with np.load(out / changed) as file:
        arrays = dict(file)
    for name in {"reward", "theta"} & {*arrays}:
        arrays[name] = (arrays[name] + 0.5) / 2
        arrays[name][..., 0] = 0.75
    np.savez(out / changed, **arrays)
    assert command("resume", out) == 0
    said = capsys.readouterr().err
    why = "of another configuration: the problem's arrays or theta0 have changed"
    for number in (3, 2):
        assert f"note: out/checkpoints/00000000{number}: refused: {why}" in said
    assert "note: from the beginning" in said
    assert recorded(out) == [0, 1, 2, 3, 4]
    first = [np.load(Path(folder) / "agents.npz")["returns"][0, 0] for folder in (out, WHOLE)]
    assert not np.allclose(*first), "already the start is that of the files as they are now"


def test_arrays_of_another_form_are_refused():
    """The words fit, the sum over the file does too; what is in it is of another algorithm."""
    _, stood = every_standing(simulate_records, PROBLEM, algorithm("fedavg_pg"))
    folder = checkpoints.write(Path(), WHO, stood[0]._replace(recorded=-1), None, 0.0)
    with pytest.raises(checkpoints.Refused, match="damaged"):
        checkpoints.read(folder, WHO, shapes(PROBLEM, algorithm("scaffold_pg"), SCHEDULE))
    with pytest.raises(checkpoints.Refused, match=r"damaged: .* is float64\(2, .* and must be float64\(3, "):
        checkpoints.read(folder, WHO, shapes(PROBLEM, algorithm("fedavg_pg"), replace(SCHEDULE, seeds=3)))


# Whole or not at all, on a disk that is full or read-only


def no_space(*args, **more):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@contextmanager
def files_of(size: int):
    """The system itself refuses to write more than this into a file."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def failing(monkeypatch, where: str):
    with monkeypatch.context() as patch:
        if where == "file":
            with files_of(100):  # bytes, fewer than any of the two files has
                yield
        else:
            patch.setattr(os, where, no_space)
            yield


FULL = pytest.mark.parametrize("where", ["mkdir", "file", "fsync", "rename"])


@FULL
def test_a_full_disk_costs_a_checkpoint_and_not_the_run(where, monkeypatch, never_stopped):
    """At round 6 alone the disk is full: the earlier one stays, nothing half is left, and the run goes on."""
    real, heard, seen = checkpoints.write, [], {}

    def write(out, who, standing, *rest):
        if standing.round != 6:
            return real(out, who, standing, *rest)
        with failing(monkeypatch, where):
            return real(out, who, standing, *rest)

    def report(done: int, record=None) -> None:
        seen.setdefault(done, sorted(p.name for p in Path("out/checkpoints").glob("*")))
        if done == 6:
            planned = run.plan(OFTEN)
            form = shapes(planned.problem, planned.algorithm, planned.schedule)
            assert checkpoints.read(newest("out"), run.identity(planned), form).standing.round == 4

    monkeypatch.setattr(checkpoints, "write", write)
    with run.begin(OFTEN, Path("out")) as planned:
        run.execute(planned, Path("out"), report, note=heard.append)
    why = "File too large" if where == "file" else "No space left on device"
    kept = "kept in out: config.toml, a checkpoint after round 4 (fastfedpg resume out goes on from it)"
    assert heard == [f"no checkpoint after round 6: {why}; {kept}"]
    assert seen[6] == ["000000002", "000000004"]
    assert seen[8] == ["000000004", "000000008"]
    assert numbers("out") == never_stopped


def test_the_command_line_says_that_a_checkpoint_failed(monkeypatch, capsys):
    monkeypatch.setattr(checkpoints, "sync", no_space)
    assert command("run", *flags(replace(CONFIG, checkpoint_rounds=6)), "--out", "out") == 0
    assert (
        "note: no checkpoint after round 6: No space left on device; kept in out: config.toml\n"
        in capsys.readouterr().err
    )


def test_files_are_on_disk_before_they_take_their_name(monkeypatch):
    """Both files and the list of their names before the rename, and the list that it is in after."""
    calls = []
    fsync, rename, move = os.fsync, os.rename, os.replace

    def name(path) -> str:
        return re.sub(
            rf"{re.escape(files.PART)}\d+-", files.PART, str(Path(path).resolve().relative_to(Path().resolve()))
        )

    monkeypatch.setattr(os, "fsync", lambda n: (calls.append(("sync", name(f"/proc/self/fd/{n}"))), fsync(n))[1])
    monkeypatch.setattr(os, "rename", lambda a, b: (calls.append(("name", name(b))), rename(a, b))[1])
    monkeypatch.setattr(os, "replace", lambda a, b: (calls.append(("name", name(b))), move(a, b))[1])
    fastfedpg.run(replace(CONFIG, checkpoint_rounds=6), "out")
    part = "out/checkpoints/.part-000000006"
    expected = [
        ("sync", "out/.part-config.toml"),
        ("name", "out/config.toml"),
        ("sync", "out"),
        ("sync", "out"),  # with the new folder for checkpoints in it
        ("sync", f"{part}/state.safetensors"),
        ("sync", f"{part}/checkpoint.toml"),
        ("sync", part),
        ("name", "out/checkpoints/000000006"),
        ("sync", "out/checkpoints"),
    ]
    for file in ("results.npz", "final.npz", "agents.npz", "metrics.csv", "summary.json"):
        expected += [("sync", f"out/.part-{file}"), ("name", f"out/{file}"), ("sync", "out")]
    assert calls == expected


def only_for(name: str, function, error: int):
    """The function, that fails where the file of this name is to be put."""

    def called(a, b, *args, **more):
        if Path(b).name == name:
            raise OSError(error, os.strerror(error))
        return function(a, b, *args, **more)

    return called


@pytest.mark.parametrize(
    ("file", "there"),
    [
        ("results.npz", "config.toml"),
        ("final.npz", "config.toml, results.npz"),
        ("metrics.csv", "config.toml, final.npz, agents.npz, results.npz"),
        ("summary.json", "config.toml, metrics.csv, final.npz, agents.npz, results.npz"),
    ],
)
def test_a_disk_that_is_full_at_the_end(file, there, monkeypatch, never_stopped, capsys):
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", only_for(file, os.replace, errno.ENOSPC))
        assert command("run", *flags(OFTEN), "--out", "out") == 1
    said = capsys.readouterr().err
    assert "No space left on device" in said
    kept = f"kept in out: {there}, a checkpoint after round 10 (fastfedpg resume out goes on from it)"
    assert said.splitlines()[-1].endswith(kept)
    assert not list(Path("out").glob(f"{files.PART}*"))
    assert command("resume", "out") == 0
    assert "note: from round 10 of 11" in capsys.readouterr().err
    assert numbers("out") == never_stopped


def test_in_python_a_disk_that_is_full_at_the_end_is_no_mistake_of_input(monkeypatch):
    """It must not say that nothing was run."""
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", only_for("metrics.csv", os.replace, errno.ENOSPC))
        with pytest.raises(OSError, match="No space left on device"):
            fastfedpg.run(OFTEN, "out")
    assert rounds_kept("out") == [10, 8]


def read_only(*args, **more):
    raise OSError(errno.EROFS, os.strerror(errno.EROFS))


def test_a_disk_that_becomes_read_only(monkeypatch, never_stopped, capsys):
    """From round 6 on no name can be made, changed or removed; as root may do all that, the answer is simulated."""
    real = checkpoints.write
    with monkeypatch.context() as patch:

        def write(out, who, standing, *rest):
            if standing.round >= 6:
                for name in ("mkdir", "rename", "replace", "unlink", "rmdir"):
                    patch.setattr(os, name, read_only)
            return real(out, who, standing, *rest)

        patch.setattr(checkpoints, "write", write)
        assert command("run", *flags(OFTEN), "--out", "out") == 1
    said = capsys.readouterr().err
    kept = "kept in out: config.toml, a checkpoint after round 4 (fastfedpg resume out goes on from it)"
    assert f"note: no checkpoint after round 6: Read-only file system; {kept}" in said
    assert "nothing was run" not in said
    assert said.splitlines()[-1].startswith("fastfedpg: failed: ")
    assert said.splitlines()[-1].endswith(kept)
    assert command("resume", "out") == 0, "the disk is in order again"
    assert "note: from round 4 of 11" in capsys.readouterr().err
    assert numbers("out") == never_stopped
    assert {p.name for p in Path("out").iterdir()} == FILES


@pytest.mark.parametrize("error", [errno.EROFS, errno.EACCES, errno.ENOSPC])
def test_a_run_in_a_folder_that_cannot_be_written_to_is_not_taken_up(error, monkeypatch, capsys):
    out, real = killed(), os.open

    def opened(path, how, *rest, **more):
        if how & os.O_CREAT:
            raise OSError(error, os.strerror(error))
        return real(path, how, *rest, **more)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", opened)
        assert command("resume", out) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"fastfedpg: out: {os.strerror(error)}")
    assert rounds_kept(out) == [8, 6]


# Nothing that runs code when it is read


def test_a_checkpoint_is_arrays_and_words():
    folder = newest(killed())
    assert {p.name for p in folder.iterdir()} == {"state.safetensors", "checkpoint.toml"}
    said = tomllib.loads((folder / "checkpoint.toml").read_text(encoding="utf-8"))
    assert (said["round"], said["recorded"], said["versions"]) == (8, 4, run_folder.versions())
    assert said["config"]["eta"] == 0.5
    arrays = load_file(folder / "state.safetensors")
    assert arrays["result['rounds']"].tolist() == [0, 4]
    assert any(x.shape == (2, 4, 5) and np.abs(x).max() > 0 for x in arrays.values()), "the agents' control variates"


def test_no_pickle_anywhere(monkeypatch, never_stopped):
    for path in Path(fastfedpg.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            names += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
            if path.name in ("members.py", "worker.py"):  # a process and those that it started itself
                names = [name for name in names if name not in ("pickle", "cloudpickle")]
            assert not {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"} & {*names}
            if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
                assert isinstance(node.value, ast.Constant), path
                assert node.value.value is False, path

    def refuse(*args, **more):
        raise AssertionError("pickle was used")

    for name in ("dump", "dumps", "load", "loads", "Pickler", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)
    assert command("resume", killed()) == 0
    assert numbers("out") == never_stopped


# What there is to go on with


def contents(out: str = "out") -> dict[str, tuple[bytes, int]]:
    return {str(p): (p.read_bytes(), p.stat().st_mtime_ns) for p in Path(out).rglob("*") if p.is_file()}


def test_a_finished_run_is_left_alone(capsys):
    fastfedpg.run(CONFIG, "out")
    before = contents()
    assert command("resume", "out") == 0
    assert "out: the run has finished; there is nothing to do" in capsys.readouterr().out
    assert contents() == before


def test_a_diverged_run_would_diverge_again(capsys):
    """A first step of 1e308 is beyond float64; the checkpoint would be of a round before."""
    config = Config("compromise", eta=1e308, rounds=4, checkpoint_rounds=1)
    with pytest.raises(Diverged):
        fastfedpg.run(config, "out")
    before = contents()
    assert command("resume", "out") == 2
    said = capsys.readouterr().err
    assert said == "fastfedpg: out: the run diverged, and would again; start a new one, with a smaller eta\n"
    assert contents() == before


@pytest.mark.parametrize("there", ["nothing", "a file", "an empty folder", "another folder"])
def test_where_there_is_no_run(there, capsys):
    if there == "a file":
        Path("out").write_text("not a folder")
    elif there != "nothing":
        Path("out").mkdir()
    if there == "another folder":
        Path("out/thesis.tex").write_text("years of work")
    before = sorted(Path().rglob("*"))
    assert command("resume", "out") == 2
    assert capsys.readouterr().err == "fastfedpg: out: no run to go on with: there is no config.toml in it\n"
    assert sorted(Path().rglob("*")) == before


def test_a_configuration_that_makes_no_sense_is_said_and_nothing_touched(capsys):
    out = killed()
    edit(out / "config.toml", "eta = 0.5", "eta = -0.5")
    before = contents()
    assert command("resume", out) == 2
    assert "eta = -0.5; a step size must be positive" in capsys.readouterr().err
    assert {k: v for k, v in contents().items() if files.LOCK not in k} == before


def test_a_run_that_was_killed_before_its_first_checkpoint_starts_again(never_stopped, capsys):
    out = killed(at=1)
    assert rounds_kept(out) == []
    assert command("resume", out) == 0
    said = capsys.readouterr().err
    assert "note: from the beginning" in said
    assert "no checkpoint can be used" not in said
    assert numbers(out) == never_stopped


def test_a_run_that_failed_can_go_on(never_stopped, monkeypatch, capsys):
    """Whatever it was that ended it, where it stood was put away."""

    def report(done: int, record=None) -> None:
        if done == 6:
            raise MemoryError("all of it")

    with pytest.raises(MemoryError):
        fastfedpg.run(replace(CONFIG, checkpoint_rounds=3), "out", report=report)
    assert state("out") == "failed"
    assert command("resume", "out") == 0
    assert "note: from round 6 of 11" in capsys.readouterr().err
    assert numbers("out") == never_stopped


def test_two_that_begin_at_once_leave_each_other_alone(monkeypatch):
    """The second one looks, and sees no folder, a moment before the first one makes it."""
    real = Path.mkdir

    def late(path, *args, **more):
        monkeypatch.setattr(Path, "mkdir", real)
        first.__enter__()
        return real(path, *args, **more)

    first, second = run.begin(CONFIG, Path("out")), run.begin(CONFIG, Path("out"))
    monkeypatch.setattr(Path, "mkdir", late)
    with pytest.raises(InputError, match="another process is at work"):
        second.__enter__()
    assert Path("out/config.toml").exists(), "the first one's"
    first.__exit__(None, None, None)
