"""Deployed runs in their folders, the bridge to Flower's apps, and what is imported where."""

import ast
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path

import jax
import numpy as np
import pytest

from commands import command
from fastfedpg import Config, InputError, files, run, simulate
from fastfedpg.errors import Stopped
from fastfedpg.experiment import Interrupted, checkpoints, plan, run_folder
from grid import agents_of, engine_of, grid_of, identity, short_folder
from sites import listening, mode

# isort: split
from fastfedpg.children import family
from fastfedpg.federation import deployment, protocol, site
from fastfedpg.federation.localhost import start_all
from fastfedpg.federation.terms import Address, Deployment, Terms

# Deployed runs, in their folders

CONFIG = Config(
    "compromise", algorithm="scaffold_pg", eta=0.5, H=2, oracle="gpomdp", B=2, K=3, rounds=4, metrics_every=2
)
NUMBERS = ("final.npz", "metrics.csv", "agents.npz")
plan_once = cache(lambda toml: plan(_config(toml)))


def _config(toml):
    import tomllib

    from fastfedpg.experiment.config import from_mapping

    return from_mapping(tomllib.loads(toml))


@pytest.fixture
def planned_once(monkeypatch):
    """Runs of one configuration share what was compiled."""

    def remembered(config, like=None):
        if config.theta0 is not None:
            return plan(config)
        plain = replace(config, checkpoint_rounds=None)
        return replace(plan_once(plain.to_toml()), config=config)

    monkeypatch.setattr(sys.modules["fastfedpg.experiment.recorded_run"], "plan", remembered)


def sites(config, folder, **other):
    """The agents of a configuration, as `site.build` makes them, but with one oracle for all."""
    known = plan_once(replace(config, theta0=None).to_toml())
    said = protocol.declaration(config, known.problem.N, known.problem.theta0, "counter")
    return agents_of(known.problem, known.algorithm, folder, known.known, said=said, **other)


def deploy(config, out, grid, terms=None, report=lambda done, record=None: None, **other):
    how = Deployment(terms or Terms(), Address(insecure=True))
    with deployment.begin_deployed(config, out, False, how) as (planned, how):
        return deployment.run_deployed(planned, how, out, report, None, print, engine_of(grid), **other)


def go_on(out, grid):
    with deployment.reopen_deployed(out, print) as (planned, how, found):
        return deployment.run_deployed(planned, how, out, lambda done, record=None: None, found, print, engine_of(grid))


def numbers(out):
    return {name: (out / name).read_bytes() for name in NUMBERS}


@pytest.fixture
def whole(tmp_path, planned_once):
    with grid_of(sites(CONFIG, tmp_path / "whole-sites")) as grid:
        deploy(CONFIG, tmp_path / "whole", grid)
    return tmp_path / "whole"


def test_a_deployed_run_leaves_the_files_of_a_simulated_one(whole, tmp_path):
    """And the same numbers in them, but for the drift, which is the agents' own affair."""
    run(CONFIG, tmp_path / "simulated")
    simulated = {p.name for p in (tmp_path / "simulated").iterdir()}
    numbers = {"results.npz", "metrics.csv", "final.npz", "agents.npz", "summary.json"}
    assert simulated == {".written", "config.toml", *numbers}
    assert {p.name for p in whole.iterdir()} == simulated | {"federation"}
    rows = [(p / "metrics.csv").read_text().splitlines() for p in (whole, tmp_path / "simulated")]
    assert rows[0][0] == rows[1][0]
    names = rows[0][0].split(",")
    for a, b in zip(*(r[1:] for r in rows), strict=True):
        for name, x, y in zip(names, a.split(","), b.split(","), strict=True):
            assert (
                (x == "")
                if name == "drift"
                else (x == y == "" or abs(float(x) - float(y)) <= 1e-9 * max(1, abs(float(y))))
            ), name
    for name, key in (("final.npz", "theta"), ("agents.npz", "returns")):
        with np.load(whole / name) as a, np.load(tmp_path / "simulated" / name) as b:
            np.testing.assert_allclose(a[key], b[key], atol=1e-9)
    assert json.loads((whole / "summary.json").read_text())["state"] == "finished"
    assert run_folder.is_deployed(whole)
    said = deployment.read(whole)
    assert protocol.is_run(said.run)
    assert mode(whole / "federation") == 0o700
    log = (whole / "federation" / "log.txt").read_text()
    assert "round 4: agents 0, 1 took part (2 of 2)" in log
    assert log.rstrip().endswith("finished after round 4")


