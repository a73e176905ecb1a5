"""Gossip: the two methods' equations, the bias that one has and the other has not, and who hears whom."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import reference as ref
from fastfedpg import Oracle, Problem, decentralised_pg, fedavg_pg, loop, mdpgt, simulate, with_oracle
from fastfedpg.algorithms.mdpgt import elsewhere
from fastfedpg.algorithms.wrappers.normalised import normalised
from fastfedpg.core import Evaluation
from fastfedpg.envs.catalogue.cart_pole import cart_pole
from fastfedpg.graphs import weights
from fastfedpg.oracles.sampled import Trajectories
from fastfedpg.policies import linear
from fastfedpg.problems import tabular_exact, with_policy
from fastfedpg.runtime import Schedule, message_sizes, simulate_records

N, S, A, d = 5, 3, 2, 6
TABULAR = ref.small_problem(N=N, S=S, A=A, seed=60)
EXACT = with_oracle(TABULAR, "exact")
SAMPLED = with_oracle(TABULAR, "gpomdp", B=3, K=4)
RING = weights("ring", N)
g = lambda i, theta: tabular_exact.gradients(TABULAR, theta)[i].ravel()

rng = np.random.default_rng(61)
_half = rng.normal(size=(N, 3, 3))
HESSIANS = np.eye(3) + _half @ _half.transpose(0, 2, 1) / 3
CENTRES = rng.normal(size=(N, 3))


def quadratics() -> Problem:
    """J_i(x) = (x - c_i)'A_i (x - c_i)/2, with exact gradients; nothing is evaluated."""

    def oracle(task) -> Oracle:
        H, c = task
        gradient = lambda x, own, batch: H @ (x - c)
        return Oracle(lambda key: (), lambda *_: ((), ()), gradient, lambda batch: 0, anywhere=True)

    def evaluate(thetas, seeds=None) -> Evaluation:
        x = np.zeros(len(thetas))
        return Evaluation(x, x, x, np.zeros((len(x), N)))

    return Problem((HESSIANS, CENTRES), np.arange(N, dtype=np.int32), oracle, evaluate, np.zeros(3))


QUADRATICS = quadratics()
OPTIMUM = np.linalg.solve(HESSIANS.sum(axis=0), np.einsum("ijk,ik->j", HESSIANS, CENTRES))


def fixed_point(W, eta):
    """Theta (N, 3) with (I - W) Theta = -eta G(Theta), G_i = A_i (theta_i - c_i): one linear system of 3 N numbers."""
    blocks = np.zeros((N, 3, N, 3))
    for i in range(N):
        blocks[i, :, i] = eta * HESSIANS[i]
    system = np.kron(np.eye(N) - W, np.eye(3)) + blocks.reshape(3 * N, 3 * N)
    right = eta * np.einsum("ijk,ik->ij", HESSIANS, CENTRES)
    return np.linalg.solve(system, right.ravel()).reshape(N, 3)


def last(problem, algorithm, rounds):
    """What is carried when a run ends."""
    stood = []
    list(simulate_records(problem, algorithm, Schedule(rounds), lambda t, now: stood.append(now()), pause=rounds))
    return stood[-1]


@pytest.mark.parametrize("run", [loop, simulate])
def test_decentralised_pg_is_its_equation(run):
    """theta_i+ = sum_j W_ij theta_j - eta g_i(theta_i), four rounds written out; the policy is the mean."""
    theta = np.zeros((N, d))
    for _ in range(4):
        theta = RING @ theta - 0.6 * np.stack([g(i, theta[i]) for i in range(N)])
    np.testing.assert_allclose(run(EXACT, decentralised_pg(0.6, "ring"), 4).theta[0], theta.mean(axis=0), atol=1e-14)
    assert np.abs(theta - theta.mean(axis=0)).max() > 1e-2, "they differ"


@pytest.mark.parametrize("run", [loop, simulate])
def test_mdpgt_is_its_equations(run):
    """b = 1: v+ = W (v + g(theta) - g(theta-)), theta+ = W theta - eta v+; with exact gradients b changes nothing."""
    theta, v, u = np.zeros((N, d)), np.zeros((N, d)), np.zeros((N, d))
    for _ in range(4):
        new = np.stack([g(i, theta[i]) for i in range(N)])
        v, u = RING @ (v + new - u), new
        theta = RING @ theta - 0.6 * v
    for b in (1.0, 0.3):
        found = run(EXACT, mdpgt(0.6, "ring", b), 4)
        np.testing.assert_allclose(found.theta[0], theta.mean(axis=0), atol=1e-14)


