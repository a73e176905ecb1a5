"""What every algorithm must pass. Adding an algorithm is adding a row to the table in `conformance_rows.py`."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import reference as ref
from conformance_rows import TABLE, A, B, H, K, N, Row, S, d
from fastfedpg import ALGORITHMS, fast_fedpg, fedavg_pg, independent_pg, loop, scaffold_pg, simulate, with_oracle
from fastfedpg.core import Algorithm, key_for
from fastfedpg.errors import InputError
from fastfedpg.kinds import NUMBER, NUMBERS
from fastfedpg.problems import tabular_exact
from fastfedpg.runtime import Schedule, message_sizes, program, simulate_records
from fastfedpg.runtime.round import begun
from stopped_runs import BOTH, RUNTIMES, bits, every_standing, taken_up

ETA, ETAS, ROUNDS = 0.3, [0.3, 0.1, 0.3], 6


class Case(NamedTuple):
    oracle: str
    kernels: bool  # each agent has its own
    participants: int | None
    seeds: int
    tolerance: float
    sweep: list[float] | None = None  # the first is ETA


# All that is asked of a row in one of these cases is one program, which is compiled once for all tests: compiling is
# nearly all that a row costs.
EXACT = Case("exact", False, None, 1, 1e-12)
SAMPLED = Case("gpomdp", False, None, 2, 1e-9, ETAS)
SOME = Case("gpomdp", True, 2, 2, 1e-9)
NAMES = {"exact": EXACT, "sampled": SAMPLED, "some-agents-own-kernels": SOME}
WITHOUT_NOISE = ("fast_fedpg", "scaffold_pg-some", "decentralised_pg", "pavg-natural")
"""Rows that `make test` tries without noise too, a server's, with memory, a graph's, a table's; the rest is `long`."""


WITH_SOME = (
    "fast_fedpg", "fedavg_pg", "scaffold_pg-some", "fedlin_pg", "rc_pg", "personal_heads", "adaptive_anchor",
    "fedpg_br", "decentralised_pg", "mdpgt", "afedpg", "incremental_pg",
)  # fmt: skip
"""Rows that it tries with some agents alone and own kernels: those that keep something, or go by who is there."""


ALONE = (
    "fast_fedpg", "scaffold_pg-II", "rc_pg", "heavy_anchor", "mdpgt",
    *(name for name, row in TABLE.items() if row.alone or row.step),
)  # fmt: skip
"""Rows whose single agent it asks for: corrections that must vanish, a graph, and all that take no plain steps."""
assert {*WITHOUT_NOISE, *WITH_SOME, *ALONE} <= {*TABLE}


def _case(row: str, name: str):
    stays = {"exact": WITHOUT_NOISE, "some-agents-own-kernels": WITH_SOME}.get(name, tuple(TABLE))
    marks = [] if row in stays else [pytest.mark.long]
    return pytest.param(row, NAMES[name], id=f"{row}-{name}", marks=marks)


def _only(row: str, stays: tuple[str, ...]):
    return pytest.param(row, id=row, marks=[] if row in stays else [pytest.mark.long])


CASES = pytest.mark.parametrize(
    ("row", "case"), [_case(row, name) for name in NAMES for row in TABLE], indirect=["row"]
)


@cache
def with_kernels(oracle: str, kernels: bool, agents: int = N, seed: int = 30):
    settings = {"gpomdp": {"B": B, "K": K, "baseline": "leave-one-out"}, "exact": {}}[oracle]
    return with_oracle(ref.small_problem(N=agents, S=S, A=A, seed=seed, kernels=kernels), oracle, **settings)


def problem_of(row: Row, case: Case):
    """What needs to know its MDP plays nothing, and what needs to play does."""
    return with_kernels("exact" if row.tabular else "gpomdp" if row.plays else case.oracle, case.kernels)


@pytest.fixture(params=TABLE, ids=str)
def row(request) -> Row:
    return TABLE[request.param]


class Watched(NamedTuple):
    algorithm: Algorithm  # with ETA
    make: Callable[..., Algorithm]
    traces: list[str]  # the exchanges whose agent half Python has gone through, each time it did


