"""The problem of Labbi et al.: the numbers of their arrays, and that its best common policy is random."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import softmax

from fastfedpg import fedavg_pg, policies, simulate, with_oracle, with_policy
from fastfedpg.problems import hard_mdp, tabular_exact
from fastfedpg.runtime import Schedule, simulate_records

SURE = 60.0
"""A logit beside zeros: everything else has probability e^-60."""


def value(policy, agents=2):
    """The mean return of probabilities (7, 4)."""
    problem = hard_mdp(agents)
    return tabular_exact.returns(problem, problem.theta_of(policy)).mean()


def always(*actions):
    return np.eye(4)[list(actions)]


def test_its_arrays():
    """Rows by hand: state 0 of either kind, the way up by action 3, and what pays."""
    problem = hard_mdp(4)
    assert problem.own_kernels
    assert (problem.S, problem.A, problem.N, problem.gamma) == (7, 4, 4, 0.99)
    np.testing.assert_allclose(problem.P.sum(axis=-1), 1, rtol=1e-15)
    to = lambda i, s, a: {t: round(p, 3) for t, p in enumerate(problem.P[i, s, a]) if p}
    assert [to(i, 0, a) for i in (0, 2) for a in range(4)] == [{0: 1}, {0: 1}, {1: 1}, {1: 1}] * 2
    assert [to(i, 0, a) for i in (1, 3) for a in range(4)] == [{2: 1}, {2: 1}, {0: 1}, {0: 1}] * 2
    assert [to(0, s, 3) for s in (3, 4, 5, 6)] == [{3: 0.9, 4: 0.1}, {3: 0.1, 5: 0.9}, {4: 0.1, 5: 0.1, 6: 0.8},
                                                  {0: 0.9, 6: 0.1}]  # fmt: skip
    assert to(1, 3, 2) == {3: 0.2, 4: 0.8}
    assert to(1, 6, 1) == {4: 0.1, 5: 0.8, 6: 0.1}
    np.testing.assert_array_equal(problem.P[0, 1:], problem.P[1, 1:])
    assert problem.reward[3, 3].tolist() == [0.1, 0.2, 0, 0]
    assert problem.reward[:, 1:3].min() == 1
    assert not hard_mdp(1).own_kernels


def test_the_published_values():
    """Mean return from the uniform start, by exact evaluation: the uniform policy; always actions 3, 3, 3, 2, 3, 3, 3;
    and the same with state 0 half {0, 1}, half {2, 3}."""
    assert value(np.full((7, 4), 0.25)) == pytest.approx(82.07605093123959, abs=1e-9)
    best = always(3, 3, 3, 2, 3, 3, 3)
    assert value(best) == pytest.approx(63.06464059922057, abs=1e-9)
    mixed = best.copy()
    mixed[0] = 0.25
    assert value(mixed) == pytest.approx(96.87481872547217, abs=1e-9)
    assert value(mixed, agents=6) == pytest.approx(96.87481872547217, abs=1e-9), "half of the agents each"


def test_the_published_values_with_other_rewards():
    """The authors' second problem (`Challengin_Gridword`): the same kernels, and in states 1 and 2 one action alone
    pays best. The uniform policy; the best deterministic one; and, of shares 0, .1, …, 1 of actions 0 and 1 in state 0,
    the best, which is .4: agents that go to state 1 have more to gain."""
    problem = hard_mdp()
    reward = problem.reward.copy()
    reward[:, 1], reward[:, 2] = (0, 0, 1, 0.5), (0, 0.5, 0, 0)
    problem = replace(problem, reward=reward)
    J = lambda policy: tabular_exact.returns(problem, problem.theta_of(policy)).mean()
    assert J(np.full((7, 4), 0.25)) == pytest.approx(21.398637390761827, abs=1e-9)
    every = [(a, 2, 1, *rest) for a in (0, 3) for rest in itertools.product(range(4), repeat=4)]
    found = problem.evaluator()(np.stack([SURE * always(*actions).ravel() for actions in every])).returns.mean(axis=1)
    assert every[found.argmax()] == (3, 2, 1, 2, 3, 3, 3)
    assert found.max() == pytest.approx(55.92178345636344, abs=1e-9)
    mixed = [J(np.vstack([[p, 0, 0, 1 - p], always(2, 1, 2, 3, 3, 3)])) for p in np.arange(11) / 10]
    assert np.argmax(mixed) == 4
    assert max(mixed) == pytest.approx(72.68508165158146, abs=1e-9)


def test_no_deterministic_policy_is_as_good_as_chance():
    """All of them, but for states 1 and 2, where nothing depends on actions, and with 2 representatives in state 0."""
    problem = hard_mdp()
    every = [(a, 0, 0, *rest) for a in (0, 3) for rest in itertools.product(range(4), repeat=4)]
    thetas = np.stack([SURE * always(*actions).ravel() for actions in every])
    least = problem.evaluator()(thetas).returns.mean(axis=1).max()
    assert least == pytest.approx(63.06464059922057, abs=1e-9)


# J after each round of one run of the authors' code: for the table, without entropy, the first is before all rounds,
# and for bits, tau = .05, after one. N = 2, H = 5, eta = .01, B = K = 20; training starts from WEIGHTS.
WEIGHTS = np.array([0.05, 0.05, 0.05, 0.3, 0.3, 0.2, 0.05])
SOFT = (82.076051, 82.938429, 83.690994, 84.401428)
BITS = (82.737200, 83.771461, 84.871985, 85.731891)


def in_distribution(bound, probabilities, noted, seeds):
    """Each number within 3 standard deviations of what seeds of ours have then, and not of a round sooner or later."""
    records = simulate_records(bound, fedavg_pg(0.01, 5), Schedule(len(noted) + 1, seeds))
    J = np.array([[value(probabilities(theta)) for theta in record.theta] for record in records])
    assert J[0] == pytest.approx(82.07605093123959, abs=1e-9)
    far = lambda J: np.abs(noted - J.mean(axis=1)) / J.std(axis=1)
    assert far(J[1:-1]).max() < 3
    assert far(J[2:]).min() > 2.5


def test_the_authors_fedavg_in_distribution():
    started = replace(hard_mdp(), rho=WEIGHTS)
    bound = with_oracle(started, "gpomdp", B=20, K=20)
    in_distribution(bound, lambda theta: softmax(theta.reshape(7, 4), axis=1), SOFT[1:], 48)


@pytest.mark.claims
def test_the_authors_bits_in_distribution():
    """b-RS-FedPG: four actions are two bits, and the second one's entropy weighs gamma."""
    played = replace(hard_mdp(), rho=WEIGHTS).as_environments()
    policy = policies.make("bits", played.observations, played.actions, settings={"bit_gamma": 0.99})
    bound = with_policy(played, policy, "gpomdp", tau=0.05, B=20, K=20, episodes=1)
    s, a = (x[..., None].astype(float) for x in np.meshgrid(np.arange(7), np.arange(4), indexing="ij"))
    in_distribution(bound, lambda theta: np.exp(np.asarray(policy.log_prob(theta, s, a))), BITS, 48)


def test_it_can_be_played():
    """With kernels of their own the agents' episodes differ: action 3 in state 0 frees even agents alone. A table's
    return over 99 steps, undiscounted, of the policy that always takes action 3, from the chain itself."""
    problem = hard_mdp()
    played = problem.as_environments()
    K, episodes = 30, 4000
    bound = with_policy(
        played, policies.table(played.observations, played.actions), "gpomdp", B=2, K=K, episodes=episodes
    )
    theta = SURE * always(*[3] * 7).ravel()
    found = bound.evaluate(theta[None]).returns[0]
    for i in range(2):
        d, mean = problem.rho.copy(), 0.0
        for _ in range(K):
            mean, d = mean + d @ problem.reward[i, :, 3], d @ problem.P[i, :, 3]
        assert found[i] == pytest.approx(mean, abs=5 * K / 2 / episodes**0.5)
    assert found[0] > found[1] + 5


def test_fedavg_learns_chance():
    """From the uniform policy, exact gradients: better than every deterministic policy, and than it began."""
    found = simulate(with_oracle(hard_mdp(), "exact"), fedavg_pg(0.05, 5), 40, metrics_every=40)
    assert found.returns[0, -1].mean() > found.returns[0, 0].mean() > 63.07
