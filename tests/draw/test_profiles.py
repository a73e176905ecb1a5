"""Performance profiles: what is drawn is what was computed, and a stranger can read it."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from fastfedpg.draw import profiles
from fastfedpg.statistics import Interval

X = np.geomspace(0.01, 2, 30)


def profile(label, mean, score=0.5, wide=0.1):
    shares = Interval(mean, np.clip(mean - wide, 0, 1), np.clip(mean + wide, 0, 1))
    return profiles.Profile(label, shares, Interval(np.array(score), np.array(score - wide), np.array(score + wide)))


TWO = [profile("one", np.linspace(0, 1, 30), 0.7), profile("two", np.linspace(0, 1, 30) ** 2, 0.4)]


@pytest.fixture(autouse=True)
def _no_figures_left():
    yield
    plt.close("all")


def test_curves_are_shares_with_their_bands_on_a_logarithmic_axis():
    _, axis = plt.subplots()
    handles = profiles.draw_profiles(axis, TWO, X)
    assert axis.get_xscale() == "log"
    for line, band, p in zip(handles, axis.collections, TWO, strict=True):
        np.testing.assert_allclose(line.get_xdata(), X)
        np.testing.assert_allclose(line.get_ydata(), p.shares.mean)
        corners = band.get_paths()[0].vertices[:, 1]
        np.testing.assert_allclose([corners.min(), corners.max()], [p.shares.low.min(), p.shares.high.max()])
    assert len({(x.get_color(), x.get_linestyle(), x.get_marker()) for x in handles}) == 2
    assert len({x.get_linestyle() for x in handles}) == len({x.get_marker() for x in handles}) == 2, (
        "told apart in grey"
    )
    assert "left at the end" in axis.get_xlabel()
    assert "share of all runs" in axis.get_ylabel()


def test_scores_are_points_with_their_intervals_a_row_each():
    _, axis = plt.subplots()
    profiles.draw_scores(axis, TWO)
    assert [(line.get_xdata()[0], line.get_ydata()[0]) for line in axis.get_lines()] == [(0.7, 0), (0.4, 1)]
    ends = [bar.get_segments()[0][:, 0].tolist() for bar in axis.collections]
    np.testing.assert_allclose(ends, [[0.6, 0.8], [0.3, 0.5]])
    assert [tick.get_text() for tick in axis.get_yticklabels()] == ["one", "two"]


def test_without_noise_there_are_no_bands(tmp_path):
    nothing = np.full(30, np.nan)
    still = [p._replace(shares=Interval(p.shares.mean, nothing, nothing)) for p in TWO]
    still = [p._replace(score=Interval(p.score.mean, *np.full(2, np.nan))) for p in still]
    _, axes = plt.subplots(1, 2)
    profiles.draw_profiles(axes[0], still, X)
    profiles.draw_scores(axes[1], still)
    assert not axes[0].collections
    assert not axes[1].collections
    written = profiles.profiles(tmp_path / "profiles", still, X, "a $title_")
    assert [path.name for path in written] == ["profiles.png", "profiles.svg"]
    assert written[0].read_bytes()[:4] == b"\x89PNG"
