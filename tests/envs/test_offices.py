"""Offices with heat pumps: their weather against what is measured, their physics and rules against closed forms."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fastfedpg import Config, run
from fastfedpg.crossed import crossed
from fastfedpg.envs import with_context
from fastfedpg.envs.catalogue import fabric, heat_pump, office, office_years, weather
from fastfedpg.envs.catalogue.office import setpoints
from fastfedpg.envs.catalogue.office_rules import Programme, fixed, optimal_start, programmed, setback
from fastfedpg.envs.catalogue.offices import (
    OWN,
    SEEN,
    Moment,
    advance,
    environment,
    observe,
    offices,
    offices_with,
    told,
)
from fastfedpg.errors import InputError


@cache
def weather_years(n=30):
    """The outdoors of n years."""

    def year(key):
        step = lambda w, k: (
            weather.change(w, jax.random.normal(jax.random.fold_in(key, k), (3,))),
            weather.outdoors(k, w),
        )
        return jax.lax.scan(step, weather.begin(key), jnp.arange(8760))[1]

    years = jax.jit(jax.vmap(year))(jax.random.split(jax.random.key(0), n))
    return jax.tree.map(lambda x: np.asarray(x).reshape(n, 365, 24), years)


def test_the_weather_is_like_measured_weather():
    """Potsdam in round numbers, and their spread over 30 years: each band is at least four standard errors wide."""
    years = weather_years()
    daily = years.temperature.mean(axis=2)
    month = lambda x, m: x[:, int(30.4 * m) : int(30.4 * (m + 1))]
    assert daily.mean() == pytest.approx(10, abs=0.8)
    assert month(daily, 0).mean() == pytest.approx(1, abs=1.5)
    assert month(daily, 6).mean() == pytest.approx(19, abs=1.5)
    assert 0.5 < daily.mean(axis=1).std() < 1.3  # one year is not like another
    off = daily - daily.mean(axis=0)
    after = lambda days: np.mean(off[:, days:] * off[:, :-days]) / np.mean(off**2)
    assert 0.75 < after(1) < 0.88
    assert after(5) < 0.5
    assert years.irradiance.sum(axis=(1, 2)).mean() == pytest.approx(1000, abs=60)
    assert years.clouds.mean() == pytest.approx(0.65, abs=0.03)


def test_clouds_take_the_sun_and_the_swing_of_the_day():
    """In June: 12 degrees between night and day under a clear sky, 3.6 under clouds, with a quarter of the sun."""
    hour = jnp.arange(24) + 24 * 172
    calm = lambda sky: weather.outdoors(hour, weather.Weather(*(jnp.full(24, x) for x in (0.0, 0.0, sky))))
    clear, covered = calm(-5.0), calm(5.0)
    np.testing.assert_allclose(covered.irradiance, 0.25 * clear.irradiance, rtol=1e-3)
    swing = lambda x: float(x.temperature.max() - x.temperature.min())
    assert swing(covered) == pytest.approx(0.3 * swing(clear), rel=0.05)
    noon = np.cos(np.deg2rad(52 - 23.44)) - np.cos(np.deg2rad(52)) * np.cos(np.deg2rad(23.44)) * (
        1 - np.cos(np.pi / 24)
    )
    assert float(clear.irradiance.max()) == pytest.approx(0.91 * noon - 0.03, abs=1e-3)
    assert float(clear.irradiance[0]) == 0


def test_the_heat_pump_is_staffells_fit():
    """Lift 40: 6.81 - 4.84 + 1.008; beyond 60 as at 60. Cooling at 30 degrees: 6.81 - 3.63 + 0.567 - 1."""
    np.testing.assert_allclose(heat_pump.heating(jnp.array([0.0, -20.0, -30.0])), [2.978, 1.818, 1.818])
    np.testing.assert_allclose(heat_pump.cooling(jnp.array([30.0])), [2.747])


def test_equal_buildings_are_the_office():
    """With spread 0 an hour does what it does in `thermostats`; with another they lie where they are said to."""
    given = [jnp.float64(x) for x in (19.0, 21.0, -3.0, 5.0, 1.5)]
    equal = jax.tree.map(lambda x: x[3], fabric.different(5, 0.0))
    np.testing.assert_allclose(fabric.thermal(equal, *given), office.thermal(*given), atol=1e-12)
    factors = np.array(fabric.different(64, 0.25)[:3])
    assert factors.min() >= 1 / 1.25
    assert factors.max() <= 1.25
    assert np.abs(np.corrcoef(np.log(factors))[np.triu_indices(3, 1)]).max() < 0.2
    np.testing.assert_array_equal(factors[:, :8], fabric.different(8, 0.25)[:3])


def test_a_building_comes_to_its_own_equilibrium():
    """T_a - T_o = q / (l U_ao + 1 / (1/U_am + 1 / (l U_mo))), whatever its mass."""
    build = fabric.fabric(*(np.array([x]) for x in (1.3, 0.7, 1.0)))
    one = jax.tree.map(lambda x: jnp.asarray(x[0]), build)
    hour = lambda _, x: fabric.thermal(one, *x, jnp.float64(-5.0), jnp.float64(3.0), jnp.float64(0.0))[:2]
    air, _ = jax.lax.fori_loop(0, 2000, hour, (jnp.float64(10), jnp.float64(30)))
    loss = 1.3 * office.WINDOWS + 1 / (1 / office.WITHIN + 1 / (1.3 * office.WALLS))
    np.testing.assert_allclose(air, -5 + 3 / loss, atol=1e-9)


def at(hour=8, air=19.0, mass=17.0, outdoor=0.0):
    """A moment under a dark sky."""
    calm = weather.Weather(*jnp.zeros(3))
    now = weather.Outdoors(jnp.float64(outdoor), jnp.float64(1.0), jnp.float64(0.0))
    return Moment(jnp.int32(hour), jnp.float64(air), jnp.float64(mass), calm, now, jnp.bool_(False))


def test_cold_makes_heat_dear():
    """The same heat takes COP(0) / COP(-10) times the electricity; what its 4 kW can't bring is not brought."""
    build = jax.tree.map(lambda x: jnp.asarray(x[0]), fabric.different(1, 0.0))
    step = jax.jit(lambda state, *wanted: advance(build, state, office.action(*wanted), jax.random.key(0)))
    new, mild = step(at(), 20.0, 30.0)
    np.testing.assert_allclose(new.air, 20, atol=1e-9)
    q = office.PEOPLE + mild.power * heat_pump.heating(jnp.float64(0.0))
    np.testing.assert_allclose(office.thermal(19.0, 17.0, 0.0, q, 0.0)[0], 20, atol=1e-9)
    lost, cold = step(at(air=15.0, mass=14.0, outdoor=-15.0), 23.0, 30.0)
    assert cold.power == heat_pump.PUMP
    assert lost.air < 23
    cooled, hot = step(at(air=25.0, mass=24.0, outdoor=30.0), 14.0, 22.5)
    np.testing.assert_allclose(cooled.air, 22.5, atol=1e-9)
    assert -heat_pump.PUMP < hot.power < 0


