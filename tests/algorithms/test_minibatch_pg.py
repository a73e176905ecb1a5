"""Minibatch PG: the trajectories of H local steps in one gradient, and what is counted for them."""

import numpy as np
import pytest

import reference as ref
from fastfedpg import Config, InputError, centralised_pg, loop, minibatch_pg, simulate, with_oracle
from fastfedpg.core import Oracle, trajectories
from fastfedpg.experiment import budgets, plan
from fastfedpg.problems import tabular_exact

H, ETA = 3, 0.2
P = ref.small_problem(N=3, S=3, A=2, seed=70)
THETA0 = np.random.default_rng(71).normal(size=6)
BOTH = pytest.mark.parametrize("run", [loop, simulate])


@BOTH
def test_it_is_centralised_pg_with_H_times_the_step_and_the_trajectories(run):
    """theta - (H eta) A g(theta; H B) to the bit, from the same key; with B trajectories it is another number."""
    play = lambda B: with_oracle(P, "gpomdp", B=B, K=4, baseline="leave-one-out")
    one = run(play(2), minibatch_pg(ETA, H), 3, 2, theta0=THETA0)
    two = run(play(2 * H), centralised_pg(H * ETA), 3, 2, theta0=THETA0)
    np.testing.assert_array_equal(one.theta, two.theta)
    assert np.abs(one.theta - run(play(2), centralised_pg(H * ETA), 3, 2, theta0=THETA0).theta).min() > 1e-6
    np.testing.assert_array_equal(one.metrics["env_steps"], two.metrics["env_steps"])
    assert one.final("env_steps")[0] == 3 * P.N * H * 2 * 4


@BOTH
def test_exact_gradients_are_asked_for_once(run):
    """theta - H eta grad J(theta), and one gradient of each agent in a round."""
    theta = THETA0
    for _ in range(3):
        theta = theta - H * ETA * tabular_exact.gradient(P, theta).reshape(-1)
    asked = []
    exact = with_oracle(P, "exact")

    def counted(task):
        oracle = exact.oracle(task)
        return oracle._replace(sample=lambda *given: (asked.append(given[3]), oracle.sample(*given))[1])

    found = run(exact._replace(oracle=counted), minibatch_pg(ETA, H), 3, theta0=THETA0)
    np.testing.assert_allclose(found.theta[0], theta, atol=1e-14)
    assert set(asked) == {0}
    assert found.final("env_steps")[0] == 0


def test_what_a_round_of_it_costs():
    """Of 2 agents: H B K steps each where trajectories are played, one estimate each where none are."""
    played = Config("compromise", algorithm="minibatch_pg", H=5, oracle="gpomdp", B=4, K=7)
    assert budgets.samples(plan(played)) == 2 * 5 * 4 * 7
    exact = plan(Config("compromise", algorithm="minibatch_pg", H=5))
    assert (budgets.samples(exact), budgets.unit(exact)) == (2, "gradient estimates")


@BOTH
def test_an_oracle_must_say_how_many_trajectories_it_has(run):
    """Silence is not taken for none: B would be played in the place of H B."""
    exact = with_oracle(P, "exact")
    silent = exact._replace(oracle=lambda task: exact.oracle(task)._replace(B=None))
    with pytest.raises(InputError, match="the algorithm needs B, which the problem's oracle does not answer; these do"):
        run(silent, minibatch_pg(ETA, H), 1)
    oracle = Oracle(lambda key: (), None, None, None)
    with pytest.raises(ValueError, match="does not say how many trajectories its estimates have"):
        trajectories(oracle, 2)
    assert trajectories(oracle._replace(B=4), 2) == 8


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="H = 0; a round must have the trajectories of at least 1 step"):
        minibatch_pg(ETA, 0)
