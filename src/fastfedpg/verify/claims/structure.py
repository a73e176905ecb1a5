"""Proposition 1, step by step, and the five assumptions, measured."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fastfedpg import theory
from fastfedpg.mdp import finite
from fastfedpg.mdp.transitions import as_kernel
from fastfedpg.problems import LQRProblem, TabularProblem, lqr_exact, tabular_exact
from fastfedpg.problems.lqr_arrays import radius
from fastfedpg.verify.test_case import Subject
from fastfedpg.verify.verdict import Estimate, Row, claim, exactly, mean_of, not_applicable, open_question, zero

A_PRIORI = "a-priori bound"
EQUAL = 1e-12
"""The relative difference up to which two sides of an identity are the same number."""
SEEN = 100
"""Samples that must have something in a coordinate for its interval to mean anything."""
FEW = 16
"""Agents of which every pair is looked at."""
MIXING = 1e-3
"""What is left of mixing in the slope of the truncation error at the largest K."""
POINTS = 5
"""Random policies at which the proposition is checked."""
SMALL = 0.25
"""A bias or a correlation of this relative size would be seen, or the row says undecided."""


def policies(subject: Subject) -> np.ndarray:
    """Random thetas of growing size, the same for the same first seed: (POINTS, d)."""
    d = np.shape(subject.exact.theta0)[-1]
    return np.random.default_rng(subject.first_seed).normal(size=(POINTS, d)) * np.linspace(0.5, 3, POINTS)[:, None]


def proposition(subject: Subject) -> Iterator[Row]:
    """All three steps of its proof: rewards, values, gradients of the average MDP are the agents' averages."""
    if not subject.known.shared:
        yield not_applicable("Proposition 1", "grad Jbar = grad J", "P or rho differ between agents: no average MDP")
        return
    known, tau = subject.tabular, subject.tau
    average = known.average()
    thetas = policies(subject)
    pis = [np.asarray(finite.softmax_policy(theta, known.S, known.A)) for theta in thetas]
    induced = lambda p: [np.sum(p.cost * pi, axis=2) for pi in pis]
    values = lambda p: [
        np.sum((tabular_exact.q_values(p, x, tau) + tau * _log(x, p)) * pi, axis=2)
        for x, pi in zip(thetas, pis, strict=True)
    ]
    steps = (
        ("step 1", "R^pi of the average MDP = the mean of R_i^pi", induced),
        ("step 2 (i)", "Jbar(s) = the mean of J_i(s)", values),
        (
            "step 2 (ii)",
            "Qbar(s,a) = the mean of Q_i(s,a)",
            lambda p: [tabular_exact.q_values(p, x, tau) for x in thetas],
        ),
        ("step 3", "grad Jbar = the mean of grad J_i", lambda p: [tabular_exact.gradients(p, x, tau) for x in thetas]),
    )
    Q = max(
        np.abs(tabular_exact.q_values(known, theta, tau)).max() for theta in thetas
    )  # a gradient is a difference of these
    for name, says, of in steps:
        left = _difference(of(average), of(known), Q if name == "step 3" else 0.0)
        yield claim(f"Proposition 1, {name}", says, left, EQUAL, note=f"{POINTS} random policies", bound=False)


def by_linearity(known: LQRProblem, first_seed: int = 0) -> Iterator[Row]:
    """A regulator's J_i is linear in (Q_i, R_i): the averages of both sides are those of the average costs."""
    gains = stable_gains(known, first_seed)
    for name, says, of in (
        ("values", "Jbar(F) = the mean of J_i(F)", lqr_exact.J_i),
        ("gradients", "grad Jbar = the mean of grad J_i", lqr_exact.gradients),
    ):
        pairs = [of(known.average(), F) for F in gains], [of(known, F) for F in gains]
        note = f"{len(gains)} random stable gains, by linearity"
        lost = max(_lost(known, F) for F in gains) if of is lqr_exact.gradients else 0.0
        yield claim(f"Proposition 1, {name}", says, _difference(*pairs, lost), EQUAL, note=note, bound=False)


def _lost(known: LQRProblem, F: np.ndarray) -> float:
    """How large the terms are whose difference is a gradient, 2 R F Sigma_F: float64 loses digits of these."""
    return float(2 * np.linalg.norm(known.R @ F, axis=(1, 2)).max() * np.linalg.norm(lqr_exact.correlation(known, F)))


