"""Seconds for one exchange, beside the smallest Flower app with the same payload, on the same SuperLink.

    make bench-federation                                    (about ten minutes)
    make bench-federation ARGS="--alone --agents 2 8 64"     (ours alone, and the figure docs/federation-agents.png)

The two take turns, round by round, so that the machine's moods are shared; ratios are of medians, with bootstrap
intervals over rounds. An exchange of ours has everything: the questions, the agents' work, the signatures, the checks
and the checkpoint. The smallest app has Flower's own SuperNodes, as many as we have agents. Bytes are of one site and
one exchange, counted by a relay between each agent and the SuperLink, TLS and polls included. Processor seconds say
where the time of ours goes; the server's have the relay's in them.
"""

import argparse
import os
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import quadratic
import relay
from measuring import ratio

from fastfedpg import children
from fastfedpg.experiment import plan
from fastfedpg.experiment.config import Config
from fastfedpg.federation import deployment, protocol, wire
from fastfedpg.federation.localhost import start_all
from fastfedpg.federation.terms import Address, Deployment, Terms
from fastfedpg.federation.transport import flower_commands, keys
from fastfedpg.precision import float64

SMALLEST = Path(__file__).parent / "smallest"
FIGURE = Path(__file__).parents[1] / "docs" / "federation-agents.png"


@contextmanager
def smallest(home: Path, address: Address, size: int, nodes: int) -> Iterator:
    """A function that makes the smallest app go through one exchange, and gives its seconds.

    It is set up when our run has its own task: whatever takes tasks would take that one too.
    """
    from flwr.proto.control_pb2 import RegisterNodeRequest
    from flwr.supercore.control.control_http_client import ControlHttpClient
    from flwr.supercore.primitives.asymmetric import public_key_to_bytes

    from fastfedpg.federation.transport.flower_http import client

    assert address.ca is not None
    environment, started = flower_commands.environment(home), []
    with tempfile.TemporaryDirectory(prefix="fastfedpg-") as folder, socket.socket(socket.AF_UNIX) as listener:
        path = Path(folder) / "smallest"
        listener.bind(str(path))
        listener.listen()
        listener.settimeout(900)
        trust = ["--root-certificates", str(address.ca)]
        quiet = {"stdout": (home / "smallest.log").open("ab"), "stderr": -2}
        try:
            with client(ControlHttpClient, address) as control:
                for i in range(nodes):
                    key = Path(folder) / f"flower-{i}"
                    keys.make_node_key(key)
                    public = public_key_to_bytes(keys.private_key(key).public_key())
                    control.RegisterNode(RegisterNodeRequest(public_key=public, name=key.name))
                    words = [flower_commands.program("flower-supernode"), "--superlink", address.superlink, *trust]
                    words += ["--auth-supernode-private-key", str(key), "--host", "127.0.0.1"]
                    words += ["--port", str(start_all.free_port("127.0.0.1"))]
                    started.append(children.start(words, flower_commands.environment(home / f"node-{i}"), **quiet))
            words = [flower_commands.program("flower-superexec"), "--runtime-api-address", address.superlink, *trust]
            words += ["--superexec-auth-secret-file", str(address.ca.parent / keys.SECRET)]
            started.append(children.start(words, environment, **quiet))
            words = [flower_commands.program("flwr"), "run", str(SMALLEST), flower_commands.SUPERLINK_NAME]
            words += ["-c", f'socket="{path}" bytes={size} nodes={nodes}']
            started.append(children.start(words, environment, **quiet))
            called, _ = listener.accept()
            called.settimeout(600)

            def exchange() -> float:
                called.sendall(b".")
                return float(called.makefile().readline())

            with called:
                yield exchange
        finally:
            children.end(started)


def spent() -> np.ndarray:
    """Processor seconds so far: of this process, of the SuperLink, and of the agents."""
    found, here = np.zeros(3), psutil.Process()
    for process in [here, *here.children(recursive=True)]:
        try:
            words, times = process.cmdline(), process.cpu_times()
        except psutil.Error:
            continue
        superlink, agent = any("flower-superlink" in word for word in words), "agent" in words
        if process == here or superlink or agent:
            found[superlink + 2 * agent] += times.user + times.system
    return found


