"""Pure JAX environments against closed forms, against Gymnasium's and gymnax's own, and what playing leaves behind."""

import builtins
import importlib
from functools import cache

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fastfedpg.envs import Env, Environments, Episodes, Step, play
from fastfedpg.envs import frames as drawing
from fastfedpg.envs.catalogue import cart_pole, office, office_rules, offices, pendulum, point_mass, probes, thermostats
from fastfedpg.envs.gymnax import gymnax_environments
from fastfedpg.errors import InputError
from fastfedpg.oracles import critic
from fastfedpg.policies import Policy
from fastfedpg.spaces import Box, Discrete, box

FAMILIES = {
    "point_mass": point_mass.point_mass,
    "cart_pole": cart_pole.cart_pole,
    "pendulum": pendulum.pendulum,
    "thermostats": thermostats.thermostats,
    "offices": offices.offices,
}


def linear(observations, actions, spread=1.0):
    """A Gaussian around W o + b, clipped where the box ends, or a softmax over W o + b."""
    o = observations.width
    n = actions.n if isinstance(actions, Discrete) else actions.width

    def score(theta, observation):
        return observation @ theta[: o * n].reshape(o, n) + theta[o * n :]

    if isinstance(actions, Discrete):
        return Policy(
            size=n * (o + 1),
            init=lambda key: jnp.zeros(n * (o + 1)),
            noise=lambda key, shape, dtype: jax.random.gumbel(key, (*shape, n), dtype),
            choose=lambda theta, observation, noise: jnp.argmax(
                score(theta, observation) + noise, axis=-1, keepdims=True
            ).astype(theta.dtype),
            action=lambda choice: choice,
            log_prob=lambda theta, observation, choice: jnp.zeros(()),
            width=o,
            enter=None,
        )
    return Policy(
        size=n * (o + 1),
        init=lambda key: jnp.zeros(n * (o + 1)),
        noise=lambda key, shape, dtype: jax.random.normal(key, (*shape, n), dtype),
        choose=lambda theta, observation, noise: score(theta, observation) + spread * noise,
        action=lambda choice: jnp.clip(choice, jnp.asarray(actions.low), jnp.asarray(actions.high)),
        log_prob=lambda theta, observation, choice: jnp.zeros(()),
        width=o,
        enter=None,
    )


@cache
def all_agents(family, B=4, K=60):
    """Random actions in all tasks, with the same keys."""
    envs = FAMILIES[family](agents=3)
    policy = linear(envs.observations, envs.actions)
    theta = jnp.zeros(policy.size)
    compiled = jax.jit(jax.vmap(lambda task, key: envs.play(policy, task, theta, key, B, K), (0, None)))
    run = lambda seed: jax.tree.map(np.asarray, compiled(envs.tasks, jax.random.key(seed)))
    return envs, run, run(3)


@pytest.mark.parametrize("family", FAMILIES)
def test_only_the_reward_depends_on_the_task(family):
    _, _, played = all_agents(family)
    for x in (played.observations, played.choices, played.alive, played.terminated):
        np.testing.assert_array_equal(x[0], x[1])
        np.testing.assert_array_equal(x[0], x[2])
    assert np.abs(played.rewards[0] - played.rewards[2]).max() > 1e-3


@pytest.mark.parametrize("family", FAMILIES)
def test_keys_decide_all(family):
    _, run, played = all_agents(family)
    again, other = run(3), run(4)
    jax.tree.map(np.testing.assert_array_equal, played, again)
    assert not np.array_equal(played.observations, other.observations)
    assert len(np.unique(played.observations[0, :, 0], axis=0)) == 4  # every episode has its own start


@pytest.mark.parametrize("family", FAMILIES)
def test_rewards_and_observations_stay_where_they_are_said_to(family):
    envs, _, played = all_agents(family)
    low, high = envs.reward_range
    assert low <= played.rewards.min()
    assert played.rewards.max() <= high
    assert (played.observations >= envs.observations.low).all()
    assert (played.observations <= envs.observations.high).all()
    assert bool(played.terminated.any()) == (family == "cart_pole")


