"""Algorithms in which each agent is its own server, or makes its own policy, in every runtime and over an engine."""

import jax.numpy as jnp
import numpy as np
import pytest

from fastfedpg import InputError, fedavg_pg, independent_pg, loop, simulate, with_oracle
from fastfedpg.algorithms.combine import mixing
from fastfedpg.core import Algorithm, Exchange, Info, alone, estimate
from fastfedpg.federation.terms import Terms
from fastfedpg.runtime import Schedule, loop_records, simulate_records
from grid import agents_of, engine_of, federated, grid_of, rounds_of
from sites import EXACT, SAMPLED, TABULAR, N, d

W = np.array([[0.5, 0.5, 0], [0.5, 0.25, 0.25], [0, 0.25, 0.75]])
(LOCAL,) = independent_pg(0.3, 2).exchanges
GOSSIP = independent_pg(0.3, 2)._replace(exchanges=(LOCAL._replace(combine=mixing(W)),))


@pytest.mark.parametrize("participants", [None, 2])
@pytest.mark.parametrize("problem", [EXACT, SAMPLED], ids=["exact", "sampled"])
def test_gossip_over_an_engine_is_the_simulation(problem, participants, tmp_path):
    """One policy per agent after every round, to 0 in the loop, whose functions agents and server call, and to rounding
    in the compiled program; each agent is sent its own message."""
    schedule = Schedule(4, participants=participants)
    with grid_of(agents_of(problem, GOSSIP, tmp_path)) as grid:
        there = federated(engine_of(grid), problem, GOSSIP, schedule)
    assert there[-1].theta.shape == (1, N, d)
    for one, two, three in zip(
        there, loop_records(problem, GOSSIP, schedule), simulate_records(problem, GOSSIP, schedule), strict=True
    ):
        np.testing.assert_array_equal(one.theta, two.theta)
        np.testing.assert_allclose(one.theta, three.theta, atol=1e-14, rtol=0)
        np.testing.assert_allclose(one.evaluation.J, two.evaluation.J, rtol=1e-12)
    apart = np.abs(there[-1].theta[0, 0] - there[-1].theta[0, 2]).max()
    assert apart > 1e-3
    assert len(grid.asked) == N + 4 * (participants or N)


def test_the_agents_say_what_their_own_policies_are_worth(tmp_path):
    """J is the mean of each agent's own cost under its own policy, whoever says it."""
    with grid_of(agents_of(EXACT, GOSSIP, tmp_path, TABULAR)) as grid:
        there = federated(engine_of(grid), EXACT, GOSSIP, Schedule(2), terms=Terms(evaluate="agents"))
    here = simulate(EXACT, GOSSIP, 2)
    np.testing.assert_allclose([r.evaluation.J[0] for r in there], here.metrics["J"][0], rtol=1e-12)
    np.testing.assert_allclose(there[-1].evaluation.returns[0], here.returns[0, -1], rtol=1e-12)


def test_a_round_begins_again_with_the_agents_that_are_left(tmp_path):
    """Agent 1 never answers in round 2 of 3: its state stays as it was, and the others' rows are renormalised."""
    from sites import Faulty, gone

    agents = agents_of(EXACT, GOSSIP, tmp_path)
    agents[1] = Faulty(agents[1], gone, "local", 1)
    terms = Terms("reweight", evaluate="server")
    with grid_of(agents) as grid:
        there = federated(engine_of(grid), EXACT, GOSSIP, Schedule(3), terms=terms)
    np.testing.assert_array_equal(there[2].theta[0, 1], there[1].theta[0, 1])
    assert np.abs(there[2].theta[0, [0, 2]] - there[1].theta[0, [0, 2]]).max() > 1e-3
    # Agents 0 and 2 are no neighbours: each has only itself left, and learns alone.
    two = independent_pg(0.3, 2)
    (last,) = [r for r in loop_records(EXACT, two, Schedule(1, theta0=there[1].theta[0, 2])) if r.round == 1]
    np.testing.assert_allclose(there[2].theta[0, 2], last.theta[0, 2], atol=1e-14)


def test_what_says_nothing_is_refused(tmp_path):
    with pytest.raises(InputError, match="this algorithm has no server: its agents say nothing to each other"):
        agents_of(EXACT, independent_pg(0.3, 2), tmp_path)
    partly = GOSSIP._replace(exchanges=(*GOSSIP.exchanges, LOCAL._replace(name="quiet", combine=alone)))
    with pytest.raises(InputError, match="exchange 'quiet' never leaves an agent"):
        agents_of(EXACT, partly, tmp_path)


def with_own_head(eta):
    """fedavg_pg with one step, whose agents keep a step of their own: the policy of agent i is theta - eta g_i."""

    def agent(g_i, own, theta, oracle, key):
        g_i, own, steps = estimate(oracle, theta, own, key)
        return g_i, own, theta - eta * g_i, Info(steps=steps)

    average = lambda state, theta, share, key: (theta, theta)
    return Algorithm(
        lambda theta, N: (theta, theta, jnp.zeros((N, *theta.shape), theta.dtype)),
        (Exchange("local", agent, average),),
        lambda theta: theta,
        personalise=lambda theta, g_i: theta - eta * g_i,
    )


@pytest.mark.parametrize("run", [loop, simulate])
def test_policies_are_recorded_as_their_agents_make_them(run):
    """theta is fedavg_pg's; recorded is theta_T - eta g_i(theta_{T-1}) for every agent, and its value is that."""
    personal = run(EXACT, with_own_head(0.3), 3)
    plain = simulate(EXACT, fedavg_pg(0.3, 1), 3).theta[0]
    before = simulate(EXACT, fedavg_pg(0.3, 1), 2).theta[0]
    assert personal.theta.shape == (1, N, d)
    for i in range(N):
        alone_ = simulate(with_oracle(TABULAR.only(i), "exact"), fedavg_pg(0.3, 1), 1, theta0=before).theta[0]
        np.testing.assert_allclose(personal.theta[0, i], plain + alone_ - before, atol=1e-13)
    np.testing.assert_allclose(personal.final("J"), EXACT.evaluate(personal.theta).J, rtol=1e-14)
    assert personal.final("J") < simulate(EXACT, fedavg_pg(0.3, 1), 3).final("J"), "each has gone its own way"


def test_deployed_agents_evaluate_their_own_policies(tmp_path):
    """The server keeps the common theta, and is told what each agent's own is worth: the simulation's J."""
    method = with_own_head(0.3)
    with grid_of(agents_of(EXACT, method, tmp_path, TABULAR)) as grid:
        there = federated(engine_of(grid), EXACT, method, Schedule(3), terms=Terms(evaluate="agents"))
    here = simulate(EXACT, method, 3)
    np.testing.assert_allclose([r.evaluation.J[0] for r in there], here.metrics["J"][0], rtol=1e-12)
    assert there[-1].theta.shape == (1, d)
    with pytest.raises(InputError, match="only the agents can say what it is worth; take evaluate = agents, or none"):
        rounds_of(None, EXACT, method, terms=Terms(evaluate="server"))