@cache
def watched(make: Callable[..., Algorithm]) -> Watched:
    """A row's algorithm and how it is made, the same objects in all tests."""
    traces = []

    def counted(e):
        def agent(*arguments):
            traces.append(e.name)
            return e.agent(*arguments)

        return e._replace(agent=agent)

    def of(algorithm):
        return algorithm._replace(exchanges=tuple(counted(e) for e in algorithm.exchanges))

    known = cache(lambda eta: of(make(eta)))
    traced = lambda eta: of(make.__wrapped__(eta))
    return Watched(
        known(ETA), lambda eta: traced(eta) if isinstance(eta, jax.core.Tracer) else known(float(eta)), traces
    )


@pytest.fixture
def algorithm(row) -> Algorithm:
    return watched(row.make).algorithm


def simulated(row: Row, case: Case, rounds: int, records=False, problem=None):
    """A row's run in a case; where step sizes are swept, the first of them is ETA."""
    algorithm, make, _ = watched(row.make)
    p, what = problem or problem_of(row, case), make if case.sweep else algorithm
    if records:
        return [
            *simulate_records(p, what, Schedule(rounds, case.seeds, participants=case.participants), sweep=case.sweep)
        ]
    return simulate(p, what, rounds, case.seeds, participants=case.participants, sweep=case.sweep)


def setting(result, k: int):
    """The k-th of a sweep."""
    metrics = {name: x[k] for name, x in result.metrics.items()}
    return replace(result, metrics=metrics, returns=result.returns[k], theta=result.theta[k])


def why_not(row: Row, case: Case) -> str:
    """The words with which fewer agents than all are refused, where a method says who takes part."""
    if case.participants is None:
        return ""
    if watched(row.make).algorithm.everybody:
        return r"participants = 2 of 3 agents: .* all agents"
    return f"each round of this algorithm is for {row.part} of the agents" if row.part < N else ""


def kinds_of(name: str) -> set[str]:
    """The names of an algorithm's rows that there must be: one for each choice that changes what it computes."""
    takes = ALGORITHMS.describe(name).parameters.values()
    own = [p for p in takes if p.kind.choices and p.name not in ("optimiser", "server")]
    return {f"{name}-{choice}" for p in own for choice in p.kind.choices} or {name}


ELSEWHERE = {
    "pavg-soft",  # is fedavg_pg to the bit: test_pavg.py
    "fednpg_admm-plain",  # is -trust but for the length of its step: test_natural.py
}


def test_every_algorithm_has_a_row_and_so_has_every_kind_of_it():
    assert {name.split("-")[0] for name in TABLE} == set(ALGORITHMS)
    assert {kind for name in ALGORITHMS for kind in kinds_of(name)} - set(TABLE) == ELSEWHERE


def same(one, two, tolerance, scale):
    np.testing.assert_array_equal(one.rounds, two.rounds)
    np.testing.assert_allclose(one.theta, two.theta, atol=tolerance * scale, rtol=0)
    np.testing.assert_allclose(one.returns, two.returns, atol=100 * tolerance, rtol=0)
    assert list(one.metrics) == list(two.metrics)
    for name in one.metrics:
        np.testing.assert_allclose(one.metrics[name], two.metrics[name], rtol=100 * tolerance, atol=100 * tolerance)


@CASES
def test_loop_equals_simulate(row, algorithm, case):
    """theta, and every metric that follows from it, after every round: the same numbers, drawn from the same counters.

    1e-12 in float64 without noise, 1e-9 where trajectories are played. A sweep has this run at either end.
    """
    arguments, some = (problem_of(row, case), algorithm, ROUNDS, case.seeds), {"participants": case.participants}
    if words := why_not(row, case):
        for run in (loop, simulate):
            with pytest.raises(InputError, match=words):
                run(*arguments, **some)
        return
    looped = loop(*arguments, **some)
    result = simulated(row, case, ROUNDS)
    if case.seeds > 1 and not row.tabular:
        assert np.abs(looped.theta[0] - looped.theta[1]).max() > 1e-2, "seeds differ"
    if case.sweep is None:
        same(looped, result, case.tolerance, row.scale)
    for k, eta in enumerate(case.sweep or ()):
        assert result.theta.shape[:2] == (len(case.sweep), case.seeds)
        if eta == ETA:
            same(looped, setting(result, k), case.tolerance, row.scale)
        else:
            assert np.abs(looped.theta - result.theta[k]).max() > 1e-2, "step sizes differ"


