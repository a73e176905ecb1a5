"""SCAFFOLD's three forms: what they send, and that those of option II are one method."""

from functools import cache

import jax.numpy as jnp
import numpy as np
import pytest

import fastfedpg as ff
import reference as ref
from fastfedpg import InputError, loop, simulate, with_oracle
from fastfedpg.core import Exchange, Info
from fastfedpg.runtime import Schedule, message_sizes, simulate_records

scaffold_pg = cache(ff.scaffold_pg)  # one is compiled once for all tests
H, ETA = 3, 0.3
P = ref.small_problem(N=4, S=3, A=2, seed=84)
THETA0 = np.random.default_rng(85).normal(size=6)
EXACT, SAMPLED = with_oracle(P, "exact"), with_oracle(P, "gpomdp", B=2, K=4)
BOTH = pytest.mark.parametrize("run", [loop, simulate])


@BOTH
@pytest.mark.parametrize("alpha_g", [1.0, 0.6])
@pytest.mark.parametrize("problem", [EXACT, SAMPLED], ids=["exact", "sampled"])
def test_what_theta_tells_need_not_be_sent(run, alpha_g, problem):
    """c = (theta_before - theta)/(alpha_g eta H) is what the server would have sent: equal to rounding for 8 rounds."""
    one, two = (
        run(problem, scaffold_pg(ETA, H, alpha_g, everybody=whole), 8, 2, theta0=THETA0) for whole in (True, False)
    )
    np.testing.assert_allclose(one.theta, two.theta, atol=1e-12)


@BOTH
@pytest.mark.parametrize("participants", [None, 1, 3])
def test_the_server_knows_the_variates_changes_from_theirs(run, participants):
    """The paper's form, in which c_i+ - c_i travels beside theta's change, as it stands: equal to rounding with all
    agents, with 1 of 4, and with 3."""

    def both(c_i, own, model, oracle, key):
        memory, own, change, info = plain.exchanges[0].agent(c_i, own, model, oracle, key)
        return memory, own, change._replace(c=memory.c_i - c_i.c_i), Info(info.drift, info.steps)

    def server(model, change, share, key):
        model = model._replace(theta=model.theta + change.theta, c=model.c + share * change.c)
        return model, model

    plain = scaffold_pg(ETA, H, everybody=False)
    paper = plain._replace(exchanges=(Exchange("local", both, server),))
    found, wanted = (run(SAMPLED, a, 6, 2, theta0=THETA0, participants=participants) for a in (plain, paper))
    np.testing.assert_allclose(found.theta, wanted.theta, atol=1e-12)


def test_variates_average_to_c_at_all_times():
    """mean_i c_i = c, which is what makes the two forms one; here with all agents, after each of 10 rounds."""
    stood = []
    algorithm = scaffold_pg(ETA, H, 0.7, everybody=False)
    list(simulate_records(SAMPLED, algorithm, Schedule(10, theta0=THETA0), lambda t, now: stood.append(now()), pause=1))
    for now in stood:
        np.testing.assert_allclose(now.memory.c_i.mean(axis=1), now.state.c, atol=1e-13)
        assert np.abs(now.memory.c_i - now.state.c[:, None]).max() > 1e-3


def test_what_is_sent():
    """Vectors of theta's length, up and down: I two and two, II one and two, and one and one where all take part."""
    sent = lambda **settings: message_sizes(EXACT, scaffold_pg(ETA, H, **settings), jnp.zeros(6))[:2]
    assert sent(option="I") == sent(option="I", everybody=False) == (12, 12)
    assert sent(everybody=False) == (6, 12)
    assert sent() == (6, 6)


@BOTH
def test_fewer_agents_are_refused_by_the_form_that_needs_all(run):
    with pytest.raises(InputError, match=r"participants = 3 of 4 agents: c is read off .* everybody=False"):
        run(EXACT, scaffold_pg(ETA, H), 1, participants=3)
    for settings in ({"everybody": False}, {"option": "I"}):
        run(EXACT, scaffold_pg(ETA, H, **settings), 1, participants=3)


def test_a_server_that_goes_on_without_the_missing_refuses_it_too():
    grid = pytest.importorskip("grid", exc_type=ImportError)
    from fastfedpg.federation.terms import Terms

    with pytest.raises(InputError, match="on_missing = reweight goes on without those that are missing: c is read off"):
        grid.rounds_of(None, EXACT, scaffold_pg(ETA, H), terms=Terms("reweight", evaluate="server"))
    grid.rounds_of(None, EXACT, scaffold_pg(ETA, H, everybody=False), terms=Terms("reweight", evaluate="server"))
