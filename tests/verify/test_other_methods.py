"""What the paper says about others: each row holds with the method it is about, and turns with another in its place."""

import numpy as np
import pytest

from fastfedpg import fast_fedpg
from fastfedpg.verify.claims.lemmas import Unsettled
from fastfedpg.verify.others import averaging, crowds, jin, momentum, statements, stops
from fastfedpg.verify.others.jin import Lost
from fastfedpg.verify.others.methods import METHODS
from fastfedpg.verify.others.stops import SHARES, Exact
from fastfedpg.verify.verdict import FAIL, PASS, UNDECIDED, Measured, decided
from tiny_subject import EFFORT, verdicts


@pytest.fixture(scope="module")
def exact(subject):
    """All of it is run before anything stands in for a run."""
    found = Exact(subject)
    assert len(found.average.distance) == len(found.fast.distance) == len(found.etas)
    assert len(found.svrpg) == len(SHARES)
    return found


def planted(exact, **found):
    """The same runs, but for some that others stand in for."""
    other = Exact(exact.subject, exact.methods)
    shared = {name: getattr(exact, name) for name in ("etas", "average", "fast", "law", "svrpg")}
    vars(other).update({**shared, **found})
    return other


def told(monkeypatch, found):
    """Whatever else is run stops there."""
    monkeypatch.setattr(Exact, "stop", lambda self, make, settings=None: found)


AVERAGING = (
    "FedAvg-PG, H = 3: off theta*", "FedAvg-PG, H = 3: bias in eta", "FedAvg-PG, H = 3: first-order law",
    "FedAvg-PG, H = 1: at theta*", "Fast-FedPG, H = 3: at theta*", "decentralised PG, ring: off theta*"
)  # fmt: skip


def by_row(rows):
    return [found for name, found in verdicts(rows).items()]


def test_model_averaging_is_biased(exact):
    """Real runs, where all rows hold; the law is that of tests/algorithms/test_bias.py, there by Newton's method."""
    rows = averaging.model_averaging(exact)
    assert [row.claim.removesuffix(" (tiny.npz)") for row in rows] == list(AVERAGING)
    assert by_row(rows) == [PASS] * 6
    assert all(row.measured.exact and row.measured.slack >= stops.MOVED for row in rows if row.measured.value < 1e-3)
    slope = np.diff(np.log(exact.average.distance[-2:])) / np.diff(np.log(exact.etas[-2:]))
    assert rows[1].measured.value == pytest.approx(slope[0], rel=1e-12)
    assert rows[1].measured.value == pytest.approx(1, abs=0.1)


def test_fast_fedpg_in_the_place_of_fedavg_is_seen(subject, exact, monkeypatch):
    """Run for real in its place: it is not off theta*, nothing grows with eta, and the law is missed by all of it."""
    other = Exact(subject, METHODS._replace(fedavg=fast_fedpg))
    fake = other.average
    assert (fake.distance < 1e-9).all()
    told(monkeypatch, exact.average)
    assert by_row(averaging.model_averaging(planted(exact, average=fake)))[:3] == [FAIL, FAIL, FAIL]


def test_each_other_row_turns_too(exact, monkeypatch):
    """FedAvg-PG in Fast-FedPG's place, and with H = 3 where one step was asked for; Fast-FedPG on the graph."""
    told(monkeypatch, exact.average)
    found = by_row(averaging.model_averaging(planted(exact, fast=exact.average)))
    assert found == [PASS, PASS, PASS, FAIL, FAIL, PASS]
    told(monkeypatch, exact.fast)
    assert by_row(averaging.model_averaging(planted(exact))) == [PASS, PASS, PASS, PASS, PASS, FAIL]


def test_what_is_not_known_well_enough_is_open(exact):
    """Fast-FedPG's stop, were it known only to twice or half of what would count: a millionth of FedAvg-PG's distance.

    Open, passed; and farther away than the slack can mend, failed."""
    counts = stops.NOTHING * exact.average.distance
    row = lambda off, slack: stops.unbiased("x", exact.fast._replace(off=off, slack=slack), exact.average)
    away = exact.average.off * stops.NOTHING
    given = (0.1 * away, 2 * counts), (0.1 * away, counts / 2), (4 * away, 2 * counts), (2 * away, 2 * counts)
    assert [by_row([row(*each)])[0] for each in given] == [UNDECIDED, PASS, FAIL, UNDECIDED]


def test_a_law_with_h_in_the_place_of_h_less_one_is_seen(exact):
    """H/(H-1) = 1.5 times the law is missed by a third, which is more than a tenth."""
    row = stops.as_predicted("law", exact.average, exact.etas[-1], 1.5 * exact.law)
    assert row.measured.value == pytest.approx(1 / 3, abs=0.05)
    assert by_row([row]) == [FAIL]