def test_the_complete_graph_is_fedavg_with_one_step_but_for_where_gradients_are_taken():
    """W = 11'/N. All begin at one point, so the first round is FedAvg-PG's with H = 1, noise included: the exchange has
    its name. From then on theta_i = mean_before - eta g_i(theta_i before), an own step away from what all hear."""
    one, two = decentralised_pg(0.6, "complete"), fedavg_pg(0.6, 1)
    for problem in (EXACT, SAMPLED):
        np.testing.assert_allclose(simulate(problem, one, 1).theta, simulate(problem, two, 1).theta, atol=1e-14)
    mean, theta = np.zeros(d), np.zeros((N, d))
    for _ in range(3):
        theta = mean - 0.6 * np.stack([g(i, theta[i]) for i in range(N)])
        mean = theta.mean(axis=0)
    found = simulate(EXACT, one, 3).theta[0]
    np.testing.assert_allclose(found, mean, atol=1e-14)
    assert np.abs(found - simulate(EXACT, two, 3).theta[0]).max() > 1e-4


@pytest.mark.parametrize("graph", ["ring", "complete", "star"])
def test_where_decentralised_pg_stops(graph):
    """(I - W) Theta = -eta G(Theta), solved directly; the mean is not the optimum."""
    theta = fixed_point(weights(graph, N), 0.1)
    found = last(QUADRATICS, decentralised_pg(0.1, graph), 800)
    np.testing.assert_allclose(found.memory.theta[0], theta, atol=1e-12)
    np.testing.assert_allclose(found.state[0], weights(graph, N) @ theta, atol=1e-12)
    assert np.linalg.norm(theta.mean(axis=0) - OPTIMUM) > 1e-3


def test_consensus_error_is_eta_over_one_minus_lambda_2():
    """Theta - mean = -eta (I - W)^+ G, so ||Theta - mean|| / eta -> ||(I - W)^+ G(x*)||, which W's second eigenvalue
    bounds by ||G|| / (1 - lambda_2): 1 on the complete graph, exactly ||G||; more on the ring, lambda_2 = (1 + 2 cos 72
    degrees)/3 = .539. Each halving of eta halves it, and the mean's distance from the optimum."""
    G = np.einsum("ijk,ik->ij", HESSIANS, OPTIMUM - CENTRES)
    for graph, lambda_2 in (("complete", 0.0), ("ring", (1 + 2 * np.cos(2 * np.pi / 5)) / 3)):
        W = weights(graph, N)
        assert np.sort(np.linalg.eigvalsh(W))[-2] == pytest.approx(lambda_2, abs=1e-14)
        limit = np.linalg.norm(np.linalg.pinv(np.eye(N) - W) @ G)
        assert limit <= np.linalg.norm(G) / (1 - lambda_2) * (1 + 1e-12)
        theta = fixed_point(W, 1e-5)
        assert np.linalg.norm(theta - theta.mean(axis=0)) / 1e-5 == pytest.approx(limit, rel=1e-3)
        off = [np.linalg.norm(fixed_point(W, eta).mean(axis=0) - OPTIMUM) for eta in (2e-4, 1e-4)]
        assert off[0] / off[1] == pytest.approx(2, rel=1e-2)
    assert limit > 1.5 * np.linalg.norm(G), "the ring is worse than the complete graph"


@pytest.mark.parametrize("graph", ["ring", "complete"])
def test_tracking_leaves_no_bias(graph):
    """Same problems, same step size: all agents end at the optimum of the mean."""
    found = last(QUADRATICS, mdpgt(0.1, graph, b=1.0), 800)
    np.testing.assert_allclose(found.state.theta[0], np.tile(OPTIMUM, (N, 1)), atol=1e-10)
    np.testing.assert_allclose(found.state.v[0], 0, atol=1e-10)


@pytest.mark.parametrize("participants", [None, 3])
def test_the_mean_of_v_is_the_mean_of_u(participants):
    """At all times, noise or not, whoever takes part: the columns of W sum to 1. And v itself is not u."""
    stood = []
    schedule = Schedule(5, participants=participants)
    list(simulate_records(SAMPLED, mdpgt(0.5, "ring", 0.4), schedule, lambda t, now: stood.append(now()), pause=1))
    for now in stood:
        np.testing.assert_allclose(now.state.v[0].mean(axis=0), now.memory.u[0].mean(axis=0), atol=1e-14)
    assert np.abs(stood[-1].state.v[0] - stood[-1].memory.u[0]).max() > 1e-2


@pytest.mark.parametrize("participants", [None, 3])
def test_the_mean_moves_by_the_gradients_of_those_who_took_part(participants):
    """mean m+ = mean m - (eta/N) sum_{i in S} g_i(theta_i): theta_i+ = m_i - eta g_i tells what g_i was."""
    stood = []
    schedule = Schedule(4, participants=participants)
    list(simulate_records(SAMPLED, decentralised_pg(0.5), schedule, lambda t, now: stood.append(now()), pause=1))
    for t in range(3):
        here = np.asarray(schedule.who(SAMPLED, 0, t + 1))
        m, then, theta = stood[t].state[0], stood[t + 1].state[0], stood[t + 1].memory.theta[0]
        step = (m - theta)[here].sum(axis=0) / N
        np.testing.assert_allclose(then.mean(axis=0), m.mean(axis=0) - step, atol=1e-14)
        assert len(here) == (participants or N)