def test_loop_equals_simulate_over_many_rounds():
    """1e-9 over 20 rounds of two exchanges, with records that lie apart."""
    row = TABLE["fast_fedpg-coded"]
    arguments = (problem_of(row, SAMPLED), watched(row.make).algorithm, 20, SAMPLED.seeds)
    same(loop(*arguments, metrics_every=5), simulate(*arguments, metrics_every=5), SAMPLED.tolerance, 1.0)


@pytest.mark.parametrize("row", [_only(row, WITH_SOME) for row in TABLE], indirect=True)
def test_some_agents_are_not_all(row, algorithm):
    """Nothing is counted for the agents that take no part, and theta is another than with them.

    On a graph nothing is sent to them either: of N - 1 others each is there with probability (m - 1)/(N - 1).
    """
    if why_not(row, SOME) or row.roles:
        return  # refused, as above; and where agent 0 has a part of its own, it depends on who takes part
    some, every = simulated(row, SOME, 2), loop(problem_of(row, SOME), algorithm, 2, SOME.seeds)
    assert (some.final("env_steps") * N == every.final("env_steps") * SOME.participants).all()
    graph = all(e.combine.of(N).present is not None for e in algorithm.exchanges)
    met = (SOME.participants - 1) / (N - 1) if graph else 1
    np.testing.assert_allclose(some.final("bytes_up") * N, every.final("bytes_up") * SOME.participants * met)
    assert np.abs(some.theta - every.theta).max() > 1e-3


@CASES
def test_over_flower_equals_simulate_after_every_round(row, algorithm, tmp_path, case):
    """Agents behind sockets, reached by Flower's apps: theta after each round, and who took part in it."""
    grid = pytest.importorskip("grid", exc_type=ImportError)
    p, rounds = problem_of(row, case), 4
    if not row.up:
        for start in (lambda: grid.agents_of(p, algorithm, tmp_path), lambda: grid.rounds_of(None, p, algorithm)):
            with pytest.raises(InputError, match="this algorithm has no server: its agents say nothing to each other"):
                start()
        return
    schedule = Schedule(rounds, participants=case.participants)
    own = algorithm.personalise is not None  # then the server knows the common policy, and the agents their own
    known = ref.small_problem(N=N, S=S, A=A, seed=30, kernels=case.kernels) if own else None
    with grid.grid_of(grid.agents_of(p, algorithm, tmp_path, known)) as nodes:
        asked = lambda: grid.federated(
            grid.engine_of(nodes), p, algorithm, schedule, terms=grid.Terms(evaluate="agents" if own else "server")
        )
        if words := why_not(row, case):
            with pytest.raises(InputError, match=words):
                asked()
            return
        there = asked()
    here = simulated(row, case, rounds, records=True)
    plain = [*simulate_records(p, algorithm._replace(personalise=None), schedule)] if own else here
    assert [r.round for r in there] == [r.round for r in here] == [*range(rounds + 1)]
    for one, two, common in zip(there, here, plain, strict=True):  # there is the first seed alone
        np.testing.assert_allclose(one.theta, common.theta[:1], atol=case.tolerance * row.scale, rtol=0)
        np.testing.assert_allclose(one.evaluation.J, two.evaluation.J[:1], atol=100 * case.tolerance, rtol=0)
        np.testing.assert_allclose(one.rounds_taken, two.rounds_taken[:1], rtol=1e-15)
    assert np.abs(here[-1].theta[0]).max() > 0.01, "theta has moved"
    # One greeting a node, one question for each exchange of a round that it took part in, and what it thinks of it.
    told = N * (rounds + 1) if own else 0
    assert len(nodes.asked) == N + told + rounds * min(case.participants or N, row.part) * len(row.up)


