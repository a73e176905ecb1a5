"""The whole report on a user's file: every claim, its numbers, units and pictures."""

import json

import numpy as np
import pytest

from fastfedpg import InputError, problems, theory
from fastfedpg.verify import agenda, figures, report
from fastfedpg.verify.claims import floors, lemmas, rates, stationary, structure
from fastfedpg.verify.options import VerifySettings
from fastfedpg.verify.verdict import (
    CONTROL,
    FAIL,
    FAMILY,
    NOT_APPLICABLE,
    PASS,
    SEEN,
    Row,
    decided,
)
from tiny_subject import EFFECTS, EFFORT, TINY, WITHOUT_NOISE, saved, told

CLAIMS = (
    *(f"Proposition 1, step {k}" for k in ("1", "2 (i)", "2 (ii)", "3")),
    *(f"Assumption {k}" for k in ("1, bound", "1, estimate", "2", "3, bound", "4, bound", "5")),
    "Not claimed: slope of truncation",
    *(f"{name}, {how}" for how in ("exact", "sampled", "a-priori bounds") for name in WITHOUT_NOISE),
    *(f"{k}, {name}" for name in ("FedAvg-PG", "flipped correction") for k in ("Lemma 2", "Theorem 1")),
    "Lemma 1, no global gradient",
    *(f"Eq. ({k}){how}, round {t}" for k in (6, 7) for how in ("", ", reuse") for t in (1, 2)),
    *("Algorithm 1, estimates", "Algorithm 1, estimates, reuse and B0", "Lemma 1, T4", "Eq. (12), entropy"),
    *(f"Assumption 2, {name}" for name in ("reinforce", "gpomdp", "leave-one-out")),
    *("Theorem 2, on the way", "Theorem 2, on the way to its floor"),
    "Theorem 2, exact: limit",
    "Theorem 2, exact: rate",
    "Theorem 2, floor",
    "Theorem 2, floor in N",
    "Theorem 2, floor in H",
    "No heterogeneity bias",
    "No heterogeneity bias, FedAvg-PG",
    "Theorem 3",
    "Theorem 3, rate",
)


def test_every_claim_is_in_the_file_and_the_table(command_run):
    """Exit code 0; a row for each claim in verify.json, with finite sides, and a line in the table."""
    assert command_run.code == 0, command_run.err
    found = command_run.file["rows"]
    assert sorted(row["claim"] for row in found) == sorted(CLAIMS)
    for row in found:
        assert {"claim", "left", "right", "tightness", "verdict"} <= row.keys()
        assert np.isfinite([row["left"], row["right"]]).all(), row
        assert row["problem"] == "tiny.npz"
        if row["left"] > 0 and row["right"] >= 0:
            assert row["tightness"] == pytest.approx(row["right"] / row["left"])
        words = row["words"].removesuffix(" at this sample size")
        assert any(
            line.split("  ")[0].strip() == row["claim"] and line.rstrip().endswith(words)
            for line in command_run.out.splitlines()
        ), row["claim"]
    assert command_run.file["comparisons"] == sum(row["comparisons"] for row in found) > 0
    assert command_run.file["level_of_each"] == FAMILY / command_run.file["comparisons"]
    assert sum(command_run.file["verdicts"].values()) == len(CLAIMS)
    assert command_run.file["settings"]["tau"] == 0.2
    assert "part 1 of" in command_run.err


def test_exact_claims_are_decided_with_little_effort(command_run):
    """Without noise in them: pass, or control as expected; nothing fails, and Lemmas and Theorem 1 pass with noise."""
    got = {row["claim"]: row["verdict"] for row in command_run.file["rows"]}
    exact_rows = [row["claim"] for row in command_run.file["rows"] if row["comparisons"] == 0]
    assert len(exact_rows) == 4 + 2 + 2 + 3 + 5 + 2 + 8 + 2 + 1
    for name in exact_rows:
        control = any(name.endswith(k) for k in ("FedAvg-PG", "flipped correction", "no global gradient"))
        assert got[name] == (CONTROL if control else SEEN if name.startswith("Not claimed") else PASS)
    for name in WITHOUT_NOISE:
        assert got[f"{name}, sampled"] == PASS
    assert FAIL not in got.values()


