"""What every algorithm must pass. Adding an algorithm is adding a row to the table."""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import reference as ref
from fastfedpg import (
    ALGORITHMS,
    afedpg,
    centralised_pg,
    decentralised_pg,
    fast_fedpg,
    fedavg_pg,
    fedhapg_m,
    fedkl,
    fedlin_pg,
    fednpg,
    fednpg_admm,
    fedpg_br,
    fedprox_pg,
    fedsvrpg_m,
    heavy_anchor,
    incremental_pg,
    independent_pg,
    loop,
    mdpgt,
    mfpo,
    minibatch_pg,
    pavg,
    proxskip_pg,
    qavg,
    rc_pg,
    scaffold_pg,
    simulate,
    with_oracle,
)
from fastfedpg.algorithms.fedhapg_m import MIX
from fastfedpg.algorithms.wrappers.compressed import compressed
from fastfedpg.core import Algorithm, Codec, key_for
from fastfedpg.errors import InputError
from fastfedpg.problems import tabular_exact
from fastfedpg.runtime import Schedule, message_sizes, simulate_records
from fastfedpg.runtime.round import begun

H, N, S, A, B, K = 3, 3, 4, 3, 4, 6
d = S * A


class Row(NamedTuple):
    make: Callable[..., Algorithm]  # from eta; cached, so that one algorithm is compiled once for all tests
    up: tuple[int, ...]  # vectors of length d that an agent sends, exchange by exchange
    down: tuple[int, ...]  # and is sent
    estimates: int  # per agent and round
    local: int = H  # gradient steps in a round when there is one agent
    stretch: tuple[int, ...] = (1,)  # by how much these, one after the other, are longer than eta
    scalars: tuple[int, int] = (0, 0)  # numbers in a round beside those vectors, up and down
    lengths: Callable[[int], list[int]] | None = None  # where rounds differ: the estimates of each of the first
    part: int = N  # agents that take part in a round, where the method says who
    roles: bool = False  # whether agent 0 has a part of its own
    alone: Callable[..., np.ndarray] | None = None  # where these are others: (problem, eta, rounds) -> theta
    step: Callable[..., np.ndarray] | None = None  # or (problem, theta, eta) -> theta: one step of one agent
    tabular: bool = False  # whether it needs an oracle that knows the MDP, and plays nothing
    plays: bool = False  # whether it needs one that plays
    scale: float = 1.0  # of its theta, for tolerances

    def in_rounds(self, T: int, of_round: int) -> int:
        """So many in each round, or as many as there were."""
        return T * of_round if self.lengths is None else sum(self.lengths(T))


def drawn(T: int) -> list[int]:
    """What ProxSkip's server draws after each round, for the next; the first has 1/p."""
    draw = lambda t: min(int(jax.random.geometric(key_for(0, t, "local"), 1 / H)), 2 * H)
    return [H, *(draw(t) for t in range(T - 1))]


def momentum(b):
    """FedSVRPG-M of one agent: v = g(x) - (1 - b)(g(theta-) - u), H times, and u+ = the mean of v."""

    def rounds(problem, eta, T):
        g = lambda x: tabular_exact.gradient(problem, x)
        theta = old = np.zeros((S, A))
        for _ in range(T):
            u, x = (old - theta) / (eta * H), theta
            for _ in range(H):
                x = x - eta * (g(x) - (1 - b) * (g(old) - u))
            theta, old = x, theta
        return theta

    return rounds


def hessians(b):
    """FedHAPG-M of one agent: v = b g(x) + (1 - b)(u + hess(z)(x - theta-)), z between theta- and x by the keys."""

    def rounds(problem, eta, T):
        g = lambda x: with_oracle(problem, "exact").oracle(jnp.asarray(problem.cost[0])).gradient(x, (), ())
        theta = old = jnp.zeros(d)
        for t in range(T):
            u, x = (old - theta) / (eta * H), theta
            for l in range(H):
                key = jax.random.fold_in(key_for(0, t, "local", 0), l)
                z = old + jax.random.uniform(jax.random.fold_in(key, MIX), dtype=float) * (x - old)
                x = x - eta * (b * g(x) + (1 - b) * (u + jax.jvp(g, (z,), (x - old,))[1]))
            theta, old = x, theta
        return np.asarray(theta).reshape(S, A)

    return rounds