def test_what_is_not_clear_a_priori_is_said_either_way(exact, monkeypatch):
    told(monkeypatch, exact.fast)
    assert by_row(averaging.similar(planted(exact))) == ["unclear a priori; exact here"] * 2
    told(monkeypatch, exact.average)
    assert by_row(averaging.similar(planted(exact))) == ["unclear a priori; biased here"] * 2


def test_momentum_leaves_fedavgs_bias(exact, monkeypatch):
    """Real runs of FedSVRPG-M with three b, and of MFPO; then Fast-FedPG in their place, and FedAvg-PG in its own."""
    assert by_row(momentum.needless(exact)) == [PASS] * 5
    found = by_row(momentum.vanishing(exact))
    assert found == ["proved as eta -> 0; biased here", *[PASS] * 6]
    told(monkeypatch, exact.fast)
    none = planted(exact, svrpg=dict.fromkeys(SHARES, exact.fast))
    assert by_row(momentum.needless(none)) == [PASS, *[FAIL] * 4]
    found = by_row(momentum.vanishing(none))
    assert found == ["proved as eta -> 0; none here", *[FAIL] * 6]
    assert by_row(momentum.needless(planted(exact, fast=exact.average)))[0] == FAIL


def test_a_bias_of_second_order_is_seen(exact):
    """Were it proportional to eta^2, the slope would be 2."""
    second = exact.average._replace(off=exact.average.off * exact.etas[:, None] / exact.etas[0])
    row = stops.grows_with_eta("slope", second, exact.etas)
    assert row.measured.value == pytest.approx(2, abs=0.1)
    assert by_row([row]) == [FAIL]


def test_a_run_that_has_not_come_to_rest_has_no_stop(subject):
    with pytest.raises(Unsettled, match="a run of 8 rounds has not come to rest"):
        stops.stop(subject, lambda eta: fast_fedpg(eta, 3), stops.steps(subject), rounds=8)


def test_random_mdps_of_both_settings():
    """One reward and different kernels, or one kernel and different rewards, each with one oracle for all.

    With one kernel J is that of dynamic programming; with several, of a deterministic policy that none is better than.
    """
    for kernels in (True, False):
        first, second = jin.instances(kernels, 2, first_seed=3)
        assert first.exact.oracle is second.exact.oracle
        known = second.known
        assert (np.ptp(known.reward, axis=0).max() == 0) == kernels
        assert (np.ptp(known.P, axis=0).max() == 0) == (not kernels)
        greedy = np.argmax(known.reward.mean(axis=0), axis=1)
        theta = known.theta_of(np.eye(jin.A)[greedy])
        assert float(second.exact.evaluate(theta[None]).J[0]) >= second.J - 1e-12


def test_qavg_is_biased_with_local_sweeps_alone(monkeypatch):
    """Real runs on a random MDP: with H = 1 it is the average MDP's value iteration and ends at J*, with H = 8 not."""
    monkeypatch.setattr(jin, "ROUNDS", 200)
    (instance,) = jin.instances(False, 1, first_seed=8)
    one, eight = (jin.loses(instance, jin.KINDS["QAvg, text"](METHODS, H)) for H in (1, 8))
    assert abs(one.share) < 1e-12
    assert eight.share > 1e-3
    assert eight.at_rest


def test_rows_about_random_mdps_turn(monkeypatch):
    """Biased on one instance is enough; on none fails; and what may have no bias fails with one that is at rest.

    What is under way is open; what should have no bias is then given more rounds, and passes if that was all.
    """
    monkeypatch.setattr(jin, "KINDS", {name: (lambda methods, H, name=name: (name, H)) for name in jin.KINDS})
    monkeypatch.setattr(jin, "instances", lambda kernels, n, first_seed: range(n))
    on_one = lambda instance, algorithm, times=1: Lost(0.25 * (instance == 0), True)
    none = lambda instance, algorithm, times=1: Lost(0.0, True)
    H_alone = lambda instance, algorithm, times=1: (on_one if algorithm[1] == jin.H else none)(instance, algorithm)
    restless = lambda instance, algorithm, times=1: Lost(0.25, False)
    slow = lambda instance, algorithm, times=1: Lost(0.25, False) if times == 1 else Lost(1e-9, False)
    expected = {
        H_alone: [PASS] * 4 + [PASS, FAIL, PASS, FAIL],
        on_one: [PASS] * 4 + [FAIL, PASS, FAIL, PASS],
        none: [FAIL] * 4 + [PASS, FAIL, PASS, FAIL],
        restless: [UNDECIDED] * 8,
        slow: [UNDECIDED] * 4 + [PASS, UNDECIDED, PASS, UNDECIDED],
    }
    for loses, wanted in expected.items():
        monkeypatch.setattr(jin, "loses", loses)
        rows = jin.rows(False, 8, 0)
        assert by_row(rows) == wanted
        assert by_row(jin.rows(True, 8, 0)) == wanted[:4]
    monkeypatch.setattr(jin, "loses", on_one)
    assert jin.rows(True, 8, 0)[0].measured == Measured(1 / 8, of=8)