def test_an_offices_own_numbers_are_its_context():
    """From -1 to 1 and in the tasks' order; without `context` nobody is told, and equal buildings tell nothing."""
    made = offices(agents=9, spread=0.2, context=True)
    (place, rows), own = made.tasks, made.context
    assert made.observations.width == len(SEEN) + 5 == 17
    assert (np.abs(own) <= 1 + 1e-12).all()
    np.testing.assert_array_equal(rows, own)
    np.testing.assert_allclose(own[:, 0], place.preferred - 21.5)
    np.testing.assert_allclose(own[:, 1], np.linspace(-1, 1, 9), atol=1e-12)  # weights are in equal ratios
    np.testing.assert_allclose(own[:, 2], np.log(place.fabric.loss) / np.log(1.2), atol=1e-12)
    assert offices(agents=9, context=True).observations.width == len(SEEN) + 2
    assert offices(agents=9, spread=0.2).observations.width == len(SEEN)
    assert told(offices_with(2, 0.1, 0.1, 0.0), 0.1, 0.1, 0.0)[:, 1].tolist() == [0, 0]
    with pytest.raises(InputError, match="its agents have a context already"):  # --context beside context=true
        with_context(made, own)


def test_people_are_seen_coming():
    """At 20:00 on a Thursday in twelve hours; at noon in one; on Friday evening not before AHEAD."""
    one = jax.tree.map(lambda x: x[0], offices_with(1, 0.02, 0.5, 0.0))
    hours = [12 * (1 - float(observe(one, at(24 * day + hour))[10])) for day, hour in ((3, 20), (1, 12), (4, 19))]
    np.testing.assert_allclose(hours, [12, 1, 24], atol=1e-9)


