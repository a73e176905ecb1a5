"""Incremental PG: whose turn it is, the cycle it ends in, and that smaller steps leave it."""

import numpy as np
import pytest

import reference as ref
from fastfedpg import Config, InputError, centralised_pg, incremental_pg, loop, simulate, with_oracle
from fastfedpg.experiment import plan
from quadratics import Quadratics
from stopping_points import PROBLEMS, derivatives, pushed, stops

Q = Quadratics(N=2, d=3, seed=90)


def cycle(eta):
    """x = M_2 (M_1 (x - c_1) + c_1 - c_2) + c_2 with M_i = I - eta A_i: a pass of both leads back to x."""
    one, two = (np.eye(3) - eta * A for A in Q.A)
    return np.linalg.solve(np.eye(3) - two @ one, two @ (Q.c[0] - one @ Q.c[0] - Q.c[1]) + Q.c[1])


@pytest.mark.parametrize("run", [loop, simulate])
def test_two_agents_end_in_their_cycle(run):
    """After the second agent's turn it is where a linear equation says, and a step of the first leads elsewhere."""
    eta = 0.3
    came = run(Q.problem(), incremental_pg(eta), 60)
    np.testing.assert_allclose(came.theta[0], cycle(eta), atol=1e-9)
    first = came.theta[0] - eta * Q.g(came.theta[0])[0]
    assert np.abs(first - came.theta[0]).max() > 0.1
    np.testing.assert_allclose(run(Q.problem(), incremental_pg(eta), 61).theta[0], first, atol=1e-8)


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_bias_of_a_constant_step(name):
    """(theta - theta*) / eta -> (hess J)^-1 sum_{i<j} hess J_j grad J_i / N after a pass; what is missing falls
    with eta.

    In the other order it is another one: sum_{i>j} in its place.
    """
    problem, best = PROBLEMS[name]()
    g, hess = derivatives(problem, best)
    before = np.cumsum(g, axis=0) - g
    wanted = pushed(hess, np.einsum("nij,nj->i", hess, before) / problem.N)
    after = pushed(hess, np.einsum("nij,nj->i", hess, -before - g) / problem.N)
    etas = np.array([2e-3, 2e-4])
    bias = (stops(incremental_pg, problem, best, etas) - best) / etas[:, None]
    off = np.linalg.norm(bias - wanted, axis=1) / np.linalg.norm(wanted)
    assert off[1] < 0.01
    assert off[1] == pytest.approx(off[0] / 10, rel=0.2)
    assert np.linalg.norm(wanted - after) > 0.1 * np.linalg.norm(wanted)


def test_steps_that_fall_leave_no_bias():
    """eta_k = eta / (k+1)^power, step by step against the equation, and 50 times nearer to the optimum in the end."""
    theta, eta = np.zeros(3), 0.5
    for k in range(5):
        theta = theta - eta / (k + 1) ** 0.7 * Q.g(theta)[k % 2]
    np.testing.assert_allclose(simulate(Q.problem(), incremental_pg(eta, 0.7), 5).theta[0], theta, atol=1e-14)
    far = np.linalg.norm(cycle(eta) - Q.best)
    near = simulate(Q.problem(), incremental_pg(eta, 0.7), 4000, metrics_every=4000).theta[0] - Q.best
    assert np.linalg.norm(near) < far / 50


def test_agents_come_in_turn_and_others_may_be_asked_for():
    """One of three agents takes part in a round: cyclic unless said otherwise, and never two.

    It is centralised_pg with one participant in that order; at random it is another run.
    """
    problem = with_oracle(ref.small_problem(N=3, S=2, A=2, seed=91), "exact")
    found = simulate(problem, incremental_pg(0.5), 5)
    in_turn = simulate(problem, centralised_pg(0.5), 5, participants=1, order="cyclic")
    np.testing.assert_array_equal(found.theta, in_turn.theta)
    np.testing.assert_array_equal(found.metrics["floats_up"], in_turn.metrics["floats_up"])
    at_random = simulate(problem, incremental_pg(0.5), 5, participants=1)
    drawn = simulate(problem, centralised_pg(0.5), 5, participants=1)
    np.testing.assert_array_equal(at_random.theta, drawn.theta)
    assert np.abs(at_random.theta - found.theta).max() > 1e-3
    for run in (loop, simulate):
        with pytest.raises(InputError, match="participants = 2; each round of this algorithm is for 1 of the agents"):
            run(problem, incremental_pg(0.5), 1, participants=2)


def test_a_plan_says_who_takes_part():
    """What a run writes down is whole; another order may be asked for, and two agents at a time may not."""
    config = Config("compromise", algorithm="incremental_pg")
    chosen = plan(config).config
    assert (chosen.participants, chosen.order) == (1, "cyclic")
    assert plan(config.but(order="arrival")).config.order == "arrival"
    assert plan(config.but(participants=1)).config.order == "random"
    assert plan(Config("compromise")).config.participants is None
    with pytest.raises(InputError, match="participants = 2; each round of this algorithm is for 1 of the agents"):
        plan(config.but(participants=2))


def test_bad_settings_are_refused():
    for power in (-0.1, 1.5):
        with pytest.raises(ValueError, match=rf"power = {power:g}; it must lie in \[0, 1\]"):
            incremental_pg(0.1, power)
