"""What methods cost until a target: the model's terms at points by hand, its limits, and how they are ranked."""

import math

import numpy as np
import pytest

from fastfedpg.theory import advice
from fastfedpg.theory.advice import Landscape, Method, anchor_noise, balance, cost, floor, least_target, ranked, rate

AT = Landscape(gap=1.0, mu=0.1, L=0.5, sigma_sq=8.0, zeta_sq=2.0, N=4)
FAST, PLAIN = Method("fast_fedpg", 5, 24, 400, 2), Method("fedavg_pg", 5, 20, 200, 1)
BATCH = Method("minibatch_pg", 5, 20, 200, 1)
HEAVY = Method("heavy_anchor", 10, 40, 400, 2)
SCAFFOLD, CENTRAL = Method("scaffold_pg", 5, 20, 400, 1), Method("centralised_pg", 1, 4, 200, 1)
ALONE = Method("independent_pg", 5, 20, 0, 0)
EVERY = (FAST, HEAVY, PLAIN, SCAFFOLD, BATCH, CENTRAL, ALONE)


def test_floors_for_small_steps_are_the_drift_laws():
    """Leading order in eta: eta/4 sigma^2/N for all; the drift's part is H eta/4 L^2 eta^2 (mean l^2 anchor + mean l
    sigma^2)/N, with means 6 and 2 for H = 5, and FedAvg-PG's bias (eta L)^2 mean l^2 zeta^2/(2L)."""
    eta = 1e-4
    plain = eta / 4 * 8 / 4
    assert floor(CENTRAL, eta, AT) == pytest.approx(plain, rel=1e-12)
    assert floor(ALONE, eta, AT) == pytest.approx(4 * plain)
    assert anchor_noise(FAST, 8.0, 4) == 6.0
    assert anchor_noise(FAST._replace(B_over_B0=0.25), 8.0, 4) == 1.5
    assert anchor_noise(SCAFFOLD, 8.0, 4) == pytest.approx(6 / 5)
    drift = lambda anchor: 5 * eta / 4 * 0.25 * eta**2 * (6 * anchor + 2 * 8.0) / 4
    assert floor(FAST, eta, AT) - plain == pytest.approx(drift(6.0), rel=1e-3)
    assert floor(SCAFFOLD, eta, AT) - plain == pytest.approx(drift(6 / 5), rel=1e-3)
    assert floor(PLAIN, eta, AT) - plain == pytest.approx(drift(0) + (eta * 0.5) ** 2 * 6 * 2.0 / (2 * 0.5), rel=1e-3)


def test_the_floor_of_noise_is_that_of_a_parabola():
    """theta <- theta - eta (h theta + noise of variance s): E h theta^2/2 comes to eta s/4/(1 - eta h/2)."""
    rng, theta, seen = np.random.default_rng(0), np.zeros(4000), []
    for t in range(400):
        theta = theta - 0.05 * (0.5 * theta + rng.normal(size=4000) * np.sqrt(2.0))
        seen += [np.mean(0.5 * theta**2 / 2)] if t > 300 else []
    at = AT._replace(sigma_sq=2.0, N=1)
    assert np.mean(seen) == pytest.approx(floor(CENTRAL, 0.05, at), rel=0.05)


def test_minibatch_pg_is_one_step_of_H_eta_with_an_Hth_of_the_noise():
    """centralised_pg's floor and rate at H eta and sigma^2/H, whatever zeta^2; its largest step is 1/(HL)."""
    fifth = AT._replace(sigma_sq=8.0 / 5)
    assert floor(BATCH, 0.02, AT._replace(zeta_sq=1e9)) == pytest.approx(floor(CENTRAL, 0.1, fifth))
    assert rate(BATCH, 0.02, AT) == rate(CENTRAL, 0.1, fifth)
    assert cost(BATCH, AT._replace(sigma_sq=0.0), 0.01).eta == pytest.approx(1 / (5 * AT.L))