def test_it_is_played_in_32_bits_without_a_warning():
    """A constant of 64 bits warned in every run with `--dtype float32`; warnings are errors here."""
    narrow = Config("offices", agents=1, oracle="gpomdp", policy="linear", H=1, B=1, K=2, rounds=1, dtype="float32")
    assert run(narrow.but(evaluation_episodes=1)).theta.dtype == "float32"


def test_optimal_start_is_earlier_in_the_cold():
    """One hour, and one for each degree below 20: at 17 degrees four hours before people come, at 20 degrees one."""
    one = jax.tree.map(lambda x: x[0], offices_with(1, 0.02, 0.5, 0.0))
    set_to = lambda hour, air: float(office.setpoints(optimal_start(21.0)(observe(one, at(hour, air)), None))[0])
    assert [set_to(hour, 17.0) for hour in (3, 4, 7, 8, 17, 18)] == pytest.approx([16, 20, 20, 20, 20, 16])
    assert [set_to(hour, 20.0) for hour in (4, 6, 7)] == pytest.approx([16, 16, 20])


@cache
def judged():
    """Three offices with three rules in 60 days of two weathers, and a log of the second rule's."""
    places = offices_with(3, 0.02, 0.5, 0.3)
    rules = {
        "fixed": lambda place, own: fixed(place.preferred),
        "setback": lambda place, own: setback(place.preferred),
        "programmed": lambda place, own: programmed(place.preferred, own),
    }
    own = Programme(*(np.full(3, float(x)) for x in Programme()))
    costs = {name: office_years.years(rule, places, own, (4, 5)) for name, rule in rules.items()}
    log = lambda place: office_years.log(place, setback(place.preferred), 60, 4)
    return places, costs, jax.tree.map(np.asarray, jax.jit(jax.vmap(log))(places))


@pytest.fixture
def short_years(monkeypatch):
    """60 days."""
    monkeypatch.setattr(office_years, "YEAR", 1440)


def test_years_are_the_sums_of_their_hours(short_years):
    """Setback with four hours is the programme's default; a fixed setting costs more energy and less comfort."""
    places, costs, log = judged()
    hours, away = (
        log.hours,
        np.maximum(np.abs(log.hours.indoor - places.preferred[:, None]) - 1, 0) * log.hours.occupied,
    )
    found = costs["setback"]
    np.testing.assert_allclose(found.energy[0], (hours.price * np.abs(hours.power)).sum(axis=1))
    np.testing.assert_allclose(found.discomfort[0], places.weight * (np.minimum(away, 10) ** 2).sum(axis=1), atol=1e-9)
    np.testing.assert_array_equal(found.outside[0], (away > 0.1).sum(axis=1))
    np.testing.assert_array_equal(found.far[0], (away > 1).sum(axis=1))
    np.testing.assert_allclose(found.total, found.energy + found.discomfort)
    np.testing.assert_allclose(costs["programmed"].total, found.total)
    assert (costs["fixed"].energy > found.energy).all()
    assert (costs["fixed"].outside <= found.outside).all()
    assert found.outside.sum() > 0
    assert not np.allclose(found.energy[0], found.energy[1])  # another year
    np.testing.assert_array_equal(hours.outdoor[0], hours.outdoor[2])  # one weather for all
    assert not np.allclose(hours.indoor[0], hours.indoor[2])