@pytest.mark.parametrize("family", FAMILIES)
def test_the_source_tells_every_argument(family):
    """But for what policies are told of their office, which is an array of its own."""
    maker = FAMILIES[family]
    made = maker(agents=3, gamma=0.5)
    assert made.N == 3
    assert made.only(1).N == 1
    names = maker.__code__.co_varnames[: maker.__code__.co_argcount]
    assert all(f"{name}=" in made.source for name in names if name != "context")
    assert {maker.__annotations__[name] for name in names} <= {int, float, bool}
    with pytest.raises(InputError, match="at least one"):
        maker(agents=0)


@pytest.mark.parametrize(
    ("maker", "given", "said"),
    [
        (point_mass.point_mass, {"mid": 2.0}, "mid = 2"),
        (cart_pole.cart_pole, {"spread": 3.0}, r"spread in \[0, 2.4\)"),
        (pendulum.pendulum, {"spread": -1.0}, "spread = -1"),
        (thermostats.thermostats, {"least": 0.0}, "0 < least <= most"),
    ],
)
def test_wrong_numbers_are_refused(maker, given, said):
    with pytest.raises(InputError, match=said):
        maker(**given)


def counter(stop):
    """Counts to `stop`, which terminates it; the reward is the task times the count."""
    step = lambda task, n, action, key: Step(n + 1, n[None] + 1.0, task * (n + 1.0), n + 1 >= stop)
    return Env(lambda task, key: (jnp.int32(0), jnp.zeros(1)), step, box(1), Discrete(2))


def test_what_is_left_after_the_end():
    """Terminated at step 3 of 5: rewards 2, 4, 6, then 0; the observation 3 is repeated. Cut at 5: nothing ended."""
    policy = linear(box(1), Discrete(2))
    compiled = jax.jit(lambda stop: play(counter(stop), policy, 2.0, jnp.zeros(4), jax.random.key(0), 2, 5))
    run = lambda stop: jax.tree.map(np.asarray, compiled(stop))
    ended, cut = run(3), run(6)
    np.testing.assert_array_equal(ended.rewards[1], [2, 4, 6, 0, 0])
    np.testing.assert_array_equal(ended.observations[1, :, 0], [0, 1, 2, 3, 3, 3])
    np.testing.assert_array_equal(ended.alive[1], [True, True, True, False, False])
    np.testing.assert_array_equal(ended.terminated[1], [False, False, True, False, False])
    np.testing.assert_array_equal(cut.rewards[0], [2, 4, 6, 8, 10])
    assert cut.alive.all()
    assert not cut.terminated.any()
    at_the_cut = run(5)
    assert at_the_cut.terminated[:, -1].all()
    assert at_the_cut.alive.all()


def test_lanes_go_on_after_an_end():
    """3 steps, a place in which nothing is done but to begin anew, 3 steps again: what a step led to follows it."""
    policy = linear(box(1), Discrete(2))
    compiled = jax.jit(lambda: play(counter(3), policy, 2.0, jnp.zeros(4), jax.random.key(0), 2, 7, restart=True))
    lane = jax.tree.map(lambda x: np.asarray(x[1]), compiled())
    np.testing.assert_array_equal(lane.rewards, [2, 4, 6, 0, 2, 4, 6])
    np.testing.assert_array_equal(lane.observations[:, 0], [0, 1, 2, 3, 0, 1, 2, 3])
    np.testing.assert_array_equal(lane.alive, [True, True, True, False, True, True, True])
    np.testing.assert_array_equal(np.flatnonzero(lane.terminated), [2, 6])
    np.testing.assert_array_equal(critic.age(jnp.asarray(lane.alive)[None])[0], [0, 1, 2, 0, 0, 1, 2])


def test_the_compromise_is_the_shelter():
    """Resting at the shelter is worth `mid` at least to all; at the own goal 1; at the goals' mean next to nothing."""
    env, goals = point_mass.environment(0.6, 0.4, 0.01), jnp.asarray(point_mass.goals(16))
    rest = lambda goal, place: env.step(goal, jnp.pad(place, (0, 2)), jnp.zeros(2), None).reward
    places = jnp.stack([jnp.asarray(point_mass.SHELTER), goals.mean(axis=0), *goals])
    worth = np.asarray(jax.jit(jax.vmap(jax.vmap(rest, (0, None)), (None, 0)))(goals, places))
    shelter, middle, own = worth[0], worth[1], worth[2:]
    assert shelter.min() >= 0.6
    assert shelter.mean() > 4 * middle.mean()
    assert shelter.mean() > own.mean(axis=1).max() + 0.2
    np.testing.assert_allclose(np.diag(own), 1, atol=1e-12)


