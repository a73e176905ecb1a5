"""What the runtimes record, count and refuse."""

import signal
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import reference as ref
from fastfedpg import InputError, Oracle, fast_fedpg, fedavg_pg, loop, simulate, with_oracle
from fastfedpg.core import key_for, local_steps, sgd
from fastfedpg.problems import tabular_exact
from fastfedpg.runtime import Diverged, Schedule, loop_records, simulate_records

P = ref.small_problem(N=3, S=3, A=2, seed=50)
EXACT = with_oracle(P, "exact")
BOTH = pytest.mark.parametrize("run", [loop, simulate], ids=["loop", "simulate"])
RECORDS = pytest.mark.parametrize("records", [loop_records, simulate_records], ids=["loop", "simulate"])


@BOTH
def test_records_are_taken_at_the_start_every_m_rounds_and_at_the_end(run):
    result = run(EXACT, fedavg_pg(0.1, 2), 7, metrics_every=3)
    np.testing.assert_array_equal(result.rounds, [0, 3, 6, 7])
    assert result.metrics["gap"].shape == (1, 4)
    assert result.returns.shape == (1, 4, 3)


@BOTH
def test_metrics_are_those_of_the_policy_saved(run):
    result = run(EXACT, fast_fedpg(0.5, 3), 4)
    theta = result.theta[0]
    returns = tabular_exact.returns(P, theta)
    expected = {
        "J": tabular_exact.J(P, theta),
        "gap": tabular_exact.J(P, theta) - tabular_exact.optimum(P).J,
        "grad_norm_sq": (tabular_exact.gradient(P, theta) ** 2).sum(),
        "return_mean": returns.mean(),
        "return_worst": returns.min(),
        "return_q25": np.quantile(returns, 0.25),
        "return_median": np.median(returns),
        "return_q75": np.quantile(returns, 0.75),
        "env_steps": 0,
        "floats_up": 4 * 2 * 6,
        "floats_down": 4 * 2 * 6,
        "bytes_up": 4 * 2 * 6 * 8,
        "bytes_down": 4 * 2 * 6 * 8,
        "syncs": 8,
    }
    for name, value in expected.items():
        assert result.final(name)[0] == pytest.approx(value, rel=1e-10), name
    np.testing.assert_allclose(result.returns[0, -1], returns, rtol=1e-12)
    assert set(result.metrics) == {*expected, "drift"}


@BOTH
@pytest.mark.parametrize(("H", "every"), [(1, 1), (1, 5), (4, 1), (4, 5)])
def test_counters_are_exact_beyond_32_bits(run, H, every):
    """Estimates that claim 2^30 steps each: five rounds, three agents, H local steps are 15 H 2^30."""
    huge = EXACT._replace(oracle=lambda task: EXACT.oracle(task)._replace(steps=lambda batch: 2**30))
    assert run(huge, fedavg_pg(0.1, H), 5, metrics_every=every).final("env_steps")[0] == 15 * H * 2**30


@BOTH
def test_more_seeds_are_the_single_seeds_side_by_side(run):
    p = with_oracle(P, "reinforce", B=2, K=3)
    both = run(p, fast_fedpg(0.1, 2), 3, seeds=2, first_seed=5)
    for k in range(2):
        single = run(p, fast_fedpg(0.1, 2), 3, first_seed=5 + k)
        np.testing.assert_allclose(both.theta[k], single.theta[0], atol=1e-12)


@BOTH
def test_one_start_per_seed(run):
    starts = np.random.default_rng(0).normal(size=(2, 6))
    result = run(EXACT, fedavg_pg(0.1, 2), 1, seeds=2, theta0=starts)
    for k in range(2):
        np.testing.assert_allclose(
            result.theta[k], run(EXACT, fedavg_pg(0.1, 2), 1, theta0=starts[k]).theta[0], atol=1e-14
        )


SAMPLED = with_oracle(P, "reinforce", B=1, K=3)


def poisoned(name, *when):
    """Fast-FedPG, of which a message is NaN: of this exchange, in each (seed, round from 0 on, agent)."""
    algorithm = fast_fedpg(0.1, 2)
    honest = next(e for e in algorithm.exchanges if e.name == name)
    wanted = [jax.random.key_data(key_for(seed, t, name, i)) for seed, t, i in when]

    def agent(memory, own, down, oracle, key):
        memory, own, up, info = honest.agent(memory, own, down, oracle, key)
        hit = jnp.stack([jnp.array_equal(jax.random.key_data(key), each) for each in wanted]).any()
        return memory, own, jnp.where(hit, jnp.nan, up), info

    return algorithm._replace(
        exchanges=tuple(e._replace(agent=agent) if e is honest else e for e in algorithm.exchanges)
    )


