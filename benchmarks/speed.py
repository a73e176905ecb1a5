"""Environment steps per second, beside a NumPy loop and a hand-written C program, and what else takes time and memory.

    make bench                   (about 15 minutes on two cores)
    make bench ARGS=--quick      (about 1)

The ways take turns, so that the machine's moods are shared; ratios are of medians, with bootstrap intervals. Seconds of
the library are those of a whole call of `simulate` after the first, which compiles and is reported by itself; those of
the C program are of its rounds. Use an otherwise idle machine.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import agreement
import exact_rounds
import long_runs
import memory
import numpy as np
import sweep
from measuring import machine, ratio
from numpy_loop import Loop
from rollouts import COMPILER, Rollouts
from work import Library, Work, rounds_for, timed, unevaluated

from fastfedpg import fast_fedpg, problems
from fastfedpg.problems import with_oracle

CELLS = ("check", "sampled", "sparse", "exact", "sweep", "memory", "rounds")


def say(words: str) -> None:
    """Progress."""
    print(words, file=sys.stderr, flush=True)


def sampled(work: Work, N: int, repeats: int, seconds: float, folder: Path) -> dict:
    """Nanoseconds for one environment step of one agent, each way; the NumPy loop has one agent and one round."""
    problem = work.problem(N)
    loop = Loop(work, work.problem(1))
    ways = {
        "library": Library(work, problem),
        "C": Rollouts(work, problem, folder),
        "AVX2": Rollouts(work, problem, folder, vectors=True),
    }
    first = ways["library"](1).seconds
    rounds = {name: rounds_for(way, seconds) for name, way in ways.items()}
    say(f"  N = {N:,}: first call {first:.1f} s; rounds {rounds}")
    took: dict[str, list[float]] = {name: [] for name in (*ways, "NumPy")}
    for k in range(repeats):
        for name, way in ways.items():
            took[name].append(way(rounds[name]).seconds / (rounds[name] * N * work.steps) * 1e9)
        took["NumPy"].append(loop(1).seconds / work.steps * 1e9)
        say(f"  N = {N:,}, {k + 1}/{repeats}: " + ", ".join(f"{name} {x[-1]:,.1f} ns" for name, x in took.items()))
    ns = {name: np.array(x) for name, x in took.items()}
    return {
        "N": N,
        "first_call": first,
        "rounds": rounds,
        "ns": took,
        "over_C": ratio(ns["C"], ns["library"]),
        "over_AVX2": ratio(ns["AVX2"], ns["library"]),
        "over_NumPy": ratio(ns["NumPy"], ns["library"]),
    }


def sparse(work: Work, N: int, repeats: int) -> list[dict]:
    """The library alone on S = 10,000 states, five of which can be reached from each pair (s, a).

    theta has 40,000 entries, and each is computed with at every local step: with few trajectories that is all it does.
    """
    began = time.perf_counter()
    p = problems.garnet(agents=N, S=10_000, A=4, branching=5)
    made, found = time.perf_counter() - began, []
    for B in (work.B, 64 * work.B):
        much = work._replace(B=B)
        problem, algorithm = unevaluated(with_oracle(p, "reinforce", B=B, K=work.K)), fast_fedpg(work.eta, work.H)
        first = timed(problem, algorithm, 1).seconds
        ns = [timed(problem, algorithm, 2).seconds / (2 * N * much.steps) * 1e9 for _ in range(repeats)]
        say(f"  S = 10,000, N = {N}, B = {B}: first call {first:.1f} s, {np.median(ns):,.1f} ns")
        found.append({"S": 10_000, "N": N, "B": B, "made": made, "first_call": first, "ns": ns})
    return found


def exact(sizes: list[int], agents: list[int], repeats: int, seconds: float) -> list[dict]:
    """Rounds with exact gradients; the largest, of which one takes seconds, are left out."""
    found = []
    for S, N in ((S, N) for S in sizes for N in agents if S * N <= 6400):
        found.append(exact_rounds.measure(S, N, repeats, seconds))
        each = ", ".join(f"{name} {1 / np.median(x):,.1f}" for name, x in found[-1]["seconds"].items())
        say(f"  S = {S}, N = {N}: {each} rounds/s")
    return found


def table(found: dict[str, Any]) -> str:
    """All that was measured, to be read."""
    lines = ["", *(f"{name}: {value}" for name, value in found["machine"].items()), ""]
    interval = lambda r, digits: f"{r[0]:,.{digits}f} [{r[1]:,.{digits}f}, {r[2]:,.{digits}f}]"
    if c := found.get("check"):
        error = c["tables"]["largest_error"]
        lines.append(f"C's tables: largest error of a probability {error:.1e} (2^-32 is 2.3e-10)")
        for name in ("gradient", "gradient, AVX2"):
            g, along = c[name], "{:.4f}, standard error {:.4f}".format(*c[name]["along"])
            lines.append(f"C's mean {name}: largest |z| {g['largest_z']:.2f}, limit {g['limit']:.2f} (99.9%)")
            lines.append(f"  along the exact one: {along}; it should be 1")
        for name in ("small", "work"):
            if name in c:
                J = ", ".join(f"{k} {v:.4f} ± {c[name]['standard_error'][k]:.4f}" for k, v in c[name]["J"].items())
                least = min(c[name]["p"].values())
                lines.append(f"J, {name}: from {c[name]['J_start']:.4f} to {J}; least p {least:.3f}")
    if rows := found.get("sampled"):
        lines += ["", "environment steps: millions per second, nanoseconds each (medians), and ratios of rates"]
        lines.append("     N  library M/s     ns   C M/s     ns  AVX2 M/s     ns  NumPy ns  first call")
        for r in rows:
            rates = [np.median(r["ns"][name]) for name in ("library", "C", "AVX2")]
            each = " ".join(f"{1e3 / ns:{w}.1f} {ns:6.2f}" for ns, w in zip(rates, (12, 7, 9), strict=True))
            lines.append(f"{r['N']:6} {each} {np.median(r['ns']['NumPy']):9,.0f} {r['first_call']:9.1f} s")
        lines += ["", "     N   library over C, over C with AVX2 by hand, over NumPy"]
        for r in rows:
            ratios = [interval(r[f"over_{name}"], n) for name, n in (("C", 3), ("AVX2", 3), ("NumPy", 0))]
            lines.append(f"{r['N']:6}   {', '.join(ratios)}")
        ns = [np.median(r["ns"]["library"]) for r in rows]
        lines.append(f"largest over smallest ns of the library: {max(ns) / min(ns):.2f}")
    for r in found.get("sparse", ()):
        ns = np.median(r["ns"])
        lines.append(f"S = {r['S']:,}, sparse, N = {r['N']}, B = {r['B']}: {1e3 / ns:.1f} M steps/s, {ns:.2f} ns")
    if rows := found.get("exact"):
        lines += ["", "rounds per second with exact gradients (medians), and the library's over the best of the others"]
        lines.append("   S    N    library      solve    factors    at once   first call   ratio")
        for r in rows:
            seconds = {name: np.array(x) for name, x in r["seconds"].items()}
            ours, *others = seconds.values()
            best = min(others, key=np.median)
            each = " ".join(f"{1 / np.median(x):10,.1f}" for x in seconds.values())
            lines.append(f"{r['S']:4} {r['N']:4} {each} {r['first_call']:10.1f} s   {interval(ratio(best, ours), 2)}")
    if r := found.get("sweep"):
        lines += ["", f"{r['runs']} runs of {r['rounds']} rounds, compiling included: one sweep {r['sweep']:.1f} s"]
        said = f"each compiled {r['each_compiled']:.0f} s, each step size compiled {r['each_setting_compiled']:.0f} s"
        lines.append(f"  one by one, extrapolated from {2 * len(r['new'])} runs: {said}")
    if r := found.get("memory"):
        gib = lambda x: f"{x / 2**30:.2f} GiB"
        words = f"{gib(r['peak'])} (imports {gib(r['imported'])}, with the problem {gib(r['problem'])})"
        lines += ["", f"peak memory, N = {r['N']:,}: {words}"]
    if rows := found.get("rounds"):
        lines += [
            "",
            "a record after every round, into a folder: microseconds of CPU a round; what memory grew by after 1,000,",
            "the process's own, and the peak with pages of files, which the system takes back",
        ]
        for r in rows:
            each, own = r["seconds"] / (r["rounds"] - 1000) * 1e6, (r["own"] - r["own_after_1000"]) / 2**20
            grown, size = (r["peak"] - r["after_1000"]) / 2**20, r["files"] / 2**20
            lines.append(
                f"{r['rounds']:9,} rounds: {each:6.0f} us, {own:6.1f} MiB, {grown:6.1f} MiB ({size:.1f} MiB of files)"
            )
    return "\n".join(lines)


def main() -> int:
    """Measure, print, and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer and smaller cells, less often")
    parser.add_argument("--cells", nargs="*", choices=CELLS, help="what to measure; everything, unless given")
    parser.add_argument("--agents", type=int, nargs="*", help="N of the sampled cells")
    parser.add_argument("--repeats", type=int, help="how often the ways take turns")
    parser.add_argument("--seconds", type=float, help="about how long one turn of one way takes")
    parser.add_argument("--out", type=Path, default=Path("runs/bench.json"), help="where everything goes, as JSON")
    given = parser.parse_args()
    quick = given.quick
    cells = given.cells or (("check", "sampled", "exact") if quick else CELLS)
    agents = given.agents or ([64, 1024] if quick else [64, 1024, 8192, 65_536])
    repeats, seconds = given.repeats or (3 if quick else 5), given.seconds or (0.5 if quick else 1.5)
    work, began = Work(), time.perf_counter()
    found: dict[str, Any] = {"machine": machine(COMPILER), "work": work._asdict()}
    with tempfile.TemporaryDirectory(prefix="fastfedpg-bench-") as folder:
        measures: dict[str, Callable[[], Any]] = {
            "check": lambda: agreement.check(work, Path(folder), quick),
            "sampled": lambda: [sampled(work, N, repeats, seconds, Path(folder)) for N in agents],
            "sparse": lambda: sparse(work, 16, repeats),
            "exact": lambda: exact([5, 25] if quick else [5, 25, 100, 400], [1, 16, 64], 3, seconds / 2),
            "sweep": lambda: sweep.measure(20, 3),
            "memory": lambda: memory.measure(100_000),
            "rounds": lambda: [
                long_runs.measure(rounds) for rounds in (10_000, 100_000, 1_000_000)[: 2 if quick else 3]
            ],
        }
        try:
            for name in cells:
                say(f"{name} ({time.perf_counter() - began:.0f} s)")
                found[name] = measures[name]()
        finally:  # what was measured is told, whatever came after it
            found["seconds"] = time.perf_counter() - began
            print(table(found))
            given.out.parent.mkdir(parents=True, exist_ok=True)
            given.out.write_text(json.dumps(found, indent=2) + "\n")
            print(f"written: {given.out}")
    if not all(c["holds"] for c in found.get("check", {}).values()):
        print("\nThe ways do not agree: see the checks above.")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