def test_point_mass_reaches_its_final_speed():
    """Constant force: 4 f = 2 v at rest of the acceleration, so v -> 2 f."""
    force = jnp.array([0.5, -1.0])
    state = jax.jit(lambda: jax.lax.fori_loop(0, 100, lambda _, s: point_mass.move(s, force), jnp.zeros(4)))()
    np.testing.assert_allclose(state[2:], [1.0, -2.0], atol=1e-8)


def test_cart_pole_is_gymnasiums():
    theirs, env = gymnasium.make("CartPole-v1").unwrapped, cart_pole.environment(1.0, 0.5)
    step = jax.jit(env.step)
    generator = np.random.default_rng(0)
    for _ in range(50):
        state, push = generator.uniform(-1, 1, 4) * [2.5, 2, 0.22, 2], int(generator.integers(2))
        theirs.reset(seed=0)
        theirs.state = state
        _, reward, terminated, _, _ = theirs.step(push)
        ours = step(0.3, jnp.asarray(state), jnp.array([float(push)]), None)
        np.testing.assert_allclose(ours.observation, theirs.state, atol=1e-6)
        assert bool(ours.terminated) == terminated
        assert float(ours.reward) == reward


def test_pendulum_is_gymnasiums():
    theirs, env = gymnasium.make("Pendulum-v1").unwrapped, pendulum.environment()
    step = jax.jit(env.step)
    generator = np.random.default_rng(0)
    for _ in range(50):
        state, torque = generator.uniform(-1, 1, 2) * [8, 8], generator.uniform(-3, 3, 1)
        theirs.reset(seed=0)
        theirs.state = state
        seen, reward, _, _, _ = theirs.step(torque)
        ours = step(0.0, jnp.asarray(state), jnp.asarray(torque), None)
        np.testing.assert_allclose(ours.state, theirs.state, atol=1e-6)
        np.testing.assert_allclose(ours.observation, seen, atol=1e-6)
        np.testing.assert_allclose(ours.reward, reward, atol=1e-6)
    turned = step(0.3, jnp.array([0.3 + 2 * np.pi, 0.0]), jnp.zeros(1), None)
    np.testing.assert_allclose(turned.reward, 0, atol=1e-6)


def test_an_office_comes_to_its_equilibrium():
    """Air loses through windows, and through mass and walls in series: T_a - T_o = q / (U_ao + 1/(1/U_am + 1/U_mo))."""
    q, outdoor = 3.0, -5.0
    loss = office.WINDOWS + 1 / (1 / office.WITHIN + 1 / office.WALLS)
    rest = tuple(map(np.float64, (outdoor, q, 0.0)))
    hour = lambda _, temperatures: office.thermal(*temperatures, *map(jnp.asarray, rest))[:2]
    air, mass = map(float, jax.lax.fori_loop(0, 2000, hour, (10.0, 30.0)))
    np.testing.assert_allclose(air, outdoor + q / loss, atol=1e-9)
    np.testing.assert_allclose(office.WITHIN * (air - mass), office.WALLS * (mass - outdoor), atol=1e-9)


def test_heat_is_neither_made_nor_lost():
    """What an hour leaves in air and mass is what flowed in, by the trapezoidal rule over 2000 exact parts of it."""
    given = {"outdoor": -3.0, "to_air": 5.0, "to_mass": 1.5}
    air, mass, flows = [19.0], [21.0], []
    C, n = (office.AIR, office.MASS), 2000
    for _ in range(n):
        a, m = air[-1], mass[-1]
        out = given["outdoor"]
        rate = lambda a, m: np.array(
            [
                (office.WITHIN * (m - a) + office.WINDOWS * (out - a) + given["to_air"]) / C[0],
                (office.WITHIN * (a - m) + office.WALLS * (out - m) + given["to_mass"]) / C[1],
            ]
        )
        half = np.array([a, m]) + rate(a, m) / (2 * n)
        new = np.array([a, m]) + rate(*half) / n
        flows.append(office.WINDOWS * (out - half[0]) + office.WALLS * (out - half[1]) + 6.5)
        air.append(new[0])
        mass.append(new[1])
    ours = office.thermal(*(jnp.float64(x) for x in (19.0, 21.0, *given.values())))
    np.testing.assert_allclose(ours, (air[-1], mass[-1], np.trapezoid(air, dx=1 / n)), atol=1e-6)
    stored = C[0] * (float(ours[0]) - 19.0) + C[1] * (float(ours[1]) - 21.0)
    np.testing.assert_allclose(stored, np.mean(flows), atol=1e-5)