@pytest.mark.parametrize("at", range(1, CONFIG.rounds))
@pytest.mark.parametrize("how", [KeyboardInterrupt, RuntimeError])
def test_interrupted_after_any_round_it_ends_in_the_same_bytes(whole, tmp_path, at, how):
    def report(done, record=None):
        if done == at and record is None:
            raise how

    out = tmp_path / "out"
    with grid_of(sites(CONFIG, tmp_path / "sites")) as grid:
        with pytest.raises(Interrupted if how is KeyboardInterrupt else how):
            deploy(CONFIG, out, grid, report=report)
        assert int(checkpoints.present(out)[0].name) == at
        go_on(out, grid)
    assert numbers(out) == numbers(whole)


@pytest.mark.parametrize("at", range(CONFIG.rounds))
def test_killed_between_an_answer_and_the_next_checkpoint_it_ends_in_the_same_bytes(whole, tmp_path, at):
    """The folder is copied before round at + 1, and the agents go on to its end: they are one round ahead."""
    out, running = tmp_path / "out", tmp_path / "running"

    def kill(done, record=None):
        if done == at and (record is not None if at == 0 else record is None) and not out.exists():
            shutil.copytree(running, out, ignore=shutil.ignore_patterns(files.LOCK))
        if done == at + 1 and record is None:
            raise RuntimeError

    with grid_of(sites(CONFIG, tmp_path / "sites")) as grid:
        with pytest.raises(RuntimeError):
            deploy(CONFIG, running, grid, report=kill)
        go_on(out, grid)
    assert numbers(out) == numbers(whole)


def test_no_checkpoint_no_further_round(whole, tmp_path, monkeypatch):
    """The agents are told nothing that the server might forget; once there is room again the run goes on."""

    def full(*arguments):
        if arguments[2].round == 2:
            raise OSError(28, "No space left on device")
        return write(*arguments)

    write = checkpoints.write
    out = tmp_path / "out"
    agents = sites(CONFIG, tmp_path / "sites")
    with grid_of(agents) as grid:
        monkeypatch.setattr(checkpoints, "write", full)
        with pytest.raises(
            Stopped, match="no checkpoint could be written after round 2; the agents wait where they are"
        ):
            deploy(CONFIG, out, grid)
        assert [a.store.page.round for a in agents] == [1, 1], "counted from 0: none has heard of a third round"
        monkeypatch.setattr(checkpoints, "write", write)
        go_on(out, grid)
    assert numbers(out) == numbers(whole)


def test_a_stage_says_how_many_have_answered(tmp_path, planned_once):
    """In each of 4 rounds of scaffold_pg's one exchange: nobody yet, one of two, both."""
    said = []
    with grid_of(sites(CONFIG, tmp_path / "sites")) as grid:
        deploy(CONFIG, tmp_path / "out", grid, stage=said.append)
    assert said == [f"round {t}, local: {k} of 2 answers" for t in (1, 2, 3, 4) for k in (0, 1, 2)]


def test_the_progress_line_of_a_deployed_run_says_its_stage(tmp_path, monkeypatch, capsys):
    """What is starting, then who is waited for; from the first of them on it is not said to be compiling."""

    @contextmanager
    def started(out, planned, how, say):
        say("starting the SuperLink")
        yield Address("127.0.0.1:1", None, True)

    def carry_out(planned, how, out, report, found, note, stage):
        report(0)
        stage("round 1, gradient: 1 of 2 answers")
        note("agent 1 is away")
        stage("round 1, gradient: 2 of 2 answers")
        raise Stopped("enough")

    monkeypatch.setattr(start_all, "start_federation", started)
    monkeypatch.setattr(deployment, "run_deployed", carry_out)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "160")
    assert command("federate", "--problem", "compromise", "--out", tmp_path / "out") == 1
    lines = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", capsys.readouterr().err).replace("\r", "\n").splitlines()
    drawn = [line for line in lines if line.startswith("fast_fedpg on compromise ")]
    for words in ("starting the SuperLink", "agent 1 is away", "round 1, gradient: 2 of 2 answers"):
        assert any(words in line for line in drawn), words
    first = next(i for i, line in enumerate(drawn) if "starting the SuperLink" in line)
    assert not any("compiling" in line for line in drawn[first:])
    assert "note: agent 1 is away" in lines


