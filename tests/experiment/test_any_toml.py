"""Any TOML file is a configuration that passes the checks and is read back as it was, or one InputError."""

import tomllib
import tracemalloc

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from fastfedpg import ALGORITHMS, Config, InputError
from fastfedpg.experiment.config import from_mapping, from_toml, sketch
from fastfedpg.tables import ORACLES, PROBLEMS
from properties import few, many, until_time_is_up
from stopped_runs import OFTEN

MOST = 64 << 20
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
    data = bytearray(tomli_w.dumps(draw(tables())).encode())
    for at, bit in draw(st.lists(st.tuples(st.integers(0, 10**4), st.integers(0, 7)), max_size=2)):
        if data:
            data[at % len(data)] ^= 1 << bit
    return bytes(data[: draw(st.one_of(st.just(len(data)), st.integers(0, len(data))))])


def said(words: str) -> None:
    assert words
    assert "\n" not in words


TRIED = {"taken": 0, "refused": 0}


def one_file(path, data: bytes) -> None:
    path.write_bytes(data)
    tracemalloc.start()
    try:
        try:
            config = from_toml(path)
            config.check()
            text = config.to_toml()
        except InputError as error:
            TRIED["refused"] += 1
            said(str(error))
            return
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            assert peak < MOST, peak
    finally:
        tracemalloc.stop()
    TRIED["taken"] += 1
    sketch(path)
    again = from_mapping(tomllib.loads(text))
    again.check()
    assert again.to_toml() == text
    assert not again.differs(config) or "nan" in text


def test_any_toml(tmp_path):
    given(any_text())(few(150)(lambda data: one_file(tmp_path / "config.toml", data)))()
    assert min(TRIED.values()) > 5, "both happen"


@pytest.mark.properties
def test_many_toml(tmp_path, record_property):
    """As above, as long as there is time."""
    test = lambda data: one_file(tmp_path / "config.toml", data)
    until_time_is_up(lambda seeded: seeded(many(2000)(given(any_text())(test)))(), record_property)
    record_property("examples", f"files: {TRIED}")
