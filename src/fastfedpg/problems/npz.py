"""`.npz` files: the arrays that problems and policies come in; nothing is ever unpickled."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fastfedpg import npz_headers
from fastfedpg.errors import InputError, nearest, printable
from fastfedpg.files import open_regular
from fastfedpg.mdp.transitions import Sparse
from fastfedpg.problems import lqr_checks, tabular_checks
from fastfedpg.problems.grid import from_json
from fastfedpg.problems.lqr import LQRProblem
from fastfedpg.problems.tabular import TabularProblem

ABOUT = ("(name)", "(agents)")
DRAWN = ("(reward_range)", "(states)", "(actions)", "(grid)")
TABLE = ("P", "reward", "rho", "gamma", *DRAWN, *ABOUT)
SPARSE = ("next", "p", "reward", "rho", "gamma", *DRAWN, *ABOUT)
REGULATOR = ("A", "B", "Q", "R", "Sigma0", "gamma", "[noise]", "[F0]", *ABOUT)
"""The arrays of a file; those in brackets may be missing, and those in round ones say names, units and pictures."""
LARGE = ("P", "next", "p", "reward", "rho", "A", "B", "Q", "R", "Sigma0", "F0", "theta", "context")
"""All others are a number, two, or names."""
LONGEST = 200
"""Letters of a name, which stands in tables and pictures."""


def load(path: Path | str, reward_range: tuple[float, float] | None = None) -> TabularProblem | LQRProblem:
    """A problem from an `.npz` file with the arrays P, reward, rho and gamma, or those of a regulator.

    Where transitions are sparse, `next` and `p` take the place of P. It may have reward_range (2,), the names `states`,
    `actions` and `agents`, its own `name`, and `grid`, a `Grid` as JSON. A regulator has A, B, Q, R, Sigma0 and gamma,
    and may have noise, F0, agents and name.
    """
    arrays: dict[str, Any] = dict(read_npz(path, TABLE, SPARSE, REGULATOR, check=_check_shapes))
    if reward_range is not None:
        if "A" in arrays:
            raise InputError(
                f"{path}: a linear-quadratic regulator, whose rewards have no range; leave reward_range out"
            )
        reward_range = tabular_checks.reward_range(reward_range)
    try:
        return _made(arrays, Path(path).name, reward_range)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _made(arrays: dict[str, Any], file: str, asked: tuple[float, float] | None) -> TabularProblem | LQRProblem:
    arrays["name"] = _name("name", _text("name", arrays["name"]) if "name" in arrays else file)
    for what in ("states", "actions", "agents"):
        if what in arrays:
            arrays[what] = _words(what, arrays[what])
    if "A" in arrays:
        return LQRProblem(**arrays)
    if "P" not in arrays:
        arrays["P"] = Sparse(arrays.pop("next"), arrays.pop("p"))
    if "grid" in arrays:
        arrays["grid"] = from_json(_text("grid", arrays["grid"]))
    if "reward_range" in arrays:
        stated = tabular_checks.reward_range(arrays["reward_range"])
        if asked not in (None, stated):
            raise InputError(
                f"its reward_range is {stated[0]:g} to {stated[1]:g}, and {asked[0]:g} to {asked[1]:g} was asked for; "
                "leave that out, or change the file's"
            )
    elif asked is not None:
        arrays["reward_range"] = asked
    return TabularProblem(**arrays)


def name_of(path: Path | str) -> str:
    """What the problem of a file is called, without reading its numbers; the file's own name where it says nothing."""
    try:
        with open_regular(Path(path)) as opened, np.load(opened, allow_pickle=False) as file:
            npz_headers.look(path, file, LARGE)
            return _name("name", _text("name", file["name"]))
    except Exception:  # whatever it is, whoever reads all of the file will say it
        return Path(path).name


def _text(what: str, x: np.ndarray) -> str:
    if x.dtype.kind != "U" or x.size != 1 or not str(x.item()).strip():
        raise InputError(f"{what} has type {x.dtype} and shape {x.shape}; it must be one piece of text")
    return str(x.item())


