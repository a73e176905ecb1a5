"""`.npz` files: the arrays that problems and policies come in; nothing is ever unpickled."""

from pathlib import Path
from typing import Any

import numpy as np

from fastfedpg.errors import InputError
from fastfedpg.mdp.transitions import Sparse
from fastfedpg.problems.lqr import LQRProblem
from fastfedpg.problems.tabular import TabularProblem

TABLE = ("P", "reward", "rho", "gamma")
SPARSE = ("next", "p", "reward", "rho", "gamma")
REGULATOR = ("A", "B", "Q", "R", "Sigma0", "gamma", "[noise]", "[F0]")
"""The arrays of a file; those in brackets may be missing."""


def load(path: Path | str, reward_range: tuple[float, float] | None = None) -> TabularProblem | LQRProblem:
    """A problem from an `.npz` file with exactly the arrays P, reward, rho and gamma, or those of a regulator.

    Where transitions are sparse, `next` and `p` take the place of P. A regulator has A, B, Q, R, Sigma0 and gamma, and
    may have noise and F0.
    """
    arrays: dict[str, Any] = dict(read_npz(path, TABLE, SPARSE, REGULATOR))
    name = Path(path).name
    if "A" in arrays:
        if reward_range is not None:
            raise InputError(
                f"{path}: a linear-quadratic regulator, whose rewards have no range; leave reward_range out"
            )
        return LQRProblem(**arrays, name=name)
    if "P" not in arrays:
        arrays["P"] = Sparse(arrays.pop("next"), arrays.pop("p"))
    return TabularProblem(**arrays, reward_range=reward_range or (0.0, 1.0), name=name)


def read_npz(path: Path | str, names: tuple[str, ...], *others: tuple[str, ...]) -> dict[str, np.ndarray]:
    """The arrays of an `.npz` file that must hold exactly these names, or one of these others; nothing is unpickled.

    Names in brackets may be missing.
    """
    path = Path(path)
    allowed = ", or ".join(", ".join(form) for form in (names, *others))
    try:
        path.stat()
    except OSError as error:
        raise InputError(f"{path}: {str(error.strerror).lower()}") from None
    except ValueError as error:  # a NUL
        raise InputError(f"{str(path)!r}: {error}") from None
    if not path.is_file():
        raise InputError(f"{path}: not a file; an .npz file with {allowed} is needed")
    try:
        with path.open("rb") as opened:
            file = np.load(opened, allow_pickle=False)
            if not isinstance(file, np.lib.npyio.NpzFile):
                raise InputError(f"{path}: a single array; save the arrays {allowed} together with numpy.savez")
            forms = [tuple(n for n in form if n[0] != "[" or n[1:-1] in file.files) for form in (names, *others)]
            forms = [tuple(n.strip("[]") for n in form) for form in forms]
            names = min(forms, key=lambda form: len(set(form) ^ set(file.files)))  # the one that is meant
            missing = [n for n in names if n not in file.files]
            extra = [n for n in file.files if n not in names]
            if missing or extra:
                said = [
                    f"{what} {', '.join(which)}" for what, which in (("lacks", missing), ("has also", extra)) if which
                ]
                raise InputError(f"{path}: {' and '.join(said)}; the names are exactly {allowed}")
            return {n: _read(path, file, n) for n in names}
    except InputError:
        raise
    except Exception as error:  # numpy, zipfile, zlib and tokenize each have their own for a damaged file
        raise InputError(f"{path}: not an .npz file that can be read ({error})") from None


def _read(path: Path, file: "np.lib.npyio.NpzFile", name: str) -> np.ndarray:
    try:
        return np.asarray(file[name])
    except ValueError as error:
        if "pickle" not in str(error):
            raise
        raise InputError(
            f"{path}: {name} holds Python objects, which need pickle; save it as a plain numeric array"
        ) from None
