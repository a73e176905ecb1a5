"""What a run of very many cheap rounds takes, with a record after each: `python long_runs.py ROUNDS` prints it.

Measured in a process of its own, from a configuration to the files in its folder.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from memory import peak

from fastfedpg import Config, run


def measure(rounds: int) -> dict:
    """Seconds, and peak memory in bytes when the first record was there and in the end."""
    said = subprocess.run([sys.executable, __file__, str(rounds)], check=True, capture_output=True, text=True)
    return json.loads(said.stdout)


def main(rounds: int) -> None:
    """Two agents, five numbers a policy: the rounds cost nothing, so what grows can be seen."""
    config = Config("compromise", agents=2, algorithm="fedavg_pg", H=1, eta=1e-3, rounds=rounds, metrics_every=1)
    begun: list[float] = []

    def report(done: int, record: object = None) -> None:
        if done == 1000 and not begun:
            begun.extend((time.monotonic(), peak()))

    with tempfile.TemporaryDirectory(prefix="fastfedpg-") as folder:
        run(config, Path(folder) / "run", report=report)
        size = sum(p.stat().st_size for p in Path(folder).rglob("*") if p.is_file())
    seconds = time.monotonic() - begun[0]
    print(json.dumps({"rounds": rounds, "seconds": seconds, "after_1000": begun[1], "peak": peak(), "files": size}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
