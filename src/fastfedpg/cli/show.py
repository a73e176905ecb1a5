"""`fastfedpg show`: a problem, in words, numbers and a picture."""

import inspect
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro
from rich.console import Console

from fastfedpg.draw import style
from fastfedpg.draw.problem_picture import portrait
from fastfedpg.errors import InputError
from fastfedpg.experiment.config import Pairs
from fastfedpg.experiment.problem import is_file
from fastfedpg.problems import (
    PROBLEMS,
    Environments,
    KnownProblem,
    LQRProblem,
    TabularProblem,
    lqr_exact,
    make,
    tabular_exact,
)
from fastfedpg.problems.lqr import radius
from fastfedpg.spaces import said

FEW = 8
"""Each agent's own best return is printed for so many agents, else their range."""


@dataclass(frozen=True)
class Show:
    """Draw a problem and say what it is."""

    problem: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="PROBLEM")]
    """A problem's name (see `fastfedpg list`), or the path of an .npz file with P (or next, p), reward, rho, gamma; or,
    for a linear-quadratic regulator, with A, B, Q, R, Sigma0, gamma."""
    problem_args: Pairs = field(default_factory=dict)
    """Parameters of the problem's maker, as in n=7 mid=.6."""
    agents: int | None = None
    """The number of agents N; the problem's own unless given."""
    reward_range: tuple[float, float] | None = None
    """LO HI of the rewards in a file, if not 0 1."""
    out: Path | None = None
    """The picture's name, with or without .png or .svg (both are written); the problem's name unless given."""
    overwrite: bool = False
    """Replace a picture that is already there."""


def show(arguments: list[str], console: Console, errors: Console) -> int:
    """Draw a problem and say what it is."""
    asked = tyro.cli(Show, prog="fastfedpg show", args=arguments, console_outputs=True)
    problem = make(asked.problem, asked.problem_args, asked.agents, asked.reward_range)
    if isinstance(problem, LQRProblem):
        no_picture = "\nno picture: a linear-quadratic regulator has no table of states and actions to draw"
        _print(console, *_definition(asked), "", *_rows(_of_regulator(problem)), no_picture)
        return 0
    if isinstance(problem, Environments):
        no_picture = "\nno picture: it can only be played; fastfedpg film RUN draws a learned policy in it"
        _print(console, *_definition(asked), "", *_rows(_of_environments(problem)), no_picture)
        return 0
    stem = _stem(asked)
    _print(console, *_definition(asked), "", *_rows(_of_table(problem)))
    try:
        stem.parent.mkdir(parents=True, exist_ok=True)
        written = portrait(stem, problem, f"{problem.name}: what each agent is paid for")
    except OSError as error:
        raise InputError(f"{stem.parent}: the picture can't be written there ({error.strerror})") from None
    _print(console, f"\npicture: {', '.join(map(str, written))}")
    return 0


def _print(console: Console, *lines: str) -> None:
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def _stem(asked: Show) -> Path:
    """Where the picture goes, without suffix, if nothing is there yet."""
    stem = asked.out or Path(Path(asked.problem).name.removesuffix(".npz"))
    if stem.is_dir():
        raise InputError(f"{stem} is a folder; give the picture's name, as in --out {stem / 'picture'}")
    if stem.suffix in (".png", ".svg"):
        stem = stem.with_suffix("")
    there = [str(file) for file in style.files(stem) if file.exists()]
    if there and not asked.overwrite:
        raise InputError(f"{' and '.join(there)} already there; give --overwrite to replace, or another --out")
    return stem


def _definition(asked: Show) -> Iterator[str]:
    maker = PROBLEMS.get(asked.problem)
    if maker is None:
        yield f"{asked.problem}: a problem from {'a file' if is_file(asked.problem) else 'elsewhere'}"
        return
    defaults = {k: p.default for k, p in inspect.signature(maker).parameters.items()}
    given = {**defaults, **asked.problem_args, **({} if asked.agents is None else {"agents": asked.agents})}
    yield f"{asked.problem} ({', '.join(f'{k}={v}' for k, v in given.items())})\n"
    yield inspect.getdoc(maker) or ""