def test_messages_are_the_declared_arrays_and_nothing_else(row, algorithm):
    """Every message is vectors of theta's own shape and dtype, and a few numbers; what is counted follows from them."""
    p = problem_of(row, SAMPLED)
    first = lambda tree: jax.tree.map(lambda x: x[0], tree)
    others = [0, 0]

    def walk(theta):
        state, down, memory = algorithm.init(theta, N)
        oracle = p.oracle(jnp.asarray(p.tasks[0]))
        memory, _ = begun(algorithm, oracle, theta, first(memory), jax.random.key(0))
        state, down = (first(state), first(down)) if algorithm.per_agent else (state, down)
        for e in algorithm.exchanges:
            memory, _, up, _ = e.agent(memory, (), down, oracle, jax.random.key(0))
            for way, message in enumerate((up, down)):
                for leaf in jax.tree.leaves(message):
                    assert isinstance(leaf, jax.Array)
                    assert leaf.dtype == theta.dtype
                    others[way] += leaf.size if leaf.shape != (d,) else 0
            state, down = e.server(state, up, 1.0, jax.random.key(0))

    theta = jnp.zeros(d)
    jax.eval_shape(walk, theta)  # forms are known without computing anything
    assert tuple(others) == row.scalars
    sizes = message_sizes(p, algorithm, theta)
    numbers = [sum(vectors) * d + more for vectors, more in zip((row.up, row.down), row.scalars, strict=True)]
    assert sizes[:4] == tuple(n * size for size in (1, 8) for n in numbers)
    assert sizes.syncs == len(row.up)
    assert message_sizes(p, algorithm, jnp.zeros(d, jnp.float32)).bytes_up == sizes.bytes_up // 2
    result = simulated(row, SAMPLED, 2)
    assert (result.final("env_steps")[:, 0] == row.part * row.in_rounds(2, row.estimates) * B * K).all()
    assert (result.final("floats_down") == 2 * sizes.floats_down * row.part / N).all()
    assert (result.final("syncs") == 2 * sizes.syncs).all()


def test_nothing_is_traced_a_second_time(row, algorithm):
    """Rounds after the first, and records of another length, run the program that is already there."""
    p, _, schedule = put_away(row)
    traces, seen = watched(row.make).traces, []
    for _ in simulate_records(p, algorithm, replace(schedule, rounds=7, metrics_every=3)):
        seen.append(len(traces))
    assert len(seen) == 4
    assert seen[1] == seen[-1] > 0
    list(simulate_records(p, algorithm, replace(schedule, rounds=4, first_seed=3)))
    assert len(traces) == seen[-1], "nor in a second run of the same objects"


PUT_AWAY = Schedule(5, seeds=2, metrics_every=2, first_seed=4)
"""Its records, after rounds 0, 2, 4 and 5, leave checkpoints on and between them."""


def put_away(row: Row):
    """Two of three agents with their own kernels are in each round, unless the method needs all, or says who."""
    case = SAMPLED if why_not(row, SOME) else SOME
    return problem_of(row, case), watched(row.make).algorithm, replace(PUT_AWAY, participants=case.participants)


@cache
def stood_in(row: Row, runtime: str):
    """What a row is put away with, its records where it never was, and where it stood after each round."""
    return put_away(row), *every_standing(RUNTIMES[runtime], *put_away(row))


@pytest.fixture
def own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@BOTH
def test_put_away_after_any_round_it_goes_on_as_if_nothing_had_been(row, runtime, own_folder):
    """From the file, and to the same bits."""
    (problem, algorithm, schedule), noted, stood = stood_in(row, runtime)
    assert [r.round for r in noted] == [0, 2, 4, 5]
    for standing in stood:
        went_on = taken_up(RUNTIMES[runtime], problem, algorithm, noted, standing, schedule)
        assert bits(went_on) == bits(noted), standing.round


@pytest.mark.parametrize(("first", "then"), [("simulate", "loop"), ("loop", "simulate")])
def test_one_runtime_goes_on_where_another_stood(row, first, then, own_folder):
    """Sums are added in another order there, so to rounding only: 1e-9 of numbers of order 1."""
    (problem, algorithm, schedule), noted, stood = stood_in(row, first)
    for standing in stood[1:3]:  # on a record, and between two
        went_on = taken_up(RUNTIMES[then], problem, algorithm, noted, standing, schedule)
        for a, b in zip(jax.tree.leaves(went_on), jax.tree.leaves(noted), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-9)


def in_form(program):
    """A program that is traced, and neither compiled nor run: all of its numbers are -1."""
    stand_in = lambda x: np.full(x.shape, -1, x.dtype)
    return lambda *given, **named: jax.tree.map(stand_in, program.eval_shape(*given, **named))


