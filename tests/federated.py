"""A federation with real processes whose agents misbehave on purpose, as a program that tests can start and kill.

    python tests/federated.py OUT '{"config": {…}, "terms": {…}, "faults": {"1": {"kind": …}}}' [resume]

It is `fastfedpg federate`, with some agents' commands replaced by this file's own agent; with `host` and `netns`,
agents in network namespaces of the test's own; with `supernode`, Flower's own nodes before their sockets.
"""

import json
import shlex
import sys
import time
from pathlib import Path

from fastfedpg.federation import wire
from fastfedpg.federation.localhost import start_all
from fastfedpg.federation.transport import flower_commands
from fastfedpg.precision import float64


def supernode(superlink: str, port: int, socket: Path, limit: int, ca: Path, key: Path) -> list[str]:
    """Flower's own node, in the place of ours: its configuration, which the server can't change, names the socket."""
    words = [flower_commands.program("flower-supernode"), "--superlink", superlink]
    words += ["--host", "127.0.0.1", "--port", str(port)]
    words += ["--node-config", f'socket="{socket}" limit={limit}']
    return [*words, "--root-certificates", str(ca), "--auth-supernode-private-key", str(key)]


def serve_badly(arguments: list[str], fault: dict) -> int:
    """An agent whose answers are spoilt, or late, in one exchange of some rounds; it leaves a mark when it is asked."""
    from fastfedpg import cli
    from fastfedpg.federation.agent import Agent

    answer, kept = Agent.answer, {}

    def spoilt(self, data):
        about = wire.unpack(data).about
        good = answer(self, data)
        if about.get("ask") != "exchange" or about["exchange"] != fault["exchange"]:
            return good
        before, kept["last"] = kept.get("last", good), good
        if about["round"] not in fault["rounds"]:
            return good
        mark = Path(fault["mark"])
        again = mark.exists()
        mark.touch()
        words, arrays = wire.unpack(good)
        match fault["kind"]:
            case "nan":
                return wire.pack(words, {name: x * float("nan") for name, x in arrays.items()})
            case "shape":
                return wire.pack(words, {name: x[:-1] for name, x in arrays.items()})
            case "old":
                return before
            case "slow":  # every time, so that a test can do something meanwhile
                time.sleep(fault["seconds"])
            case "late" if not again:
                time.sleep(fault["seconds"])
            case "never" if not again:
                time.sleep(3600)
        return good

    Agent.answer = spoilt
    return cli.main(["agent", *arguments])


def call_server(out: Path, asked: dict) -> int:
    """`fastfedpg server`, which knows nothing of the problem, for agents that have their own environments."""
    from fastfedpg import cli
    from fastfedpg.experiment.config import from_mapping
    from fastfedpg.federation import deployment
    from fastfedpg.federation.terms import Address, Deployment, Terms

    config = from_mapping(asked["config"])
    how = Deployment(Terms(), Address(), local=True)
    with (
        deployment.begin_deployed(config, out, False, how) as (planned, how),
        start_all.start_federation(out, planned, how, print) as address,
    ):
        shared = {"problem": "private"} | {k: v for k, v in asked["config"].items() if k != "problem"}
        flags = [word for name, value in shared.items() for word in (f"--{name}", str(value))]
        where = ["--superlink", address.superlink, "--ca", str(address.ca), "--out", str(out.with_name("server"))]
        return cli.main(["server", *flags, *where, *asked.get("flags", [])])


def main() -> int:
    if sys.argv[1] == "agent":
        return serve_badly(sys.argv[3:], json.loads(sys.argv[2]))
    from fastfedpg import cli
    from fastfedpg.experiment.config import from_mapping

    out, asked = Path(sys.argv[1]), json.loads(sys.argv[2])
    good, started = start_all.agent_words, start_all.start_federation

    def agent_words(config, agent, *arguments):
        words = [*good(config, agent, *arguments), *(["--tell"] if asked.get("server") else [])]
        fault = asked.get("faults", {}).get(str(agent))
        return words if fault is None else [sys.executable, __file__, "agent", json.dumps(fault), *words[2:]]

    def placed(agent, words):
        if socket := asked.get("supernode", {}).get(str(agent)):
            at, key = (words[words.index(name) + 1] for name in ("--superlink", "--key"))
            ca = words[words.index("--ca") + 1]
            cut = words.index("--superlink")
            alone = [*words[:cut], *words[cut + 2 :], "--socket", socket]
            theirs = supernode(at, start_all.free_port(start_all.LOOPBACK), Path(socket), 2**20, Path(ca), Path(key))
            return ["/bin/sh", "-c", f"{shlex.join(alone)} & exec {shlex.join(theirs)}"]
        space = asked.get("netns", {}).get(str(agent))
        return words if space is None else [flower_commands.program("ip"), "netns", "exec", space, *words]

    start_all.agent_words = agent_words
    host = asked.get("host", start_all.LOOPBACK)
    start_all.start_federation = lambda out, planned, how, say: started(out, planned, how, say, host, placed)
    if sys.argv[3:] == ["resume"]:
        return cli.main(["resume", str(out)])
    if asked.get("server"):
        return float64(call_server)(out, asked)
    file = out.with_suffix(".toml")
    file.write_text(from_mapping(asked["config"]).to_toml())
    flags = [word for name, value in asked.get("terms", {}).items() for word in (f"--{name}", str(value))]
    return cli.main(["federate", "--config", str(file), "--out", str(out), *flags, *asked.get("flags", [])])


if __name__ == "__main__":
    sys.exit(main())
