"""Steps and CPU seconds to a threshold: PPO of others, and presets of ours, taking turns in one run.

Each method is a child process with one thread that trains with one seed and evaluates itself: about every `every` steps
it plays episodes that it does not train on, always the same ones, and prints a line of JSON, {"steps": …, "mode": …,
"sampled": …, "cpu": …, "cpu_all": …}: the mean return of the policy's mode and of its own random actions, the CPU
seconds without start and evaluations, and with them. A method has reached the threshold at the first evaluation whose
mean does; it is ended when both means have. Without a threshold it goes on to its budget. Seeds are the outer loop, so
that a busy machine slows all methods. Programs that JAX has compiled are kept below OUT, rejax's and ours, as
`fastfedpg run` keeps its own: seconds of the first seed have compiling in them.

Every finished run is a row of OUT/peers.csv and a file OUT/TASK-METHOD-SEED.jsonl; a run that is in the table is not
made again.

    python benchmarks/peers.py --peer-python venv/bin/python --tasks CartPole-v1 Pendulum-v1 --seeds 3 --out peers
"""

import argparse
import csv
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.stats import ttest_ind

HERE = Path(__file__).resolve().parent
ONE_THREAD = {f"{x}_NUM_THREADS": "1" for x in ("OMP", "OPENBLAS", "MKL")}
ONE_THREAD["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
MEANS = ("mode", "sampled")
COLUMNS = (
    "task", "method", "seed", "threshold", "budget", "episodes",
    *(f"{what}_{mean}" for mean in MEANS for what in ("steps", "cpu", "cpu_all")),
    "last_steps", "last_cpu", "last_cpu_all", "last_mode", "last_sampled",
)  # fmt: skip


class Task(NamedTuple):
    """What is to be learned, the steps there are for it, and how often and with how many episodes it is evaluated."""

    env: str
    threshold: float | None
    budget: int
    every: int
    episodes: int
    horizon: int | None = None


TASKS = {
    task.env: task
    for task in (
        Task("CartPole-v1", 475, 100_000, 2_000, 20),
        Task("Pendulum-v1", -200, 100_000, 4_000, 20),
        Task("LunarLander-v3", 100, 196_608, 16_384, 20),
        Task("HalfCheetah-v5", 500, 200_000, 10_000, 20, horizon=200),
    )
}

PEER = "--env {env} --seed {seed} --budget {budget} --every {every} --episodes {episodes} {horizon}"
OURS = "--first-seed {seed} --evaluation-episodes {episodes} --agents 1"
METHODS = {
    "sb3-ppo": {"*": ("{peer}", "sb3_ppo.py", PEER)},
    "rejax-ppo": dict.fromkeys(("CartPole-v1", "Pendulum-v1"), ("{peer}", "rejax_ppo.py", PEER)),
    "ppo": {
        task: (sys.executable, "our_run.py", f"{OURS} --preset {preset} --problem-args workers=1 patience=3600")
        for task, preset in (
            ("CartPole-v1", "cart-pole"),
            ("Pendulum-v1", "pendulum"),
            ("LunarLander-v3", "lunar-lander"),
            ("HalfCheetah-v5", "half-cheetah"),
        )
    },
    "actor-critic": {
        "CartPole-v1": (
            sys.executable,
            "our_run.py",
            f"{OURS} --problem gym:CartPole-v1 --problem-args workers=1 --policy mlp --oracle actor_critic "
            "--optimiser adam --eta 0.01 --H 5 --B 8 --rounds 20",
        ),
    },
}
"""A row for each method: for a task, or for all (*), the interpreter, the program beside this one, and its flags.

Those of ours are the flags of `fastfedpg run`.
"""


def command(method: str, task: Task, seed: int, peer: str) -> list[str] | None:
    """The words of a child's command line; None where the method has no row for the task."""
    row = METHODS[method].get(task.env) or METHODS[method].get("*")
    if row is None:
        return None
    given = {"peer": peer, "seed": seed, **task._asdict()}
    given["horizon"] = "" if task.horizon is None else f"--horizon {task.horizon}"
    interpreter, program, flags = row
    return [interpreter.format(**given), str(HERE / program), *flags.format(**given).split()]


def reached(task: Task, found: list[dict], mean: str) -> dict | None:
    """The first evaluation at which a mean is high enough."""
    if task.threshold is None:
        return None
    return next((x for x in found if x[mean] is not None and x[mean] >= task.threshold), None)


def kept_programs(out: Path) -> dict[str, str]:
    """What tells JAX where compiled programs are kept, all of them."""
    about = {"COMPILATION_CACHE_DIR": str(out / "programs"), "PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    return {f"JAX_{name}": value for name, value in about.items()}


def run(words: list[str], task: Task, log: Path, say) -> list[dict]:
    """All evaluations of one child, which is ended when it has reached what it was for."""
    found: list[dict] = []
    with log.open("w", buffering=1) as kept, subprocess.Popen(
        words, stdout=subprocess.PIPE, text=True, env={**os.environ, **ONE_THREAD, **kept_programs(log.parent)}
    ) as child:  # fmt: skip
        assert child.stdout is not None
        try:
            for line in child.stdout:
                if not line.startswith("{"):  # a word of some library's
                    continue
                kept.write(line)
                found.append(json.loads(line))
                say(found[-1])
                if all(reached(task, found, mean) for mean in MEANS if found[-1][mean] is not None):
                    break
            else:
                if child.wait() or not found:
                    raise SystemExit(f"{' '.join(words)} ended with code {child.returncode}")
        finally:
            child.kill()
    return found


def row(task: Task, method: str, seed: int, found: list[dict]) -> dict:
    """What is written down of a run; what it did not reach is empty."""
    about = {"task": task.env, "method": method, "seed": seed, "episodes": task.episodes, "budget": task.budget}
    out = {**about, "threshold": task.threshold, **{f"last_{k}": v for k, v in found[-1].items()}}
    for mean in MEANS:
        at = reached(task, found, mean) or {}
        out |= {f"{what}_{mean}": at.get(what) for what in ("steps", "cpu", "cpu_all")}
    return {name: "" if out[name] is None else out[name] for name in COLUMNS}


def read(path: Path) -> list[dict]:
    """The rows that are there."""
    return list(csv.DictReader(path.read_text().splitlines())) if path.exists() else []


def summary(rows: list[dict]) -> list[str]:
    """A line for each task, method and mean: the middle seed, and the range of all."""
    lines = []
    for task, method, mean in dict.fromkeys((x["task"], x["method"], mean) for x in rows for mean in MEANS):
        mine = [x for x in rows if (x["task"], x["method"]) == (task, method) and x[f"last_{mean}"]]
        goal = mine[0]["threshold"] if mine else ""
        there = [x for x in mine if x[f"steps_{mean}"]] if goal else mine
        names = [f"{what}_{mean}" if goal else f"last_{what}" for what in ("steps", "cpu", "cpu_all")]
        spent = [_middle([float(x[name]) for x in there]) for name in names] if there else []
        said = f"{goal} reached by {len(there)} of {len(mine)}" if goal else ""
        worth = "" if goal or not mine else _middle([float(x[f"last_{mean}"]) for x in mine])
        after = "after {} steps, {} s of CPU ({} s with start and evaluations)".format(*spent) if there else ""
        if mine:
            lines.append(" ".join(filter(None, (f"{task} {method}, {mean}:", said, worth, after))))
    return lines


def ratios(rows: list[dict], ours: str = "ppo") -> list[str]:
    """How many times a peer's steps and CPU seconds ours takes until its own random actions reach the threshold.

    Ratios of geometric means over seeds, with 95% intervals (Welch's t of the logarithms). A seed that did not get
    there counts with all that it had: then the ratio is a bound, and has no interval.
    """
    lines = []
    for task in dict.fromkeys(x["task"] for x in rows if x["threshold"]):
        mine = [x for x in rows if (x["task"], x["method"]) == (task, ours)]
        for peer in dict.fromkeys(x["method"] for x in rows if x["task"] == task and x["method"] != ours):
            theirs = [x for x in rows if (x["task"], x["method"]) == (task, peer)]
            if mine and theirs:
                said = [
                    f"{what} {_ratio(mine, theirs, name)}" for what, name in (("steps", "steps"), ("CPU s", "cpu_all"))
                ]
                lines.append(f"{task} {ours} over {peer}: {', '.join(said)}")
    return lines


def _ratio(mine: list[dict], theirs: list[dict], name: str) -> str:
    logs = [np.log([float(x[f"{name}_sampled"] or x[f"last_{name}"]) for x in some]) for some in (mine, theirs)]
    late = [sum(not x["steps_sampled"] for x in some) for some in (mine, theirs)]
    ratio = f"{np.exp(logs[0].mean() - logs[1].mean()):.2f}"
    if all(late):
        return "unknown"
    if any(late):
        which = 0 if late[0] else 1
        return f"{('at least', 'at most')[which]} {ratio} ({late[which]} of {len(logs[which])} did not get there)"
    low, high = np.exp(ttest_ind(*logs, equal_var=False).confidence_interval(0.95))
    return f"{ratio} [{low:.2f}, {high:.2f}]"


def _middle(values: list[float]) -> str:
    low, middle, high = (f"{x:,.0f}" if abs(x) >= 100 else f"{x:.3g}" for x in np.quantile(values, (0, 0.5, 1)))
    return middle if len(values) == 1 else f"{middle} ({low} to {high})"


def main() -> None:
    """Run what is missing, and print the summary."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer-python", default=sys.executable, help="interpreter with the peers' packages")
    parser.add_argument("--tasks", nargs="*", choices=TASKS, default=["CartPole-v1", "Pendulum-v1"])
    parser.add_argument("--methods", nargs="*", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seeds", type=int, default=3, help="how many")
    parser.add_argument("--first-seed", type=int, default=0, help="the first of them")
    parser.add_argument("--budget", type=int, help="steps, in the place of each task's own")
    parser.add_argument("--out", type=Path, default=Path("peers"))
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    table = args.out / "peers.csv"
    tasks = [TASKS[t]._replace(budget=args.budget or TASKS[t].budget) for t in args.tasks]
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    every = [(s, t, m, command(m, t, s, args.peer_python)) for s in seeds for t in tasks for m in args.methods]
    wanted = [x for x in every if x[-1] is not None]
    for number, (seed, task, method, words) in enumerate(wanted, 1):
        known = [(x["task"], x["method"], x["seed"], x["budget"]) for x in read(table)]
        if (task.env, method, str(seed), str(task.budget)) in known:
            continue
        title, began = f"[{number}/{len(wanted)}] {task.env} {method} seed {seed}", time.monotonic()

        def say(x: dict, title: str = title, began: float = began) -> None:
            means = [f"{mean} {x[mean]:.1f}" for mean in MEANS if x[mean] is not None]
            words = ", ".join([f"{x['steps']:,} steps", *means, f"{time.monotonic() - began:.0f} s"])
            print(f"{title}: {words}", file=sys.stderr, flush=True)

        log = args.out / f"{task.env}-{method}-{seed}.jsonl"
        found = run(words, task, log, say)
        new = not table.exists()
        with table.open("a", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS)
            if new:
                writer.writeheader()
            writer.writerow(row(task, method, seed, found))
    print("\n".join([*summary(read(table)), *ratios(read(table))]))


if __name__ == "__main__":
    main()
