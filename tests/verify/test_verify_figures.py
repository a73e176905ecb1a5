"""The report's pictures say what its table says, and their labels keep apart."""

from itertools import pairwise

import numpy as np
import pytest

from fastfedpg.verify import figures
from fastfedpg.verify.claims.floors import Sweep
from fastfedpg.verify.claims.rates import Course
from fastfedpg.verify.verdict import claim, decided


@pytest.fixture
def drawn(monkeypatch):
    """The figure itself in the place of its files."""
    monkeypatch.setattr(figures, "save", lambda figure, path: figure)
    return monkeypatch


def course(rounds):
    t = np.linspace(0, rounds, 200).astype(int)
    return Course(t, 0.1 * np.exp(-20 * t / rounds), 0.1 * np.exp(-2 * t / rounds))


def apart(axis) -> bool:
    """Whether the labels below an axis keep apart."""
    labels = [*axis.get_xticklabels(), *axis.get_xticklabels(minor=True)]
    low, high = axis.bbox.x0, axis.bbox.x1
    boxes = sorted((b.x0, b.x1) for b in (x.get_window_extent() for x in labels if x.get_text()) if low <= b.x0 < high)
    return len(boxes) >= 2 and all(one[1] < other[0] for one, other in pairwise(boxes))


def test_titles_are_the_tables_verdicts(drawn):
    """A rate that fails is called so in the picture; and 40,000 rounds have room on an axis."""
    made = lambda name, left, problem, **more: claim(name, "", left, 1.0, problem=problem, bound=False, **more)
    rows = decided(
        [
            made("Theorem 2, exact: limit", 0.5, "one"),
            made("Theorem 2, exact: rate", 2.0, "one"),
            made("Theorem 2, exact: limit", 0.5, "other"),
            made("Theorem 2, exact: rate", 0.5, "other"),
            made("Theorem 2, no entropy", 2.0, "third", control=True),
        ]
    )
    t = np.arange(1, 4000, 20)
    slow = Course(t, 1 / t, np.array([]))
    figure = figures.linear("", rows, {"one": course(40_000), "other": course(1200)}, slow)
    figure.draw_without_rendering()
    assert [axis.get_title() for axis in figure.axes] == [
        "one\nlimit pass, rate fail",
        "other\nlimit pass, rate pass",
        "tau = 0, where (12) fails\ncontrol as expected",
    ]
    assert all(apart(axis) for axis in figure.axes)


def test_agents_have_room(drawn):
    """Less than two decades of N, where matplotlib would label the minor ticks too."""
    x = np.array([4, 16, 64])
    sweep = Sweep(x, 1 / x * (1 + 0.01 * np.random.default_rng(0).normal(size=(8, 3))), "alpha = 1, H = 5")
    figure = figures.stationary("", None, sweep)
    figure.draw_without_rendering()
    assert apart(figure.axes[0])
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["4", "16", "64"]