def test_heavy_anchor_takes_half_at_once():
    """H = 10, q = L = 5: only the five local steps drift, and they push each other's floor up by L/H of what ten would;
    its first step is of 5 eta, and no longer than 1/L. The anchor's noise is a fifth."""
    eta = 1e-4
    assert anchor_noise(HEAVY, 8.0, 4) == pytest.approx(6 / 5)
    drift = 5**2 / 10 * eta / 4 * 0.25 * eta**2 * (6 * 6 / 5 + 2 * 8.0) / 4
    assert floor(HEAVY, eta, AT) - eta / 4 * 8 / 4 == pytest.approx(drift, rel=1e-3)
    assert rate(HEAVY, 0.02, AT) == pytest.approx(rate(CENTRAL, 0.1, AT) * rate(CENTRAL, 0.02, AT) ** 5)
    assert cost(HEAVY, AT._replace(sigma_sq=0.0), 0.01).eta == pytest.approx(1 / (5 * AT.L))
    assert floor(HEAVY, 0.1, AT) < floor(FAST._replace(H=10), 0.1, AT), "less drifts, and by less"
    assert floor(HEAVY, 0.1, AT._replace(zeta_sq=1e9)) == floor(HEAVY, 0.1, AT)


def test_more_trajectories_are_less_noise():
    """4B: sigma^2/4 in every method's floor, and nothing else is another."""
    for method in EVERY:
        assert floor(method._replace(noise=0.25), 0.1, AT) == floor(method, 0.1, AT._replace(sigma_sq=2.0))


def test_a_step_beyond_what_a_parabola_bears_is_slow():
    """At eta = 5 > 2/L one round was said to be enough."""
    for method in (CENTRAL, BATCH):
        assert cost(method, AT._replace(sigma_sq=0.0), 0.01, eta=5.0).rounds > 100


def test_rounds_are_those_after_which_the_gap_is_there():
    """Without noise: the least T with rate^T <= target/2 (the other half is the floor's)."""
    at = AT._replace(sigma_sq=0.0)
    found = cost(FAST, at, 0.01)
    assert rate(FAST, found.eta, at) ** found.rounds <= 0.005 < rate(FAST, found.eta, at) ** (found.rounds - 1)
    assert found.eta <= 1 / at.L
    assert found.samples == 24 * found.rounds
    assert found.bytes == 400 * found.rounds
    assert cost(FAST, at, 0.01, eta=0.1).eta == 0.1


def test_noise_and_drift_change_places():
    """The same problem with zeta^2 from 0 up: FedAvg-PG is first where there is none, and a correction where there is
    much; without noise Fast-FedPG, whose anchor is of this round."""
    alike = [method for method in EVERY if method is not HEAVY]  # which has other H
    local = [method for method in alike if method is not BATCH]
    first = lambda at, methods=alike: ranked([cost(x, at, 0.01) for x in methods])[0].method.name
    assert first(AT._replace(zeta_sq=0.0)) == "fedavg_pg"
    assert first(AT._replace(zeta_sq=100.0), local) in ("fast_fedpg", "scaffold_pg")
    assert first(AT._replace(zeta_sq=100.0)) == "minibatch_pg", "much noise: steps are small, and one goes as far as H"
    assert first(AT._replace(zeta_sq=100.0, sigma_sq=0.0)) == "fast_fedpg"
    assert ranked([cost(x, AT, 0.01) for x in EVERY])[-1].method.name == "independent_pg"


def test_balance():
    """N zeta^2 / ((1 - 1/N) sigma^2 B/B0) = 4 * 2 / (3/4 * 8) by hand; without noise infinite, without zeta nothing."""
    assert balance(8.0, 2.0, 4) == pytest.approx(8 / 6)
    assert balance(8.0, 2.0, 4, 0.5) == pytest.approx(8 / 3)
    assert balance(0.0, 2.0, 4) == math.inf
    assert balance(8.0, -1.0, 4) == 0


def test_the_least_target_is_where_costs_end():
    for eta in (None, 0.5):
        least = least_target(FAST, AT, eta)
        assert math.isfinite(cost(FAST, AT, 1.01 * least, eta).rounds)
        assert math.isinf(cost(FAST, AT, 0.99 * least if eta else least / 10, eta).rounds)


def test_regret_is_the_worst_case():
    cases = [[cost(x, at, 0.01) for x in EVERY] for at in advice.cases(AT, 0.0, 1000.0)]
    assert advice.regret(PLAIN, cases) > 2
    assert advice.regret(PLAIN, cases[:1]) == 1
