"""AFedPG: the lookahead on quadratics, where only the right one is exact; and who was sent off with what."""

import numpy as np
import pytest

import reference as ref
from fastfedpg import InputError, afedpg, loop, simulate, with_oracle
from fastfedpg.problems import tabular_exact
from fastfedpg.runtime.schedule import participants_of
from quadratics import Quadratics

ONE = Quadratics(N=1, d=3, seed=110)
P = ref.small_problem(N=3, S=2, A=2, seed=111)
g = lambda x: tabular_exact.gradients(P, x).reshape(P.N, -1)
ETA, ALPHA = 0.3, 0.4
unit = lambda x: x / np.linalg.norm(x)


def normalised(gradient, theta, T):
    for _ in range(T):
        theta = theta - ETA * unit(gradient(theta))
    return theta


def test_one_agent_without_momentum_is_normalised_policy_gradient():
    alone = ref.small_problem(N=1, S=2, A=2, seed=112)
    found = simulate(with_oracle(alone, "exact"), afedpg(ETA, 1.0), 6).theta[0]
    plain = normalised(lambda x: tabular_exact.gradient(alone, x).ravel(), np.zeros(4), 6)
    np.testing.assert_allclose(found, plain, atol=1e-13)


def with_lookahead(c, T):
    """T steps of one agent, z = theta_k + c (theta_k - theta_{k-1})."""
    theta = old = np.zeros(3)
    for k in range(T):
        fresh = ONE.g(theta + c * (theta - old))[0]
        d = fresh if k == 0 else (1 - ALPHA) * d + ALPHA * fresh
        theta, old = theta - ETA * unit(d), theta
    return theta


def test_on_quadratics_the_direction_is_the_gradient():
    """d_k = grad J(theta_k) exactly, so that every alpha gives normalised gradient descent; other lookaheads do not."""
    plain = normalised(lambda x: ONE.g(x)[0], np.zeros(3), 5)
    for alpha in (0.1, ALPHA, 0.9):
        np.testing.assert_allclose(simulate(ONE.problem(), afedpg(ETA, alpha), 5).theta[0], plain, atol=1e-12)
    np.testing.assert_allclose(with_lookahead((1 - ALPHA) / ALPHA, 5), plain, atol=1e-12)
    for wrong in (0, 1, 1 - ALPHA, ALPHA / (1 - ALPHA), 1 / ALPHA):
        assert np.abs(with_lookahead(wrong, 5) - plain).max() > 1e-3


@pytest.mark.parametrize("run", [loop, simulate])
def test_directions_are_from_where_an_agent_was_sent_off(run):
    """Against loops: each agent has the theta and d of its own last arrival, while the server has moved on since. All
    that it lacks is theta: d numbers each way, d = 4, and a third of the arrivals are one agent's."""
    T, speeds, seed = 12, (1.0, 2.0, 4.0), 0
    theta, off = np.zeros(4), [(np.zeros(4), None)] * P.N
    delays, last = [], [0] * P.N
    for k in range(T):
        (i,) = np.asarray(participants_of(seed, k, P.N, 1, "arrival", speeds))
        there, d = off[i]
        ahead = there if d is None else there - (1 - ALPHA) / ALPHA * ETA * unit(d)
        d = g(ahead)[i] if d is None else (1 - ALPHA) * d + ALPHA * g(ahead)[i]
        theta = theta - ETA * unit(d)
        off[i] = theta, d
        delays.append(k - last[i])
        last[i] = k + 1
    assert max(delays) > 2, "there were delays"
    found = run(with_oracle(P, "exact"), afedpg(ETA, ALPHA), T, speeds=speeds, order="arrival")
    np.testing.assert_allclose(found.theta[0], theta, atol=1e-12)
    for way in ("floats_up", "floats_down"):
        assert found.final(way)[0] == pytest.approx(T * 4 / 3)


def test_it_is_for_one_agent_at_a_time():
    with pytest.raises(InputError, match="participants = 3; each round of this algorithm is for 1 of the agents"):
        simulate(with_oracle(P, "exact"), afedpg(ETA), 1, participants=3)
    for alpha in (0, 1.5):
        with pytest.raises(ValueError, match=rf"alpha = {alpha:g}; it must lie in \(0, 1\]"):
            afedpg(0.1, alpha)


def test_where_the_gradient_is_zero_it_stays():
    stay = simulate(ONE.problem(), afedpg(ETA, ALPHA), 3, theta0=ONE.c[0])
    np.testing.assert_array_equal(stay.theta[0], ONE.c[0])