def test_a_seed_that_diverges_lets_the_others_go_on_in_both_runtimes():
    """Seed 3 is lost in its third round, and seed 2 in its fifth: five records, and then nobody is left."""
    algorithm, schedule = poisoned("local", (3, 2, 1), (2, 4, 0)), Schedule(6, seeds=2, first_seed=2, go_on=True)
    found = []
    for records in (loop_records, simulate_records):
        seen = []
        with pytest.raises(Diverged) as caught:
            seen.extend(records(SAMPLED, algorithm, schedule))
        error = caught.value
        assert (error.round, error.exchange, error.agent, error.seed) == (5, "local", 0, 2)
        found.append(seen)
    assert [record.round for record in found[0]] == [0, 1, 2, 3, 4]
    for slow, fast in zip(*found, strict=True):
        for name in ("theta", "drift", "env_steps", "rounds_taken"):
            np.testing.assert_allclose(getattr(slow, name), getattr(fast, name), rtol=1e-9, err_msg=name)
        np.testing.assert_allclose(slow.evaluation.gap, fast.evaluation.gap, rtol=1e-9)
        np.testing.assert_array_equal(np.isnan(slow.evaluation.gap), [False, slow.round > 2])


@RECORDS
@pytest.mark.parametrize("name", ["gradient", "local"])
def test_divergence_names_round_exchange_agent_and_seed_and_keeps_what_was_good(records, name):
    """One message of agent 1, in the third round of seed 3, is NaN: the run stops there, after three good records."""
    seen, running = [], records(SAMPLED, poisoned(name, (3, 2, 1)), Schedule(6, seeds=2, first_seed=2))
    with pytest.raises(Diverged) as caught:
        seen.extend(record.round for record in running)
    assert (caught.value.round, caught.value.exchange, caught.value.agent, caught.value.seed) == (3, name, 1, 3)
    assert seen == [0, 1, 2]


@RECORDS
def test_interrupted_between_records_the_last_whole_round_is_recorded(records):
    """Ctrl-C between two far-apart records: one more record, of what was done, before it goes on up."""
    seen = []

    def tick(done, standing):
        if done >= 3:
            signal.raise_signal(signal.SIGINT)

    running = records(EXACT, fedavg_pg(0.1, 1), Schedule(1000, metrics_every=1000), tick)
    with pytest.raises(KeyboardInterrupt):
        seen.extend(record.round for record in running)
    assert seen[0] == 0
    assert seen[-1] >= 3


@RECORDS
def test_a_server_that_diverges_is_told_from_an_agent(records):
    algorithm = fedavg_pg(0.1, 1)
    (e,) = algorithm.exchanges
    broken = e._replace(server=lambda state, up, share, key: (up / 0.0, up / 0.0))
    with pytest.raises(Diverged, match="became non-finite at the server") as caught:
        list(records(EXACT, algorithm._replace(exchanges=(broken,)), Schedule(2)))
    assert (caught.value.round, caught.value.agent) == (1, None)


@BOTH
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rounds": 0}, "rounds = 0"),
        ({"rounds": 1, "metrics_every": 0}, "metrics_every = 0"),
        ({"rounds": 1, "participants": 4}, "between 1 and the number of agents, 3"),
        ({"rounds": 1, "theta0": np.zeros(5)}, r"theta0 has shape \(5,\)"),
        ({"rounds": 1, "theta0": np.zeros(6, int)}, "of floating-point numbers"),
        ({"rounds": 1, "seeds": 0}, "seeds = 0"),
        ({"rounds": 1, "first_seed": -1}, r"all seeds must lie in \[0, 2\^31\)"),
        ({"rounds": 1, "first_seed": 2**31}, r"all seeds must lie in \[0, 2\^31\)"),
    ],
)
def test_bad_arguments(run, arguments, message):
    with pytest.raises(InputError, match=message):
        run(EXACT, fedavg_pg(0.1, 1), **arguments)