ENDED_TWICE = """
import os, sys
from pathlib import Path
from fastfedpg.entry import main
from fastfedpg import children
from fastfedpg.federation.localhost import start_all
from fastfedpg.federation.transport import flower_commands

deaf = ["/bin/sh", "-c", 'trap : TERM; while true; do mkdir -p "$0"; sleep 0.1; done']
children.END_SECONDS = 2.0
flower_commands.superlink = lambda *words: [*deaf, "."]
start_all.agent_words = lambda config, agent, *rest: [*deaf, os.environ["TMPDIR"] + "/again"]
sys.argv = ["fastfedpg", "federate", "--problem", "compromise", "--insecure", "--out", "out"]
main()
"""


def test_asked_twice_to_end_it_still_tidies_up(tmp_path):
    """SIGTERM, and again while deaf agents are given their 2 s: no process is left."""
    (tmp_path / "tmp").mkdir()
    environment = {**os.environ, "TMPDIR": str(tmp_path / "tmp")}
    with subprocess.Popen(
        [sys.executable, "-c", ENDED_TWICE], cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr.readline() == "note: starting the SuperLink\n"
        end = time.monotonic() + 20
        while len(everyone := [p.pid for p in family([process.pid])]) < 4 or not [*(tmp_path / "tmp").iterdir()]:
            assert time.monotonic() < end
            time.sleep(0.05)
        time.sleep(0.5)  # until the agents are deaf
        process.send_signal(signal.SIGTERM)
        time.sleep(0.7)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
    assert process.returncode == 130
    left = [pid for pid in everyone if Path(f"/proc/{pid}/exe").exists()]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == []


KILLED = """
import sys, time
from pathlib import Path
from fastfedpg.federation.localhost.processes import Processes

with Processes(Path("logs"), print) as processes:
    deaf = "import signal, subprocess, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    own = "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']); time.sleep(600)"
    for name in ("deaf", "too"):
        processes.start(name, [sys.executable, "-c", deaf + own], {"PATH": ""})
    time.sleep(600)
"""


def test_killed_it_leaves_nobody(tmp_path):
    """SIGKILL of a process ends both of its children, which hear no SIGTERM, and their own, within seconds."""
    with subprocess.Popen([sys.executable, "-c", KILLED], cwd=tmp_path) as process:
        end = time.monotonic() + 30
        while len(everyone := [p.pid for p in family([process.pid])]) < 5:  # it, two children, a child of each
            assert time.monotonic() < end
            time.sleep(0.05)
        process.kill()
    end = time.monotonic() + 30
    while left := [pid for pid in everyone if Path(f"/proc/{pid}/exe").exists()]:
        assert time.monotonic() < end, left
        time.sleep(0.1)


def test_agents_evaluate_for_themselves(tmp_path, planned_once):
    """J is the mean of the J_i, and returns are the simulation's; the gap is nobody's to know. Or nothing is known."""
    result = simulate(plan_once(CONFIG.to_toml()).problem, plan_once(CONFIG.to_toml()).algorithm, 4, metrics_every=2)
    with grid_of(sites(CONFIG, tmp_path / "sites")) as grid:
        told = deploy(CONFIG, tmp_path / "agents", grid, Terms(evaluate="agents"))
        untold = deploy(CONFIG, tmp_path / "none", grid, Terms(evaluate="none"))
    np.testing.assert_allclose(told.metrics["J"], result.metrics["J"], rtol=1e-9)
    np.testing.assert_allclose(told.returns, result.returns, rtol=1e-9)
    assert np.isnan(told.metrics["gap"]).all()
    for name in ("J", "gap", "return_mean"):
        assert np.isnan(untold.metrics[name]).all()
    np.testing.assert_array_equal(told.theta, untold.theta)
    with grid_of(sites(CONFIG, tmp_path / "silent", tells=False)) as grid:
        silent = deploy(CONFIG, tmp_path / "no-tell", grid, Terms(evaluate="agents"))
    assert np.isnan(silent.metrics["J"]).all()
    log = (tmp_path / "no-tell" / "federation" / "log.txt").read_text()
    assert log.count("agents 0, 1 will not say what a policy is worth; J is not known") == 1


def test_a_problem_that_the_server_does_not_know(tmp_path, planned_once):
    """It knows theta's length alone, and ends in the same theta."""
    known = plan_once(CONFIG.to_toml())
    length = int(np.shape(known.problem.theta0)[-1])
    private = replace(CONFIG, problem="private", agents=2, parameters=length)
    with grid_of(sites(CONFIG, tmp_path / "sites")) as grid:
        with pytest.raises(InputError, match="evaluate = server needs a problem that the server knows"):
            deploy(private, tmp_path / "refused", grid, Terms(evaluate="server"))
        assert not (tmp_path / "refused").exists()
        found = deploy(private, tmp_path / "out", grid)
    expected = simulate(known.problem, known.algorithm, 4, metrics_every=2)
    np.testing.assert_allclose(found.theta, expected.theta, atol=1e-9)
    np.testing.assert_allclose(found.metrics["J"], expected.metrics["J"], rtol=1e-9)
    assert np.isnan(found.metrics["gap"]).all()


def test_a_start_from_a_file(tmp_path, planned_once):
    known = plan_once(CONFIG.to_toml())
    start = np.random.default_rng(0).normal(size=known.theta_shape)
    np.savez(tmp_path / "start.npz", theta=start)
    config = replace(CONFIG, theta0=str(tmp_path / "start.npz"))
    with grid_of(sites(CONFIG, tmp_path / "sites")) as grid:
        found = deploy(config, tmp_path / "out", grid)
    expected = simulate(known.problem, known.algorithm, 4, metrics_every=2, theta0=start.ravel())
    np.testing.assert_allclose(found.theta, expected.theta, atol=1e-9)


@pytest.mark.parametrize(
    ("config", "terms", "words"),
    [
        (replace(CONFIG, seeds=2), Terms(), "seeds = 2; a deployed run has one"),
        (replace(CONFIG, algorithm="independent_pg"), Terms(), "this algorithm has no server"),
        (CONFIG, Terms(timeout=0), "timeout = 0; it must be positive"),
        (CONFIG, Terms(patience=float("nan")), "patience = nan; it must be positive"),
        (CONFIG, Terms("reweight", quorum=3), "quorum = 3; it must be between 1 and the number of agents, 2"),
    ],
)
def test_what_can_be_wrong_before_a_folder_is_there(tmp_path, config, terms, words, planned_once):
    with pytest.raises(InputError, match=words):
        deploy(config, tmp_path / "out", None, terms)
    assert not (tmp_path / "out").exists()


def test_a_site_is_one_agents_part_and_nothing_of_the_others(tmp_path):
    """Its declaration is the server's, and its gradient that of its number in the whole problem."""
    config = replace(CONFIG, oracle="exact")
    whole = plan(config)
    for i in range(2):
        built = site.build(config, i)
        assert built.declared == protocol.declaration(config, 2, whole.problem.theta0, "counter")
        assert built.problem.N == 1
        for mine, every in zip(jax.tree.leaves(built.problem.tasks), jax.tree.leaves(whole.problem.tasks), strict=True):
            np.testing.assert_array_equal(mine, every[i : i + 1])
    with pytest.raises(InputError, match="agent = 2; problem 'compromise' has agents 0 to 1"):
        site.build(config, 2)


HOSPITAL = """
import fastfedpg as ff

number = 3

def make(agent):
    raise RuntimeError("no\\nbed")

def thing():
    return {"a": 1}

def three(agent, ward, bed):
    pass

def several():
    return ff.with_oracle(ff.problems.compromise())
"""


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (
            "nowhere:make",
            "problem 'nowhere:make': no module 'nowhere' in {here}, where this was started, nor among",
        ),
        ("hospital.ward:make", "problem 'hospital.ward:make': no module 'hospital.ward' in {here}"),
        ("broken:make", "module 'broken' can't be imported: SyntaxError: "),
        ("lacking:make", "module 'lacking' can't be imported: ModuleNotFoundError: No module named 'no_such' ({here}/"),
        ("hospital:mak", "{here}/hospital.py: unknown function 'mak'; did you mean 'make'? (known: make, thing, thr"),
        ("hospital:number", "{here}/hospital.py: unknown function 'number'"),
        (
            "hospital:make",
            "'hospital:make' can't be made: RuntimeError: no bed ({here}/hospital.py, line 7); called with",
        ),
        (
            "hospital:three",
            "'hospital:three' can't be made: TypeError: three() missing 2 required positional arguments",
        ),
        (
            "hospital:thing",
            "problem 'hospital:thing' returns a dict; it must return a gymnasium environment, or a problem",
        ),
        (
            "hospital:several",
            "problem 'hospital:several' has 2 tasks and a theta0 of shape (3,); an agent has one task",
        ),
        (":make", "problem ':make': an agent knows its own; name a problem, or a module:function of this site's"),
        ("hospital:", "problem 'hospital:': an agent knows its own; name a problem, or a module:function"),
        ("private", "problem 'private': an agent knows its own"),
    ],
)
def test_a_sites_own_function_that_is_wrong(problem, words, tmp_path, monkeypatch):
    """In one line: what, where, and what would be right."""
    monkeypatch.chdir(tmp_path)
    files = {"hospital": HOSPITAL, "broken": "def (", "lacking": "import no_such"}
    for name, text in files.items():
        Path(f"{name}.py").write_text(text)
    before = [*sys.path]
    try:
        with pytest.raises(InputError) as refused:
            site.build(Config(problem, agents=2), 1)
    finally:
        for name in files:
            sys.modules.pop(name, None)
    assert words.format(here=tmp_path) in str(refused.value)
    assert "\n" not in str(refused.value)
    assert sys.path == before


