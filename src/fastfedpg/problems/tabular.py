"""Finite MDPs that N agents share: the arrays, checked, and the `.npz` files they come in."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from fastfedpg.errors import InputError
from fastfedpg.mdp.transitions import Sparse
from fastfedpg.problems import tabular_checks

NAMES = ("P", "reward", "rho", "gamma")
SPARSE_NAMES = ("next", "p", "reward", "rho", "gamma")


class Grid(NamedTuple):
    """How to draw the states as cells: cell c is row c // columns, column c % columns, and state s is cell s.

    Where a state is more than a place, `cells` gives each state's cell, several states to a cell, or -1 for nowhere.
    """

    rows: int
    columns: int
    moves: dict[int, tuple[int, int]]  # action -> (rows down, columns right) of its arrow; others have none
    marks: dict[int, str]  # cell -> what is written in it
    walls: tuple[int, ...] = ()  # cells that nobody can enter
    cells: tuple[int, ...] = ()
    arriving: tuple[tuple[float, ...], ...] = ()  # by agent and cell, where rewards are paid for arriving in a cell


@dataclass(frozen=True, eq=False)
class TabularProblem:
    """N agents in finite MDPs M_i = (S, A, R_i, P, gamma), Eq. (1).

    Args:
        P: (S, A, S) transition probabilities, or (N, S, A, S) where the agents' dynamics differ; or a `Sparse`, whose
            `next` and `p` are (S, A, W) or (N, S, A, W).
        reward: (N, S, A), in the user's units; in [0, 1] unless `reward_range` says otherwise.
        rho: (S,) initial distribution, or (N, S).
        gamma: discount factor in [0, 1).
        reward_range: (lo, hi) of the rewards; results are reported in these units.

    Example:
        >>> import numpy as np
        >>> p = TabularProblem(P=np.ones((1, 2, 1)), reward=[[[1, 0]], [[0, 1]]], rho=[1], gamma=0.5)
        >>> p.N, p.S, p.A, p.shared
        (2, 1, 2, True)
    """

    P: Any  # all four: whatever numpy.array takes, or a Sparse of such; afterwards float64 arrays, and a float
    reward: Any
    rho: Any
    gamma: Any
    reward_range: tuple[float, float] = (0.0, 1.0)
    name: str = "tabular"
    states: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    grid: Grid | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Convert to float64 and check everything that can be wrong."""
        put = lambda name, value: object.__setattr__(self, name, value)
        for name in ("reward", "rho"):
            put(name, tabular_checks.array(name, getattr(self, name)))
        sparse = isinstance(self.P, Sparse)
        put(
            "P",
            Sparse(*map(tabular_checks.array, Sparse._fields, self.P)) if sparse else tabular_checks.array("P", self.P),
        )
        put("gamma", tabular_checks.gamma(self.gamma))
        put("reward_range", tabular_checks.reward_range(self.reward_range))
        tabular_checks.shapes(self.P, self.reward, self.rho)
        if sparse:
            put("P", Sparse(tabular_checks.successors(self.P.next, self.S), self.P.p))
        name, p = list(self.kernel_arrays().items())[-1]
        tabular_checks.distributions(name, p, ("agent", "state", "action") if self.own_kernels else ("state", "action"))
        tabular_checks.distributions("rho", self.rho, ("agent",) if self.own_starts else ())
        tabular_checks.rewards(self.reward, self.reward_range)
        put("states", tuple(self.states) or tuple(f"s{s}" for s in range(self.S)))
        put("actions", tuple(self.actions) or tuple(f"a{a}" for a in range(self.A)))
        put("agents", tuple(self.agents) or tuple(f"agent {i}" for i in range(self.N)))

    @property
    def N(self) -> int:
        """Number of agents."""
        return int(self.reward.shape[0])

    @property
    def S(self) -> int:
        """Number of states."""
        return int(self.reward.shape[1])

    @property
    def A(self) -> int:
        """Number of actions."""
        return int(self.reward.shape[2])

    @property
    def shared(self) -> bool:
        """Whether all agents have the same dynamics and start: only then J*, gap and the average MDP are defined."""
        return not (self.own_kernels or self.own_starts)

    @property
    def own_kernels(self) -> bool:
        """Whether P has an agent axis."""
        return int((self.P.p if isinstance(self.P, Sparse) else self.P).ndim) == 4

    @property
    def own_starts(self) -> bool:
        """Whether rho has an agent axis."""
        return int(self.rho.ndim) == 2

    @property
    def theta_shape(self) -> tuple[int, int]:
        """How theta is written down: a table."""
        return self.S, self.A

    theta_axes = "states, actions"

    @property
    def sizes(self) -> dict[str, int]:
        """What a summary says of it."""
        return {"S": self.S, "A": self.A}

    def kernel(self, i: int) -> Any:
        """Agent i's own P."""
        return jax.tree.map(lambda x: x[i], self.P) if self.own_kernels else self.P

    def kernel_arrays(self) -> dict[str, np.ndarray]:
        """P as it is put away: P, or next and p; the probabilities come last."""
        return self.P._asdict() if isinstance(self.P, Sparse) else {"P": self.P}

    @property
    def scale(self) -> float:
        """Reward units per unit of cost."""
        return self.reward_range[1] - self.reward_range[0]

    @property
    def cost(self) -> np.ndarray:
        """The paper's R <- 1 - R, in [0, 1]: (hi - reward) / (hi - lo)."""
        return (self.reward_range[1] - self.reward) / self.scale

    def average(self) -> "TabularProblem":
        """The average MDP of Proposition 1, as a problem with one agent."""
        if not self.shared:
            raise InputError("the average MDP is defined only for agents that share P and rho; here they differ")
        mean = self.reward.mean(axis=0, keepdims=True).clip(*self.reward_range)  # a mean can round past its range
        return replace(self, reward=mean, agents=(), name=f"average of {self.name}")

    def arrays(self) -> dict[str, Any]:
        """All that decides its numbers, but for the units; as it is put away."""
        return {**self.kernel_arrays(), "reward": self.reward, "rho": self.rho, "gamma": np.float64(self.gamma)}

    def save(self, path: Path) -> None:
        """Write an `.npz` that `load` reads."""
        np.savez(path, **self.arrays())


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