@BOTH
def test_exchanges_need_names_of_their_own(run):
    """Two exchanges of one name would share their random numbers; so would one that takes a runtime's own label."""
    algorithm = fast_fedpg(0.1, 1)
    for name in ("gradient", "participants"):
        twice = tuple(e._replace(name=name) for e in algorithm.exchanges)
        with pytest.raises(InputError, match="must differ from each other"):
            run(EXACT, algorithm._replace(exchanges=twice), 1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: simulate(EXACT, fedavg_pg(0.1, 1), 1, sweep=[0.1]), "needs a function from one setting"),
        (lambda: simulate(EXACT, fedavg_pg(0.1, 0), 1), "H = 0; there must be at least 1 local step"),
        (lambda: simulate(with_oracle(P, "reinforce", B=2, K=2), fast_fedpg(0.1, 1, B0=0), 1), "needs at least 1"),
    ],
)
def test_python_says_what_the_command_line_would(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_values_of_a_wrong_kind_are_refused_in_words():
    """Outside the test-suite no checker of annotations stands before these: asked in a fresh interpreter."""
    calls = {
        "ff.simulate(ff.problems.compromise(), ff.fedavg_pg(0.1, 1), 1)": "as from with_oracle, not a TabularProblem",
        "ff.simulate(bound, lambda eta: ff.fedavg_pg(eta, 1), 1)": "a function of one needs sweep=",
        "ff.loop(bound, ff.fedavg_pg, 1)": "an Algorithm is needed, not a function",
        "ff.scaffold_pg(0.1, 1, option='III')": "option = 'III'; it must be 'I' or 'II'",
    }
    program = "import fastfedpg as ff\nbound = ff.with_oracle(ff.problems.compromise(), 'exact')\n"
    program += "".join(f"try:\n    {call}\nexcept ValueError as error:\n    print(error)\n" for call in calls)
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    for line, expected in zip(said.stdout.splitlines(), calls.values(), strict=True):
        assert expected in line


@BOTH
def test_a_divergence_keeps_what_was_recorded(run):
    algorithm = fedavg_pg(0.1, 1)
    (e,) = algorithm.exchanges
    grow = e._replace(server=lambda state, up, share, key: (jnp.exp(up * up + 9), jnp.exp(up * up + 9)))
    with pytest.raises(Diverged) as caught:
        run(EXACT, algorithm._replace(exchanges=(grow,)), 10)
    assert list(caught.value.result.rounds) == list(range(caught.value.round))
    assert np.isfinite(caught.value.result.theta).all()
    assert caught.value.round >= 2


def test_every_local_step_and_trajectory_has_a_key_of_its_own_and_own_is_threaded():
    """An oracle that only remembers: `own` counts its questions, and no two keys of all steps are the same."""

    def sample(theta, own, key, B):
        count, seen = own
        return (), (count + 1, seen.at[count].set(jax.random.key_data(key)))

    blank = (jnp.int32(0), jnp.zeros((8, 2), jnp.uint32))
    oracle = Oracle(lambda key: blank, sample, lambda theta, own, batch: theta, lambda batch: 1)
    _, (count, seen), info = local_steps(oracle, lambda theta, g: g, sgd(1.0), jnp.ones(2), blank, jax.random.key(0), 8)
    assert (int(count), int(info.steps)) == (8, 8)
    assert len({tuple(k) for k in np.asarray(seen)}) == 8
    batch, _ = (
        with_oracle(P, "reinforce", B=64, K=6)
        .oracle(jnp.asarray(P.cost[0]))
        .sample(jnp.zeros(6), (), jax.random.key(0), None)
    )
    assert len({tuple(row) for row in np.asarray(batch.states * 2 + batch.actions)}) > 50


def test_participants_are_the_same_in_both_exchanges_and_vary_between_rounds():
    """Two of three agents: a memory from the gradient exchange that belongs to another agent would leave a trace.

    With exact gradients and the right pairing each round is Fast-FedPG among its two participants, written out here.
    """
    eta, H = 0.5, 3
    g = lambda theta: tabular_exact.gradients(P, theta).reshape(3, -1)
    theta, sets = np.zeros(6), []
    for t in range(4):
        who = np.sort(jax.random.choice(key_for(0, t, "participants"), 3, (2,), replace=False))
        sets.append(tuple(int(i) for i in who))
        g_bar = g(theta)[who].mean(axis=0)
        ends = []
        for i in who:
            x = theta
            for _ in range(H):
                x = x - eta * (g(x)[i] - g(theta)[i] + g_bar)
            ends.append(x)
        theta = np.mean(ends, axis=0)
    result = simulate(EXACT, fast_fedpg(eta, H), 4, participants=2)
    np.testing.assert_allclose(result.theta[0], theta, atol=1e-12)
    assert len(set(sets)) > 1
    assert result.final("syncs")[0] == 8
    assert result.final("floats_up")[0] == pytest.approx(4 * 2 * 6 * 2 / 3)


def test_without_64_bit_mode_theta_is_float32_and_evaluation_still_float64():
    with jax.enable_x64(False):
        result = simulate(with_oracle(P, "exact"), fast_fedpg(0.5, 3), 10)
        assert not jax.config.jax_enable_x64
    assert result.theta.dtype == np.float32
    assert result.metrics["J"].dtype == np.float64
    assert result.final("J")[0] == pytest.approx(tabular_exact.J(P, result.theta[0]), rel=1e-14)
    wide = simulate(EXACT, fast_fedpg(0.5, 3), 10)
    np.testing.assert_allclose(result.theta, wide.theta, atol=1e-4)


def test_ticks_count_every_round_even_between_records():
    seen = []
    list(simulate_records(EXACT, fedavg_pg(0.1, 1), Schedule(9, metrics_every=9), lambda done, _: seen.append(done)))
    assert seen[-1] == 9
    assert len(seen) > 1
