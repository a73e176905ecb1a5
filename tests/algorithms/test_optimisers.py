"""Optimisers that last, at agents and at the server, and batches that serve several steps: against optax by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from fastfedpg import Config, InputError, centralised_pg, fast_fedpg, fedavg_pg, loop, optimisers, simulate
from fastfedpg.algorithms.wrappers.lasting import lasting
from fastfedpg.core import Replay
from fastfedpg.experiment.plan import plan
from quadratics import Quadratics

ONE, FOUR = Quadratics(N=1, seed=3), Quadratics(N=4, seed=4)
ADAM = optimisers.make("adam")
eta, H, ROUNDS = 0.05, 3, 4


def stepped(optimiser, gradient, theta, steps):
    """theta after so many steps."""
    state = optimiser.init(theta)
    for _ in range(steps):
        change, state = optimiser.update(gradient(theta), state, theta)
        theta = theta + change
    return theta


def test_one_agents_optimiser_that_lasts_takes_all_steps_of_the_run():
    """12 steps of optax's Adam in a row, as there is nobody to average with; afresh they are 4 times 3."""
    g = lambda x: jnp.asarray(ONE.g(np.asarray(x))[0])
    method, adam = fedavg_pg(eta, H, ADAM), optax.adam(eta)
    kept, afresh = loop(ONE.problem(), lasting(method, ADAM(eta)), ROUNDS), loop(ONE.problem(), method, ROUNDS)
    np.testing.assert_allclose(kept.theta[0], stepped(adam, g, jnp.zeros(3), H * ROUNDS), atol=1e-12)
    theta = jnp.zeros(3)
    for _ in range(ROUNDS):
        theta = stepped(adam, g, theta, H)
    np.testing.assert_allclose(afresh.theta[0], theta, atol=1e-12)
    assert np.abs(afresh.theta - kept.theta).max() > 1e-3


def test_corrected_steps_rest_at_the_optimum_whatever_an_agents_optimiser_has_kept():
    """Momentum that lasts, from the optimum: Fast-FedPG does not move, and FedAvg-PG does."""
    momentum = optimisers.make("momentum")
    for make, rests in ((fast_fedpg, True), (fedavg_pg, False)):
        problem = FOUR.problem()._replace(theta0=FOUR.best)
        found = loop(problem, lasting(make(eta, H, optimiser=momentum), momentum(eta)), 3)
        assert (np.abs(found.theta[0] - FOUR.best).max() < 1e-12) == rests


def test_the_servers_optimiser_is_optax_on_what_the_agents_moved():
    """FedAdam by hand: its gradient is theta less the mean of H local steps; and one averaged gradient a round."""

    def moved(x):
        each = np.broadcast_to(np.asarray(x), (4, 3))
        for _ in range(H):
            each = each - eta * np.einsum("nij,nj->ni", FOUR.A, each - FOUR.c)
        return jnp.asarray(x - each.mean(axis=0))

    found = loop(FOUR.problem(), fedavg_pg(eta, H, alpha_g=0.1, server=ADAM), ROUNDS)
    np.testing.assert_allclose(found.theta[0], stepped(optax.adam(0.1), moved, jnp.zeros(3), ROUNDS), atol=1e-12)
    found = loop(FOUR.problem(), centralised_pg(eta, ADAM), ROUNDS)
    mean = lambda x: jnp.asarray(FOUR.g(np.asarray(x)).mean(axis=0))
    np.testing.assert_allclose(found.theta[0], stepped(optax.adam(eta), mean, jnp.zeros(3), ROUNDS), atol=1e-12)
    by_server = loop(FOUR.problem(), fast_fedpg(eta, 1, alpha_g=0.1, server=ADAM), ROUNDS)
    by_hand = stepped(optax.adam(0.1), lambda x: eta * mean(x), jnp.zeros(3), ROUNDS)
    np.testing.assert_allclose(by_server.theta[0], by_hand, atol=1e-12)


@pytest.mark.parametrize("reuse", [False, True])
def test_a_batch_that_serves_three_steps_is_three_steps(reuse):
    """Gradients that are exact everywhere, asked three times a batch: H = 2 of them are H = 6 of one."""
    once = FOUR.problem()
    replay = Replay(order=lambda batch, key: jnp.arange(3), part=lambda batch, row: batch)
    thrice = once._replace(oracle=lambda task: once.oracle(task)._replace(replay=replay))
    one, three = (loop(problem, fast_fedpg(eta, H, reuse=reuse), 2) for problem, H in ((once, 6), (thrice, 2)))
    np.testing.assert_allclose(three.theta, one.theta, atol=1e-12)
    np.testing.assert_allclose(three.metrics["drift"], one.metrics["drift"], atol=1e-12)
    batches = 2 if reuse else 3
    np.testing.assert_array_equal(three.metrics["env_steps"][0], 4 * batches * np.arange(3))


OPTAX = {
    "adam": optax.adam,
    "rmsprop": optax.rmsprop,
    "adagrad": optax.adagrad,
    "yogi": lambda eta: optax.chain(
        optax.scale_by_yogi(initial_accumulator_value=0.0), optax.scale_by_learning_rate(eta)
    ),
}


