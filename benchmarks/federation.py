"""Seconds for one phase, beside the smallest Flower app with the same payload, on the same SuperLink and nodes.

    make bench-federation        (about ten minutes)

The two take turns, round by round, so that the machine's moods are shared; ratios are of medians, with bootstrap
intervals over rounds. A phase of ours has everything: the questions, the agents' work, the checks and the checkpoint.
Every node reaches the proxy through a relay that counts: bytes are of one site and one phase, TLS and polls included.
"""

import argparse
import os
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import quadratic
import relay
from measuring import ratio

from fastfedpg.experiment import plan
from fastfedpg.experiment.config import Config
from fastfedpg.federation import deployment, protocol, wire
from fastfedpg.federation.localhost import localhost
from fastfedpg.federation.terms import Address, Deployment, Terms
from fastfedpg.federation.transport import flower_commands

SMALLEST = Path(__file__).parent / "smallest"


@contextmanager
def smallest(home: Path, size: int) -> Iterator:
    """A function that makes the smallest app go through one phase, and gives its seconds."""
    with tempfile.TemporaryDirectory(prefix="fastfedpg-") as folder, socket.socket(socket.AF_UNIX) as listener:
        path = Path(folder) / "smallest"
        listener.bind(str(path))
        listener.listen()
        listener.settimeout(120)
        flower_commands.flwr(home, "run", str(SMALLEST), flower_commands.LINK, "-c", f'socket="{path}" bytes={size}')
        called, _ = listener.accept()
        called.settimeout(600)

        def phase() -> float:
            called.sendall(b".")
            return float(called.makefile().readline())

        with called:
            yield phase


def measure(agents: int, rounds: int, size: str) -> dict:
    """Seconds of phases, ours and the smallest app's, from alternating rounds."""
    parameters = len(getattr(quadratic, size)(0).theta0)
    config = Config(problem=f"quadratic:{size}", agents=agents, parameters=parameters, eta=0.1, H=2, rounds=rounds + 1)
    planned = plan(config)
    exchanges = len(planned.algorithm.exchanges)
    each = lambda: relay.total(between) / agents / exchanges
    theta = protocol.theta_of(planned.problem)
    with jax.enable_x64(True):
        talk = protocol.talks(planned.algorithm, theta, agents)[0]
    question = protocol.question("0" * 32, 0, talk.name, "0" * 64, "0" * 64, {"down": theta})
    answer = protocol.reply(0, "0" * 64, {"up": theta})
    ours, other = [], []
    sent: dict[str, list[float]] = {"ours": [], "smallest": []}
    with tempfile.TemporaryDirectory(prefix="fastfedpg-bench-") as folder, relay.relays() as (between, through):
        out = Path(folder) / "run"
        how = Deployment(Terms(evaluate="none"), Address(), local=True)
        with deployment.opened(config, out, False, how) as (planned, how):
            say = lambda words: print(f"  {words}", flush=True)
            with localhost.started(out, planned, how, say, node=through) as address:
                home = out / "federation" / "flower"
                with smallest(home, len(question)) as phase:
                    began, seen, passed = 0.0, 0, 0.0

                    def report(done: int, record: object = None) -> None:
                        nonlocal began, seen, passed
                        if done == seen:
                            return
                        seen = done
                        took = time.monotonic() - began
                        if done > 1:  # the first round also finds the agents
                            ours.append(took / exchanges)
                            sent["ours"].append(each() - passed)
                        passed = each()
                        other.append(float(np.mean([phase() for _ in range(exchanges)])))
                        sent["smallest"].append(each() - passed)
                        shown = f"{took / exchanges:5.2f} s" if done > 1 else "  not counted"
                        print(f"  round {done}: {shown}, smallest {other[-1]:5.2f} s", flush=True)
                        began, passed = time.monotonic(), each()

                    here = replace(how, address=address)
                    deployment.carry_out(planned, here, out, report, None, say)
    return {
        "agents": agents,
        "parameters": parameters,
        "arrays": wire.size(talk.down_form) + wire.size(talk.up_form),
        "messages": len(question) + len(answer),
        "ours": np.array(ours),
        "smallest": np.array(other[1:]),
        "sent": {name: np.median(numbers[-len(ours) :]) for name, numbers in sent.items()},
    }


def main() -> int:
    """Measure, and print a table."""
    os.environ["PYTHONPATH"] = str(Path(__file__).parent)  # for the agents, whose problem is in this folder
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="rounds of each, two phases a round")
    parser.add_argument("--agents", type=int, nargs="*", default=[2])
    parser.add_argument("--sizes", nargs="*", default=["small", "large"], help="functions of quadratic.py")
    given = parser.parse_args()
    seconds, sizes = [], []
    for agents in given.agents:
        for size in given.sizes:
            print(f"{agents} agents, {size}", flush=True)
            m = measure(agents, given.rounds, size)
            middle, low, high = ratio(m["ours"], m["smallest"])
            who = f"{agents:6} {m['parameters']:11,}"
            times = f"{np.median(m['ours']):10.2f} {np.median(m['smallest']):10.2f}"
            seconds.append(f"{who} {times}   {middle:.3f} [{low:.3f}, {high:.3f}]")
            mine, least, arrays = m["sent"]["ours"], m["sent"]["smallest"], m["arrays"]
            sizes.append(f"{who} {arrays:11,} {m['messages']:11,} {mine:11,.0f} {least:11,.0f}   {mine / arrays:.3f}")
    print("\nseconds for one phase (medians), and their ratio with its 95% interval")
    print("agents  parameters       ours   smallest   ratio")
    print("\n".join(seconds))
    print("\nbytes of one phase at one site, down and up together (medians); on the wire: all that TCP carries")
    print("agents  parameters      arrays    messages     on wire    smallest   on wire/arrays")
    print("\n".join(sizes))
    return 0


if __name__ == "__main__":
    sys.exit(main())