def _of_table(problem: TabularProblem) -> dict[str, str]:
    """Numbers in the user's units, as those of runs are."""
    rows = {
        "agents": str(problem.N),
        "states": str(problem.S),
        "actions": f"{problem.A} ({', '.join(problem.actions)})" if problem.A <= FEW else str(problem.A),
        "gamma": f"{problem.gamma:g}",
        "rewards": f"in [{problem.reward.min():g}, {problem.reward.max():g}]; "
        f"reward range {problem.reward_range[0]:g} to {problem.reward_range[1]:g}",
        "kernels": "differ between agents" if problem.own_kernels else "shared by all agents",
        "starts": "differ between agents" if problem.own_starts else "shared by all agents",
        "J, uniform policy": f"{problem.scale * tabular_exact.J(problem, np.zeros((problem.S, problem.A))):.6g}",
    }
    own = [problem.scale * best.J for best in tabular_exact.own_optima(problem)]
    if problem.shared:
        rows["J*, best common policy"] = f"{problem.scale * tabular_exact.optimum(problem).J:.6g}"
    else:
        rows["J, lower bound"] = f"{np.mean(own):.6g} (no J*: kernels or starts differ; the mean of the own optima)"
    best = problem.reward_range[1] / (1 - problem.gamma) - np.array(own)
    return {**rows, "own best returns": _by_agent(problem, best)}


def _of_regulator(problem: LQRProblem) -> dict[str, str]:
    """Likewise; rewards are minus the costs."""
    best, root = lqr_exact.optimum(problem), np.sqrt(problem.gamma)
    own = -np.array([each.J for each in lqr_exact.own_optima(problem)])
    radii = f"{radius(problem, problem.F0):.6g}, with F* {radius(problem, best.policy):.6g}"
    return {
        "agents": str(problem.N),
        "states": f"{problem.n} components",
        "inputs": f"{problem.m} components; noise {problem.noise:g}",
        "gamma": f"{problem.gamma:g}",
        "eigenvalues": f"of sqrt(gamma) A: {', '.join(_complex(x) for x in np.linalg.eigvals(root * problem.A))}",
        "spectral radius": f"of sqrt(gamma) (A - B F), with F0 {radii}",
        "J, at F0": f"{lqr_exact.J(problem, problem.F0):.6g}",
        "J*, best common gain": f"{best.J:.6g}",
        "F*": "; ".join(" ".join(f"{x:.6g}" for x in row) for row in best.policy),
        "mu, of Eq. (12)": f"at least {lqr_exact.gradient_domination_bound(problem):.4g} for every stable gain",
        "own best returns": _by_agent(problem, own),
    }


def _of_environments(problem: Environments) -> dict[str, str]:
    stated = problem.reward_range
    return {
        "agents": f"{problem.N} ({', '.join(problem.agents[:FEW])}{', …' * (problem.N > FEW)})",
        "observations": said(problem.observations),
        "actions": said(problem.actions),
        "horizon": f"{problem.horizon} steps, unless K says otherwise",
        "gamma": f"{problem.gamma:g}",
        "rewards": "no stated range" if stated is None else f"from {stated[0]:g} to {stated[1]:g}",
    }


def _complex(x: complex) -> str:
    return f"{x.real:.4g}" if x.imag == 0 else f"{x.real:.4g}{x.imag:+.4g}i"


def _by_agent(problem: KnownProblem, values: np.ndarray) -> str:
    each = "; ".join(f"{name} {x:.4g}" for name, x in zip(problem.agents, values, strict=True))
    return each if problem.N <= FEW else f"{values.min():.4g} to {values.max():.4g}"


def _rows(rows: dict[str, str]) -> Iterator[str]:
    width = max(map(len, rows))
    for name, value in rows.items():
        yield f"{name:<{width}}  {value}"
