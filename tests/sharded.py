"""Run by test_scale.py in processes of its own: simulations over several devices, beside the same on one.

`sharded.py devices` needs 8 devices; `sharded.py PROCESS PORT OUT` is one of two processes with one device each.
"""

import re
import sys

import jax
import numpy as np

jax.config.update("jax_enable_x64", True)
if __name__ == "__main__" and sys.argv[1] != "devices":  # before anything is computed
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{sys.argv[2]}", 2, int(sys.argv[1]))

import reference as ref  # noqa: E402
from fastfedpg import ALGORITHMS, simulate, with_oracle  # noqa: E402
from fastfedpg.algorithms.combine import krum, mixing  # noqa: E402
from fastfedpg.runtime import Schedule, collect, layout_of, message_sizes, program, simulate_records  # noqa: E402
from fastfedpg.runtime.placement import TASKS  # noqa: E402
from fastfedpg.runtime.result import extras  # noqa: E402

N = 16
TABULAR = ref.small_problem(N=N, S=4, A=3, seed=3)
PROBLEMS = {"exact": with_oracle(TABULAR, "exact"), "gpomdp": with_oracle(TABULAR, "gpomdp", B=4, K=6)}
METHODS = {name: ALGORITHMS[name](0.3, 3) for name in ("fast_fedpg", "fedavg_pg", "independent_pg", "rc_pg")}
METHODS["scaffold_pg"] = ALGORITHMS["scaffold_pg"](0.3, 3, option="I")
GATHERS = {"fast_fedpg": 2, "fedavg_pg": 1, "scaffold_pg": 2, "independent_pg": 0, "rc_pg": 3}
"""One for each array of each exchange."""
CASES = [
    ("fast_fedpg", "exact", None),
    ("fast_fedpg", "gpomdp", 9),
    ("fedavg_pg", "gpomdp", None),
    ("scaffold_pg", "gpomdp", 9),
    ("rc_pg", "gpomdp", None),
    ("independent_pg", "exact", None),
    ("independent_pg", "gpomdp", 9),
]
COLLECTIVE = re.compile(r"= \S+ ((?:all|collective|ragged)-[a-z-]+|reduce-scatter|send|recv)\(")


def collectives(name, oracle, shards, participants=None):
    """The collectives in one method's compiled program."""
    problem, schedule = PROBLEMS[oracle], Schedule(2, participants=participants, shards=shards)
    layout = layout_of(problem, schedule)
    what = (METHODS[name], problem.oracle, layout)
    given = (layout.place(problem.tasks, TASKS), layout.place(problem.ids, TASKS), (), np.zeros(1, np.int32))
    parts = program.begin(*what, *given, np.zeros((1, 12)))
    logged = tuple(extras(problem, METHODS[name], np.zeros(12)))
    return COLLECTIVE.findall(program.advance.lower(*what, *given, parts, 0, 2, extras=logged).compile().as_text())


def equal(one, two, exactly):
    """Every number of two results: to the bit, or to 1e-9."""
    tolerance = {"rtol": 0, "atol": 0} if exactly else {"rtol": 1e-9, "atol": 1e-9}
    np.testing.assert_allclose(one.theta, two.theta, **tolerance)
    np.testing.assert_allclose(one.returns, two.returns, **tolerance)
    for name in one.metrics:
        np.testing.assert_allclose(one.metrics[name], two.metrics[name], err_msg=name, **tolerance)


def devices():
    """8 devices and one: the same numbers, and nothing but `combine` is communicated."""
    for name, oracle, participants in CASES:
        settings = {"seeds": 2, "metrics_every": 10, "participants": participants}
        one = simulate(PROBLEMS[oracle], METHODS[name], 20, **settings)
        equal(one, simulate(PROBLEMS[oracle], METHODS[name], 20, shards=8, **settings), oracle == "gpomdp")
        found = collectives(name, oracle, 8, participants)
        assert found == ["all-gather"] * GATHERS[name], f"{name}: {found}"
    widened()
    resumed()


def widened():
    """Rules that see all uploads, agents that are their own servers or have their own policies, in order of arrival,
    with something to log: 8 devices and one."""
    ring = np.eye(N) / 2 + np.roll(np.eye(N), 1, 0) / 4 + np.roll(np.eye(N), -1, 0) / 4
    change = lambda algorithm, f: algorithm._replace(exchanges=tuple(map(f, algorithm.exchanges)))

    def noting(e):
        def agent(*given):
            memory, own, up, info = e.agent(*given)
            return memory, own, up, info._replace(extra={"first": up[0]})

        return e._replace(agent=agent)

    own = METHODS["scaffold_pg"]._replace(personalise=lambda theta, kept: theta - kept.c_i)
    robust = change(METHODS["fast_fedpg"], lambda e: noting(e)._replace(combine=krum(2)))
    gossip = change(METHODS["independent_pg"], lambda e: noting(e)._replace(combine=mixing(ring)))
    for method in (gossip, own, robust):
        for m in (N, 9):
            settings = {"participants": m, "order": "arrival", "seeds": 2}
            one, two = (simulate(PROBLEMS["exact"], method, 3, shards=shards, **settings) for shards in (None, 8))
            equal(one, two, False)
            assert ("first" in one.metrics) == (method is not own)


def resumed():
    """Stopped on 8 devices with two agents at a time, gone on with on 4, and on one: as if never stopped."""
    problem, method, stood = PROBLEMS["gpomdp"], METHODS["scaffold_pg"], {}
    keep = lambda done, standing: stood.setdefault(done, standing())
    whole = [*simulate_records(problem, method, Schedule(6, 2, 2, 9, shards=8, agent_batch=2), keep, pause=1)]
    sizes = message_sizes(problem, method, np.zeros(12))
    for shards in (4, None):
        later = [*simulate_records(problem, method, Schedule(6, 2, 2, 9, shards=shards), start=stood[3])]
        equal(collect(whole[2:], sizes), collect(later, sizes), True)


def process(out):
    """One of two processes: its part of the agents, and in the end all of the result."""
    assert (jax.process_count(), len(jax.local_devices()), len(jax.devices())) == (2, 1, 2)
    found = {}
    for name in ("scaffold_pg", "independent_pg"):
        stood = []
        keep = lambda done, standing: stood.append(standing())
        records = [*simulate_records(PROBLEMS["gpomdp"], METHODS[name], Schedule(20, 2, 10, shards=2), keep, pause=10)]
        found[name] = records[-1].theta
        found[f"{name} memory"] = np.concatenate([np.ravel(x) for x in jax.tree.leaves(stood[-1].parts)])
    np.savez(out, **found)


if __name__ == "__main__":
    if sys.argv[1] == "devices":
        devices()
    else:
        process(sys.argv[3])