@pytest.mark.parametrize("row", [_only(row, WITH_SOME) for row in TABLE], indirect=True)
def test_dtype_is_kept(row, monkeypatch):
    """A float32 theta stays float32, in 64-bit mode and under a sweep of float64 step sizes too."""
    for name in ("begin", "advance", "policies"):
        monkeypatch.setattr(program, name, in_form(getattr(program, name)))
    theta, etas = np.zeros(d, np.float32), np.array([0.1, 0.2])
    result = simulate(problem_of(row, SAMPLED), watched(row.make).make, 2, theta0=theta, sweep=etas)
    assert result.theta.dtype == np.float32


def test_permuting_the_agents_with_their_keys_permutes_the_result(row):
    """Not where it goes by position whose turn it is, or who has a part of its own: then the result is another."""
    order = np.array([2, 0, 1])
    p = problem_of(row, SAMPLED)
    one = simulated(row, SAMPLED, 5)
    two = simulated(row, SAMPLED, 5, problem=p._replace(tasks=p.tasks[order], ids=p.ids[order]))
    expected = one.theta[..., order, :] if one.theta.ndim == 4 else one.theta
    if row.part < N or row.roles:
        assert np.abs(two.theta - expected).max() > 1e-3
    else:
        np.testing.assert_allclose(two.theta, expected, atol=1e-12 * row.scale)


@pytest.mark.parametrize("row", [_only(row, ALONE) for row in TABLE], indirect=True)
def test_one_agent_is_the_single_agent_method(row):
    """N = 1: every correction vanishes, and T rounds are T * local plain gradient steps, or what the row says.

    Of every step size that is swept.
    """
    if row.plays:
        return  # its closed forms are in its own file
    alone, etas = ref.small_problem(N=1, S=S, A=A, seed=31), [ETA, 0.1]
    result = simulate(with_kernels("exact", False, 1, 31), watched(row.make).make, 4, sweep=etas)
    step = row.step or (lambda problem, theta, eta: theta - eta * tabular_exact.gradient(problem, theta))
    for eta, found in zip(etas, result.theta, strict=True):
        theta = np.zeros((S, A))
        for k in range(0 if row.alone else row.in_rounds(4, row.local)):
            theta = step(alone, theta, eta * row.stretch[k % len(row.stretch)])
        if row.alone:
            theta = row.alone(alone, eta, 4)
        np.testing.assert_allclose(found.reshape(S, A), theta, atol=1e-12 * row.scale)


def test_one_agent_with_noise_equals_fedavg():
    """With common random numbers the local trajectories are the same ones, so all methods with H fresh steps agree."""
    p = with_oracle(ref.small_problem(N=1, S=S, A=A, seed=32), "reinforce", B=2, K=5)
    plain = simulate(p, fedavg_pg(0.2, H), 5).theta
    for make in (fast_fedpg, scaffold_pg, independent_pg):
        np.testing.assert_allclose(simulate(p, make(0.2, H), 5).theta.reshape(plain.shape), plain, atol=1e-10)


def test_keys_differ_in_every_counter():
    names = [(0, 0, "local", 0), (1, 0, "local", 0), (0, 1, "local", 0), (0, 0, "gradient", 0), (0, 0, "local", 1)]
    keys = {tuple(np.asarray(jax.random.key_data(key_for(*name)))) for name in [*names, (0, 0, "local", None)]}
    assert len(keys) == 6


def test_the_plain_loop_without_any_compilation():
    """`jax.disable_jit` leaves Python alone to do the work: the same numbers."""
    row = TABLE["fast_fedpg"]
    with jax.disable_jit():
        plain = loop(problem_of(row, SAMPLED), row.make(ETA), 1)
    np.testing.assert_allclose(plain.theta, simulated(row, SAMPLED, 1).theta[0, :1], atol=1e-12)


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_a_number_that_is_not_finite_is_refused_by_the_factory(value):
    """Each of its own; letters such as eta are checked for all factories in one place."""
    seen = 0
    for name in ALGORITHMS:
        takes = ALGORITHMS.describe(name).parameters
        letters = {k: p.default for k, p in takes.items() if k in ("eta", "H")}
        for own in (p for p in takes.values() if p.kind in (NUMBER, NUMBERS) and not p.letter):
            seen += 1
            with pytest.raises(ValueError, match=rf"^{own.name} = \(?{value}"):
                ALGORITHMS[name](**letters, **{own.name: (value,) * 2 if own.kind is NUMBERS else value})
    assert seen > 20, "of 26 methods"