def stable_gains(known: LQRProblem, first_seed: int) -> list[np.ndarray]:
    """Random stable gains about the best one, the same for the same first seed."""
    rng, best = np.random.default_rng(first_seed), lqr_exact.optimum(known).policy
    found, limit = [], max(0.999, (1 + radius(known, best)) / 2)
    for size in np.linspace(0.05, 1, 4 * POINTS):
        way = size * rng.normal(size=best.shape)
        while radius(known, best + way) > limit:
            way = way / 2
        found.append(best + way)
    return found


def domination(subject: Subject, known: LQRProblem) -> Iterator[Row]:
    """Eq. (12) for a regulator, on random stable gains, with the a-priori mu."""
    found = subject.exact.evaluate(np.stack([F.reshape(-1) for F in stable_gains(known, subject.first_seed)]))
    yield claim(
        "Eq. (12), bound",
        "mu_bound <= ||grad J||^2 / (J - J*) at random stable gains",
        lqr_exact.gradient_domination_bound(known),
        found.grad_norm_sq / found.gap,
        note="a-priori bound, Fazel et al. 2018",
    )
    yield not_applicable(
        "Assumption 1, bound",
        "||grad J_i(x) - grad J_i(y)|| <= L ||x - y||",
        "a regulator's J is smooth on sublevel sets only: L_estimate along the way takes its place",
    )


def _log(theta: np.ndarray, known: TabularProblem) -> np.ndarray:
    return np.asarray(finite.log_softmax_policy(jnp.asarray(theta), known.S, known.A))


def _difference(one: list[np.ndarray], many: list[np.ndarray], lost: float = 0.0) -> float:
    """The largest difference to the mean over agents, relative to the largest number that it is made of."""
    size = lambda y: max(np.abs(y).max(), lost) or 1.0
    worst = [np.abs(x[0] - y.mean(axis=0)).max() / size(y) for x, y in zip(one, many, strict=True)]
    return float(max(worst))


def smoothness(subject: Subject) -> Iterator[Row]:
    """Assumption 1: gradients change by at most L times the way, between random points, with the a-priori L."""
    known = subject.tabular
    bound = theory.smoothness_bound(known.gamma, known.A, subject.tau)
    rng = np.random.default_rng(subject.first_seed + 1)
    thetas = policies(subject)
    ratios = []
    for theta in thetas:
        other = theta + rng.normal(size=theta.shape) * 0.3
        change = subject.gradients_at(other) - subject.gradients_at(theta)
        ratios.append(np.linalg.norm(change, axis=1) / np.linalg.norm(other - theta))
    yield claim(
        "Assumption 1, bound",
        "||grad J_i(x) - grad J_i(y)|| / ||x - y|| <= L_bound",
        np.max(ratios),
        bound,
        note=A_PRIORI,
    )
    yield claim("Assumption 1, estimate", "L_estimate along the pilot <= L_bound", subject.L, bound, note=A_PRIORI)


def noise(subject: Subject, drawn: np.ndarray, means: np.ndarray) -> list[Row]:
    """Assumptions 2, 3 and 5, from estimates (R, N, d) at one theta whose means are known."""
    return [unbiased(drawn, means), variance(subject, drawn, means), independent(drawn, means)]


def unbiased(drawn: np.ndarray, means: np.ndarray) -> Row:
    """Assumption 2: in every coordinate of every agent the estimates' mean is that of grad_K J_i."""
    matters = SMALL * float(np.linalg.norm(means, axis=1).max())
    says = f"mean of Eq. (5) - grad_K J_i = 0 at the first theta; {SMALL:g} max ||grad_K J_i|| would matter"
    often = np.count_nonzero(drawn, axis=0).reshape(-1) >= SEEN  # states that are hardly ever visited have no interval
    if not often.any():
        return open_question("Assumption 2", "no coordinate was seen often enough")
    found = mean_of(drawn - means)
    kept = Estimate(found.mean[often], found.error[often], found.degrees)
    row = zero("Assumption 2", says, kept, matters)
    rare = int(np.count_nonzero(~often))
    return replace(row, note=f"{row.note}; {rare} coordinates seen too rarely are left out" if rare else row.note)


