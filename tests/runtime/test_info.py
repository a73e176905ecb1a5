"""What agents log beside drift and steps: columns of their own, in every runtime."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import reference as ref
from fastfedpg import fast_fedpg, loop, simulate, with_oracle
from fastfedpg.core import Info
from fastfedpg.errors import InputError
from fastfedpg.runtime import Schedule, collect, loop_records, message_sizes, shapes, simulate_records
from fastfedpg.runtime.result import METRICS

N, d = 3, 6
EXACT = with_oracle(ref.small_problem(N=N, S=3, A=2, seed=61), "exact")
FAST = fast_fedpg(0.3, 2)


def logging(**said):
    """fast_fedpg whose exchanges log: `said[name]` maps (exchange, key) to a number, or to nothing."""

    def noting(e):
        def agent(memory, own, down, oracle, key):
            memory, own, up, info = e.agent(memory, own, down, oracle, key)
            extra = {name: f(e.name, up, key) for name, f in said.items()}
            return memory, own, up, info._replace(extra={name: x for name, x in extra.items() if x is not None})

        return e._replace(agent=agent)

    return FAST._replace(exchanges=tuple(map(noting, FAST.exchanges)))


NORM = logging(
    up_norm=lambda name, up, key: jnp.linalg.norm(up),
    luck=lambda name, up, key: jax.random.uniform(key) if name == "gradient" else None,
)


@pytest.mark.parametrize("participants", [None, 2])
def test_extras_are_metrics(participants):
    """Loop and program agree; NaN before the first round; the last exchange that says it counts, so up_norm is that of
    the change, and less than that of the gradient, which eta = .3 and H = 2 make .6 times it or so."""
    arguments = {"rounds": 4, "seeds": 2, "participants": participants}
    one, two = loop(EXACT, NORM, **arguments), simulate(EXACT, NORM, **arguments)
    assert [*one.metrics][-2:] == [*two.metrics][-2:] == ["luck", "up_norm"]
    for name in ("up_norm", "luck"):
        assert np.isnan(one.metrics[name][:, 0]).all()
        np.testing.assert_allclose(one.metrics[name], two.metrics[name], rtol=1e-10)
    assert (two.metrics["luck"][:, 1:] > 0).all()
    assert np.abs(two.metrics["luck"][0] - two.metrics["luck"][1])[1:].min() > 1e-6
    np.testing.assert_array_equal(two.theta, simulate(EXACT, FAST, **arguments).theta)


def test_the_mean_is_over_those_who_took_part():
    """Every agent logs 7, which is the mean over any of them; a sum over all N of 7 or 0 would be another."""
    sevens = logging(seven=lambda name, up, key: 7)
    for m in (1, 2, 3):
        for run in (loop, simulate):
            assert run(EXACT, sevens, 3, participants=m).metrics["seven"][0, 1:].tolist() == [7, 7, 7]


def test_what_an_opening_alone_says_is_not_known_later():
    opened = logging(once=lambda name, up, key: 1.0 if name == "gradient" else None)
    first = opened.exchanges[0]._replace(name="opening", server=lambda state, up, share, key: (state, state))
    method = opened._replace(exchanges=(first, *FAST.exchanges), opening=1)
    for run in (loop, simulate):
        np.testing.assert_array_equal(run(EXACT, method, 3).metrics["once"][0], [np.nan, 1, np.nan, np.nan])


def test_a_run_that_goes_on_has_them_too():
    stood = []
    whole = [*simulate_records(EXACT, NORM, Schedule(4), lambda done, now: stood.append(now()), pause=1)]
    form = shapes(EXACT, NORM, Schedule(4))
    assert jax.tree.structure(form.extra) == jax.tree.structure(stood[1].extra)
    sizes = message_sizes(EXACT, NORM, np.zeros(d))
    for records in (loop_records, simulate_records):
        later = collect([*records(EXACT, NORM, Schedule(4), start=stood[1])], sizes)
        np.testing.assert_allclose(
            later.metrics["up_norm"], collect(whole, sizes).metrics["up_norm"][:, 2:], rtol=1e-12
        )


@pytest.mark.parametrize("run", [loop, simulate])
@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"gap": lambda name, up, key: 1.0}, "log 'gap', which is the name of a metric"),
        ({"seed": lambda name, up, key: 1.0}, "log 'seed', which is the name of a metric"),
        ({"many": lambda name, up, key: up}, r"log 'many' of shape \(6,\); it must be a single number"),
    ],
)
def test_names_that_are_taken_and_arrays_are_refused(run, said, words):
    with pytest.raises(InputError, match=words):
        run(EXACT, logging(**said), 1)


def test_the_names_of_metrics_are_those_of_every_run():
    assert tuple(simulate(EXACT, FAST, 1).metrics) == METRICS
    assert Info().extra == {}
