"""The memory that a simulation takes at its peak: `python memory.py N` prints it, measured in a process of its own."""

import json
import resource
import subprocess
import sys
from pathlib import Path

from work import Library, Work


def measure(N: int) -> dict:
    """Peak memory in bytes: with the library imported and the problem made, and after a round."""
    said = subprocess.run([sys.executable, __file__, str(N)], check=True, capture_output=True, text=True)
    return json.loads(said.stdout)


def peak() -> int:
    """The largest resident set so far, in bytes; Linux's `getrusage` would also count the process that started it."""
    status = Path("/proc/self/status")
    if status.exists():
        return 1024 * next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def own_memory() -> int:
    """What is resident now in bytes, without pages of files, which the system takes back when it needs them."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return 1024 * next((int(line.split()[1]) for line in lines if line.startswith("RssAnon")), 0)


if __name__ == "__main__":
    agents, work = int(sys.argv[1]), Work()
    imported = peak()
    library = Library(work, work.problem(agents))
    made = peak()
    library(1)
    print(json.dumps({"N": agents, "imported": imported, "problem": made, "peak": peak()}))
