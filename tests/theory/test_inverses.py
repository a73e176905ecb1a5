"""From a target back to T, N and B: each is enough, and one less is not."""

import math

from fastfedpg.theory.advice import Landscape, Method, cost
from fastfedpg.theory.inverses import agents_for, theorem2_rounds, trajectories_for

AT = Landscape(gap=1.0, mu=0.1, L=0.5, sigma_sq=8.0, zeta_sq=2.0, N=4)
FAST = Method("fast_fedpg", 5, 24, 400, 2, B=16)
METHODS = (FAST, Method("fedavg_pg", 5, 20, 200, 1, B=16), Method("independent_pg", 5, 20, 0, 0, B=16))


def test_theorem_2_needs_far_more_rounds():
    got = theorem2_rounds(AT, 5, 0.01)
    assert got > 100 * cost(FAST, AT, 0.01).rounds
    assert got == math.ceil(got)


def test_agents_for_a_target_are_enough_and_one_less_is_not():
    """At a given eta the floor is a number: twice what is left is the least target."""
    N = agents_for(1e-4, METHODS, AT, eta=0.01)
    reached = lambda N: any(math.isfinite(cost(x, AT._replace(N=N), 1e-4, 0.01).rounds) for x in METHODS[:2])
    assert N > AT.N
    assert reached(N)
    assert not reached(N - 1)


def test_trajectories_for_a_target_are_enough_and_one_less_is_not():
    """sigma^2 is 8 at B = 16, so 128/B; a fourth of the noise at B = 64 is the same line."""
    B = trajectories_for(1e-4, METHODS, AT, eta=0.01)
    with_B = lambda x, B: x._replace(B=B, noise=16 / B)
    reached = lambda B: any(math.isfinite(cost(with_B(x, B), AT, 1e-4, 0.01).rounds) for x in METHODS[:2])
    assert reached(B)
    assert not reached(B - 1)
    assert trajectories_for(1e-4, [with_B(x, 64) for x in METHODS], AT, eta=0.01) == B


def test_where_no_number_is_enough_there_is_none():
    """FedAvg-PG's drift towards each agent's own optimum is averaged away by nobody; an exact oracle has no B."""
    assert agents_for(1e-6, METHODS[1:], AT, eta=0.5) is None
    assert trajectories_for(1e-6, METHODS[1:], AT, eta=0.5) is None
    assert trajectories_for(1e-4, [FAST._replace(B=None)], AT, eta=0.01) is None


def test_what_is_met_already_asks_for_no_more():
    assert agents_for(0.5, METHODS, AT, eta=0.01) == AT.N
