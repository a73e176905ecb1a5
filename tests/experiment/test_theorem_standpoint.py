"""How a run stands to Theorem 1: what takes it outside, whatever its step size."""

import pytest

from fastfedpg import theory
from fastfedpg.experiment import Config, plan

SMALL = {"problem": "compromise", "rounds": 2, "H": 2, "eta": 1e-4}


@pytest.mark.parametrize("optimiser", ["adam", "momentum", "rmsprop"])
def test_another_optimiser_is_outside_the_theorem(optimiser):
    """eta = 1e-4 is below 1/(4CLH) = 5.5e-3, so that the optimiser alone takes the run out."""
    inside = plan(Config(**SMALL)).standpoint
    assert inside.covered
    assert inside.factor < 1
    covered, factor, words = plan(Config(**SMALL, optimiser=optimiser)).standpoint
    assert not covered
    assert factor is None, "eta is compared with a limit on gradient steps alone"
    assert words == (
        f"Theorem 1 does not cover this run: optimiser {optimiser}, whose local steps are outside the theorem: it is "
        "about sgd"
    )


def test_every_reason_is_said():
    assert theory.not_covered("fast_fedpg", optimiser="sgd") == []
    said = theory.not_covered("fast_fedpg", 0.5, True, 2, "adam")
    assert [any(word in words for words in said) for word in ("adam", "alpha_g", "reuse", "2 agents")] == [True] * 4