@float64
def measure(agents: int, rounds: int, size: str, alone: bool) -> dict[str, Any]:
    """Seconds of exchanges, ours and the smallest app's, from alternating rounds."""
    parameters = len(getattr(quadratic, size)(0).theta0)
    config = Config(problem=f"quadratic:{size}", agents=agents, parameters=parameters, eta=0.1, H=2, rounds=rounds + 1)
    planned = plan(config)
    exchanges = len(planned.algorithm.exchanges)
    theta = protocol.theta_of(planned.problem)
    talk = protocol.talks(planned.algorithm, theta, agents)[0]
    question = protocol.question("0" * 32, 0, talk.name, "0" * 64, "0" * 64, {"down": theta})
    answer = protocol.reply(0, "0" * 64, {"up": theta})
    ours: list[float] = []
    other: list[float] = []
    sent: list[float] = []
    worked: list[np.ndarray] = []
    with (
        tempfile.TemporaryDirectory(prefix="fastfedpg-bench-") as folder,
        relay.relays() as (between, through),
        ExitStack() as later,
    ):
        out, each = Path(folder) / "run", lambda: relay.total(between) / agents / exchanges
        how = Deployment(Terms(evaluate="none", norm_limit=1e9), Address(), local=True)
        say = lambda words: print(f"  {words}", flush=True)
        with (
            deployment.begin_deployed(config, out, False, how) as (planned, how),
            start_all.start_federation(out, planned, how, say, wrap=through) as address,
        ):
            home, began, seen, passed, rival = out / "federation" / "flower", 0.0, 0, 0.0, None
            before = spent()

            def report(done: int = 0, record: object = None, stage: str = "") -> None:
                nonlocal began, seen, passed, rival, before
                if done == seen:
                    return
                took, seen = time.monotonic() - began, done
                if done > 1:  # the first round also finds the agents
                    ours.append(took / exchanges)
                    sent.append(each() - passed)
                    worked.append((spent() - before) / exchanges)
                if not alone:
                    rival = rival or later.enter_context(smallest(home, address, len(question), agents))
                    other.append(float(np.mean([rival() for _ in range(exchanges)])))
                shown = f"{took / exchanges:6.3f} s" if done > 1 else "  not counted"
                print(f"  round {done}: {shown}" + (f", smallest {other[-1]:6.3f} s" if other else ""), flush=True)
                began, passed, before = time.monotonic(), each(), spent()

            deployment.run_deployed(planned, replace(how, address=address), out, report, None, say)
            later.close()
    return {
        "agents": agents,
        "parameters": parameters,
        "arrays": wire.size(talk.down_form) + wire.size(talk.up_form),
        "messages": len(question) + len(answer),
        "ours": np.array(ours),
        "smallest": np.array(other[1:]),
        "sent": float(np.median(sent)),
        "worked": np.median(worked, axis=0),
    }


def draw(found: list[dict[str, Any]]) -> None:
    """Seconds against the number of agents, for the smallest of the sizes."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator

    least = min(m["parameters"] for m in found)
    chosen = [m for m in found if m["parameters"] == least]
    figure, axes = plt.subplots(figsize=(5, 3.2), layout="constrained")
    x = [m["agents"] for m in chosen]
    axes.plot(x, [np.median(m["ours"]) for m in chosen], "o-", label="fastfedpg")
    axes.fill_between(x, *np.transpose([np.quantile(m["ours"], (0.1, 0.9)) for m in chosen]), alpha=0.2)
    if all(len(m["smallest"]) for m in chosen):
        axes.plot(x, [np.median(m["smallest"]) for m in chosen], "s--", label="smallest Flower app")
    axes.set(xscale="log", yscale="log", xlabel="agents", ylabel="seconds for one exchange", xticks=x, xticklabels=x)
    axes.minorticks_off()
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.legend(frameon=False)
    cores = len(os.sched_getaffinity(0))
    axes.set_title(f"{least:,} parameters, {cores} cores; band: 10% to 90% of rounds", fontsize=9)
    figure.savefig(FIGURE, dpi=150)


def main() -> int:
    """Measure, and print a table."""
    os.environ["PYTHONPATH"] = str(Path(__file__).parent)  # for the agents, whose problem is in this folder
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=8, help="rounds of each, two exchanges a round")
    parser.add_argument("--agents", type=int, nargs="*", default=[2, 8])
    parser.add_argument("--sizes", nargs="*", default=["small"], help="functions of quadratic.py")
    parser.add_argument("--alone", action="store_true", help="without Flower's app, and with the figure")
    given = parser.parse_args()
    found, seconds, sizes, work = [], [], [], []
    for agents in given.agents:
        for size in given.sizes:
            print(f"{agents} agents, {size}", flush=True)
            m = measure(agents, given.rounds, size, given.alone)
            found.append(m)
            who, mine = f"{agents:6} {m['parameters']:11,}", f"{np.median(m['ours']):10.3f}"
            if given.alone:
                seconds.append(f"{who} {mine}")
            else:
                middle, low, high = ratio(m["smallest"], m["ours"])
                seconds.append(f"{who} {mine} {np.median(m['smallest']):10.3f}   {middle:.1f} [{low:.1f}, {high:.1f}]")
            share = m["sent"] / m["arrays"]
            work.append(f"{who} " + " ".join(f"{x:10.3f}" for x in m["worked"]))
            sizes.append(f"{who} {m['arrays']:11,} {m['messages']:11,} {m['sent']:11,.0f}   {share:.3f}")
    print(
        "\nseconds for one exchange (medians), and how many times as many the smallest app takes, with its 95% interval"
    )
    print("agents  parameters       ours   smallest   ratio")
    print("\n".join(seconds))
    print("\nprocessor seconds of one exchange of ours (medians)")
    print("agents  parameters     server  SuperLink     agents")
    print("\n".join(work))
    print("\nbytes of one exchange at one site, down and up together (medians); on the wire: all that TCP carries")
    print("agents  parameters      arrays    messages     on wire   on wire/arrays")
    print("\n".join(sizes))
    if len(found) > 1:
        draw(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