def lookahead(alpha):
    """AFedPG of one agent: v <- (1 - alpha) v + alpha g(z), z = theta + (1/alpha - 1)(theta - theta-); steps of eta."""

    def rounds(problem, eta, T):
        theta = old = np.zeros((S, A))
        for t in range(T):
            g = tabular_exact.gradient(problem, theta + (1 / alpha - 1) * (theta - old))
            v = g if t == 0 else (1 - alpha) * v + alpha * g
            theta, old = theta - eta * v / np.linalg.norm(v), theta
        return theta

    return rounds


# A code that loses nothing: what is told apart is the upload and its code, and feedback has nothing to add.
FLIPPED = Codec(lambda up, key: jax.tree.map(jnp.negative, up), lambda coded: jax.tree.map(jnp.negative, coded))


def natural(problem, theta, eta):
    """theta - eta (Q - V)/(1-gamma)."""
    Q = tabular_exact.q_values(problem, theta)[0]
    V = (ref.policy(theta, S, A) * Q).sum(axis=1, keepdims=True)
    return theta - eta * (Q - V) / (1 - problem.gamma)


def projected(problem, theta, eta):
    """log Proj(pi - eta d Q/(1-gamma)), whose rows are found by bisection."""
    d_pi, Q = tabular_exact.occupancy(problem, theta)[0], tabular_exact.q_values(problem, theta)[0]
    x = ref.policy(theta, S, A) - eta * d_pi[:, None] * Q / (1 - problem.gamma)
    low, high = x.min(axis=1, keepdims=True) - 1, x.max(axis=1, keepdims=True)
    for _ in range(100):
        middle = (low + high) / 2
        over = np.maximum(x - middle, 0).sum(axis=1, keepdims=True) > 1
        low, high = np.where(over, middle, low), np.where(over, high, middle)
    return np.log(np.maximum(x - high, 1e-30))


def sweep(problem, theta, eta):
    """theta = -1e8 Q with Q <- (1-eta) Q + eta (c + gamma P min_a Q)."""
    Q = -theta / 1e8
    return -1e8 * ((1 - eta) * Q + eta * (problem.cost[0] + problem.gamma * problem.P @ Q.min(axis=1)))


def admm(problem, theta, eta):
    """theta - eta y/sqrt(y'g), y = M (g + rho M g), M = (F + rho I)^-1: two sweeps of one agent, rho = .1."""
    pi, d_pi, g = (
        ref.policy(theta, S, A),
        tabular_exact.occupancy(problem, theta)[0],
        tabular_exact.gradient(problem, theta),
    )
    F = np.zeros((S, A, S, A))
    for s in range(S):
        F[s, :, s] = d_pi[s] * (np.diag(pi[s]) - np.outer(pi[s], pi[s]))
    M = np.linalg.inv(F.reshape(d, d) + 0.1 * np.eye(d))
    y = M @ (g.ravel() + 0.1 * M @ g.ravel())
    return theta - eta * y.reshape(S, A) / np.sqrt(y @ g.ravel())