def variance(subject: Subject, drawn: np.ndarray, means: np.ndarray) -> Row:
    """Assumption 3: E||Eq. (5) - grad_K J_i||^2 against its a-priori bound."""
    known = subject.tabular
    squares = mean_of(np.sum((drawn - means) ** 2, axis=-1))
    bound = theory.variance_bound(known.gamma, known.A, subject.K, subject.B, subject.tau)
    margin = Estimate(bound - squares.mean, squares.error, squares.degrees)
    return claim(
        "Assumption 3, bound",
        "sigma^2 of every agent <= sigma^2_bound",
        squares.mean,
        bound,
        margin,
        note=A_PRIORI,
    )


def truncation(subject: Subject) -> tuple[list[Row], dict[str, np.ndarray]]:
    """Assumption 4: the truncation error against K falls with slope at most log gamma, below D(K) gamma^K."""
    known, gamma = subject.tabular, subject.known.gamma
    if gamma == 0:
        return [not_applicable("Assumption 4", "truncation falls like gamma^K", "gamma = 0: nothing is cut off")], {}
    theta = policies(subject)[1]
    last = int(np.clip(np.log(1e-8) / np.log(gamma), 8, 400))
    Ks = np.arange(1, last + 1)
    errors = np.linalg.norm(truncated(subject, theta, last) - subject.gradients_at(theta), axis=2).max(axis=1)
    bounds = np.array([theory.truncation_bound(gamma, known.A, int(K), subject.tau) * gamma ** int(K) for K in Ks])
    rows = [
        claim(
            "Assumption 4, bound", "||grad_K J_i - grad J_i|| <= D(K) gamma^K for all K", errors, bounds, note=A_PRIORI
        )
    ]
    return [*rows, _slope(Ks, errors, gamma)], {"K": Ks, "error": errors, "bound": bounds, "gamma": np.array(gamma)}


def _slope(Ks: np.ndarray, errors: np.ndarray, gamma: float) -> Row:
    """The error is gamma^K times a tail that settles as the chain mixes; where it mixes slowly, more K are needed."""
    late = (Ks >= Ks[-1] // 2) & (errors > 1e-13 * errors[0])
    name = "Not claimed: slope of truncation"
    says = f"slope of log error against K >= {Ks[-1] // 2} <= log gamma + {MIXING:g}"
    if late.sum() < 3:
        return open_question(name, "the error is soon below what float64 can tell")
    slope, limit = float(np.polyfit(Ks[late], np.log(errors[late]), 1)[0]), float(np.log(gamma))
    note = f"{MIXING:g} for what mixing leaves; a slow chain is no failure, the bound decides"
    return Row(
        name, says, slope, limit + MIXING, exactly(limit + MIXING - slope), bound=False, describes=True, note=note
    )


def truncated(subject: Subject, theta: np.ndarray, last: int) -> np.ndarray:
    """Every agent's grad_K J_i at one theta, for K = 1, …, last: (last, N, d)."""
    known = subject.tabular
    axes = (0 if known.own_kernels else None, 0, 0 if known.own_starts else None)
    P, cost, rho = as_kernel(known.P), jnp.asarray(known.cost), jnp.asarray(known.rho)

    def all_K(theta: Any) -> Any:
        log_pi = finite.log_softmax_policy(theta, known.S, known.A)
        agent = lambda P, c, r: finite.truncated_objectives(P, c, r, known.gamma, last, log_pi, subject.tau)
        return jax.vmap(agent, axes, out_axes=1)(P, cost, rho)

    return np.asarray(jax.jit(jax.jacfwd(all_K))(theta))


def independent(drawn: np.ndarray, means: np.ndarray) -> Row:
    """Assumption 5: the noises of two agents have no correlation; an equality, as in Assumption 2."""
    noise = drawn - means
    N = noise.shape[1]
    if N < 2:
        return not_applicable("Assumption 5", "trajectories are independent", "there is one agent only")
    pairs = [(i, j) for i in range(N) for j in range(i + 1, N) if N <= FEW or j == i + 1]
    products = np.stack([np.sum(noise[:, i] * noise[:, j], axis=-1) for i, j in pairs], axis=1)
    matters = SMALL * float(np.mean(np.sum(noise**2, axis=-1)))
    which = "every two agents" if N <= FEW else "every two neighbours"
    says = f"E<h_i, h_j> = 0 for {which} at the first theta; {SMALL:g} sigma^2 would matter"
    return zero("Assumption 5", says, mean_of(products), matters)
