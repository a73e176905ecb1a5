"""What oracles answer beyond gradients, and algorithms that ask for it: refused by name where nobody answers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import reference as ref
from fastfedpg import centralised_pg, loop, simulate, with_oracle
from fastfedpg.core import Algorithm, Exchange, Info, estimate, key_for, room_for_a_batch, watch
from fastfedpg.envs.catalogue.cart_pole import cart_pole
from fastfedpg.errors import InputError
from fastfedpg.oracles import ANSWERED_BY
from fastfedpg.policies import linear
from fastfedpg.problems import with_policy
from fastfedpg.runtime import (
    Schedule,
    counting_oracle,
    loop_records,
    message_sizes,
    samples_in_a_round,
    simulate_records,
)

N, S, A, d = 3, 4, 3, 12
TABULAR = ref.small_problem(N=N, S=S, A=A, seed=50)
EXACT = with_oracle(TABULAR, "exact")
SAMPLED = with_oracle(TABULAR, "gpomdp", B=3, K=5, baseline="leave-one-out")
THETA = jnp.asarray(np.random.default_rng(1).normal(size=d))
KEY = key_for(0, 0, "local", 0)


def oracle_of(problem):
    return problem.oracle(jax.tree.map(lambda x: jnp.asarray(x[0]), problem.tasks))


def played(name, K=30, **other):
    carts = cart_pole(agents=2)
    return with_policy(carts, linear(carts.observations, carts.actions), name, B=4, K=K, **other)


TABLES = {
    "reinforce": lambda: with_oracle(TABULAR, "reinforce", B=3, K=5),
    "gpomdp": lambda: with_oracle(TABULAR, "gpomdp", B=3, K=5),
    "leave-one-out": lambda: SAMPLED,
    "entropy": lambda: with_oracle(TABULAR, "gpomdp", tau=0.3, B=3, K=5),
}
PLAYED = {
    "reinforce, played": lambda: played("reinforce"),
    "gpomdp, played": lambda: played("gpomdp", baseline="leave-one-out"),
    "actor_critic": lambda: played("actor_critic"),
}
EVERY = {**TABLES, **PLAYED}


@pytest.mark.parametrize("name", EVERY)
def test_gradient_is_that_of_credit_times_log_prob(name):
    """(1/B) sum_{b,k} credit_{b,k} grad log pi(a_k|s_k), at another theta than 0 for tables, and 0 after the end."""
    problem = EVERY[name]()
    oracle = oracle_of(problem)
    theta = THETA if name in TABLES else jnp.asarray(problem.theta0)
    batch, own = oracle.sample(theta, oracle.init(KEY), KEY, None)

    def total(at):
        weight = jax.lax.stop_gradient(oracle.credit(at, own, batch))
        return jnp.sum(weight * oracle.log_prob(at, batch)) / len(weight)

    found = oracle.gradient(theta, own, batch)
    np.testing.assert_allclose(jax.grad(total)(theta), found, rtol=1e-9, atol=1e-12)
    assert np.abs(found).max() > 1e-3
    assert oracle.log_prob(theta, batch).shape == oracle.credit(theta, own, batch).shape
    assert oracle.tabular is None


def test_with_entropy_credit_is_that_of_the_theta_it_is_asked_for():
    """Not of the one who played: it differs by sum_{t>=k} gamma^t tau (log pi_2 - log pi_1), in environments too."""
    problem = played("gpomdp", tau=0.3, K=8)
    oracle, theta = oracle_of(problem), jnp.asarray(problem.theta0)
    batch, own = oracle.sample(theta, oracle.init(KEY), KEY, None)
    other = theta + jnp.arange(theta.size) / 5
    more = 0.3 * cart_pole().gamma ** np.arange(8) * (oracle.log_prob(other, batch) - oracle.log_prob(theta, batch))
    more = np.where(batch.episodes.alive, np.cumsum(more[:, ::-1], axis=1)[:, ::-1], 0)
    found = oracle.credit(other, own, batch) - oracle.credit(theta, own, batch)
    np.testing.assert_allclose(found, more, atol=1e-12)
    assert np.abs(more).max() > 0.1
    slope = jax.jvp(lambda at: oracle.credit(at, own, batch)[0, 0], (theta,), (other - theta,))[1]
    near = oracle.credit(theta + 1e-6 * (other - theta), own, batch)[0, 0] - oracle.credit(theta, own, batch)[0, 0]
    assert float(slope) == pytest.approx(1e6 * float(near), rel=1e-4)


def test_log_prob_and_transitions_of_a_table():
    """log pi(a|s) of what was played, and K - 1 steps that follow each other, with the cost of each."""
    oracle = oracle_of(SAMPLED)
    batch, _ = oracle.sample(THETA, (), KEY, 2)
    pi = ref.policy(np.asarray(THETA), S, A)
    np.testing.assert_allclose(oracle.log_prob(THETA, batch), np.log(pi[batch.states, batch.actions]), rtol=1e-12)
    seen = oracle.transitions(batch)
    assert seen.s.shape == (2, 4)
    np.testing.assert_array_equal(seen.then[:, :-1], seen.s[:, 1:])
    np.testing.assert_array_equal(seen.then[:, -1], batch.states[:, -1])
    np.testing.assert_allclose(seen.cost, TABULAR.cost[0][seen.s, seen.a], rtol=1e-15)
    assert seen.alive.all()
    assert not seen.ends.any()


def test_transitions_of_episodes_end_where_they_terminate():
    """Every cart falls within 200 steps of a policy that pushes at random: one step of each episode ends it."""
    problem = played("gpomdp", K=200)
    oracle = oracle_of(problem)
    batch, _ = oracle.sample(jnp.asarray(problem.theta0), (), KEY, None)
    seen = oracle.transitions(batch)
    assert seen.ends.sum(axis=1).tolist() == [1] * 4
    last = np.asarray(seen.alive.sum(axis=1) - 1)
    assert seen.ends[np.arange(4), last].all()
    after = ~np.asarray(seen.alive)
    assert after.any()
    assert (np.asarray(seen.cost)[after] == 0).all()
    assert (np.asarray(oracle.log_prob(jnp.asarray(problem.theta0), batch))[after] == 0).all()
    np.testing.assert_array_equal(seen.then[:, :-1], seen.s[:, 1:])


@pytest.mark.parametrize("name", ["exact", "truncated"])
def test_what_knows_the_mdp_tells_it(name):
    oracle = oracle_of(with_oracle(TABULAR, name, tau=0.1, **({"K": 4} if name == "truncated" else {})))
    known = oracle.tabular()
    for mine, theirs in zip(known, (TABULAR.P, TABULAR.cost[0], TABULAR.rho, TABULAR.gamma, 0.1), strict=True):
        np.testing.assert_allclose(mine, theirs)
    assert oracle.log_prob is oracle.credit is oracle.transitions is None


def soft_value_iteration():
    """The smallest user of `tabular`: every agent sends its mean cost, theta <- theta - mean_i c_i."""

    def agent(memory, own, theta, oracle, key):
        return memory, own, oracle.tabular().cost.reshape(-1).astype(theta.dtype), Info()

    move = lambda theta, up, share, key: (theta - up, theta - up)
    return Algorithm(
        lambda theta, N: (theta, theta, ()), (Exchange("cost", agent, move),), lambda theta: theta, needs=("tabular",)
    )


def scores():
    """The smallest user of `log_prob` and `credit`: centralised_pg with the gradient written out."""

    def agent(memory, own, theta, oracle, key):
        batch, own = oracle.sample(theta, own, key, None)
        w = jax.lax.stop_gradient(oracle.credit(theta, own, batch))
        g = jax.grad(lambda theta: jnp.sum(w * oracle.log_prob(theta, batch)) / len(w))(theta)
        return memory, own, g, Info(steps=oracle.steps(batch))

    move = lambda theta, g, share, key: (theta - 0.3 * g, theta - 0.3 * g)
    exchange = Exchange("gradient", agent, move)
    return Algorithm(
        lambda theta, N: (theta, theta, ()), (exchange,), lambda theta: theta, needs=("log_prob", "credit")
    )


@pytest.mark.parametrize("run", [loop, simulate])
def test_the_smallest_users(run):
    one, two = run(SAMPLED, scores(), 3), simulate(SAMPLED, centralised_pg(0.3), 3)
    np.testing.assert_allclose(one.theta, two.theta, atol=1e-13)
    assert one.final("env_steps") == two.final("env_steps") > 0
    np.testing.assert_allclose(
        run(EXACT, soft_value_iteration(), 2).theta[0], -2 * TABULAR.cost.mean(axis=0).ravel(), rtol=1e-14
    )
    assert samples_in_a_round(scores(), lambda B: 7) == 7


@pytest.mark.parametrize("records", [loop_records, simulate_records])
@pytest.mark.parametrize(
    ("problem", "algorithm", "words"),
    [
        (EXACT, scores(), "needs log_prob, which the problem's oracle does not answer; these do: reinforce, gpomdp"),
        (SAMPLED, soft_value_iteration(), "needs tabular, which .* not answer; these do: exact, truncated"),
        (
            SAMPLED,
            scores()._replace(needs=("logprob",)),
            "needs logprob, .* nor any other: what can be needed is log_prob",
        ),
    ],
)
def test_what_is_not_answered_is_refused_by_name(records, problem, algorithm, words):
    with pytest.raises(InputError, match=words):
        next(records(problem, algorithm, Schedule(1)))


def test_an_agent_refuses_before_it_starts(tmp_path):
    grid = pytest.importorskip("grid", exc_type=ImportError)
    with pytest.raises(InputError, match="needs log_prob, which the problem's oracle does not answer"):
        grid.agents_of(EXACT, scores(), tmp_path)
    assert grid.agents_of(SAMPLED, scores(), tmp_path)[0].talks["gradient"].up.shape == (d,)


def test_the_oracle_that_counts_stands_in_for_every_answer():
    oracle = counting_oracle(lambda B: 1, d)
    assert {name for name in ANSWERED_BY if getattr(oracle, name) is None} == set()
    assert oracle.tabular().cost.size == d


def test_a_watched_oracle_says_what_it_said():
    asked = []

    def hear(answer, theta, own, batch):
        asked.append(theta)
        return answer(theta, own, batch)

    oracle = oracle_of(EXACT)
    found, _, _ = estimate(watch(oracle, gradient=hear), THETA, (), KEY)
    np.testing.assert_array_equal(found, oracle.gradient(THETA, (), ()))
    assert len(asked) == 1


def kept_batch(eta):
    """Plays in one exchange and uses that batch in the next: the smallest user of `open`.

    The first exchange has the name, hence the random numbers, of centralised_pg's only one.
    """

    def play(batch, own, theta, oracle, key):
        batch, own = oracle.sample(theta, own, key, None)
        return batch, own, jnp.zeros_like(theta), Info(steps=oracle.steps(batch))

    def differentiate(batch, own, theta, oracle, key):
        return batch, own, oracle.gradient(theta, own, batch), Info()

    same = lambda theta, up, share, key: (theta, theta)
    move = lambda theta, g, share, key: (theta - eta * g, theta - eta * g)
    return Algorithm(
        lambda theta, N: (theta, theta, ()),
        (Exchange("gradient", play, same), Exchange("later", differentiate, move)),
        lambda theta: theta,
        open=lambda memory, theta, oracle, own, key: room_for_a_batch(oracle, theta, own, key),
    )


@pytest.mark.parametrize("run", [loop, simulate])
@pytest.mark.parametrize("participants", [None, 2])
def test_a_batch_is_kept_between_exchanges(run, participants):
    """The gradient at theta on the batch of theta, one exchange later: centralised_pg, with its samples."""
    one = run(SAMPLED, kept_batch(0.3), 4, 2, participants=participants)
    two = run(SAMPLED, centralised_pg(0.3), 4, 2, participants=participants)
    np.testing.assert_array_equal(one.theta, two.theta)
    np.testing.assert_array_equal(one.metrics["env_steps"], two.metrics["env_steps"])


def test_a_kept_batch_survives_a_standing_and_a_deployment(tmp_path):
    grid = pytest.importorskip("grid", exc_type=ImportError)
    method, stood = kept_batch(0.3), []
    whole = [*simulate_records(SAMPLED, method, Schedule(4), lambda done, now: stood.append(now()), pause=1)]
    later = [*loop_records(SAMPLED, method, Schedule(4), start=stood[1])]
    np.testing.assert_allclose(later[-1].theta, whole[-1].theta, atol=1e-14)
    with grid.grid_of(grid.agents_of(SAMPLED, method, tmp_path)) as nodes:
        there = grid.federated(grid.engine_of(nodes), SAMPLED, method, Schedule(4))
    np.testing.assert_allclose(there[-1].theta, whole[-1].theta, atol=1e-14)
    assert message_sizes(SAMPLED, method, np.zeros(d)).bytes_up == 2 * 8 * d
