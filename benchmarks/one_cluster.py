"""jax.distributed in the place of Flower's SuperLink: seconds of a sum, and what is left when a process is killed.

python benchmarks/one_cluster.py
"""

import signal
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils

from fastfedpg.federation.localhost.start_all import free_port

PROCESSES, TIMES, SIZES = 2, 12, (125, 1_000_000)


def take_part(port: str, number: int) -> None:
    """Sum with the others until the first process has nobody to sum with."""
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{port}", PROCESSES, number, heartbeat_timeout_seconds=10)
    for size in SIZES:
        upload, took = jnp.full(size, number, jnp.float32), []
        for _ in range(TIMES):
            began = time.monotonic()
            multihost_utils.process_allgather(upload).sum(axis=0)
            took.append(time.monotonic() - began)
        if number == 0:
            print(f"{size:>10,} parameters: {np.median(took[2:]):.4f} s for an exchange", flush=True)
    print(f"ready {number}", flush=True)
    while True:
        try:
            multihost_utils.process_allgather(upload)
        except Exception as error:
            print(f"process {number} is told: {str(error).partition(': [')[0]}", flush=True)
            time.sleep(60)
            print(f"process {number} goes on", flush=True)
            return


def main() -> None:
    """Start them, kill the last, and look at the first."""
    port = str(free_port("127.0.0.1"))
    words = [sys.executable, __file__, port]
    quiet = {"stderr": subprocess.DEVNULL}
    first, last = (
        subprocess.Popen([*words, str(i)], stdout=subprocess.PIPE, text=True, **quiet) for i in range(PROCESSES)
    )
    try:
        while (line := first.stdout.readline()) and not line.startswith("ready"):
            if not line.startswith("[Gloo]"):
                print(line, end="", flush=True)
        time.sleep(1)
        last.send_signal(signal.SIGKILL)
        began = time.monotonic()
        print("process 1 is killed")
        for line in first.stdout:
            print(f"after {time.monotonic() - began:.0f} s: {line}", end="", flush=True)
        code = first.wait()
        print(f"after {time.monotonic() - began:.0f} s: process 0 has ended, exit code {code}")
    finally:
        for each in (first, last):
            each.kill()
            each.wait()


if __name__ == "__main__":
    main() if len(sys.argv) == 1 else take_part(sys.argv[1], int(sys.argv[2]))
