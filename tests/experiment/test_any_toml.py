"""Any TOML file is a configuration that passes the checks, is read back as it was and planned, or one InputError."""

import tomllib
from contextlib import suppress

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from fastfedpg import ALGORITHMS, Config, InputError
from fastfedpg.experiment.config import from_mapping, from_toml, sketch
from fastfedpg.experiment.plan import plan
from fastfedpg.tables import ORACLES, PROBLEMS
from properties import damaged, few, many, taken, until_time_is_up
from stopped_runs import OFTEN

TABLES = [
    OFTEN.to_table(),
    Config().to_table(),
    Config("cart-pole", policy="mlp", oracle="gpomdp", order="arrival", participants=2, speeds=(1.0, 2.0)).to_table(),
    {"problem": "random", "eta": 0.5, "H": 3, "problem_args": {"S": 3}, "oracle.K": 3},
]
NAMES = sorted(
    {name for table in TABLES for name in table} | {"K", "B", "eta", "lam", "name", "oracle.lam", "algorithm.eta"}
)
CHOICES = [
    *PROBLEMS,
    *ALGORITHMS,
    *ORACLES,
    "mlp",
    "linear",
    "simulate",
    "theorem2",
    "arrival",
    "file.npz",
    "a:b",
    "x.py:f",
    ":",
]
TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
INTEGERS = st.one_of(st.integers(-3, 20), st.sampled_from([2**31 - 1, 2**31, 2**63, -(2**63), 10**30, 10**400]))
PLAIN = st.one_of(
    INTEGERS, st.floats(), st.booleans(), TEXT, st.sampled_from(CHOICES), st.dates(), st.datetimes(), st.times()
)
KEYS = st.one_of(st.sampled_from(NAMES), TEXT)
VALUES = st.recursive(
    PLAIN, lambda x: st.one_of(st.lists(x, max_size=3), st.dictionaries(KEYS, x, max_size=3)), max_leaves=6
)


@st.composite
def tables(draw):
    """A good configuration in which some things are others; or anything."""
    table = {k: dict(v) if isinstance(v, dict) else v for k, v in draw(st.sampled_from([{}, *TABLES])).items()}
    for _ in range(draw(st.integers(0, 4))):
        inner = [t for t in table.values() if isinstance(t, dict)]
        where = draw(st.sampled_from([table, *inner]))
        match draw(st.integers(0, 3)):
            case 0 if where:
                where[draw(st.sampled_from([*where]))] = draw(VALUES)
            case 1:
                where[draw(KEYS)] = draw(VALUES)
            case 2 if where:
                del where[draw(st.sampled_from([*where]))]
            case _:
                where[draw(st.sampled_from(["problem", "algorithm", "oracle", "policy", "name"]))] = draw(
                    st.sampled_from(CHOICES)
                )
    return table


@st.composite
def any_text(draw) -> bytes:
    return draw(damaged(tomli_w.dumps(draw(tables())).encode()))


TRIED = {"taken": 0, "refused": 0}


def one_file(path, data: bytes) -> None:
    path.write_bytes(data)

    def read():
        config = from_toml(path)
        config.check()
        return config, config.to_toml()

    found = taken(read, TRIED)
    if found is None:
        return
    config, text = found
    sketch(path)
    again = from_mapping(tomllib.loads(text))
    again.check()
    assert again.to_toml() == text
    assert not again.differs(config) or "nan" in text
    with suppress(InputError):  # a problem that can't be made, or an algorithm that can't be run on it
        plan(config)


@pytest.mark.parametrize("name", ["name", "source_sha256"])
@pytest.mark.parametrize("kind", ["problem", "policy", "algorithm", "oracle"])
def test_a_choice_s_own_words_are_no_arguments(kind, name):
    """A `name` among the arguments became the name itself when the configuration was written."""
    with pytest.raises(InputError, match=f"{kind}_args has '{name}', which is no argument"):
        from_mapping({"problem": "unknown", f"{kind}_args": {name: "compromise"}})


def test_any_toml(tmp_path):
    given(any_text())(few(150)(lambda data: one_file(tmp_path / "config.toml", data)))()
    assert min(TRIED.values()) > 5, "both happen"


@pytest.mark.properties
def test_many_toml(tmp_path, record_property):
    """As above, as long as there is time."""
    test = lambda data: one_file(tmp_path / "config.toml", data)
    until_time_is_up(lambda seeded: seeded(many(2000)(given(any_text())(test)))(), record_property)
    record_property("examples", f"files: {TRIED}")
