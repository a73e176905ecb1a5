"""Federations with real processes: a SuperLink, and agents that call it, with TLS and keys.

All of them run in `make test-all`. In `make test` the same claims are those of test_conformance.py (over Flower's grid
every algorithm equals its simulation after every round), test_agent.py, test_rounds.py (faults of agents) and
test_deployment.py (interruptions, resumption, processes that must not be left).
"""

import csv
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import psutil
import pytest

pytest.importorskip("flwr", reason="flwr is not installed: pip install 'fastfedpg[federation]'")

from fastfedpg import fast_fedpg, simulate, with_oracle
from fastfedpg.children import family
from fastfedpg.core import key_for
from fastfedpg.experiment import plan
from fastfedpg.experiment.config import from_mapping
from fastfedpg.runtime.loop import answer, at, serve, stack

pytestmark = pytest.mark.federation

EXACT = {"problem": "random", "agents": 3, "algorithm": "fast_fedpg", "eta": 0.5, "H": 4, "rounds": 3}
PAIR = {**EXACT, "agents": 2}
SAMPLED = {**PAIR, "oracle": "gpomdp", "B": 4, "K": 8, "first_seed": 5}
START = 600.0  # on a machine that does much else


def until(what, seconds, condition, process=None):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what}: not within {seconds} s"
        assert process is None or process.poll() is None, f"{what}: the process ended with {process.returncode}"
        time.sleep(0.1)


