"""Sparse transitions: the same numbers as dense ones, whichever way equations are solved, and never an (S, S) array."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import reference as ref
from fastfedpg import Config, InputError, TabularProblem, problems
from fastfedpg.draw import problem_picture
from fastfedpg.experiment import checkpoints
from fastfedpg.mdp import finite, transitions
from fastfedpg.problems import Grid, Sparse, garnet, load, tabular_exact, with_oracle

S, A, W = 7, 3, 4


def dense(P: Sparse) -> np.ndarray:
    """Written out entry by entry."""
    *rows, _ = P.p.shape
    full = np.zeros((*rows, rows[-2]))
    for *row, w in np.ndindex(P.p.shape):
        full[(*row, P.next[(*row, w)])] += P.p[(*row, w)]
    return full


def written_out(p: TabularProblem) -> TabularProblem:
    return TabularProblem(dense(p.P), p.reward, p.rho, p.gamma)


@pytest.fixture(params=["factorised", "iterated"])
def how(request, monkeypatch):
    """The bound: rounding for a factorisation; twice TOLERANCE where equations are iterated."""
    if request.param == "factorised":
        return 1e-12
    monkeypatch.setattr(transitions, "DIRECT", 0)
    return 2 * transitions.TOLERANCE


def test_the_problem_repeats_states_and_has_padding():
    p = ref.sparse_problem()
    assert any(len(set(row)) < W for row in p.P.next.reshape(-1, W))
    assert (p.P.p[..., 0] == 0).all()


@pytest.mark.parametrize("tau", [0.0, 0.3])
def test_every_function_gives_what_it_gives_for_the_dense_kernel(how, tau):
    """Relative to the largest entry, the norm of the stated tolerance; gradients and optima add up several solves."""
    p = ref.sparse_problem()
    full, sparse = jnp.asarray(dense(p.P)), transitions.as_kernel(p.P)
    cost, rho, log_pi = jnp.asarray(p.cost[0]), jnp.asarray(p.rho), finite.log_softmax_policy(_theta(), S, A)
    functions = {
        "values": lambda P: finite.values(P, cost, 0.8, log_pi, tau),
        "q_values": lambda P: finite.q_values(P, cost, 0.8, log_pi, tau),
        "objective": lambda P: finite.objective(P, cost, rho, 0.8, log_pi, tau),
        "occupancy": lambda P: finite.occupancy(P, rho, 0.8, log_pi),
        "gradient": lambda P: finite.gradient(P, cost, rho, 0.8, log_pi, tau),
        "visits": lambda P: finite.evaluated(P, cost, rho, 0.8, log_pi, tau).visits,
        "optimal values": lambda P: finite.optimal(P, cost, 0.8, tau).values,
        "optimal policy": lambda P: finite.optimal(P, cost, 0.8, tau).policy,
        "truncated": lambda P: finite.truncated_objective(P, cost, rho, 0.8, 9, log_pi, tau),
    }
    for name, function in functions.items():
        expected = np.asarray(function(full))
        looser = 20 if name == "gradient" or name.startswith("optimal") else 1
        np.testing.assert_allclose(
            function(sparse), expected, rtol=0, atol=looser * how * np.abs(expected).max(), err_msg=name
        )
    np.testing.assert_allclose(finite.expected(p.P, p.rho), dense(p.P) @ p.rho, rtol=1e-14)
    np.testing.assert_allclose(transitions.chain(sparse, log_pi), transitions.chain(full, log_pi), atol=1e-15)


def _theta(seed: int = 1) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).normal(size=S * A))


@pytest.mark.parametrize("kernels", [False, True])
@pytest.mark.parametrize("oracle", ["exact", "truncated"])
def test_oracles_that_know_the_mdp(oracle, kernels):
    p = ref.sparse_problem(kernels=kernels)
    settings = {"K": 9} if oracle == "truncated" else {}
    ask = lambda q: jax.vmap(lambda task: q.oracle(task).gradient(_theta(), (), ()))(jax.tree.map(jnp.asarray, q.tasks))
    expected = ask(with_oracle(written_out(p), oracle, tau=0.2, **settings))
    assert np.abs(expected).max() > 1e-3
    np.testing.assert_allclose(ask(with_oracle(p, oracle, tau=0.2, **settings)), expected, atol=1e-12)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 0.99])
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("kind", ["mixing", "periodic"])
def test_iteration_keeps_its_stated_tolerance(gamma, transpose, kind):
    """In the stated norm, against a factorisation; a ring that never mixes is the chain that takes longest.

    Rounding, 1e-15 / (1 - gamma), comes on top.
    """
    n, rng = 40, np.random.default_rng(3)
    matrix = rng.dirichlet(np.full(n, 0.1), n) if kind == "mixing" else np.roll(np.eye(n), 1, axis=1)
    matrix = matrix.T if transpose else matrix
    b = rng.normal(size=n)
    x = np.asarray(transitions.iterate(lambda x: jnp.asarray(matrix) @ x, gamma, jnp.asarray(b), transpose))
    right = np.linalg.solve(np.eye(n) - gamma * matrix, b)
    norm = np.linalg.norm(x - right, 1 if transpose else np.inf)
    assert norm <= (1e-12 + 1e-15 / (1 - gamma)) * np.linalg.norm(right, 1 if transpose else np.inf)


def test_iteration_stops_in_float32():
    """8 eps is the tolerance there; n is limited by 4 gamma^n / (1 - gamma)^2 even if that is never seen."""
    step = lambda x: jnp.roll(x, 1)
    b = jnp.asarray(np.random.default_rng(4).normal(size=50), jnp.float32)
    x = transitions.iterate(step, 0.95, b)
    assert x.dtype == jnp.float32
    np.testing.assert_allclose(x, transitions.iterate(step, 0.95, b.astype(jnp.float64)), atol=1e-4)


KNOWN = {
    "J_i": lambda p, tau: tabular_exact.J_i(p, np.asarray(_theta()), tau),
    "gradients": lambda p, tau: tabular_exact.gradients(p, np.asarray(_theta()), tau),
    "gradient": lambda p, tau: tabular_exact.gradient(p, np.asarray(_theta()), tau),
    "q_values": lambda p, tau: tabular_exact.q_values(p, np.asarray(_theta()), tau),
    "occupancy": lambda p, tau: tabular_exact.occupancy(p, np.asarray(_theta())),
    "own_optima": lambda p, tau: [optimum.J for optimum in tabular_exact.own_optima(p, tau)],
}


@pytest.mark.parametrize("what", KNOWN)
@pytest.mark.parametrize("kernels", [False, True])
def test_what_is_known_of_a_problem_is_the_same(kernels, what, monkeypatch):
    """Also when agents are taken two at a time."""
    p = ref.sparse_problem(N=5, kernels=kernels)
    monkeypatch.setattr(tabular_exact, "AT_A_TIME", 2 * S * S)
    np.testing.assert_allclose(
        KNOWN[what](p, 0.3), KNOWN[what](written_out(p), 0.3), rtol=0 if what == "own_optima" else 1e-7, atol=1e-12
    )


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("kernels", [False, True])
def test_evaluation_is_the_same(kernels, own, monkeypatch):
    """Of one policy for all and of one per agent, when agents are taken two at a time."""
    p, tau = ref.sparse_problem(N=5, kernels=kernels), 0.3
    thetas = np.random.default_rng(5).normal(size=(2, 5, S * A)) if own else np.asarray(_theta())[None]
    expected = tabular_exact.evaluator(written_out(p), tau)(thetas)
    monkeypatch.setattr(tabular_exact, "AT_A_TIME", 2 * S * S)
    found = tabular_exact.evaluator(p, tau)(thetas)
    for got, wanted in zip(*map(jax.tree.leaves, (found, expected)), strict=True):
        np.testing.assert_allclose(got, wanted, atol=1e-11)


@pytest.mark.parametrize("tau", [0.0, 0.3])
def test_the_evaluator_is_what_each_agent_by_itself_defines(tau):
    """J_i, J and the gradient by the independent sum and its differences, agent by agent, in other units than costs."""
    p = ref.small_problem(N=5, seed=30)
    p = TabularProblem(p.P, 10 * p.reward - 3, p.rho, p.gamma, reward_range=(-3, 7))
    thetas = np.random.default_rng(31).normal(size=(2, 12))
    e = tabular_exact.evaluator(p, tau)(thetas)
    for k, theta in enumerate(thetas):
        costs = [ref.J(p.P, c, p.rho, p.gamma, theta, tau) for c in p.cost]
        plain = np.array([ref.J(p.P, c, p.rho, p.gamma, theta) for c in p.cost])
        mean = lambda x: np.mean([ref.J(p.P, c, p.rho, p.gamma, x, tau) for c in p.cost])
        assert e.J[k] == pytest.approx(10 * np.mean(costs), rel=1e-13)
        np.testing.assert_allclose(e.returns[k], 7 / (1 - p.gamma) - 10 * plain, rtol=1e-12)
        np.testing.assert_allclose(tabular_exact.J_i(p, theta, tau), costs, rtol=1e-13)
        norm_sq = (ref.finite_difference(mean, theta) ** 2).sum()
        assert e.grad_norm_sq[k] == pytest.approx(100 * norm_sq, rel=1e-7)


def arrays_in(jaxpr) -> Iterator[tuple[int, ...]]:
    """The shape of every value that a program and the programs within it make, read or hold."""
    for variable in (*jaxpr.constvars, *jaxpr.invars, *jaxpr.outvars):
        yield variable.aval.shape
    for equation in jaxpr.eqns:
        for variable in (*equation.invars, *equation.outvars):
            yield getattr(variable.aval, "shape", ())
        for inner in jax.tree.leaves(list(equation.params.values()), is_leaf=lambda x: hasattr(x, "eqns")):
            if hasattr(inner, "eqns"):
                yield from arrays_in(getattr(inner, "jaxpr", inner))


def programs(p: TabularProblem) -> dict[str, object]:
    average = tabular_exact._arrays(p.average())
    theta, axes, size = np.zeros((1, p.S * p.A)), *tabular_exact._layout(p)
    own = np.zeros((1, p.N, p.S * p.A))
    cost = jnp.asarray(p.cost)
    log_pi = lambda x: finite.log_softmax_policy(x, p.S, p.A)
    P, rho = average[0], average[2]
    return {
        "evaluator": jax.make_jaxpr(tabular_exact._of_average)(*average, theta, 0.9, 0.1),
        "own policies": jax.make_jaxpr(lambda *x: tabular_exact._evaluated(*x, axes, size))(
            P, cost, rho, own, 0.9, 0.1
        ),
        "optimum": jax.make_jaxpr(lambda *x: tabular_exact._optima(*x, 0.9, 0.0, axes, 1))(*average),
        "truncated": jax.make_jaxpr(jax.grad(lambda x: finite.truncated_objective(P, cost[0], rho, 0.9, 5, log_pi(x))))(
            theta[0]
        ),
    }


def test_nothing_as_large_as_a_chain_is_ever_made():
    """S = 10,000: every value in the traced programs has fewer than S^2 = 10^8 elements, even S^2 / 50."""
    p = garnet(S=10_000, A=4, branching=5, agents=2)
    for name, program in programs(p).items():
        largest = max(int(np.prod(shape)) for shape in arrays_in(program.jaxpr))
        assert 200_000 <= largest < 2_000_000, name
    control = programs(garnet(S=400, A=4, branching=5, agents=2))["evaluator"]
    assert any(np.prod(shape) >= 400**2 for shape in arrays_in(control.jaxpr)), "the walk sees a chain that is made"


def test_the_number_of_agents_is_in_no_program_of_a_shared_policy():
    p = ref.small_problem(N=17)
    program = programs(p)["evaluator"]
    assert all(17 not in shape for shape in arrays_in(program.jaxpr))


def test_a_garnet_reaches_every_set_of_states_equally_often():
    """All 15 pairs of 6 states in 6,000 rows, and all 10 triples of 5 in 5,000: chi-square at 1e-6."""
    for n, branching, rows in ((6, 2, 1000), (5, 3, 1000)):
        reached = np.sort(garnet(S=n, A=rows, branching=branching, agents=1).P.next.reshape(-1, branching), axis=1)
        assert (np.diff(reached, axis=1) > 0).all(), "different states"
        _, counts = np.unique(reached, axis=0, return_counts=True)
        assert len(counts) == {(6, 2): 15, (5, 3): 10}[n, branching]
        assert stats.chisquare(counts).pvalue > 1e-6
    assert (np.sort(garnet(S=9, branching=9).P.next, axis=-1) == np.arange(9)).all(), "all of them"


def test_a_garnet_of_ten_thousand_states_has_its_optimum_below_every_policy():
    p = garnet(S=10_000, A=4, branching=5, agents=8)
    e = tabular_exact.evaluator(p)(np.random.default_rng(6).normal(size=(1, 40_000)))
    assert 0.5 < e.gap[0] < e.J[0]
    best = tabular_exact.optimum(p)
    greedy = np.where(best.policy > 0.5, 40.0, 0.0).reshape(-1)
    assert tabular_exact.J(p, greedy) == pytest.approx(best.J, rel=1e-10)


def test_files_bring_the_same_sparse_problem(tmp_path):
    for kernels in (False, True):
        p = ref.sparse_problem(kernels=kernels)
        p.save(tmp_path / "mine.npz")
        with np.load(tmp_path / "mine.npz") as file:
            assert set(file.files) == {"next", "p", "reward", "rho", "gamma"}
        q = load(tmp_path / "mine.npz")
        for got, wanted in zip((*q.P, q.reward, q.rho), (*p.P, p.reward, p.rho), strict=True):
            np.testing.assert_array_equal(got, wanted)
        assert (q.gamma, q.own_kernels, q.P.next.dtype) == (p.gamma, kernels, np.int32)
        assert tabular_exact.J(q, np.zeros(S * A)) == tabular_exact.J(p, np.zeros(S * A))


def test_rounding_in_rows_is_divided_out_but_the_users_arrays_are_not_touched():
    given = Sparse(np.zeros((1, 1, 3)), np.full((1, 1, 3), np.float32(1 / 3)))
    p = TabularProblem(given, np.ones((1, 1, 1)), [1], 0.5)
    assert p.P.p.sum() == pytest.approx(1, abs=1e-15)
    assert given.p.dtype == np.float32


NEXT, PS = np.zeros((2, 2, 3), int), np.full((2, 2, 3), 1 / 3)


def but(x: np.ndarray, index, value) -> np.ndarray:
    x = np.array(x, float)
    x[index] = value
    return x


@pytest.mark.parametrize(
    ("states", "p", "message"),
    [
        (but(NEXT, (1, 0, 2), 2), PS, "next of state 1, action 0, entry 2 is 2; it must be a state, .* from 0 to 1"),
        (but(NEXT, (0, 1, 0), -1), PS, "next of state 0, action 1, entry 0 is -1"),
        (but(NEXT, (0, 1, 0), 0.5), PS, "next of state 0, action 1, entry 0 is 0.5; .* whole number"),
        (but(NEXT, (0, 1, 0), np.nan), PS, r"next\[0, 1, 0\] is nan"),
        (np.stack([NEXT, NEXT + 2]), np.stack([PS, PS]), "next of agent 1, state 0, action 0, entry 0 is 2"),
        (np.full((2, 2, 3), "x"), PS, "next is not an array of real numbers"),
        ([[0], [0, 1]], PS, "next is not an array of numbers"),
        (NEXT, but(PS, (1, 1, 0), 0.5), "p of state 1, action 1 sums to 1.16666667; it must sum to 1"),
        (NEXT, but(PS, (1, 1, 0), -0.5), r"p\[1, 1, 0\] is -0.5; a probability can't be negative"),
        (NEXT[:, :, :2], PS, r"next has shape \(2, 2, 2\) and p \(2, 2, 3\); they must have the same"),
        (NEXT, PS[:1], r"p has shape \(1, 2, 3\): axis 0 \(states\) has length 1, but reward .* says 2"),
        (NEXT[0], PS[0], r"p has shape \(2, 3\); .* it must be \(2, 2, W\) or \(2, 2, 2, W\)"),
        (NEXT[:, :, :0], PS[:, :, :0], "at least one entry"),
    ],
)
def test_mistakes_in_sparse_transitions_are_named(states, p, message):
    with pytest.raises(InputError, match=message):
        TabularProblem(Sparse(states, p), np.zeros((2, 2, 2)), [0.5, 0.5], 0.5)


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (("next", "reward", "rho", "gamma"), "lacks p;"),
        (("P", "next", "p", "reward", "rho", "gamma"), "has also P;"),
        (("P", "reward", "gamma"), "lacks rho;"),
    ],
)
def test_a_file_with_other_names_is_told_both_forms(names, says, tmp_path):
    np.savez(tmp_path / "x.npz", **dict.fromkeys(names, np.ones(1)))
    with pytest.raises(InputError, match=says) as error:
        load(tmp_path / "x.npz")
    assert "exactly P, reward, rho, gamma, or next, p, reward, rho, gamma" in str(error.value)


def test_one_agents_part_of_sparse_kernels():
    p = ref.sparse_problem(kernels=True)
    part = p.only(2)
    np.testing.assert_array_equal(part.P.next, p.P.next[2:])
    assert tabular_exact.J(part, np.zeros(S * A)) == pytest.approx(tabular_exact.J_i(p, np.zeros(S * A))[2], rel=1e-13)
    assert ref.sparse_problem().only(2).P.p.shape == (S, A, W)


def test_fingerprints_tell_sparse_problems_apart():
    p = ref.sparse_problem()
    moved = Sparse((p.P.next + 1) % S, p.P.p)
    seen = {
        checkpoints.identity(Config(), q, None, "1").problem
        for q in (p, TabularProblem(moved, p.reward, p.rho, p.gamma), written_out(p))
    }
    assert len(seen) == 3


def test_pictures_of_sparse_problems():
    from matplotlib import pyplot as plt

    for p in (ref.sparse_problem(kernels=True), ref.sparse_problem()):
        _, axes = plt.subplots(1, 4)
        problem_picture.draw_tables(list(axes), p, p.agents)
        drawn = np.asarray(axes[3].images[0].get_array())
        np.testing.assert_allclose(drawn, dense(p.P).reshape(-1, S, A, S).mean(axis=(0, 2)), atol=1e-12)
        plt.close("all")
    large = problems.garnet(S=501, agents=1)
    _, axis = plt.subplots()
    assert problem_picture.draw_tables([axis], large, large.agents) == [
        "transitions: not drawn for more than 500 states"
    ]
    plt.close("all")
    p = ref.sparse_problem(kernels=True)
    nowhere = Grid(2, 3, {}, {}, cells=(0, 1, 2, 3, 4, 5, -1))
    on_grid = [TabularProblem(P, p.reward, p.rho, p.gamma, grid=nowhere) for P in (p.P, dense(p.P))]
    got, wanted = (problem_picture.displacement(q, 1) for q in on_grid)
    assert np.abs(wanted).max() > 0.1
    np.testing.assert_allclose(got, wanted, atol=1e-12)