@pytest.mark.parametrize("wrong", ["folder", "used", "group"])
def test_an_agents_socket_is_checked_before_anything_is_built(wrong, tmp_path, monkeypatch, capsys):
    """Building and compiling take long; what is wrong with the socket is said at once, and the one in use stays."""
    monkeypatch.setattr(site, "build", lambda *given: pytest.fail("it was built"))
    with short_folder() as place, listening(place / "used") as listener:
        (place / "file").touch()
        path = place / {"folder": "file/s", "used": "used", "group": "s"}[wrong]
        group = ("--group", "no-such-group") if wrong == "group" else ()
        words = ("agent", "--problem", "compromise", "--agent", 0, "--socket", path, "--state", tmp_path / "state")
        assert command(*words, *group) == 2
        assert listener.reachable()
        assert len([*place.iterdir()]) == 2, "the file and the other's socket"
    said = {"folder": "no socket can be opened", "used": "another process answers", "group": "no such group"}
    assert said[wrong] in capsys.readouterr().err


def test_wrong_terms_leave_an_earlier_run_alone(tmp_path):
    """They are found before anything is removed."""
    assert command("run", "--problem", "compromise", "--rounds", 1, "--out", tmp_path / "a") == 0
    before = {p.name: p.read_bytes() for p in (tmp_path / "a").iterdir()}
    words = ("federate", "--problem", "compromise", "--out", tmp_path / "a", "--overwrite", "--quorum", 9)
    assert command(*words) == 2
    assert {p.name: p.read_bytes() for p in (tmp_path / "a").iterdir()} == before


SOURCE = Path(protocol.__file__).parents[1]


@pytest.mark.parametrize("name", ["wire", "transport.unix_socket", "transport.engine", "transport.flower"])
def test_what_lives_for_one_message_does_not_import_jax(name):
    """Importing JAX would cost each message a second."""
    found = "[m for m in sys.modules if m.split('.')[0] in ('jax', 'jaxlib')]"
    code = f"import fastfedpg.federation.{name}, sys; print({found})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_flower_is_imported_in_four_files():
    """Another engine is another file."""

    def imports(path):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                yield from (a.name for a in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield node.module or ""

    using = {
        p.relative_to(SOURCE).as_posix() for p in SOURCE.rglob("*.py") for m in imports(p) if m.split(".")[0] == "flwr"
    }
    names = ("flower", "flower_http", "node", "superlink")
    assert using == {f"federation/transport/{name}.py" for name in names}


def test_flower_asks_who_makes_a_message_and_forgets_it():
    """The grid of these tests leaves nothing behind in Flower."""
    from flwr.supercore.task_identity import TaskIdentity

    with identity():
        assert TaskIdentity.run_id == 1
    with pytest.raises(RuntimeError, match="is not set"):
        _ = TaskIdentity.run_id
