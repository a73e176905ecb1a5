"""Problems: the makers as their docstrings define them, files, units."""

import numpy as np
import pytest

import reference as ref
from fastfedpg import InputError, TabularProblem, problems
from fastfedpg.problems import compromise, compromise_grid, garnet, load, make, random, tabular_exact, with_oracle


def test_compromise_is_as_defined():
    p = compromise()
    np.testing.assert_array_equal(p.reward, [[[1, 0, 0.6]], [[0, 1, 0.6]]])
    assert (p.N, p.S, p.A, p.gamma, p.shared) == (2, 1, 3, 0.5, True)
    best = tabular_exact.optimum(p)
    assert pytest.approx(0.4 / 0.5) == best.J
    np.testing.assert_array_equal(best.policy, [[0, 0, 1]])
    assert [b.J for b in tabular_exact.own_optima(p)] == pytest.approx([0, 0])
    np.testing.assert_array_equal(compromise(agents=4, mid=0.3).reward[2, 0], [0, 0, 1, 0, 0.3])


def test_compromise_grid_is_as_defined():
    """Moves, walls, slip and rewards re-derived cell by cell, without looking at the maker."""
    n, slip = 5, 0.1
    p = compromise_grid()
    move = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1), "stay": (0, 0)}
    assert p.actions == tuple(move)

    def lands(row, column, step):
        row, column = row + step[0], column + step[1]
        return (row, column) if 0 <= row < n and 0 <= column < n else None

    for row in range(n):
        for column in range(n):
            for a, chosen in enumerate(move.values()):
                expected = np.zeros(n * n)
                for other in move.values():
                    weight = (1 - slip if other is chosen else 0) + slip / 5
                    end = lands(row, column, other) or (row, column)
                    expected[end[0] * n + end[1]] += weight
                np.testing.assert_allclose(p.P[row * n + column, a], expected, atol=1e-15)
    corners = {(0, 0), (0, 4), (4, 0), (4, 4)}
    homes = set()
    for i in range(4):
        assert (p.reward[i] == p.reward[i][:, :1]).all(), "rewards depend on the cell only"
        cells = p.reward[i][:, 0].reshape(n, n)
        assert cells[2, 2] == 0.5
        (home,) = {(int(r), int(c)) for r, c in np.argwhere(cells == 1)}
        homes.add(home)
        assert np.count_nonzero(cells) == 2
    assert homes == corners, "a corner each"
    np.testing.assert_allclose(p.rho, 1 / 25)
    assert p.gamma == 0.9


def test_a_grid_knows_how_it_is_drawn():
    p = compromise_grid(n=7, agents=6)
    assert (p.grid.rows, p.grid.columns) == (7, 7)
    assert p.grid.marks[24] == "centre"
    assert p.states[24] == "(3, 3)"
    assert p.grid.marks[0] == "0, 4", "agents 0 and 4 share a corner"
    for a, (down, right) in p.grid.moves.items():
        s = 3 * 7 + 3
        assert p.P[s, a, s + 7 * down + right] == p.P[s, a].max(), "arrows point where actions lead"


def test_random_keeps_the_average_reward_whatever_N_and_kappa():
    bars = [random(agents=N, kappa=kappa).reward.mean(axis=0) for N in (1, 3, 40) for kappa in (0, 0.4, 1)]
    for bar in bars[1:]:
        np.testing.assert_allclose(bar, bars[0], atol=1e-14)
    spread = [random(agents=8, kappa=kappa).reward.std(axis=0).mean() for kappa in (0, 0.5, 1)]
    assert spread[0] < 1e-12
    assert spread[1] == pytest.approx(spread[2] / 2)
    assert spread[2] > 0.05
    for N in (2, 100):
        reward = random(agents=N).reward
        assert reward.min() > 0
        assert reward.max() < 1
        assert len(np.unique(reward)) == reward.size, "nothing was clipped"


def test_random_is_as_defined():
    """R_i and Rbar re-derived from the named streams; rows of P have Dirichlet(1)'s second moment 2/(S(S+1)).

    Over 5,000 rows of S = 10 the mean of p^2, 0.01818, has a standard error of about 5e-4 / sqrt(5000) * 10 < 2e-4.
    """
    draw = lambda i: np.random.default_rng([*b"reward", i, 3]).uniform(size=(4, 2))
    U = np.stack([draw(1 + i) for i in range(3)])
    expected = (1 + draw(0)) / 3 + 0.7 / 3 * (U - U.mean(axis=0))
    np.testing.assert_allclose(random(agents=3, S=4, A=2, kappa=0.7, seed=3).reward, expected, atol=1e-15)
    assert (random(S=10, A=500, agents=1).P ** 2).mean() == pytest.approx(2 / 110, abs=8e-4)
    assert (random(S=10, A=500, agents=1, concentration=5).P ** 2).mean() == pytest.approx(6 / 510, abs=8e-4)


def test_random_has_a_separate_kernel_dial():
    shared, mixed, own = (random(agents=3, kernel=k) for k in (0, 0.5, 1))
    assert shared.P.shape == (5, 5, 5)
    assert mixed.P.shape == own.P.shape == (3, 5, 5, 5)
    np.testing.assert_allclose(mixed.P, (shared.P + own.P) / 2, atol=1e-15)
    np.testing.assert_array_equal(mixed.reward, shared.reward)
    np.testing.assert_array_equal(random(agents=7, kernel=1).P[:3], own.P), "agent i is the same whatever N is"
    assert not np.array_equal(random(seed=1).P, random(seed=2).P)