def test_the_heat_pump_reaches_its_set_point_where_it_can():
    state = office.OfficeState(jnp.int32(12), jnp.float64(19), jnp.float64(17), jnp.float64(0), jnp.bool_(False))
    compiled = jax.jit(lambda state, *wanted: office.advance(state, office.action(*wanted), jax.random.key(0)))
    step = lambda *given: jax.tree.map(np.asarray, compiled(*given))
    for heat_to, cool_to in ((20.0, 30.0), (14.0, 21.0), (14.0, 30.0)):
        new, seen = step(state, heat_to, cool_to)
        if heat_to == 20:
            np.testing.assert_allclose(new.air, 20, atol=1e-9)
            assert 0 < seen.power < office.PUMP
        else:
            assert seen.power == 0
    cold = state._replace(air=jnp.float64(5), mass=jnp.float64(5))
    new, seen = step(cold, 23.0, 30.0)
    assert seen.power == office.PUMP
    assert new.air < 23
    hot = state._replace(air=jnp.float64(25), mass=jnp.float64(24))
    new, seen = step(hot, 14.0, 22.5)
    np.testing.assert_allclose(new.air, 22.5, atol=1e-9)
    assert -office.PUMP < seen.power < 0


@cache
def traced():
    """Years from 1 January of a fixed rule and of one that saves; from day 40 of a policy without its noise, of a rule
    that is its mean, and of the policy itself."""
    policy, theta = linear(box(10), box(2, -1, 1), spread=0.5), jnp.arange(22.0) / 50
    mean = lambda observation, key: jnp.clip(observation @ theta[:20].reshape(10, 2) + theta[20:], -1, 1)
    policies = office_rules.played(policy, theta, steady=True), mean, office_rules.played(policy, theta)
    controls = office_rules.fixed(21.0), office_rules.setback(21.0), *policies
    building = thermostats.Building(np.float64(21.0), np.float64(0.3))

    def year(i):
        chosen = lambda observation, key: jnp.stack([control(observation, key) for control in controls])[i]
        hours = thermostats.trace(chosen, 365, 0, 40 * (i > 1))
        return hours, hours.energy, hours.outside(21.0), thermostats.reward(building, hours)

    years = jax.jit(jax.vmap(year))(jnp.arange(5))
    return [jax.tree.map(lambda x: np.asarray(x)[i], years) for i in range(5)]


def test_a_year_of_rules():
    """Setback saves energy and costs comfort; the bill and the discomfort of the reward are those of the trace."""
    for year, energy, outside, reward in traced():
        assert reward.shape == (8760,)
        np.testing.assert_allclose(energy, np.abs(year.power))
        np.testing.assert_allclose(
            outside, np.where(year.occupied, np.clip(np.abs(year.indoor - 21) - 1, 0, None), 0), atol=1e-12
        )
        np.testing.assert_allclose(reward, -year.price * energy - 0.3 * np.minimum(outside, 10) ** 2)
    (_, fixed, fixed_outside, _), (year, saved, saved_outside, reward) = traced()[:2]
    # As version 0.1.0 had them, with which the stored studies were made: the problem keeps its numbers.
    np.testing.assert_allclose((fixed.sum(), reward.sum()), (5389.1563047121035, -1220.8229962096116), rtol=1e-9)
    assert saved.sum() < 0.9 * fixed.sum()
    assert fixed_outside.sum() < saved_outside.sum()
    assert 0.27 < year.occupied.mean() < 0.33  # 50 of 168 hours, and the odd ones
    assert year.outdoor[:744].mean() < year.outdoor[4320:5064].mean() - 10


def test_a_policy_can_be_traced_with_its_noise_and_without():
    """Without it a Gaussian does what its mean does; with it another thing, in the same weather."""
    ours, same, noisy = (hours for hours, *_ in traced()[2:])
    assert int(ours.hour[0]) == 960
    np.testing.assert_allclose(ours.power, same.power, atol=1e-9)
    np.testing.assert_array_equal(noisy.outdoor, ours.outdoor)
    assert np.abs(noisy.power - ours.power).max() > 0.01