class Federation:
    """`tests/federated.py` as a process, in a folder of its own."""

    def __init__(self, folder, config=EXACT, prefix=(), **asked):
        self.out, self.folder, self.prefix = folder / "run", folder, list(prefix)
        self.asked = {"config": config, **asked}
        self.process = None

    def fault(self, agent, kind, exchange, rounds=(1,), **more):
        """Make an agent misbehave; the mark appears when it is asked the spoilt question."""
        mark = self.folder / f"asked-{agent}"
        table = {"kind": kind, "exchange": exchange, "rounds": [*rounds], "mark": str(mark), **more}
        self.asked.setdefault("faults", {})[str(agent)] = table
        return mark

    def start(self, *more):
        words = [*self.prefix, sys.executable, str(Path(__file__).parents[1] / "federated.py"), str(self.out)]
        environment = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
        with (self.folder / "output.txt").open("ab") as output:
            self.process = subprocess.Popen(
                [*words, json.dumps(self.asked), *more],
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
        return self

    def said(self):
        return (self.folder / "output.txt").read_text()

    def log(self):
        path = self.out / "federation" / "log.txt"
        return path.read_text() if path.exists() else ""

    def logs(self, name):
        return (self.out / "federation" / "logs" / f"{name}.log").read_text()

    def until(self, what, condition, seconds=START):
        until(what, seconds, condition, self.process)

    def reached(self, round):
        self.until(f"round {round}", lambda: f" round {round}: agents" in self.log())

    def pid(self, *words):
        """The one process of the federation whose command has these words; not the wrapper that became it."""
        found = []
        for pid in [p.pid for p in family([self.process.pid])]:
            try:
                command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if all(any(w.encode() in part for part in command) for w in words) and b"-c" not in command:
                found.append(pid)
        assert found, f"no process {words}"
        return found[0]

    def finish(self, seconds=1200, code=0):
        assert self.process.wait(seconds) == code, self.said()[-3000:] + self.log()
        return self

    def theta(self):
        return np.load(self.out / "final.npz")["theta"].reshape(-1)

    def took_part(self):
        """Who took part in each round, as the log has it."""
        found = re.findall(r" round (\d+): agents? ([\d, ]+) took part", self.log())
        assert [int(r) for r, _ in found] == [*range(1, len(found) + 1)], "every round once"
        return [[int(i) for i in who.split(",")] for _, who in found]

    def clean_up(self):
        if self.process is not None and self.process.poll() is None:
            everyone = [p.pid for p in family([self.process.pid])]
            for pid in everyone:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            self.process.wait()


@pytest.fixture
def federation(tmp_path):
    made = []

    def make(*arguments, **names):
        made.append(Federation(tmp_path, *arguments, **names))
        return made[-1]

    yield make
    for one in made:
        one.clean_up()


def simulated(config):
    planned = plan(from_mapping(config))
    settings = (planned.config.rounds, 1, 1, planned.config.participants, None, planned.config.first_seed)
    return simulate(planned.problem, planned.algorithm, *settings)


def replayed(config, took_part):
    """theta after rounds with these agents, from the algorithm's own halves."""
    planned = plan(from_mapping(config))
    problem, algorithm, seed = planned.problem, planned.algorithm, planned.config.first_seed
    state, down, memory = algorithm.init(jnp.zeros(np.shape(problem.theta0)[-1]), problem.N)
    memory = [at(memory, i) for i in range(problem.N)]
    for t, who in enumerate(took_part):
        for e in algorithm.exchanges:
            ups = []
            for i in who:
                key = key_for(seed, t, e.name, i)
                memory[i], _, up, _ = answer(e, problem.oracle, at(problem.tasks, i), memory[i], (), down, key)
                ups.append(up)
            merged = e.combine.merge(stack(ups))
            state, down = serve(e, len(who) / problem.N, state, merged, key_for(seed, t, e.name))
    return np.asarray(algorithm.policy(state))


def same_as_without(run, config=EXACT, limit=1e-12):
    """The run's theta is the simulation's, in which nothing ever went wrong."""
    np.testing.assert_allclose(run.theta(), simulated(config).theta[0], atol=limit, rtol=limit)
    assert run.took_part() == [[*range(config["agents"])]] * config["rounds"]


ALONE = (
    "unshare",
    "--net",
    "--",
    "sh",
    "-c",
    'ip link set lo up && "$@"; code=$?; cat /proc/net/snmp; exit $code',
    "sh",
)
"""A network namespace with loopback alone; at the end it prints the kernel's counters."""


def no_routes(text):
    """How many packets were to leave for an address that is not on this machine."""
    names, values = re.findall(r"^Ip: (.+)$", text, flags=re.M)[-2:]
    return int(dict(zip(names.split(), values.split(), strict=True))["OutNoRoutes"])


def test_simulated_equals_deployed_and_a_killed_agent_changes_nothing(federation):
    """TLS, authentication, sampled gradients, loopback alone; one agent is killed between and in exchanges.

    theta equals the simulation's to 1e-9. In a namespace without any route, a call to the outside counts in OutNoRoutes
    (the last lines show that it would).
    """
    run = federation(SAMPLED, prefix=ALONE)
    mark = run.fault(1, "slow", "local", rounds=(1,), seconds=2)
    run.start()
    run.until("the second exchange of round 2", mark.exists)
    os.kill(run.pid("agent", f"{run.out}/federation/agents/1"), signal.SIGKILL)
    keys = run.out / "federation" / "keys"
    for private in (keys / "ca.key", keys / "server.key", *(keys / f"agent-{i}" for i in range(2))):
        assert private.stat().st_mode & 0o777 == 0o600
    run.finish()
    same_as_without(run, SAMPLED, 1e-9)
    assert "agent-1 ended (killed by SIGKILL)" in run.said()
    assert no_routes(run.said()) == 0
    probe = [*ALONE, sys.executable, "-c", "import socket; socket.socket().connect_ex(('192.0.2.1', 9))"]
    assert no_routes(subprocess.run(probe, capture_output=True, text=True, check=True).stdout) > 0
    done = subprocess.run(
        [Path(sys.executable).with_name("fastfedpg"), "verify", run.out], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "equal to 1e-09" in done.stdout


def flwr(home, *words):
    """One of Flower's own commands."""
    from fastfedpg.federation.transport import flower_commands

    return subprocess.run(
        [flower_commands.program("flwr"), *words, "--format", "json"],
        env=flower_commands.environment(home),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_with_the_authoritys_certificate_alone(federation):
    """On loopback, without nginx: nobody starts a run, makes a node that counts, or reads a message.

    Flower writes the run and the key down. But the run's task is given to nobody without the secret, a node without an
    agent's key is asked nothing, and an agent's own node runs no app: it listens nowhere and starts nothing.
    """
    from fastfedpg.federation.transport import flower_commands, keys, superlink

    run = federation(PAIR)
    mark = run.fault(1, "never", "local", rounds=(0,))
    run.start()
    run.until("round 1", mark.exists)
    ca = run.out / "federation" / "keys" / "ca.crt"
    site, post = (psutil.Process(run.pid(*words)) for words in (("agent", "--agent"), ("flower-superlink",)))
    listens = lambda process: any(c.status == psutil.CONN_LISTEN for c in process.net_connections("tcp"))
    assert (listens(site), listens(post)) == (False, True)
    assert site.children() == site.net_connections("unix") == []
    words = Path(f"/proc/{run.pid('flower-superlink')}/cmdline").read_text().split("\0")
    home = run.folder / "stranger"
    address = f"127.0.0.1:{words[words.index('--port') + 1]}"
    flower_commands.describe(home, address, ca)
    keys.make_node_key(home / "agent-1")
    (home / keys.CA).write_bytes(ca.read_bytes())
    keys.make_secret(home)
    name = flower_commands.SUPERLINK_NAME
    assert (
        '"success": true'
        in flwr(home, "supernode", "register", str(home / "agent-1.pub"), name, "--name", "agent-1").stdout
    )
    started = json.loads(flwr(home, "run", str(superlink.APP), name).stdout)
    listed = flwr(home, "list", name, "--run-id", started["run-id"]).stdout
    assert '"pending"' in listed, listed
    code = """if True:
        import sys, threading
        from pathlib import Path
        from fastfedpg.federation.terms import Address
        from fastfedpg.federation.transport import engine, node, superlink
        here, address = Path(sys.argv[1]), Address(sys.argv[2], Path(sys.argv[1]) / "ca.crt")
        try:
            superlink.SuperLinkEngine(address, 2**20)
        except engine.EngineLost as error:
            print("no task:", error)
        asked, stop = [], threading.Event()
        theirs = node.Node(address, here / "agent-1", here)
        threading.Timer(5, stop.set).start()
        theirs.attend(lambda question: asked.append(question) or b"", 2**20, stop)
        print("asked", len(asked))
    """
    done = subprocess.run(
        [sys.executable, "-c", code, home, address], capture_output=True, text=True, timeout=120, check=False
    )
    assert re.search("no task: 401", done.stdout), done.stdout + done.stderr
    assert "asked 0" in done.stdout
    assert "agent 1 is here" not in run.log().partition("round 1")[2], "a node it is, but nobody's"


def test_interrupted_then_killed_and_everything_starts_again(federation):
    """Ctrl-C, and SIGKILL of the server in the second exchange, end every process; `resume` starts all and goes on."""
    run = federation(PAIR)
    run.start()
    run.reached(1)
    ends(run, signal.SIGINT, 130)
    assert "fastfedpg resume" in run.said()
    mark = run.fault(1, "slow", "local", seconds=2)
    run.start("resume")
    run.until("the second exchange of round 2", mark.exists)
    ends(run, signal.SIGKILL, -signal.SIGKILL)
    run.asked.pop("faults")
    run.start("resume").finish()
    same_as_without(run, PAIR)
    assert run.log().count("goes on after round 1") == 2


def ends(run, number, code):
    """The server ends so, and with it all that it started."""
    everyone = [p.pid for p in family([run.process.pid])]
    assert len(everyone) > 3
    os.kill(run.process.pid, number)
    run.finish(60, code)
    until("the end of all its processes", 30, lambda: not [p for p in everyone if Path(f"/proc/{p}/exe").exists()])


def netns(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


@pytest.mark.parametrize("exchange", ["gradient", "local"])
@pytest.mark.parametrize("victim", ["agent", "superlink", "server"])
def test_a_killed_process_changes_nothing(federation, victim, exchange):
    """SIGKILL in the middle of an exchange of round 2; with --on-missing wait the run ends with the same theta."""
    run = federation(terms={"timeout": 120})
    mark = run.fault(1, "slow", exchange, rounds=(1,), seconds=3)
    run.start()
    run.until(f"the {exchange} exchange of round 2", mark.exists)
    words = {"agent": ("agent", f"{run.out}/federation/agents/1"), "superlink": ("flower-superlink",)}
    if victim == "server":
        os.kill(run.process.pid, signal.SIGKILL)
        run.process.wait()
        run.start("resume")
    else:
        os.kill(run.pid(*words[victim]), signal.SIGKILL)
    run.finish()
    same_as_without(run)


@pytest.mark.parametrize("exchange", ["gradient", "local"])
@pytest.mark.parametrize("kind", ["nan", "shape", "old"])
def test_a_bad_answer_is_named_and_counts_for_nothing(federation, kind, exchange):
    """abort: the run stops after round 1, and says who, when and why; with a repaired agent it goes on as if unhurt."""
    run = federation(terms={"on-missing": "abort"})
    run.fault(1, kind, exchange, rounds=(1,))
    run.start().finish(code=1)
    words = {"nan": "not finite", "shape": "it must be float64", "old": "another question"}
    assert re.search(rf"round 2, {exchange}: agent 1: .*{words[kind]}", run.log()), run.log()
    assert run.took_part() == [[0, 1, 2]]
    run.asked.pop("faults")
    run.start("resume").finish()
    same_as_without(run)


@pytest.mark.parametrize("exchange", ["gradient", "local"])
@pytest.mark.parametrize("kind", ["nan", "late", "never"])
def test_a_round_begins_again_with_the_survivors(federation, kind, exchange):
    """reweight: round 2 counts with agents 0 and 2 alone, exactly as if it had been theirs from its beginning."""
    seconds = {"seconds": 40} if kind == "late" else {}
    run = federation(terms={"on-missing": "reweight", "timeout": 20})
    run.fault(1, kind, exchange, rounds=(1,), **seconds)
    run.start().finish()
    assert run.took_part()[:2] == [[0, 1, 2], [0, 2]]
    np.testing.assert_allclose(run.theta(), replayed(EXACT, run.took_part()), atol=1e-12)
    assert np.abs(run.theta() - simulated(EXACT).theta[0]).max() > 1e-4, "the missing agent is missed"


def test_a_late_answer_is_waited_for(federation):
    """wait: an answer that comes after the timeout is the stored one when the agent is asked again."""
    run = federation(terms={"timeout": 15})
    run.fault(1, "late", "local", rounds=(1,), seconds=25)
    run.start().finish()
    same_as_without(run)
    assert "no answer within 15 s" in run.log()


CUT_SECONDS = float(os.environ.get("CUT_SECONDS", "45"))
"""How long a site's network is away: longer than the 20 s after which it counts as gone. 600 are ten minutes."""


def test_a_network_that_is_cut_changes_nothing(federation, tmp_path):
    """One agent's own network is cut in round 2; its heartbeats stop, Flower gives it up, and it comes back."""
    names = [f"ff{os.getpid() % 10000}{x}" for x in "ab"]
    for name in names:
        netns("netns", "add", name)
    try:
        netns("link", "add", names[0], "netns", names[0], "type", "veth", "peer", names[1], "netns", names[1])
        for k, name in enumerate(names):
            netns("-n", name, "addr", "add", f"10.213.77.{k + 1}/24", "dev", name)
            netns("-n", name, "link", "set", name, "up")
            netns("-n", name, "link", "set", "lo", "up")
        run = federation(
            {**EXACT, "rounds": 4},
            prefix=("ip", "netns", "exec", names[0]),
            netns={"1": names[1]},
            host="10.213.77.1",
            terms={"timeout": 300 + CUT_SECONDS},
        )
        mark = run.fault(1, "slow", "local", rounds=(1,), seconds=3)
        run.start()
        run.until("round 2", mark.exists)
        netns("-n", names[1], "link", "set", names[1], "down")
        time.sleep(CUT_SECONDS)
        netns("-n", names[1], "link", "set", names[1], "up")
        run.finish()
        same_as_without(run, {**EXACT, "rounds": 4})
        assert "agent 1: " in run.log(), "the cut was noticed"
    finally:
        run.clean_up()
        for name in names:
            netns("netns", "del", name)


def test_flowers_own_node_in_the_place_of_ours(federation, tmp_path):
    """A SuperNode runs the app that a run ships, which brings questions to the agent's socket; theta is the same."""
    with tempfile.TemporaryDirectory(prefix="ff-", dir="/tmp") as place:
        run = federation(PAIR, supernode={"1": f"{place}/s"})
        run.start().finish()
    same_as_without(run, PAIR)
    assert "flwr" in run.logs("agent-1").lower() or "supernode" in run.logs("agent-1").lower()


OWN = {"agents": 2, "parameters": 12, "eta": 0.3, "H": 3, "rounds": 2, "first_seed": 4}


def test_a_server_that_knows_nothing_of_its_agents_environments(federation, monkeypatch):
    """Each agent has a `module:function` of its own; theta and the agents' own values of it are the simulation's."""
    import private_site

    run = federation({**OWN, "problem": "private_site:make"}, server=True)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    run.start().finish()
    run.out = run.out.with_name("server")
    expected = simulate(with_oracle(private_site.EVERYONE, "gpomdp", B=4, K=6), fast_fedpg(0.3, 3), 2, first_seed=4)
    np.testing.assert_allclose(run.theta(), expected.theta[0], atol=1e-9)
    rows = list(csv.DictReader((run.out / "metrics.csv").read_text().splitlines()))
    np.testing.assert_allclose([float(r["J"]) for r in rows], expected.metrics["J"][0], atol=1e-9)
    np.testing.assert_allclose([float(r["return_worst"]) for r in rows], expected.metrics["return_worst"][0], atol=1e-9)
    assert {r["gap"] + r["drift"] + r["env_steps"] for r in rows} == {""}


def test_an_environment_that_raises_is_named_and_keeps_its_secrets(federation, monkeypatch):
    """In round 1's local steps theta leaves zero, and agent 1's environment fails; its words stay in its own log."""
    run = federation({**OWN, "problem": "private_site:raises"}, server=True, flags=["--on-missing", "abort"])
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    run.start().finish(code=1)
    assert re.search(r"round 1, local: agent 1: refused: its environment raised \w+; the site's own log", run.said())
    assert "patient 4711" not in run.said()
    assert "patient 4711" in run.logs("agent-1")


def test_an_expelled_key_is_out(federation):
    """Unregistered, the node is refused; with reweight the others go on. Flower's command takes 30 rounds."""
    config = {**EXACT, "rounds": 100}
    run = federation(config, terms={"on-missing": "reweight", "timeout": 60})
    run.start()
    run.reached(1)
    node = re.search(r"agent 1 is here \(node (\d+)\)", run.log()).group(1)
    assert '"success": true' in flwr(run.out / "federation" / "flower", "supernode", "unregister", node, "link").stdout
    run.finish()
    took = run.took_part()
    assert took[-1] == [0, 2]
    np.testing.assert_allclose(run.theta(), replayed(config, took), atol=1e-12)
