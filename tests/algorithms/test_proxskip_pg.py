"""ProxSkip: SCAFFOLD where its rounds have one length, and the same fixed points where they have not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import reference as ref
from fastfedpg import Config, InputError, fedavg_pg, loop, proxskip_pg, scaffold_pg, simulate, with_oracle
from fastfedpg.core import key_for
from fastfedpg.experiment import budgets, plan
from fastfedpg.problems import tabular_exact
from fastfedpg.runtime import Schedule, message_sizes, simulate_records

ETA, TAU = 0.3, 0.2
P = ref.small_problem(N=3, S=3, A=2, seed=80)
THETA0 = np.random.default_rng(81).normal(size=6)
EXACT, SAMPLED = with_oracle(P, "exact", TAU), with_oracle(P, "gpomdp", B=2, K=4)
BOTH = pytest.mark.parametrize("run", [loop, simulate])
RANDOM = proxskip_pg(ETA, 1 / 3)


def fixed(algorithm, H):
    """The same, whose server always says H."""
    (e,) = algorithm.exchanges

    def server(*given):
        state, down = e.server(*given)
        return state, down._replace(H=jnp.full_like(down.H, H))

    return algorithm._replace(exchanges=(e._replace(server=server),))


@BOTH
@pytest.mark.parametrize("problem", [EXACT, SAMPLED], ids=["exact", "sampled"])
def test_with_one_length_of_rounds_it_is_scaffold(run, problem):
    """p = 1/3 and H = 3: h_i = c_i - c, to rounding."""
    one = run(problem, fixed(RANDOM, 3), 5, 2, theta0=THETA0)
    np.testing.assert_allclose(one.theta, run(problem, scaffold_pg(ETA, 3), 5, 2, theta0=THETA0).theta, atol=1e-12)
    assert np.abs(one.theta - run(problem, RANDOM, 5, 2, theta0=THETA0).theta).max() > 1e-4


@BOTH
def test_with_p_1_it_is_gradient_descent(run):
    """One step a round: theta - eta grad J, whatever the h_i, which add up to zero."""
    theta = THETA0
    for _ in range(4):
        theta = theta - ETA * tabular_exact.gradient(P, theta, TAU).reshape(-1)
    np.testing.assert_allclose(run(EXACT, proxskip_pg(ETA, 1.0), 4, theta0=THETA0).theta[0], theta, atol=1e-13)


def rounds_of(algorithm, rounds, seeds=1):
    """How many local steps each round had."""
    stood = []
    schedule = Schedule(rounds, seeds, theta0=THETA0)
    list(simulate_records(EXACT, algorithm, schedule, lambda t, now: stood.append(now()), pause=1))
    return np.array([now.down.H for now in stood]), stood


def test_the_number_of_steps_is_geometric_and_bounded():
    """4000 draws of P(H = n) = p (1-p)^{n-1} with p = 1/3: mean 3, standard error sqrt(6)/63 = 0.039; here 4.5 of them.
    P(H = 1) = 1/3 with a standard error of 0.0075. Where 4 are the most, none is more, and P(H = 4) = (2/3)^3 = 0.296
    with 0.0072. The same draws for all agents; the first round has 1/p."""
    state, down, _ = RANDOM.init(jnp.asarray(THETA0), 3)
    assert int(down.H) == 3
    (e,), (bounded,) = RANDOM.exchanges, proxskip_pg(ETA, 1 / 3, most=4).exchanges
    keys = jax.vmap(lambda t: key_for(0, t, "local"))(jnp.arange(4000))
    draw = lambda e: np.asarray(jax.vmap(lambda key: e.server(state, state, 1.0, key)[1].H)(keys))
    found, most = draw(e), draw(bounded)
    assert found.mean() == pytest.approx(3, abs=4.5 * 0.039)
    assert (found == 1).mean() == pytest.approx(1 / 3, abs=4.5 * 0.0075)
    assert found.max() <= 30
    assert (most.min(), most.max()) == (1, 4)
    assert (most == 4).mean() == pytest.approx((2 / 3) ** 3, abs=4.5 * 0.0072)


def test_the_fixed_point_is_stationary_whatever_the_rounds():
    """300 rounds of random length at tau > 0: grad J = 0 and h_i = grad J_i there; FedAvg stops elsewhere."""
    found = simulate(EXACT, proxskip_pg(2.0, 1 / 3), 300, metrics_every=300)
    assert found.final("grad_norm_sq")[0] < 1e-24
    assert simulate(EXACT, fedavg_pg(2.0, 3), 300, metrics_every=300).final("grad_norm_sq")[0] > 1e-7
    lengths, stood = rounds_of(RANDOM, 8)
    assert len({*lengths.ravel()}) > 2
    for now in stood:
        h = np.asarray(now.memory.h_i)[0]
        assert np.abs(h.mean(axis=0)).max() < 1e-13


def test_what_is_counted():
    """d numbers up, d + 1 down. A budget reckons with 1/p estimates; a run counts those that there were."""
    assert message_sizes(EXACT, RANDOM, THETA0) == (6, 7, 48, 56, 1)
    config = Config("compromise", algorithm="proxskip_pg", p=0.2, oracle="gpomdp", B=2, K=3)
    assert budgets.samples(plan(config)) == 2 * 5 * 2 * 3
    lengths, _ = rounds_of(RANDOM, 6)
    said = simulate(SAMPLED, RANDOM, 6).metrics["env_steps"][0]
    np.testing.assert_array_equal(np.diff(said), 3 * 2 * 4 * np.array([3, *lengths.ravel()[:-1]]))


@BOTH
def test_fewer_agents_are_refused(run):
    with pytest.raises(InputError, match="participants = 2 of 3 agents: shifts add up to zero only if all agents"):
        run(EXACT, RANDOM, 1, participants=2)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"p": 0.0}, r"p = 0; it must lie in \(0, 1\]"),
        ({"p": 1.5}, r"p = 1.5; it must lie in \(0, 1\]"),
        ({"p": float("nan")}, r"p = nan; it must lie in \(0, 1\]"),
        (
            {"p": 1e-9},
            r"p = 1e-09: a round could have 1e\+10 local steps, .* take p of at least 1e-05, or most = 1000000",
        ),
        ({"p": 5e-324}, "p = 4.94066e-324: a round could have inf local steps"),
        ({"most": 10**9}, r"most = 1000000000: a round could have 1e\+09 local steps"),
        ({"most": 0}, "most = 0; a round must have at least 1 local step"),
    ],
)
def test_bad_arguments_are_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        proxskip_pg(ETA, **settings)
    proxskip_pg(ETA, 1e-9, most=10)  # so it is bounded
