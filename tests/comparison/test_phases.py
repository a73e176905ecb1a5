"""Who is the best at each pair of values: what is found, what is measured there, and what is refused."""

import csv
from pathlib import Path

import numpy as np
import pytest

from commands import command
from fastfedpg.comparison import phases, study_spec
from fastfedpg.errors import InputError
from fastfedpg.theory.estimates import Estimate

pytestmark = pytest.mark.usefixtures("fresh_folder")

TEXT = """
kind = "phases"
algorithms = ["fast_fedpg", "fedavg_pg"]
problem = "compromise"
agents = 4
budget = "rounds"
eta = 1.0
rounds = 100
metrics_every = 100
seeds = 1

[vary]
setting = "H"
label = "local steps, H"
values = [1, 20]

[across]
setting = "problem.mid"
label = "what is second best for all, mid"
values = [0.3, 0.6]
"""


def rows(file):
    with Path(file).open(newline="") as text:
        return list(csv.DictReader(text))


def test_who_is_the_best_and_what_is_measured_there(rendered, capsys):
    """With H = 1 both are gradient descent, and neither is worse; with H = 20 FedAvg-PG stops elsewhere.

    One state, uniform: grad J_i = (c_i - mean c_i)/(A (1 - gamma)), whatever is common to all agents falls out of
    zeta^2. Agent i is paid 1 for its own action and mid for the common one, gamma = 0.5, and nothing is sampled.
    """
    Path("my.toml").write_text(TEXT)
    assert command("study", "my.toml", "--out", "out") == 0
    found = rows("out/phases.csv")
    pairs = [(int(r["H"]), float(r["problem.mid"])) for r in found]
    assert pairs == [(1, 0.3), (1, 0.6), (20, 0.3), (20, 0.6)]
    assert [r["best_or_tied"] for r in found] == ["fast_fedpg fedavg_pg"] * 2 + ["fast_fedpg"] * 2
    own = -np.eye(4, 5)
    gradients = (own - own.mean(axis=1, keepdims=True)) / (5 * 0.5)
    zeta_sq = ((gradients - gradients.mean(axis=0)) ** 2).sum(axis=1).mean()
    for r in found:
        assert float(r["zeta_sq"]) == pytest.approx(zeta_sq, rel=1e-9)
        assert float(r["sigma_sq"]) == pytest.approx(0, abs=1e-25)
    assert len(rows("out/study.csv")) == 8
    assert Path("out/phases.png").stat().st_size > 10_000
    said = capsys.readouterr().out
    assert "of 4 pairs" in said
    counts = {line.split()[0]: line.split()[1:] for line in said.splitlines() if line.startswith("fedavg_pg  ")}
    assert counts["fedavg_pg"][1:] == ["2", "2"], "best or tied, and worse"
    before = {file: file.read_bytes() for file in Path("out").rglob("*.csv")}
    assert command("resume", "out") == 0
    assert {file: file.read_bytes() for file in before} == before


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[across]", "[acros]", r"no \[across\], which says what differs"),
        (TEXT[TEXT.index('"problem.mid"') :], '"B"\nvalues = [2, 4]', "B changes nothing here: no method has it"),
        ("[0.3, 0.6]", "[]", r"across: values is \[\]; it must be a list"),
        ("[0.3, 0.6]", "[0.6, 0.3]", "numbers must increase"),
        ("seeds = 1", "seeds = 1\n[problems.other]\nH = 2", "unknown problem 'other'"),
    ],
)
def test_what_is_refused(old, new, message):
    Path("my.toml").write_text(TEXT.replace(old, new))
    with pytest.raises(InputError, match=message):
        study_spec.read(Path("my.toml"))


def test_ours_can_be_read_and_its_smaller_form_too():
    found = study_spec.read(study_spec.find("phases"))
    assert len(found.comparisons) == len(found.vary.values) * len(found.across.values) >= 16
    for comparison in found.comparisons.values():
        assert comparison.tune
        assert comparison.settings.seeds == 8
        assert comparison.settings.first_seed == 50_000
    assert len(study_spec.read(study_spec.find("phases"), quick=True).comparisons) == 4


def test_what_cannot_be_told_from_nothing_is_said_to_be_below():
    assert phases._told([Estimate(0.2, 0.1, 0.4), Estimate(0.21, 0.2, 0.22)]) == "= 0.21"
    assert phases._told([Estimate(0.2, -0.1, 0.4)]) == "< 0.4"
    assert phases._told([Estimate(0.0, 0.0, 0.0)]) == "= 0"


def test_what_differs_along_a_row_is_said_with_both_ends():
    """sigma^2 at B = 2 of `study phases`, kappa 0, 0.45 and 1: the surest alone, 0.22, would be the row's least."""
    found = [Estimate(0.219, 0.189, 0.254), Estimate(0.244, 0.213, 0.279), Estimate(0.379, 0.34, 0.423)]
    assert phases._told(found) == "= 0.22 to 0.38"
    assert phases._told([Estimate(x, x, x) for x in (0.2, 0.2 + 1e-15)]) == "= 0.2", "rounding is no difference"
