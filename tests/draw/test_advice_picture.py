"""Where a problem lies between noise and drift: a point on its side, and none where there is no noise to weigh."""

import math

from fastfedpg.draw.advice_picture import UNBALANCED, Bar, advice_picture

BARS = [Bar("fast_fedpg", 1e5, 400.0), Bar("fedavg_pg", math.inf, math.inf)]


def words(path, balance) -> str:
    """All that is written in the picture: beside every text's curves an SVG has its words."""
    _, drawn = advice_picture(path, "title", balance, BARS, "gradient estimates")
    return drawn.read_text()


def test_without_noise_there_is_no_side(rendered, tmp_path):
    """It was drawn at the far end of "drift decides", also where FedAvg-PG was advised."""
    said = words(tmp_path / "exact", (math.inf, math.inf, math.inf))
    assert UNBALANCED.splitlines()[0] in said
    assert "<!-- 1.5 -->" not in said


def test_with_noise_the_balance_is_told(rendered, tmp_path):
    said = words(tmp_path / "noisy", (1.5, 0.5, 2.5))
    assert "<!-- 1.5 -->" in said
    assert UNBALANCED.splitlines()[0] not in said