@pytest.mark.parametrize("name", OPTAX)
def test_where_nothing_is_corrected_they_are_optaxs(name):
    """20 steps, with and without a clip and a size that falls."""
    g = lambda x: jnp.asarray(ONE.g(np.asarray(x))[0])
    here = stepped(optimisers.make(name)(eta), g, jnp.zeros(3), 20)
    np.testing.assert_allclose(here, stepped(OPTAX[name](eta), g, jnp.zeros(3), 20), atol=1e-12)
    falls = optax.linear_schedule(eta, 0.0, 30)
    theirs = optax.chain(optax.clip_by_global_norm(0.5), OPTAX[name](falls))
    here = stepped(optimisers.make(name, 0.5, "linear", 30)(eta), g, jnp.zeros(3), 20)
    np.testing.assert_allclose(here, stepped(theirs, g, jnp.zeros(3), 20), atol=1e-12)


def away(problem, best, make):
    """How far Fast-FedPG ends from there, its optimisers afresh in every round."""
    return np.abs(simulate(problem, fast_fedpg(eta, H, optimiser=make), 300).theta[0] - best).max()


@pytest.mark.parametrize("name", ["adam", "yogi", "rmsprop"])
def test_corrected_steps_go_to_the_optimum_where_every_agent_has_a_gradient_there(name):
    """Afresh in every round; optax's, which see the corrected direction alone, stay a good part of eta away."""
    assert away(FOUR.problem(), FOUR.best, optimisers.make(name)) < 1e-12
    assert away(FOUR.problem(), FOUR.best, OPTAX[name]) > eta / 5


def test_one_agent_without_a_gradient_at_the_optimum_makes_adam_circle_it():
    """Optima 0, 1 and 2 with equal curvature: the middle agent's steps are those of the sign."""
    three = Quadratics(N=3, d=1)
    three.A, three.c = np.ones((3, 1, 1)), np.array([[0.0], [1.0], [2.0]])
    assert eta > away(three.problem(), 1.0, ADAM) > eta / 10


@pytest.mark.parametrize("name", ["adam", "yogi", "rmsprop"])
def test_where_an_agent_has_no_gradient_of_its_own_a_step_is_as_long_as_ever(name):
    """v = 1 beside g = 0 is the step of v alone, and beside g = 1,000 a small part of it."""
    by = optimisers.make(name)(eta)
    moved = lambda g: float(by.corrected(jnp.ones(1), jnp.full(1, g), by.init(jnp.zeros(1)), jnp.zeros(1))[0][0])
    alone = float(by.update(jnp.ones(1), by.init(jnp.zeros(1)), jnp.zeros(1))[0][0])
    assert moved(0.0) == alone
    assert 0 > moved(1e3) > alone / 500


@pytest.mark.parametrize("name", OPTAX)
def test_32_bits_stay_32_bits_where_64_are_on(name):
    """At the server too, whose step nobody else casts."""
    with jax.enable_x64(True):
        make, theta = optimisers.make(name), jnp.ones(3, jnp.float32)
        step = jax.jit(lambda theta: make(eta).update(theta, make(eta).init(theta), theta))
        assert {x.dtype for x in jax.tree.leaves(step(theta))} <= {jnp.dtype("float32"), jnp.dtype("int32")}


def test_steps_that_are_clipped_and_fall():
    """A direction of length 5 becomes one of 0.5; over 4 steps the size falls in a line, and along a cosine."""
    g = jnp.array([3.0, 4.0])
    for name, left in ((None, [1, 1, 1, 1, 1]), ("linear", [1, 0.75, 0.5, 0.25, 0]), ("cosine", None)):
        optimiser = optimisers.make("sgd", 0.5, name, 4)(0.1)
        state, sizes = optimiser.init(g), []
        for _ in range(5):
            change, state = optimiser.update(g, state, g)
            sizes.append(float(jnp.linalg.norm(change)) / 0.05)
        wanted = left or [(1 + np.cos(np.pi * t / 4)) / 2 for t in range(5)]
        np.testing.assert_allclose(sizes, wanted, atol=1e-6)
    assert optimisers.make("adam", 0.5) is optimisers.make("adam", 0.5)


def config(**settings):
    return Config("compromise", rounds=2, **{"H": 1, "optimiser": "adam", **settings})


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"decay": "linear"}, "counts no rounds; add --keep-optimiser"),
        ({"clip_norm": 0.0}, "clip_norm = 0; it must be positive"),
        ({"algorithm": "minibatch_pg", "keep_optimiser": True}, "minibatch_pg has no local optimiser"),
    ],
)
def test_what_can_not_be_asked_of_an_optimiser(settings, said):
    with pytest.raises(InputError, match=said):
        plan(config(**settings))


def test_sign_descent_is_said():
    """Adam with one step, afresh; not where it lasts, takes more steps, or is the server's."""
    says = lambda **settings: any("sign descent" in note for note in plan(config(**settings)).notes)
    assert says()
    assert not says(keep_optimiser=True)
    assert not says(H=2)
    assert not says(algorithm="centralised_pg")


def test_a_run_that_lasts_is_resumed_with_what_it_kept():
    """The optimiser's state is in the agents' memory: its form has Adam's count and two moments."""
    planned = plan(config(keep_optimiser=True))
    problem, algorithm = planned.problem, planned.algorithm
    task = jax.tree.map(lambda x: x[0], problem.tasks)
    memory = algorithm.open((), jnp.zeros(4), problem.oracle(task), (), jax.random.key(0))
    assert len(jax.tree.leaves(memory.optimiser)) == 3