def probability(theta, observation):
    """Of action 1, under `linear` on one number."""
    logits = theta[:2] * observation + theta[2:]
    return 1 / (1 + np.exp(logits[0] - logits[1]))


@cache
def probed(name, B=5_000):
    """Both agents' episodes in a probe, and what its `value` takes for their policy."""
    envs = probes.PROBES[name]().environments
    K = 200 if name == "endless" else 3
    theta = np.array([0.7, -0.2]) if name == "by_force" else np.array([0.3, -0.4, 0.1, 0.6])
    policy = linear(envs.observations, envs.actions, spread=0.5)
    run = jax.jit(jax.vmap(lambda task, key: envs.play(policy, task, jnp.asarray(theta), key, B, K)))
    played = jax.tree.map(np.asarray, run(envs.tasks, jax.random.split(jax.random.key(0))))
    if name == "by_force":
        return played, (theta[1], 0.5)
    return played, tuple(probability(theta, o) for o in ((-1, 1) if name == "by_observation" else (0,)))


@pytest.mark.parametrize("name", probes.PROBES)
def test_probes_are_worth_what_they_say(name):
    """5,000 episodes of each agent; their mean within 5 standard errors of the closed form, and 10^-7.

    By chance a right probe fails once in 10^6 tests; the seed is fixed.
    """
    envs, value = probes.PROBES[name]()
    played, known = probed(name)
    for task, rewards in zip(envs.tasks, played.rewards, strict=True):
        returns = rewards @ envs.gamma ** np.arange(rewards.shape[1])
        assert abs(returns.mean() - value(task, *known)) < 5 * returns.std() / np.sqrt(len(returns)) + 1e-7
    assert played.terminated.any(axis=-1).all() == (name != "endless")
    assert value(envs.tasks[0], *known) != value(envs.tasks[1], *known)


def test_ending_and_endless_look_the_same_until_they_are_cut():
    (ending, known), (endless, _) = probed("ending"), probed("endless")
    np.testing.assert_array_equal(ending.rewards[..., :2], endless.rewards[..., :2])
    assert not ending.alive[..., 2].any()
    assert endless.alive.all()
    seen, value = endless.rewards[0, 0, :2] @ [1, 0.9], probes.endless().value(1.0, *known)
    np.testing.assert_allclose(seen + 0.9**2 * value, value)


def test_gymnax_steps_as_gymnax_does():
    """The same start and pushes, by gymnax's own step without its new starts; rewards are the agents' own."""
    gymnax = pytest.importorskip("gymnax")
    rewards = [lambda o, a, new, r, done: r - new[0] ** 2, lambda o, a, new, r, done: 10 * a[0] + o[0] - 5.0 * done]
    envs = gymnax_environments("CartPole-v1", rewards)
    assert (envs.N, envs.horizon, envs.actions) == (2, 500, Discrete(2))
    policy = linear(envs.observations, envs.actions)
    theta = jnp.zeros(policy.size)
    run = jax.jit(jax.vmap(lambda i: envs.play(policy, i, theta, jax.random.key(1), 2, 60)))
    both = jax.tree.map(lambda x: np.asarray(x[:, 0]), run(envs.tasks))
    one = jax.tree.map(lambda x: x[0], both)
    made, params = gymnax.make("CartPole-v1")
    start = jax.random.split(jax.random.fold_in(jax.random.key(1), 0), 3)[0]
    observation, state = jax.jit(made.reset_env)(start, params)
    steps = int(one.alive.sum())
    assert one.terminated.any()
    assert steps < 60
    step = jax.jit(made.step_env)
    for k in range(steps):
        np.testing.assert_allclose(one.observations[k], observation, atol=1e-12)
        push = int(one.choices[k, 0])
        before, (observation, state, reward, done, _) = observation, step(start, state, push, params)
        observation, reward, done = map(np.asarray, (observation, reward, done))
        np.testing.assert_allclose(one.rewards[k], reward - observation[0] ** 2, atol=1e-12)
        np.testing.assert_allclose(both.rewards[1, k], 10 * push + before[0] - 5 * done, atol=1e-12)
    assert done
    np.testing.assert_allclose(one.observations[steps:], np.tile(observation, (61 - steps, 1)), atol=1e-12)


