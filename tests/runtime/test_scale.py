"""Many agents: in batches, over devices, over processes; compiled programs that are kept; help that is quick."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import reference as ref
import sharded
from fastfedpg import Config, InputError, fast_fedpg, memory, simulate, with_oracle
from fastfedpg.experiment import plan
from fastfedpg.problems import random
from fastfedpg.runtime import Schedule, fits_in_memory, program, simulate_records
from fastfedpg.runtime.placement import Layout

HERE = Path(__file__).parents[1]
FAST, PLAYED = sharded.METHODS["fast_fedpg"], sharded.PROBLEMS["gpomdp"]


def python(*words, **variables):
    """Start a Python of its own."""
    path = os.pathsep.join([str(HERE.parent / "src"), str(HERE)])
    environment = {**os.environ, "PYTHONPATH": path, "JAX_PLATFORMS": "cpu", **variables}
    words = [sys.executable, *map(str, words)]
    return subprocess.Popen(words, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def ended(process, code=0):
    """What a process said, if it ended well."""
    try:
        out, errors = process.communicate(timeout=600)
    finally:
        process.kill()
    assert process.returncode == code, errors[-3000:]
    return out, errors


@pytest.mark.parametrize(("participants", "batch"), [(None, 4), (9, 3), (None, 1)])
def test_agents_in_batches_give_the_same_bits(participants, batch):
    settings = {"seeds": 2, "metrics_every": 2, "participants": participants}
    one, two = (simulate(PLAYED, FAST, 4, agent_batch=b, **settings) for b in (None, batch))
    sharded.equal(one, two, exactly=True)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"agent_batch": 5}, "agent_batch = 5; it must divide the 16 agents that take part in a round, as 4, 8 would"),
        ({"agent_batch": 2, "participants": 9}, "it must divide the 9 agents that take part in a round, as 1, 3 would"),
        ({"agent_batch": 99}, "as 16 would"),
        ({"agent_batch": 0}, "as 1 would"),
        ({"shards": 17}, "shards = 17; there are only 16 agents to split"),
        ({"shards": 3}, "shards = 3; it must divide the number of agents, 16, as 2, 4 would"),
        ({"shards": 16}, "XLA_FLAGS=--xla_force_host_platform_device_count=16 in the environment"),
        ({"shards": 1, "agent_batch": 3}, "it must divide the 16 agents of each of 1 shards, as 2, 4 would"),
    ],
)
def test_what_does_not_divide_is_refused_before_any_work(settings, message):
    with pytest.raises(InputError, match=message):
        next(simulate_records(PLAYED, FAST, Schedule(1, **settings)))


def working_memory(N, batch, B=8, K=64):
    """Bytes that the compiled rounds of N agents work with, beside what they are given and give back."""
    problem = with_oracle(random(agents=N, S=4, A=3), "gpomdp", B=B, K=K)
    layout, runs = Layout(N, batch), np.zeros(1, np.int32)
    tasks, ids = problem.tasks, problem.ids
    given = (FAST, problem.oracle, layout, tasks, ids, (), runs)
    parts = jax.eval_shape(lambda theta: program.begin(*given, theta), np.zeros((1, 12)))
    return program.advance.lower(*given, parts, 0, 1).compile().memory_analysis().temp_size_in_bytes


def test_memory_for_roll_outs_grows_with_the_batch_and_not_with_the_agents():
    """Of 8 trajectories of 64 steps an agent keeps nothing but sums: 4 N d numbers of 8 bytes are 384 N, plays 2048 N.

    Without batches four times the agents need four times the memory for them.
    """
    few, many = working_memory(256, 64), working_memory(1024, 64)
    assert many - few < 768 * 1024
    whole = working_memory(1024, None)
    assert whole > 2048 * 1024
    assert whole > 2 * many


def test_one_shard_is_no_shard():
    sharded.equal(simulate(PLAYED, FAST, 3), simulate(PLAYED, FAST, 3, shards=1), exactly=True)


def test_too_little_memory_is_refused_with_both_numbers(monkeypatch):
    """16 agents, d = 12: the carry is 2 + 2 x 16 vectors of 96 bytes, thrice; a batch of trajectories 4 x 6 x 4."""
    need = fits_in_memory.needed(PLAYED, FAST, Schedule(1))
    assert need == (3 * 34 * 96 + 16 * 96 + 2 * 16 * 96, 16 * 6 * 96)
    assert fits_in_memory.needed(PLAYED, FAST, Schedule(1, agent_batch=2)).played == need.played // 8
    assert fits_in_memory.needed(PLAYED, FAST, Schedule(1, seeds=3)).played == 3 * need.played
    monkeypatch.setattr(memory, "available", lambda: sum(need))
    simulate(PLAYED, FAST, 1)
    monkeypatch.setattr(memory, "available", lambda: 10_000)
    with pytest.raises(InputError, match=r"16 agents and 1 seed need about 0 MB, .* --agent-batch .now all at once."):
        simulate(PLAYED, FAST, 1)
    with pytest.raises(InputError, match=r"a page needs 1 MB of memory, and 0 MB are available; write less"):
        memory.check_fits("a page", 2**20, "write less")
    with pytest.raises(InputError, match="fewer agents or seeds would help"):
        plan(Config(problem="random", agents=50, oracle="gpomdp"))


def test_available_memory_is_the_machines_or_less():
    assert 2**20 < memory.available() <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def test_a_control_group_leaves_its_limit_less_what_is_used_and_cannot_be_dropped(tmp_path):
    """The tightest of the groups above the process, here the middle one."""
    for name, limit in (("a", "max"), ("a/b", "1000"), ("a/b/c", "5000")):
        group = tmp_path / "groups" / name
        group.mkdir(parents=True)
        for file, text in (("max", limit), ("current", "700"), ("stat", "anon 1\ninactive_file 50\n")):
            (group / f"memory.{file}").write_text(text)
    (tmp_path / "own").write_text("0::/a/b/c\n")
    assert sorted(memory._left_by_groups(tmp_path / "groups", tmp_path / "own")) == [350, 4350, float("inf")]
    assert memory._left_by_groups(tmp_path, tmp_path / "nothing") == [float("inf")]


@pytest.mark.devices
def test_eight_devices_give_the_numbers_of_one_and_only_combine_communicates():
    """In `make test`: test_one_shard_is_no_shard and batches of agents, which give the same bits."""
    flags = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count=8"
    ended(python(HERE / "sharded.py", "devices", XLA_FLAGS=flags))


@pytest.mark.devices
def test_two_processes_give_the_numbers_of_one(tmp_path):
    """In `make test`: test_one_shard_is_no_shard."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    both = [python(HERE / "sharded.py", k, port, tmp_path / f"{k}.npz") for k in range(2)]
    try:
        for process in both:
            ended(process)
    finally:
        for process in both:
            process.kill()
    for name in ("scaffold_pg", "independent_pg"):
        stood = []
        records = simulate_records(
            PLAYED, sharded.METHODS[name], Schedule(20, 2, 10), lambda done, now: stood.append(now()), pause=10
        )
        *_, last = records
        kept = np.concatenate([np.ravel(x) for x in jax.tree.leaves(stood[-1][2:6])])
        for k in range(2):
            found = np.load(tmp_path / f"{k}.npz")
            np.testing.assert_allclose(found[name], last.theta, atol=1e-9, rtol=0)
            np.testing.assert_allclose(found[f"{name} memory"], kept, atol=1e-9, rtol=0)


