"""`fastfedpg run` as a child of peers.py: the same flags, and a line of JSON for every record.

`sampled` is the mean return of --evaluation-episodes episodes; the policy's mode is not played, so `mode` is null. The
CPU seconds are those of this process and of those that play for it; `cpu` begins with the first record, and has
compiling and evaluations in it, since they can't be told apart here.
"""

import json
import resource
import sys
import time
from dataclasses import dataclass

import psutil

from fastfedpg.cli.parse_flags import PRESET, option, settings_for
from fastfedpg.experiment import run


@dataclass(frozen=True)
class NoFlags:
    """Run one algorithm on one problem, and print what comes of it."""

    preset: str | None = option(None, PRESET)


def cpu() -> float:
    """Seconds of this process and of its children, those that have ended too."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    total = time.process_time() + ended.ru_utime + ended.ru_stime
    for child in psutil.Process().children(recursive=True):
        try:
            spent = child.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += spent.user + spent.system
    return total


def main() -> None:
    """Run, and print."""
    config, _ = settings_for((NoFlags,), "our_run.py", sys.argv[1:])
    first = []

    def report(done=None, record=None, stage=""):
        if record is None:
            return
        now = cpu()
        first.append(now)
        steps, mean = int(record.env_steps.mean()), float(record.evaluation.returns.mean())
        seconds = {"cpu": now - first[0], "cpu_all": now}
        print(json.dumps({"steps": steps, "mode": None, "sampled": mean, **seconds}), flush=True)

    run(config, report=report)


if __name__ == "__main__":
    main()