def test_a_search_finds_what_years_say(short_years):
    """What each programme costs each office, in the mean of both years; and blind to wishes it costs another thing."""
    places, costs, _ = judged()
    tried = office_years.grid(night=(16.0, 20.0), hours=(4.0,))
    heard = []
    found = office_years.search(places, tried, (4, 5), at_once=2, report=lambda: heard.append(1))
    assert found.shape == (2, 3)
    assert len(heard) == 2
    np.testing.assert_allclose(found[0], costs["programmed"].total.mean(axis=0))
    assert (found[1] > found[0]).all()


@pytest.mark.parametrize(
    ("given", "said"),
    [({"most": 0.01}, "0 < least <= most"), ({"spread": 1.5}, r"spread = 1.5; it must lie in \[0, 1\]")],
)
def test_wrong_numbers_are_refused(given, said):
    with pytest.raises(InputError, match=said):
        offices(**given)


def test_crossed_intervals():
    """One row: Student's interval, 2.776 s / sqrt(5). Rows and columns: 95% of 4,000 normal tables, to 4 s.e."""
    x = np.array([[1.0, 2.0, 3.0, 4.0, 5.0]])
    mean, low, high = crossed(x)
    assert (mean, high - low) == (3, pytest.approx(2 * 2.7764 * np.sqrt(2.5 / 5), rel=1e-4))
    np.testing.assert_allclose(crossed(x.T), crossed(x))
    assert np.isnan(crossed(x[:, :1]).low)
    rng, inside = np.random.default_rng(0), []
    for _ in range(4000):
        low, high = crossed(rng.normal(size=(5, 1)) + 2 * rng.normal(size=(1, 5)) + rng.normal(size=(5, 5)))[1:]
        inside.append(low < 0 < high)
    assert np.mean(inside) > 0.95 - 4 * np.sqrt(0.95 * 0.05 / 4000)
    assert np.mean(inside) < 0.985


def test_in_own_degrees_all_offices_see_and_set_the_same():
    """The preferred temperature is seen as that of 21.5 is, (21.5 - 21) / 5; 0.3 heats to 18.5 + 1.35 - 21.5 above it.

    An hour is that of a thermometer's action, seen (preferred - 21.5) / 5 lower.
    """
    every, key = offices_with(4, 0.02, 0.5, 0.0), jax.random.key(3)
    for i in range(4):
        task = jax.tree.map(lambda x, i=i: x[i], every)
        wish = float(task.preferred)
        assert OWN.shown(task, jnp.full(12, (wish - 21) / 5))[0] == pytest.approx(0.1)
        heat_to, _ = setpoints(OWN.meant(task, jnp.full(2, 0.3)))
        assert float(heat_to) - wish == pytest.approx(18.5 + 4.5 * 0.3 - 21.5)
        (own, first), (plain, seen) = (env.reset(task, key) for env in (environment(OWN), environment()))
        np.testing.assert_allclose(first - seen, np.eye(12)[0] * (21.5 - wish) / 5, atol=1e-6)
        action = jnp.array([-0.2, 0.1])
        there = environment(OWN).step(task, own, action, key)
        here = environment().step(task, plain, action + (wish - 21.5) / 4.5, key)
        np.testing.assert_allclose(there.observation - here.observation, first - seen, atol=1e-6)
        np.testing.assert_allclose(there.reward, here.reward, atol=1e-6)
    assert offices(agents=2, own_degrees=True).source != offices(agents=2).source