TABLE = {
    "fast_fedpg": Row(cache(lambda eta: fast_fedpg(eta, H)), (1, 1), (1, 1), H + 1),
    "fast_fedpg-reuse": Row(cache(lambda eta: fast_fedpg(eta, H, reuse=True)), (1, 1), (1, 1), H),
    "fast_fedpg-coded": Row(cache(lambda eta: compressed(fast_fedpg(eta, H), FLIPPED)), (1, 1), (1, 1), H + 1),
    "fedavg_pg": Row(cache(lambda eta: fedavg_pg(eta, H)), (1,), (1,), H),
    "scaffold_pg-I": Row(cache(lambda eta: scaffold_pg(eta, H, option="I")), (2,), (2,), H + 1),
    "scaffold_pg-II": Row(cache(lambda eta: scaffold_pg(eta, H, option="II")), (1,), (1,), H),
    "scaffold_pg-some": Row(cache(lambda eta: scaffold_pg(eta, H, everybody=False)), (1,), (2,), H),
    "fedprox_pg": Row(cache(lambda eta: fedprox_pg(eta, H, 0.0)), (1,), (1,), H),
    "fedlin_pg": Row(cache(lambda eta: fedlin_pg(eta, H)), (1, 1), (1, 1), H + 1),
    "proxskip_pg": Row(
        cache(lambda eta: proxskip_pg(eta, 1 / H, most=2 * H)), (1,), (1,), H, scalars=(0, 1), lengths=drawn
    ),
    "rc_pg": Row(cache(lambda eta: rc_pg(eta, H)), (1,), (1,), H, scalars=(5, 2)),
    "fedsvrpg_m": Row(cache(lambda eta: fedsvrpg_m(eta, H, 0.4)), (1,), (2,), H, alone=momentum(0.4)),
    "fedhapg_m": Row(cache(lambda eta: fedhapg_m(eta, H, 0.4)), (1,), (2,), H, alone=hessians(0.4)),
    "mfpo": Row(cache(lambda eta: mfpo(eta, H, 0.4)), (2,), (2,), H),
    "fedpg_br": Row(cache(lambda eta: fedpg_br(eta, H, B0=B)), (1, 1), (1, 1), (N + H) // N, roles=True),
    "afedpg": Row(cache(lambda eta: afedpg(eta, 0.4)), (1,), (2,), 1, part=1, alone=lookahead(0.4)),
    "incremental_pg": Row(cache(lambda eta: incremental_pg(eta)), (1,), (1,), 1, local=1, part=1),
    "centralised_pg": Row(cache(lambda eta: centralised_pg(eta)), (1,), (1,), 1, local=1),
    "minibatch_pg": Row(cache(lambda eta: minibatch_pg(eta, H)), (1,), (1,), H, local=1, stretch=(H,)),
    "heavy_anchor": Row(cache(lambda eta: heavy_anchor(eta, H, 2)), (1, 1), (1, 1), H, local=2, stretch=(2, 1)),
    "independent_pg": Row(cache(lambda eta: independent_pg(eta, H)), (), (), H),
    # On a ring of three everybody has two neighbours.
    "decentralised_pg": Row(cache(lambda eta: decentralised_pg(eta, "ring")), (2,), (2,), 1, local=1),
    "mdpgt": Row(cache(lambda eta: mdpgt(eta, "ring")), (4,), (4,), 1, local=1),
    "pavg": Row(cache(lambda eta: pavg(eta, H)), (1,), (1,), 0, tabular=True, step=natural),
    "pavg-projected": Row(
        cache(lambda eta: pavg(eta, H, "projected")), (1,), (1,), 0, tabular=True, step=projected, scale=1e3
    ),
    # Conjugate gradients end at a residual of 1e-10.
    "fednpg_admm": Row(cache(lambda eta: fednpg_admm(eta, 2)), (2, 1), (1, 1), 1, 1, step=admm, scale=1e3),
    "fednpg": Row(
        cache(lambda eta: fednpg(eta)),
        (2, 2),
        (2, 2),
        0,
        1,
        tabular=True,
        step=lambda problem, theta, eta: theta - eta / (1 - problem.gamma) * tabular_exact.q_values(problem, theta)[0],
    ),
    "fedkl": Row(
        cache(lambda eta: fedkl(eta, H, beta=0.1, sigma=0.1, epochs=2, minibatches=2)), (1,), (1,), H, plays=True
    ),
    "qavg-Q": Row(cache(lambda eta: qavg(eta, H, "Q")), (1,), (1,), 0, tabular=True, step=sweep, scale=1e9),
}
PROBLEM = ref.small_problem(N=N, S=S, A=A, seed=30)


@cache
def problem(oracle: str, kernels: bool = False):
    settings = {"gpomdp": {"B": B, "K": K, "baseline": "leave-one-out"}, "exact": {}}[oracle]
    return with_oracle(ref.small_problem(N=N, S=S, A=A, seed=30, kernels=kernels), oracle, **settings)


def given(row: Row, oracle: str, kernels: bool = False):
    """The problem for a row: what needs to know its MDP plays nothing, and what needs to play does."""
    return problem("exact" if row.tabular else "gpomdp" if row.plays else oracle, kernels)


@pytest.fixture(params=TABLE, ids=str)
def row(request) -> Row:
    return TABLE[request.param]


def test_every_algorithm_has_a_row():
    assert {name.split("-")[0] for name in TABLE} == set(ALGORITHMS)


def same(one, two, tolerance, scale=1.0):
    np.testing.assert_array_equal(one.rounds, two.rounds)
    np.testing.assert_allclose(one.theta, two.theta, atol=tolerance * scale, rtol=0)
    np.testing.assert_allclose(one.returns, two.returns, atol=100 * tolerance, rtol=0)
    assert list(one.metrics) == list(two.metrics)
    for name in one.metrics:
        np.testing.assert_allclose(one.metrics[name], two.metrics[name], rtol=100 * tolerance, atol=100 * tolerance)


def test_loop_equals_simulate_exact(row):
    """theta to 1e-12 in float64, and every metric that follows from it, after every one of 8 rounds."""
    arguments = (given(row, "exact"), row.make(0.3), 8, 1)
    same(loop(*arguments), simulate(*arguments), 1e-12, row.scale)


def test_loop_equals_simulate_sampled(row):
    """1e-9 over 20 rounds: the same trajectories, drawn from the same counters."""
    arguments = (given(row, "gpomdp"), row.make(0.3), 20, 2)
    looped = loop(*arguments, metrics_every=5)
    same(looped, simulate(*arguments, metrics_every=5), 1e-9, row.scale)
    assert row.tabular or np.abs(looped.theta[0] - looped.theta[1]).max() > 1e-2, "seeds differ"


def test_loop_equals_simulate_with_some_agents_and_their_own_kernels(row):
    """Two of three agents a round: the others' memory is untouched, and nothing is counted for them."""
    arguments = (given(row, "gpomdp", kernels=True), row.make(0.3), 6, 2)
    if row.make(0.3).everybody:
        for run in (loop, simulate):
            with pytest.raises(InputError, match=r"participants = 2 of 3 agents: .* all agents"):
                run(*arguments, participants=2)
        return
    if row.part < N:
        with pytest.raises(InputError, match=f"each round of this algorithm is for {row.part} of the agents"):
            simulate(*arguments, participants=2)
        return
    partial = simulate(*arguments, participants=2)
    same(loop(*arguments, participants=2), partial, 1e-9, row.scale)
    full = simulate(*arguments)
    if row.roles:
        return
    assert (partial.final("env_steps") * 3 == full.final("env_steps") * 2).all()
    np.testing.assert_allclose(partial.final("bytes_up") * 3, full.final("bytes_up") * 2)
    assert np.abs(partial.theta - full.theta).max() > 1e-3


DEPLOYED = pytest.mark.parametrize(
    ("oracle", "kernels", "participants", "rounds", "tolerance"),
    [
        pytest.param("exact", False, None, 8, 1e-12, id="exact"),
        pytest.param("gpomdp", False, None, 20, 1e-9, id="sampled"),
        pytest.param("gpomdp", True, 2, 6, 1e-9, id="some-agents-own-kernels"),
    ],
)


@DEPLOYED
def test_over_flower_equals_simulate_after_every_round(row, tmp_path, oracle, kernels, participants, rounds, tolerance):
    """Agents behind sockets, reached by Flower's apps: theta after each round, and who took part in it."""
    grid = pytest.importorskip("grid", exc_type=ImportError)
    p, algorithm = given(row, oracle, kernels), row.make(0.3)
    if not row.up:
        with pytest.raises(InputError, match="this algorithm has no server: its agents say nothing to each other"):
            grid.agents_of(p, algorithm, tmp_path)
        with pytest.raises(InputError, match="this algorithm has no server: its agents say nothing to each other"):
            grid.rounds_of(None, p, algorithm)
        return
    participants = participants if row.part == N else row.part
    schedule = Schedule(rounds, participants=None if row.part < N else participants)
    if algorithm.everybody and participants is not None:
        with (
            grid.grid_of(grid.agents_of(p, algorithm, tmp_path)) as nodes,
            pytest.raises(InputError, match=r"participants = 2 of 3 agents: .* all agents"),
        ):
            grid.federated(grid.engine_of(nodes), p, algorithm, schedule)
        return
    own = algorithm.personalise is not None  # then the server knows the common policy, and the agents their own
    known = ref.small_problem(N=N, S=S, A=A, seed=30, kernels=kernels) if own else None
    with grid.grid_of(grid.agents_of(p, algorithm, tmp_path, known)) as nodes:
        terms = grid.Terms(evaluate="agents" if own else "server")
        there = grid.federated(grid.engine_of(nodes), p, algorithm, schedule, terms=terms)
    here = [*simulate_records(p, algorithm, schedule)]
    plain = [*simulate_records(p, algorithm._replace(personalise=None), schedule)] if own else here
    assert [r.round for r in there] == [r.round for r in here] == [*range(rounds + 1)]
    for one, two, common in zip(there, here, plain, strict=True):
        np.testing.assert_allclose(one.theta, common.theta, atol=tolerance * row.scale, rtol=0)
        np.testing.assert_allclose(one.evaluation.J, two.evaluation.J, atol=100 * tolerance, rtol=0)
        np.testing.assert_allclose(one.rounds_taken, two.rounds_taken, rtol=1e-15)
    assert np.abs(here[-1].theta).max() > 0.01, "theta has moved"
    # One greeting a node, and one question for each exchange of a round that it took part in.
    told = N * (rounds + 1) if own else 0
    assert len(nodes.asked) == N + told + rounds * (participants or N) * len(row.up)


def test_messages_are_the_declared_arrays_and_nothing_else(row):
    """Every message is vectors of theta's own shape and dtype, and a few numbers; what is counted follows from them."""
    p, algorithm, theta = given(row, "gpomdp"), row.make(0.3), jnp.zeros(d)
    state, down, memory = algorithm.init(theta, N)
    first = lambda tree: jax.tree.map(lambda x: x[0], tree)
    oracle = p.oracle(jnp.asarray(p.tasks[0]))
    memory, _ = begun(algorithm, oracle, theta, first(memory), jax.random.key(0))
    state, down = (first(state), first(down)) if algorithm.per_agent else (state, down)
    others = [0, 0]
    for e in algorithm.exchanges:
        memory, _, up, _ = e.agent(memory, (), down, oracle, jax.random.key(0))
        for way, message in enumerate((up, down)):
            for leaf in jax.tree.leaves(message):
                assert isinstance(leaf, jax.Array)
                assert leaf.dtype == theta.dtype
                others[way] += leaf.size if leaf.shape != (d,) else 0
        state, down = e.server(state, up, 1.0, jax.random.key(0))
    assert tuple(others) == row.scalars
    sizes = message_sizes(p, algorithm, theta)
    numbers = [sum(vectors) * d + more for vectors, more in zip((row.up, row.down), row.scalars, strict=True)]
    assert sizes[:4] == tuple(n * size for size in (1, 8) for n in numbers)
    assert sizes.syncs == len(row.up)
    assert message_sizes(p, algorithm, jnp.zeros(d, jnp.float32)).bytes_up == sizes.bytes_up // 2
    result = simulate(p, algorithm, 2)
    assert result.final("env_steps")[0] == row.part * row.in_rounds(2, row.estimates) * B * K
    assert result.final("floats_down")[0] == 2 * sizes.floats_down * row.part / N
    assert result.final("syncs")[0] == 2 * sizes.syncs


def test_nothing_is_traced_a_second_time(row):
    """Rounds after the first, and records of another length, run the program that is already there."""
    traces = []

    def counted(e):
        def agent(*arguments):
            traces.append(e.name)
            return e.agent(*arguments)

        return e._replace(agent=agent)

    algorithm = row.make(0.3)
    algorithm = algorithm._replace(exchanges=tuple(counted(e) for e in algorithm.exchanges))
    seen = []
    for _ in simulate_records(given(row, "exact"), algorithm, Schedule(7, metrics_every=3)):
        seen.append(len(traces))
    assert len(seen) == 4
    assert seen[1] == seen[-1] > 0
    list(simulate_records(given(row, "exact"), algorithm, Schedule(4, first_seed=3)))
    assert len(traces) == seen[-1], "nor in a second run of the same objects"


def test_dtype_is_kept(row):
    """A float32 theta stays float32, in 64-bit mode and under a sweep of float64 step sizes too."""
    result = simulate(
        given(row, "gpomdp"), row.make.__wrapped__, 2, theta0=np.zeros(d, np.float32), sweep=np.array([0.1, 0.2])
    )
    assert result.theta.dtype == np.float32


def test_vmap_over_eta_and_seeds_equals_single_runs(row):
    etas = [0.1, 0.4]
    p = given(row, "gpomdp")
    swept = simulate(p, row.make.__wrapped__, 4, seeds=2, sweep=etas)
    assert swept.theta.shape[:2] == (2, 2)
    for k, eta in enumerate(etas):
        single = simulate(p, row.make(eta), 4, first_seed=1)
        np.testing.assert_allclose(swept.theta[k, 1], single.theta[0], atol=1e-10 * row.scale)
        np.testing.assert_allclose(swept.metrics["drift"][k, 1, 1:], single.metrics["drift"][0, 1:], rtol=1e-8)


def test_permuting_the_agents_with_their_keys_permutes_the_result(row):
    if row.part < N or row.roles:
        pytest.skip("whose turn it is, or who has a part of its own, goes by position")
    order = np.array([2, 0, 1])
    p = given(row, "gpomdp")
    permuted = p._replace(tasks=p.tasks[order], ids=p.ids[order])
    one, two = simulate(p, row.make(0.3), 5), simulate(permuted, row.make(0.3), 5)
    expected = one.theta[:, order] if one.theta.ndim == 3 else one.theta
    np.testing.assert_allclose(two.theta, expected, atol=1e-12 * row.scale)


def test_one_agent_is_the_single_agent_method(row):
    """N = 1: every correction vanishes, and T rounds are T * local plain gradient steps, or what the row says."""
    if row.plays:
        return  # its closed forms are in its own file
    alone = ref.small_problem(N=1, S=S, A=A, seed=31)
    theta = np.zeros((S, A))
    step = row.step or (lambda problem, theta, eta: theta - eta * tabular_exact.gradient(problem, theta))
    for k in range(0 if row.alone else row.in_rounds(4, row.local)):
        theta = step(alone, theta, 0.3 * row.stretch[k % len(row.stretch)])
    if row.alone:
        theta = row.alone(alone, 0.3, 4)
    result = simulate(with_oracle(alone, "exact"), row.make(0.3), 4)
    np.testing.assert_allclose(result.theta.reshape(S, A), theta, atol=1e-12 * row.scale)


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
    with jax.disable_jit():
        plain = loop(problem("gpomdp"), fast_fedpg(0.3, H), 1)
    np.testing.assert_allclose(plain.theta, simulate(problem("gpomdp"), fast_fedpg(0.3, H), 1).theta, atol=1e-12)