def test_gymnaxs_time_limit_ends_nothing():
    """A car at rest in the valley, longer than its environment's own limit."""
    pytest.importorskip("gymnax")
    envs = gymnax_environments("MountainCarContinuous-v0", agents=3)
    assert (envs.N, envs.actions) == (3, Box((-1.0,), (1.0,)))
    policy = linear(envs.observations, envs.actions, spread=0.0)
    run = jax.jit(lambda key: envs.play(policy, 0, jnp.zeros(policy.size), key, 1, envs.horizon + 5))
    played = run(jax.random.key(0))
    assert played.alive.all()
    assert not played.terminated.any()


@pytest.mark.parametrize("name", ["FrozenLake-misc", "Catch-bsuite", "Acrobot-v1", "Breakout-MinAtar", "Pendulum-v1"])
def test_other_gymnax_environments_can_be_played(name):
    """Numbers and pictures are vectors, and states keep their types from step to step."""
    pytest.importorskip("gymnax")
    envs = gymnax_environments(name)
    policy = linear(box(envs.observations.width), envs.actions)
    given = jax.ShapeDtypeStruct((policy.size,), float)
    shapes = jax.eval_shape(lambda theta: envs.play(policy, 0, theta, jax.random.key(0), 2, 5), given)
    assert shapes.observations.shape == (2, 6, envs.observations.width)
    assert shapes.rewards.shape == (2, 5)


def test_gymnax_mistakes_are_told(monkeypatch):
    pytest.importorskip("gymnax")
    with pytest.raises(InputError, match="did you mean 'CartPole-v1'"):
        gymnax_environments("CartPole-v0")
    with pytest.raises(InputError, match="rewards is empty"):
        gymnax_environments("CartPole-v1", [])
    module = importlib.import_module("fastfedpg.envs.gymnax")
    spaces = importlib.import_module("gymnax.environments.spaces")
    with pytest.raises(InputError, match=r"action space is Tuple\(.*must be Discrete or Box"):
        module._space(spaces.Tuple([spaces.Discrete(2)]), "here", "action")

    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(module, "import_module", missing)
    with pytest.raises(InputError, match=r"pip install 'fastfedpg\[gymnax\]'"):
        gymnax_environments("CartPole-v1")


def test_frames():
    """One for each step and one after the last, and they move."""
    envs = pendulum.pendulum(agents=3)
    assert isinstance(envs, Environments)
    policy = linear(envs.observations, envs.actions)
    frames = envs.frames(envs.tasks, policy, np.zeros(policy.size), 0, 1, 4)
    assert [frame.shape for frame in frames] == [(320, 320, 3)] * 5
    assert frames[0].dtype == np.uint8
    assert not np.array_equal(frames[0][:280], frames[4][:280])
    still, alone, other = np.zeros(policy.size), envs.only(2), envs.only(0)
    mine, theirs = (np.asarray(x.frames(x.tasks, policy, still, 0, 1, 1)) for x in (alone, other))
    assert not np.array_equal(mine, theirs), "one agent alone is filmed with its own task"


@pytest.mark.parametrize(
    ("scene", "tasks", "first", "last"),
    [
        (drawing.mass, [[0.0, 1.0], [0.0, -1.0]], [0, 0, 0, 0], [0.5, 0.5, 0, 0]),
        (drawing.cart, [-1.0, 1.0], [0, 0, 0, 0], [0, 0, 0.2, 0]),
        (drawing.rod, [-0.4, 0.4], [1, 0, 0], [0, 1, 0]),
    ],
)
def test_scenes_show_the_state_and_the_agents_own_goal(scene, tasks, first, last):
    """An episode that ended after one of two steps has two frames."""
    seen, alive = np.array([[first, last, last]], float), np.array([[True, False]])
    frames = drawing.filmed(lambda *given: Episodes(seen, 0, 0, alive, 0), scene)
    one, other = (frames(np.array(tasks), None, np.zeros(1), agent, 0, 2) for agent in range(2))
    assert len(one) == len(other) == 2
    assert not np.array_equal(one[0][:280], one[1][:280])
    assert not np.array_equal(one[0], other[0])


def test_frames_need_matplotlib(monkeypatch):
    real = builtins.__import__

    def without(name, *rest, **kept):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *rest, **kept)

    envs = pendulum.pendulum()
    policy = linear(envs.observations, envs.actions)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InputError, match=r"pip install 'fastfedpg\[plot\]'"):
        envs.frames(envs.tasks, policy, np.zeros(policy.size), 0, 0, 2)