def _words(what: str, x: np.ndarray) -> tuple[str, ...]:
    if x.dtype.kind != "U" or x.ndim != 1:
        raise InputError(f"{what} has type {x.dtype} and shape {x.shape}; it must be a list of names")
    return tuple(_name(f"a name in {what}", name) for name in x.tolist())


def _name(what: str, text: str) -> str:
    if len(text) > LONGEST:
        raise InputError(f"{what} has {len(text):,} letters; it can have {LONGEST}")
    return printable(text)


def _check_shapes(arrays: dict[str, np.ndarray]) -> None:
    """Refuse shapes that do not fit together, by what the file says of them."""
    if "A" in arrays:
        lqr_checks.shapes(*(arrays[name] for name in ("A", "B", "Q", "R", "Sigma0")))
    else:
        P: Any = arrays["P"] if "P" in arrays else Sparse(arrays["next"], arrays["p"])
        tabular_checks.shapes(P, arrays["reward"], arrays["rho"])
        for what, there in zip(("agents", "states", "actions"), arrays["reward"].shape, strict=True):
            if what in arrays and arrays[what].ndim == 1 and len(arrays[what]) not in (0, there):
                raise InputError(f"{what} has {len(arrays[what])} names; there are {there} {what}")


def read_npz(
    path: Path | str, *forms: tuple[str, ...], check: Callable[[dict[str, np.ndarray]], None] = lambda arrays: None
) -> dict[str, np.ndarray]:
    """The arrays of an `.npz` file that must hold exactly the names of one of these forms; nothing is unpickled.

    Names in brackets may be missing. `check` is given arrays of the right shapes before any number is read, and
    raises InputError where they can't be right.
    """
    path = Path(path)
    allowed = ", or ".join(", ".join(n for n in form if n[0] != "(") for form in forms)
    try:
        path.stat()
    except OSError as error:
        raise InputError(f"{path}: {str(error.strerror).lower()}") from None
    except ValueError as error:  # a NUL
        raise InputError(f"{str(path)!r}: {error}") from None
    if not path.is_file():
        raise InputError(f"{path}: not a file; an .npz file with {allowed} is needed")
    try:
        with open_regular(path) as opened:
            if opened.read(len(np.lib.format.MAGIC_PREFIX)) == np.lib.format.MAGIC_PREFIX:
                opened.seek(0)
                if npz_headers.read_header(opened)[2].hasobject:
                    raise InputError(f"{path}: not an .npz file, but Python objects, which need pickle")
                raise InputError(f"{path}: a single array; save the arrays {allowed} together with numpy.savez")
            opened.seek(0)
            file = np.load(opened, allow_pickle=False)
            _check_names(path, file.files, forms, allowed)
            shapes = npz_headers.look(path, file, LARGE)
            try:
                check(shapes)
            except InputError as error:
                raise InputError(f"{path}: {error}") from None
            return {name: np.asarray(file[name]) for name in file.files}
    except InputError:
        raise
    except Exception as error:  # numpy, zipfile, zlib and tokenize each have their own for a damaged file
        raise InputError(f"{path}: not an .npz file that can be read ({error})") from None


def _check_names(path: Path, files: list[str], forms: Sequence[tuple[str, ...]], allowed: str) -> None:
    required = lambda form: {n for n in form if n[0] not in "[("}
    every = lambda form: [n.strip("[]()") for n in form]
    off = lambda form: len(required(form) - {*files}) + len({*files} - {*every(form)})
    form = min(forms, key=off)  # the one that is meant
    missing = [n for n in form if n in required(form) and n not in files]
    known = {n for form in forms for n in every(form)}  # of another form: no misspelt one
    extra = [n if n in known else f"{n}{_meant(n, every(form))}" for n in files if n not in every(form)]
    said = [f"{what} {', '.join(which)}" for what, which in (("lacks", missing), ("has also", extra)) if which]
    if said:
        described = ", ".join(n.strip("()") for n in form if n[0] == "(")
        also = f"; and, if you like, {described}" if described else ""
        raise InputError(f"{path}: {' and '.join(said)}; the names are exactly {allowed}{also}")


def _meant(name: str, known: list[str]) -> str:
    near = nearest(name, known)
    return f" (did you mean {near}?)" if near else ""