def test_garnet_has_its_branching():
    p = garnet(S=12, A=3, branching=4, agents=2)
    assert p.P.next.shape == (12, 3, 4)
    assert (p.P.p > 0).all()
    assert len({tuple(sorted(row)) for row in p.P.next.reshape(-1, 4)}) > 20
    variance = garnet(S=20, A=500, branching=4, agents=1).P.p.var()  # gaps of 3 uniform cuts: (b - 1) / (b^2 (b + 1))
    assert variance == pytest.approx(3 / (16 * 5), rel=0.03)
    assert (garnet(branching=1).P.p == 1).all()


@pytest.mark.parametrize("name", [n for n in problems.PROBLEMS if n not in problems.ENVIRONMENTS])
def test_every_maker_makes_what_its_name_says(name):
    p = make(name, agents=3)
    assert (p.name, p.N) == (name, 3)
    start = with_oracle(p)
    assert np.isfinite(start.evaluate(start.theta0[None]).J).all()


def test_makers_take_words_as_numbers():
    p = make("compromise-grid", {"n": "7", "mid": ".6"}, agents=5)
    assert (p.S, p.N, p.reward[0, 24, 0]) == (49, 5, 0.6)


def test_a_file_brings_the_same_problem(tmp_path):
    p = ref.small_problem(kernels=True, rhos=True)
    p.save(tmp_path / "mine.npz")
    q = load(tmp_path / "mine.npz")
    for name in ("P", "reward", "rho", "gamma"):
        np.testing.assert_array_equal(getattr(p, name), getattr(q, name))
    assert not q.shared


def test_rewards_in_the_users_units():
    """reward = 10 r - 3 with range (-3, 7) has the costs of r, and returns 10 J_r - 3 / (1 - gamma)."""
    p = ref.small_problem()
    q = TabularProblem(p.P, 10 * p.reward - 3, p.rho, p.gamma, reward_range=(-3, 7))
    np.testing.assert_allclose(q.cost, p.cost, atol=1e-15)
    theta = np.random.default_rng(0).normal(size=12)
    np.testing.assert_allclose(
        tabular_exact.returns(q, theta), 10 * tabular_exact.returns(p, theta) - 3 / (1 - p.gamma), rtol=1e-13
    )
    one, ten = (tabular_exact.evaluator(x)(theta[None]) for x in (p, q))
    np.testing.assert_allclose(ten.gap, 10 * one.gap, rtol=1e-12)
    np.testing.assert_allclose(ten.J, 10 * one.J, rtol=1e-12)
    np.testing.assert_allclose(ten.grad_norm_sq, 100 * one.grad_norm_sq, rtol=1e-12)


def test_entropy_gap_and_plain_return_side_by_side():
    """With tau the gap is J_tau - J_tau*, and the returns stay plain rewards."""
    p, theta, tau = ref.small_problem(), np.random.default_rng(1).normal(size=12), 0.3
    e = tabular_exact.evaluator(p, tau)(theta[None])
    assert e.gap[0] == pytest.approx(tabular_exact.J(p, theta, tau) - tabular_exact.optimum(p, tau).J)
    np.testing.assert_allclose(e.returns[0], tabular_exact.returns(p, theta))


def test_gap_is_empty_where_kernels_or_starts_differ():
    for kernels, rhos in ((True, False), (False, True)):
        p = ref.small_problem(kernels=kernels, rhos=rhos)
        e = tabular_exact.evaluator(p)(np.zeros((1, 12)))
        assert np.isnan(e.gap[0])
        assert e.grad_norm_sq[0] == pytest.approx((tabular_exact.gradient(p, np.zeros(12)) ** 2).sum())


def test_rounding_in_rows_is_divided_out_but_the_users_array_is_not_touched():
    given = ref.small_problem().P.astype(np.float32)
    before = given.copy()
    p = TabularProblem(given, ref.small_problem().reward, np.full(4, 0.25), 0.9)
    np.testing.assert_allclose(p.P.sum(axis=-1), 1, atol=1e-15)
    np.testing.assert_array_equal(given, before)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: compromise_grid(n=4), "odd n of at least 3"),
        (lambda: compromise_grid(slip=1.5), r"slip = 1.5; it must lie in \[0, 1\]"),
        (lambda: random(kappa=2), r"kappa = 2; it must lie in \[0, 1\]"),
        (lambda: random(concentration=0), "must be positive"),
        (lambda: garnet(branching=30), "between 1 and S = 20"),
        (
            lambda: garnet(agents=10**9),
            r"agents = 1000000000, S = 20, A = 4: .* GB, and this machine has .* less of them",
        ),
        (lambda: random(S=10**6), "or garnet, whose kernel is sparse"),
        (lambda: compromise(agents=0), "agents = 0; it must be at least 1"),
        (lambda: make("random", {"kapa": 1}), "did you mean 'kappa'"),
        (lambda: make("random", {"S": "2.5"}), "whole number"),
        (lambda: make("random", {"agents": 2}), "--agents"),
        (lambda: make("random", reward_range=(0, 2)), "from a file"),
        (lambda: tabular_exact.J(compromise(), np.zeros(4)), r"must be \(1, 3\)"),
    ],
)
def test_bad_arguments_say_what_would_be_right(call, message):
    with pytest.raises(InputError, match=message):
        call()