LISTENING = """
import collections, sys
from fastfedpg import entry
entry.keep_programs()
import jax
seen = collections.Counter()
jax.monitoring.register_event_listener(lambda name, **_: seen.update([name.rsplit("/", 1)[1]]))
sys.argv = ["fastfedpg", "run", "--problem", "compromise", "--rounds", "2", "--out", sys.argv[1]]
try:
    entry.main()
except SystemExit as end:
    assert end.code == 0
print(seen["cache_hits"], seen["cache_misses"])
"""


def listened(folder, name):
    """A run with the programs of a folder: what it found there and what it missed, and its stderr."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("JAX_COMPILATION_CACHE_DIR")
        out, err = ended(python("-c", LISTENING, folder / name, XDG_CACHE_HOME=str(folder / "cache")))
    return tuple(map(int, out.splitlines()[-1].split())), err


@pytest.fixture
def first_run(tmp_path):
    return listened(tmp_path, "first")


def test_the_second_run_compiles_nothing(tmp_path, first_run):
    (hits, misses), _ = first_run
    again, said = listened(tmp_path, "second")
    assert hits == 0 < misses
    assert again == (misses, 0)
    assert "cache" not in said


@pytest.mark.parametrize("cache", ["a file", "not writable"])
def test_a_cache_folder_that_cannot_be_used_is_no_error(cache, tmp_path, monkeypatch):
    from fastfedpg import entry

    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    if cache == "a file":
        (tmp_path / "fastfedpg").write_text("")
    else:
        monkeypatch.setattr(os, "access", lambda *_: False)
    entry.keep_programs()
    assert "JAX_COMPILATION_CACHE_DIR" not in os.environ


def test_the_users_own_cache_folder_wins_and_old_programs_go(tmp_path, monkeypatch):
    from fastfedpg import entry

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "")
    entry.keep_programs()
    assert (os.environ["JAX_COMPILATION_CACHE_DIR"], [*tmp_path.iterdir()]) == ("", [])
    folder = tmp_path / "fastfedpg" / "programs"
    folder.mkdir(parents=True)
    for k in range(4):
        (folder / f"{k}").write_bytes(bytes(10))
        os.utime(folder / f"{k}", (k, k))
    monkeypatch.setattr(entry, "CACHE", 25)
    for name in ("JAX_COMPILATION_CACHE_DIR", *ALSO):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    entry.keep_programs()
    assert sorted(f.name for f in folder.iterdir()) == ["2", "3"]
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == str(folder)


ALSO = ("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES")


@pytest.mark.parametrize("words", [["--help"], ["run", "--help"], ["list", "--help"]], ids=" ".join)
def test_help_imports_neither_jax_nor_matplotlib(words):
    program = "import sys\nfrom fastfedpg import entry\nsys.argv[0] = 'fastfedpg'\ntry:\n    entry.main()\n"
    program += "except SystemExit:\n    print(sorted({'jax', 'matplotlib', 'scipy', 'flwr', 'numpy'} & {*sys.modules}))"
    out, _ = ended(python("-c", program, *words))
    assert "usage: fastfedpg" in out
    assert out.splitlines()[-1] == "[]"


def test_a_task_of_its_own_kernels_is_split_too():
    """Where dynamics differ, tasks are trees of arrays."""
    own = with_oracle(ref.small_problem(N=4, S=3, A=2, seed=1, kernels=True), "reinforce", B=2, K=3)
    one, two, three = (simulate(own, FAST, 2, **s) for s in ({}, {"agent_batch": 2}, {"shards": 1}))
    sharded.equal(one, two, exactly=True)
    sharded.equal(one, three, exactly=True)


def test_a_sweep_is_one_program_however_many_runs_it_has():
    """16 step sizes x 8 seeds are traced and compiled as often as one run, and each run is its own."""

    def swept(etas, seeds):
        made = []
        make = lambda eta: made.append(eta) or fast_fedpg(eta, H=2)
        result = simulate(PLAYED, make, 2, seeds=seeds, sweep=etas, metrics_every=2)
        return len(made), result

    etas = [0.1 * k for k in range(1, 17)]
    (once, one), (times, all_of_them) = swept(etas[4:5], 1), swept(etas, 8)
    assert times == once
    assert all_of_them.theta.shape[:2] == (16, 8)
    np.testing.assert_allclose(all_of_them.theta[4, 0], one.theta[0, 0], atol=1e-14)


def test_programs_are_forgotten_before_there_is_no_room_for_more(monkeypatch):
    """A study compiles hundreds in one process; with all mappings taken the next one is a segmentation fault.

    They are counted every few seconds: in 5 a process compiles at most some hundreds, of dozens of mappings each.
    """
    assert (65_530 - program.MAPPINGS) / program.SECONDS > 9_000
    monkeypatch.setattr(program, "SECONDS", 0)
    simulate(PLAYED, FAST, 1)
    before = program.advance._cache_size()
    assert before > 0
    monkeypatch.setattr(memory, "mappings", lambda: program.MAPPINGS)
    simulate(PLAYED, FAST, 1)
    assert program.advance._cache_size() == before, "there is room"
    monkeypatch.setattr(memory, "mappings", lambda: program.MAPPINGS + 1)
    again = simulate(PLAYED, FAST, 1)
    assert program.advance._cache_size() == 1, "all but the last"
    monkeypatch.undo()
    sharded.equal(again, simulate(PLAYED, FAST, 1), exactly=True)
    assert memory.mappings() > 10
