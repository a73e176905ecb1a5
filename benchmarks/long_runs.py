"""What a run of very many cheap rounds takes, with a record after each: `python long_runs.py ROUNDS` prints it.

Measured in a process of its own, from a configuration to the files in its folder.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from memory import own_memory, peak

from fastfedpg import Config, run


def measure(rounds: int) -> dict:
    """Seconds of CPU, and memory in bytes after 1,000 rounds, in the end and at its peak."""
    said = subprocess.run([sys.executable, __file__, str(rounds)], check=True, capture_output=True, text=True)
    return json.loads(said.stdout)


def main(rounds: int) -> None:
    """Two agents, five numbers a policy: the rounds cost nothing, so what grows can be seen."""
    config = Config("compromise", agents=2, algorithm="fedavg_pg", H=1, eta=1e-3, rounds=rounds, metrics_every=1)
    begun: list[float] = []
    own: list[int] = []

    def report(done: int, record: object = None) -> None:
        if done == 1000 and not begun:
            begun.extend((time.process_time(), peak(), own_memory()))
        if done % 1000 == 0 and record is not None:
            own.append(own_memory())

    with tempfile.TemporaryDirectory(prefix="fastfedpg-") as folder:
        run(config, Path(folder) / "run", report=report)
        size = sum(p.stat().st_size for p in Path(folder).rglob("*") if p.is_file())
    found = {"rounds": rounds, "seconds": time.process_time() - begun[0], "files": size}
    found |= {"after_1000": begun[1], "peak": peak(), "own_after_1000": begun[2], "own": max(*own, own_memory())}
    print(json.dumps(found))


if __name__ == "__main__":
    main(int(sys.argv[1]))
