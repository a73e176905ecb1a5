"""Any `.npz` file is a problem that passes the checks, or one InputError; and takes little memory either way."""

import io
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import reference as ref
from fastfedpg.mdp.transitions import Sparse
from fastfedpg.problems import lqr_checks, npz, tabular_checks
from properties import damaged, few, many, taken, until_time_is_up

TABULAR = ref.small_problem(N=2, S=3, A=2, seed=3)
TABLE = {
    "P": np.full((3, 2, 3), 1 / 3),
    "reward": np.linspace(0, 1, 12).reshape(2, 3, 2),
    "rho": np.full(3, 1 / 3),
    "gamma": np.array(0.9),
}
SPARSE = {
    **{name: TABLE[name] for name in ("reward", "rho", "gamma")},
    "next": np.zeros((3, 2, 2), np.int32),
    "p": np.full((3, 2, 2), 0.5),
}
REGULATOR = {
    "A": np.stack([0.5 * np.eye(2)] * 2),
    "B": np.stack([np.eye(2)[:, :1]] * 2),
    "Q": np.stack([np.eye(2)] * 2),
    "R": np.stack([np.eye(1)] * 2),
    "Sigma0": np.eye(2),
    "gamma": np.array(0.9),
}
ABOUT = {
    "name": np.array("mine"),
    "states": np.array(["a", "b", "c"]),
    "agents": np.array(["x", "y"]),
    "reward_range": np.array([0.0, 2.0]),
    "noise": np.array(0.1),
    "F0": np.zeros((1, 2)),
    "grid": np.array("{}"),
}
KNOWN = [*TABLE, *SPARSE, *REGULATOR, *ABOUT]
NAMES = st.one_of(st.sampled_from(KNOWN), st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6))
NUMBERS = st.sampled_from([np.nan, np.inf, -np.inf, -1e-9, -1.0, 0.0, 1e-320, 1 + 1e-7, 1.1, 2**31, 1e300, -1e308])
ARRAYS = hnp.arrays(
    st.one_of(hnp.scalar_dtypes(), hnp.unicode_string_dtypes(max_len=3)), hnp.array_shapes(min_dims=0, max_side=3)
)


def header(shape, kind="<f8", fortran=False, more=b"") -> bytes:
    """An array that says of itself what it is, and has nothing in it, or something else."""
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, {"descr": kind, "fortran_order": fortran, "shape": shape})
    return out.getvalue() + more


def npy(x: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array(out, x, allow_pickle=True)
    return out.getvalue()


@st.composite
def members(draw) -> dict[str, bytes]:
    """The arrays of a good file, some of them not so good."""
    arrays = dict(draw(st.sampled_from([TABLE, SPARSE, REGULATOR])))
    for name in draw(st.lists(st.sampled_from([*ABOUT]), max_size=2)):
        arrays[name] = ABOUT[name]
    found = {name: npy(x) for name, x in arrays.items()}
    for _ in range(draw(st.integers(0, 3))):
        name = draw(st.sampled_from([*found]))
        x = arrays.get(name, np.zeros(1))
        match draw(st.integers(0, 9)):
            case 0:
                found[name] = npy(draw(ARRAYS))
            case 1 if x.dtype.kind in "fi" and x.size:
                new = x.astype(np.float64).ravel()
                new[draw(st.integers(0, x.size - 1))] = draw(NUMBERS)
                found[name] = npy(new.reshape(x.shape))
            case 2:
                found.pop(name)
                if not found:
                    break
            case 3:
                found[draw(NAMES)] = found[name]
            case 4:
                found[name] = npy(np.array([{"a": 1}, None], object))
            case 5:
                shape = tuple(draw(st.lists(st.sampled_from([0, 1, 3, 10**5, 2**31, 2**62]), max_size=4)))
                kind = draw(st.sampled_from(["<f8", ">f4", "|i1", "|O", "<U9", "|V16", "<c16", "<M8[s]"]))
                found[name] = header(shape, kind, draw(st.booleans()), draw(st.binary(max_size=64)))
            case 6:
                found[name] = npy(x.T)
            case 7:
                found[name] = npy(
                    x.astype(draw(st.sampled_from(["f2", "f4", ">f8", "i1", "?", "c8"])), casting="unsafe")
                    if x.dtype.kind in "fi"
                    else x[None]
                )
            case 8:
                found[name] = found[name][: draw(st.integers(0, len(found[name])))]
            case 9:
                found[name] = draw(st.binary(max_size=40))
    return found


@st.composite
def any_file(draw) -> bytes:
    """An archive of them, perhaps cut, or with some bits another way round."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", draw(st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]))) as archive:
        for name, data in draw(members()).items():
            archive.writestr(f"{name}.npy", data)
    return draw(damaged(out.getvalue()))


TRIED = {"taken": 0, "refused": 0}


def one_file(path, data: bytes) -> None:
    path.write_bytes(data)

    def read():
        problem = npz.load(path)
        npz.name_of(path)
        return problem

    problem = taken(read, TRIED)
    if problem is not None:
        check(problem)


def check(problem) -> None:
    """By the definitions, from its own arrays."""
    arrays = problem.arrays()
    assert all(np.isfinite(x).all() for x in arrays.values() if np.asarray(x).dtype.kind == "f")
    assert 0 <= problem.gamma < 1
    if hasattr(problem, "Q"):
        lqr_checks.shapes(*(np.asarray(getattr(problem, name)) for name in ("A", "B", "Q", "R", "Sigma0")))
        return
    P = problem.P.p if isinstance(problem.P, Sparse) else problem.P
    tabular_checks.shapes(problem.P, problem.reward, problem.rho)
    for p in (P, problem.rho):
        assert (np.asarray(p) >= 0).all()
        np.testing.assert_allclose(np.asarray(p).sum(-1), 1, atol=1e-12)
    lo, hi = problem.reward_range
    assert lo < hi
    assert (problem.reward >= lo).all()
    assert (problem.reward <= hi).all()


def test_any_npz(tmp_path):
    given(any_file())(few(250)(lambda data: one_file(tmp_path / "problem.npz", data)))()
    assert min(TRIED.values()) > 10, "both happen"


@pytest.mark.properties
def test_many_npz(tmp_path, record_property):
    """As above, as long as there is time."""
    test = lambda data: one_file(tmp_path / "problem.npz", data)
    until_time_is_up(lambda seeded: seeded(many(2000)(given(any_file())(test)))(), record_property)
    record_property("examples", f"files: {TRIED}")