def follow(monkeypatch, laws):
    """Floors laws[who](N), the same for every seed to a thousandth, in the place of runs; and who was asked what."""
    asked = []

    def floor(subject, problem, algorithm, alpha, effort):
        who, eta = algorithm
        apart = np.ptp(np.asarray(problem.tasks), axis=0).max() > 0
        asked.append((who, eta, alpha, apart))
        rng = np.random.default_rng(problem.N)
        return laws[who](problem.N, apart) * (1 + 1e-3 * rng.normal(size=effort.seeds))

    monkeypatch.setattr(crowds, "floor", floor)
    make = lambda who: lambda eta, *more: (who, eta)
    return asked, METHODS._replace(**{who: make(who) for who in METHODS._fields})


EVERY = EFFORT._replace(times=(1, 4, 16), relaxations=8.0, seeds=8)
FALLS, FLAT = lambda N, apart: 1 / N, lambda N, apart: 1.0


def test_speed_ups_turn(subject, monkeypatch):
    """1/N is a speed-up and a constant is none, whoever has it; all were asked with one eta."""
    for laws, momentum_rows, said in ((FALLS, PASS, 0), (FLAT, FAIL, 1)):
        asked, methods = follow(monkeypatch, dict.fromkeys(METHODS._fields, laws))
        assert by_row(crowds.momentum(subject, EVERY, methods)) == [momentum_rows] * 3
        assert by_row(crowds.neighbours(subject, EVERY, methods)) == [crowds.UNPROVED[said]] * 2
        assert by_row(crowds.one_by_one(subject, EVERY, methods)) == [crowds.UNPROVED[said]]
        assert len({eta for _, eta, _, _ in asked}) == 1
        rounds = {who: alpha / eta for who, eta, alpha, _ in asked}
        assert [rounds[who] for who in ("fast", "svrpg", "decentralised", "incremental")] == [3, 3, 1, 1]
    rows = crowds.momentum(subject, EVERY, methods)
    assert decided(rows)[0].quoted == pytest.approx((0, 0), abs=0.02)


def test_a_bias_negates_the_gains(subject, monkeypatch):
    """FedAvg-PG's floor is 1/N + 1 where agents differ, 1/N where not; each of the three rows has its own mistake."""
    biased = lambda N, apart: 1 / N + apart
    cases = [
        ({"fedavg": biased, "fast": FALLS}, [PASS, PASS, PASS]),
        ({"fedavg": FALLS, "fast": FALLS}, [FAIL, PASS, PASS]),
        ({"fedavg": FLAT, "fast": FALLS}, [PASS, FAIL, PASS]),
        ({"fedavg": biased, "fast": biased}, [PASS, PASS, FAIL]),
    ]
    for laws, wanted in cases:
        asked, methods = follow(monkeypatch, laws)
        assert by_row(crowds.negated(subject, EVERY, methods)) == wanted
        assert [(who, apart) for who, _, _, apart in asked[::3]] == [
            ("fedavg", True), ("fedavg", False), ("fast", True)
        ]  # fmt: skip


def test_all_statements_are_measured_and_reported_seeds_are_new():
    """Every statement has a part, in full and quickly; what is drawn for the report is drawn from 44,000 on."""
    for quick in (False, True):
        titles = [part.title for part in statements.parts(quick)]
        assert len(set(titles)) == len(titles)
        assert all(any(title.startswith(each.title) for title in titles) for each in statements.STATEMENTS)
    assert statements.FULL.first_seed == 44_000
    assert statements.SMALL.first_seed + 1000 < 44_000


def test_clopper_and_pearsons_interval_of_none():
    """0 of n: the upper end solves (1 - p)^n = level/2."""
    low, high = Measured(0.0, of=10).interval(0.1)
    assert low == 0
    assert (1 - high) ** 10 == pytest.approx(0.05, rel=1e-12)


def test_slack_counts_where_there_is_no_noise():
    """A slope at the edge of what is allowed, that its slack takes over it, does not pass."""
    at = lambda slack: stops._near_one("", "", Measured(1 + stops.FIRST_ORDER - 1e-6, slack=slack), "")
    assert by_row([at(1e-7)]) == [PASS]
    assert by_row([at(1e-5)]) == [FAIL]
    assert at(1e-5).measured.interval(0.1) == pytest.approx((1.099989, 1.100009), abs=1e-7)