def test_a_gradient_elsewhere_is_weighed_by_what_the_other_policy_would_have_done():
    """E_theta[w g(tau|at)] over all 16 trajectories of 2 steps is the truncated gradient at `at`."""
    small = ref.small_problem(N=1, S=2, A=2, seed=62)
    theta, at = (jnp.asarray(rng.normal(size=4)) for _ in range(2))
    oracle = with_oracle(small, "reinforce", B=1, K=2).oracle(jnp.asarray(small.cost[0]))
    total = 0
    for way in ref.all_trajectories(small.P, small.rho, np.asarray(theta), 2):
        visited = jnp.asarray([[2 * s + a for s, a in zip(way.states, way.actions, strict=True)]])
        found, ess = elsewhere(oracle, at, theta, (), Trajectories(visited, 2))
        total = total + way.probability * found
        assert float(ess["ess"]) == pytest.approx(1)
    exact = with_oracle(small, "truncated", K=2).oracle(jnp.asarray(small.cost[0])).gradient(at, (), ())
    np.testing.assert_allclose(total, exact, atol=1e-12)


def test_the_effective_share_of_trajectories_is_no_count():
    """Where the two policies are one, all w = 1 and all of B = 3 trajectories count: a share of 1, as of other methods.
    With w = (1, x, x), x = pi_at(a)/pi_theta(a) by hand, it is (1 + 2x)^2 / (3 (1 + 2x^2))."""
    small = ref.small_problem(N=1, S=2, A=2, seed=62)
    oracle = with_oracle(small, "reinforce", B=3, K=1).oracle(jnp.asarray(small.cost[0]))
    batch, theta, at = Trajectories(jnp.asarray([[0], [2], [2]]), 2), jnp.zeros(4), jnp.asarray([0.0, 0.0, 1.0, 0.0])
    assert float(elsewhere(oracle, theta, theta, (), batch)[1]["ess"]) == pytest.approx(1)
    x = 2 * np.e / (1 + np.e)
    found = float(elsewhere(oracle, at, theta, (), batch)[1]["ess"])
    assert found == pytest.approx((1 + 2 * x) ** 2 / 3 / (1 + 2 * x * x))


@pytest.mark.parametrize("make", [decentralised_pg, mdpgt])
def test_permuting_the_agents_with_their_weights_changes_nothing(make):
    """A path 0-1-2-3-4 whose agents are renamed: the same tasks, keys and neighbours, the same mean."""
    path = np.eye(N)
    for i in range(N - 1):
        path[[i, i + 1, i, i + 1], [i, i + 1, i + 1, i]] += [-0.3, -0.3, 0.3, 0.3]
    order = np.array([3, 0, 4, 2, 1])
    moved = SAMPLED._replace(tasks=SAMPLED.tasks[order], ids=SAMPLED.ids[order])
    one, two = simulate(SAMPLED, make(0.5, path), 4), simulate(moved, make(0.5, path[order][:, order]), 4)
    np.testing.assert_allclose(two.theta, one.theta, atol=1e-13)
    assert np.abs(simulate(moved, make(0.5, path), 4).theta - one.theta).max() > 1e-4, "the graph matters"


def test_messages_go_to_neighbours():
    """A star of 5 has 4 edges: 8/5 neighbours on average; d numbers of 8 bytes to each, twice that with tracking."""
    bytes_ = 8 * d * 8 / 5
    assert message_sizes(EXACT, decentralised_pg(0.1, "star"), np.zeros(d))[2:] == pytest.approx((bytes_, bytes_, 1))
    assert message_sizes(EXACT, mdpgt(0.1, "complete"), np.zeros(d))[:2] == (2 * d * 4, 2 * d * 4)


@pytest.mark.parametrize("make", [decentralised_pg, mdpgt])
def test_agents_on_a_graph_measure_their_observations_together(make):
    """After the opening every agent has the mean's normalisation, and its first gradient is taken there: the complete
    graph's first round is FedAvg-PG's, normalised."""
    carts = cart_pole(agents=2)
    policy = linear(carts.observations, carts.actions, normalise=True)
    problem = with_policy(carts, policy, "gpomdp", B=2, K=8, episodes=1)
    method = normalised(make(0.3, "complete"), 4, policy.normalise)
    here = last(problem, method, 1)
    theta = here.state.theta[0] if make is mdpgt else here.state[0]
    np.testing.assert_array_equal(theta[0, :8], theta[1, :8])
    assert np.abs(theta[0, :8]).min() > 0
    one = jax.tree.leaves(last(problem, normalised(fedavg_pg(0.3, 1), 4, policy.normalise), 1).state)[0]
    np.testing.assert_allclose(theta.mean(axis=0), one[0], atol=1e-12)