def test_pictures(command_run):
    """Each as PNG and SVG, named in what was said."""
    for name in figures.NAMES:
        assert (command_run.folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "</svg>" in (command_run.folder / f"{name}.svg").read_text()
        assert f"{name}.png" in command_run.out
    assert len(list(command_run.folder.glob("*.*"))) == 2 * len(figures.NAMES) + 1


def test_what_is_done_without_a_problem():
    """Every kind of claim has its part; --quick leaves out only sweeps that take long, and nothing that is exact."""
    long, quick = ([part.title for part in agenda.parts(VerifySettings(quick=quick))] for quick in (False, True))
    for begin in (
        *(
            "Proposition 1 and the assumptions",
            "noise on",
            "one round without noise",
            "controls",
            "one round, replicas",
        ),
        *("one round, a-priori", "Theorem 2 without noise on random, tau = 0.2", "Theorem 2 without noise on lqr"),
        *("Theorem 2 without noise on random, tau = 0", "noise floor against N on"),
        "Proposition 1 and (12) on lqr",
    ):
        assert any(title.startswith(begin) for title in quick), begin
    assert {title.split(" on ")[0] for title in set(long) - set(quick)} == {
        "noise floor against H",
        "noise floor against N, large eta H",
        "noise floor against H, fixed eta",
        "noise floor against NHT",
        "heterogeneity",
        *("Theorem 3", "Theorem 3 against N"),
    }
    assert not set(quick) - set(long)


def chosen(settings, *begin) -> list[Row]:
    """The rows of those parts whose titles begin so."""
    work = [part for part in agenda.parts(settings) if part.title.startswith(begin)]
    assert work
    return report.verify(settings, work=work).rows


@pytest.mark.claims
def test_different_kernels(workplace, monkeypatch):
    """No average MDP: Proposition 1 and Theorem 2 do not apply, no floors are run, and Theorem 3 is checked.

    In `make test` the rows of Theorem 3 are those of the report on one kernel, above.
    """
    monkeypatch.setattr(agenda, "QUICK", EFFECTS)
    file = saved("own.npz", problems.random(agents=3, S=3, A=2, gamma=0.5, kernel=0.5))
    settings = VerifySettings(problem=str(file), quick=True, **TINY)
    assert not [
        part for part in agenda.parts(settings) if part.title.startswith(("noise floor against", "heterogeneity"))
    ]
    met = floors.Noise(theory.variance_bound(0.5, 2, 10, 2, 0.2), 0.0, 0.0)
    monkeypatch.setattr(stationary, "noise", lambda *given: met)
    monkeypatch.setattr(structure, "truncation", lambda subject: ([], {}))
    got = {row.claim: row for row in chosen(settings, "Proposition 1", "Theorem 2", "Theorem 3")}
    for name in ("Proposition 1", "Theorem 2, exact: limit", "Theorem 2, exact: rate"):
        assert got[name].verdict == NOT_APPLICABLE
        assert "differ" in got[name].note
    assert got["Theorem 3"].verdict == PASS
    assert "different kernels" in got["Theorem 3"].note
    assert got["Theorem 3, rate"].comparisons == 2


def test_rewards_in_other_units(subject, scaled, command_run, monkeypatch):
    """Both sides of the rows are in cost units: the same numbers; and without its range such a file is refused."""
    at = subject.pilot.thetas[:2]
    for one, other in zip(subject.gaps(subject.exact, at), scaled.gaps(scaled.exact, at), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)
    monkeypatch.setattr(stationary, "noise", lambda *given: floors.noise(subject, subject.pilot.thetas[0]))
    monkeypatch.setattr(floors, "SAMPLES", EFFECTS.samples)
    expected = {row["claim"]: row for row in command_run.file["rows"]}
    found = [*rates.linear(scaled)[0], *stationary.rows(scaled, EFFORT)[0]]
    assert len(found) == 2 + 2
    for row in decided(found):
        same = expected[row.claim]
        if row.claim != "Theorem 2, exact: limit":  # whose left side is rounding
            # The smallest of the gaps that a rate is taken of is 1e-10 of the first, known to about 1e-4 of itself.
            assert (row.left, row.right) == pytest.approx((same["left"], same["right"]), rel=1e-3)
        assert row.verdict == same["verdict"]


def test_the_range_of_a_file(workplace, subject):
    """Rewards outside [0, 1] need their range, and with it the subject has it."""
    file = str(saved("other.npz", subject.tabular, scale=8.0, shift=-3.0))
    with pytest.raises(InputError, match=r"reward_range|reward-range"):
        agenda.parts(VerifySettings(problem=file, **TINY))
    made = []
    original = agenda._structure
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(agenda, "_structure", lambda subject, effects: made.append(subject) or original(subject, effects))
        agenda.parts(VerifySettings(problem=file, reward_range=(-3.0, 5.0), **TINY))
    assert made[0].known.scale == 8
    np.testing.assert_allclose(made[0].tabular.cost, subject.tabular.cost, rtol=0, atol=1e-15)


@pytest.mark.claims
def test_a_regulator_from_a_file(workplace, monkeypatch):
    """Only what is exact, all of it decided: pass, and the bound on L does not apply.

    In `make test` the same rows are those of the report on a finite MDP, above.
    """
    monkeypatch.setattr(agenda, "QUICK", EFFECTS)
    monkeypatch.setattr(lemmas, "controls", lambda subject: iter(()))  # three programs more
    known = problems.make("lqr", {"n": 2, "m": 1}, agents=2)
    np.savez("lqr.npz", A=known.A, B=known.B, Q=known.Q, R=known.R, Sigma0=known.Sigma0, gamma=known.gamma)
    said = told("--problem", "lqr.npz", "--quick", "--H", 2, "--out", "out")
    assert said.code == 0, said.err
    got = {row["claim"]: row["verdict"] for row in json.loads((workplace / "out/verify.json").read_text())["rows"]}
    assert got == {
        "Proposition 1, values": PASS,
        "Proposition 1, gradients": PASS,
        "Eq. (12), bound": PASS,
        "Assumption 1, bound": NOT_APPLICABLE,
        **{f"{name}, exact": PASS for name in WITHOUT_NOISE},
        "Theorem 2, exact: limit": PASS,
        "Theorem 2, exact: rate": PASS,
    }
    assert (workplace / "out/linear.svg").exists()
