"""Pictures: what is drawn is what was computed, whatever the numbers are; and `fastfedpg show`."""

import re
from dataclasses import replace
from io import StringIO

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.patches import Circle, Rectangle
from rich.console import Console

from fastfedpg import InputError, fast_fedpg, fedavg_pg, independent_pg, simulate, with_oracle
from fastfedpg.cli.show import show
from fastfedpg.draw import curves, policy_maps, problem_picture
from fastfedpg.draw import style as canvas
from fastfedpg.experiment.config import Config
from fastfedpg.experiment.finished_run import Outcome
from fastfedpg.problems import (
    ENVIRONMENTS,
    PROBLEMS,
    Grid,
    TabularProblem,
    compromise,
    compromise_grid,
    make,
    random,
    tabular_exact,
)
from fastfedpg.runtime import Result
from fastfedpg.statistics import bootstrap, spread

pytestmark = pytest.mark.usefixtures("rendered")


@pytest.fixture(autouse=True)
def _no_figures_left():
    yield
    plt.close("all")


def outcome(label, gaps, sent=1000.0, returns=None, unit="environment steps"):
    """Made-up numbers with the shapes of a run: gaps (seeds, records)."""
    gaps = np.asarray(gaps, float)
    seeds, records = gaps.shape
    rounds = 10 * np.arange(records)
    metrics = {"gap": gaps, "J": 5 + gaps, "bytes_up": sent * np.ones((seeds, 1)) * rounds}
    metrics["bytes_down"] = 2 * metrics["bytes_up"]
    returns = np.zeros((seeds, records, 2)) if returns is None else np.asarray(returns, float)
    result = Result(rounds, metrics, returns, np.zeros((seeds, 4)))
    return Outcome(label, Config(), tuple(range(seeds)), result, 7.0 * rounds, unit, 1.0)


def drawn_curves(outcomes, problem=None):
    _, axes = plt.subplots(1, 3, sharey=True)
    return axes, curves.draw_curves(axes, outcomes, problem or compromise())


def curves_of(axis):
    """The methods' curves, without the line at zero."""
    return [line for line in axis.get_lines() if line.get_marker() != "None"]


GAPS = np.exp(-np.random.default_rng(0).uniform(0.5, 1.5, (5, 1)) * np.arange(6))


def test_curves_are_means_with_their_bands_over_rounds_samples_and_bytes():
    (rounds, samples, sent), handles = drawn_curves([outcome("one", GAPS), outcome("two", 2 * GAPS)])
    assert len(handles) == 2
    for axis, x in ((rounds, 10 * np.arange(6)), (samples, 70 * np.arange(6)), (sent, 30_000 * np.arange(6))):
        for line, band, gaps in zip(curves_of(axis), axis.collections, (GAPS, 2 * GAPS), strict=True):
            mean, low, high = bootstrap(gaps)
            np.testing.assert_allclose(line.get_xdata(), x)
            np.testing.assert_allclose(line.get_ydata(), mean)
            corners = band.get_paths()[0].vertices[:, 1]
            np.testing.assert_allclose([corners.min(), corners.max()], [low.min(), high.max()])
    assert rounds.get_yscale() == "log"
    assert "rounds" in rounds.get_xlabel()
    assert samples.get_xlabel() == "environment steps, all agents together"
    assert "bytes" in sent.get_xlabel()
    assert sent.xaxis.get_major_formatter()(200_000) == "200 kB"
    assert "gap" in rounds.get_ylabel()
    assert "reward units" in rounds.get_ylabel()


def test_one_seed_has_no_band():
    axes, _ = drawn_curves([outcome("one", GAPS[:1])])
    assert not axes[0].collections


def test_without_a_common_optimum_the_cost_is_drawn_on_a_linear_axis():
    axes, _ = drawn_curves([outcome("one", GAPS)], random(agents=2, kernel=0.5))
    assert axes[0].get_yscale() == "linear"
    assert "cost" in axes[0].get_ylabel()
    np.testing.assert_allclose(axes[0].get_lines()[0].get_ydata(), 5 + bootstrap(GAPS).mean)


def test_who_sends_nothing_is_left_out_of_the_bytes_and_named():
    axes, _ = drawn_curves([outcome("loud", GAPS), outcome("silent", GAPS, sent=0.0)])
    assert [len(axis.get_lines()) for axis in axes] == [2, 2, 1]
    assert re.search(r"sends\s+nothing:\s+silent", axes[2].get_title())
    assert not axes[0].get_title()


@pytest.mark.parametrize(
    "gaps",
    [
        np.zeros((3, 4)),
        np.array([[1, 1e-3, 1e-20, 0], [1, 1e-4, 1e-18, -1e-17]]),
        np.array([[1, 0.5, 2.0, 0.01], [1, -0.2, -0.5, 0.01], [1, 0.1, -0.2, 0.01]]),
        np.full((2, 4), 1e-300),
    ],
    ids=["zero", "rounding", "band below zero", "tiny"],
)
def test_a_gap_of_nothing_stands_on_the_edge_of_the_decades(tmp_path, gaps):
    axes, _ = drawn_curves([outcome("one", gaps)])
    low, high = axes[0].get_ylim()
    assert axes[0].get_yscale() == "log"
    assert 1e-16 < low < high < 100
    drawn = axes[0].get_lines()[0].get_ydata()
    assert (drawn >= low).all()
    np.testing.assert_allclose(drawn, bootstrap(gaps).mean, atol=1e-12)
    assert curves.curves(tmp_path / "x", [outcome("one", gaps)], compromise(), "title")


def test_a_negative_gap_is_drawn_as_it_is(tmp_path):
    """Own policies can beat the best common one: decades in both directions, and a line at zero in every panel."""
    one, alone = outcome("one", GAPS), outcome("alone", 1 - 2 * (1 - GAPS), sent=0.0)
    axes, _ = drawn_curves([one, alone])
    assert axes[0].get_yscale() == "symlog"
    np.testing.assert_allclose(curves_of(axes[0])[1].get_ydata(), bootstrap(2 * GAPS - 1).mean)
    assert axes[0].get_ylim()[0] < -0.9
    for axis in axes:
        assert any(line.get_ydata() == [0, 0] for line in axis.get_lines() if line.get_marker() == "None")
    assert curves.curves(tmp_path / "x", [one, alone], compromise(), "title")


def test_methods_are_told_apart_without_colours():
    """Every two differ in dash and marker together; and all seven colours in hue."""
    looks = [canvas.look(k) for k in range(49)]
    assert len({(str(style["linestyle"]), style["marker"]) for style in looks}) == 49
    for k in range(7):
        for other in range(k):
            assert looks[k]["linestyle"] != looks[other]["linestyle"]
            assert looks[k]["marker"] != looks[other]["marker"]
            assert np.abs(np.subtract(to_rgb(looks[k]["color"]), to_rgb(looks[other]["color"]))).max() > 0.2


NAMES = ("_hidden?", "$5 a step$, and a name so long that it has to be broken somewhere " * 2, "c", "d", "e")


@pytest.mark.parametrize("number", [2, 5])
def test_files_are_whole_and_legends_name_all_methods(tmp_path, monkeypatch, number):
    outcomes = [outcome(name, GAPS * (k + 1)) for k, name in enumerate(NAMES[:number])]
    legends = []
    save = canvas.save
    monkeypatch.setattr(canvas, "save", lambda figure, path: legends.append(figure.legends[0]) or save(figure, path))
    written = curves.curves(tmp_path / "a.b", outcomes, compromise(), "a title")
    assert written == [tmp_path / "a.b.png", tmp_path / "a.b.svg"]
    assert sorted(tmp_path.iterdir()) == written
    assert written[0].read_bytes()[:4] == b"\x89PNG"
    first = written[1].read_bytes()
    assert first.startswith(b"<?xml")
    curves.curves(tmp_path / "a.b", outcomes, compromise(), "a title")
    assert written[1].read_bytes() == first
    assert legends[0].get_title().get_text() == "mean and 95% interval, 5 seeds"
    shown = [" ".join(text.get_text().split()) for text in legends[0].get_texts()]
    assert shown == [name.strip().replace("$", r"\$") for name in NAMES[:number]]


def test_a_picture_that_fails_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(plt.Figure, "savefig", lambda self, file, **_: file.write_text("half") and 1 / 0)
    with pytest.raises(ZeroDivisionError):
        curves.curves(tmp_path / "x", [outcome("one", GAPS)], compromise(), "title")
    assert not list(tmp_path.iterdir())


# Policies on grids


def shared_cells() -> TabularProblem:
    """2 x 2 cells, one a wall; states 0 and 1 both in cell 0, state 2 in cell 3, state 3 nowhere. Nobody moves."""
    P = np.tile(np.eye(4)[:, None, :], (1, 3, 1))
    grid = Grid(2, 2, {0: (0, 1), 1: (0, 0)}, {3: "goal"}, walls=(1,), cells=(0, 0, 3, -1))
    rho = np.array([0.1, 0.3, 0.4, 0.2])
    return TabularProblem(P, np.zeros((2, 4, 3)), rho, 0.5, grid=grid, actions=("right", "stay", "wave"))


def test_states_of_a_cell_share_their_time_and_their_policy():
    """Occupancy is rho here: cell 0 has 0.1 + 0.3, and its policy is 1/4 of state 0's and 3/4 of state 1's."""
    problem = shared_cells()
    pi = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0]])
    theta, time = policy_maps.logits(pi), problem.rho
    np.testing.assert_allclose(policy_maps.per_cell(problem, time), [[0.4, 0], [0, 0.4]])
    done = policy_maps.cell_policy(problem, theta, time)
    np.testing.assert_allclose(done[0], [0.25, 0.75, 0], atol=1e-12)
    np.testing.assert_allclose(done[3], [0, 0, 1], atol=1e-12)
    assert np.isnan(done[1:3]).all()
    _, axis = plt.subplots()
    image = policy_maps.policy_map(axis, problem, theta)
    np.testing.assert_allclose(image.get_array(), [[0.4, 0], [0, 0.4]])
    walls = [p for p in axis.patches if isinstance(p, Rectangle)]
    assert [(w.get_xy(), w.get_hatch()) for w in walls] == [((0.5, -0.5), "////")]
    spots = {(p.center, round(p.radius, 6), p.get_facecolor()[3] > 0) for p in axis.patches if isinstance(p, Circle)}
    assert spots == {((0, 0), round(0.13 * 0.75, 6), True), ((1, 1), 0.3, False)}, "a dot to stay, a ring for the rest"
    arrows = [p for p in axis.patches if not isinstance(p, Rectangle | Circle)]
    assert len(arrows) == 1
    assert arrows[0].get_path().vertices[:, 0].max() == pytest.approx(0.43 * 0.25)
    assert [t.get_text() for t in axis.texts] == ["goal"]
    assert "ring: wave" in policy_maps.explanation(problem)


def test_drawing_a_problem_without_a_grid_is_refused(tmp_path):
    with pytest.raises(InputError, match="no grid"):
        policy_maps.policy_map(None, compromise(), np.zeros(3))
    assert curves.policies(tmp_path / "x", [outcome("one", GAPS)], compromise(), "title") == []


@pytest.mark.parametrize(
    "problem",
    [
        compromise_grid(n=3, agents=2),
        *(pytest.param(p, marks=pytest.mark.long) for p in (random(agents=2, kernel=0.5), compromise())),
    ],
    ids=lambda problem: problem.name,
)
def test_figures_of_real_runs(tmp_path, monkeypatch, problem):
    """On a grid the median seed's policies in the same shades, without a method that has one policy per agent."""
    bound = with_oracle(problem, "exact")
    outcomes = []
    for algorithm in (fast_fedpg, fedavg_pg, independent_pg):
        result = simulate(bound, algorithm(0.5, 2), 3, seeds=3)
        outcomes.append(Outcome(algorithm.__name__, Config(), (0, 1, 2), result, 9.0 * result.rounds, "estimates", 1.0))
    pictures = []
    save = canvas.save
    monkeypatch.setattr(canvas, "save", lambda figure, path: pictures.append(figure) or save(figure, path))
    for draw in (curves.curves, curves.agents):
        assert all(file.stat().st_size > 5000 for file in draw(tmp_path / "x", outcomes, problem, "a title"))
    written = curves.policies(tmp_path / "map", outcomes, problem, "a title")
    assert len(written) == (2 if problem.grid else 0)
    if written:
        panels = [axis for axis in pictures[-1].axes if axis.get_title()]
        assert [axis.get_title() for axis in panels] == ["fast_fedpg", "fedavg_pg"]
        assert len({axis.images[0].get_clim() for axis in panels}) == 1
        assert "independent_pg" in pictures[-1].get_supxlabel()
        assert curves.policies(tmp_path / "none", outcomes[2:], problem, "nothing to draw") == []


def test_the_policy_drawn_is_that_of_the_median_seed(monkeypatch, tmp_path):
    drawn = []
    monkeypatch.setattr(policy_maps, "draw_policies", lambda axes, problem, thetas: drawn.extend(thetas))
    problem, run = compromise_grid(n=3), outcome("one", [[3.0], [1.0], [2.0]])
    theta = np.arange(3)[:, None] * np.ones(problem.S * problem.A)
    policy_maps.policies(tmp_path / "x", [run._replace(result=replace(run.result, theta=theta))], problem, "title")
    assert [t[0] for t in drawn] == [2]


@pytest.mark.parametrize(
    ("number", "fit", "layout"), [(1, 9, (1, 1)), (4, 9, (1, 4)), (5, 9, (2, 3)), (9, 4, (3, 3)), (3, 0, (3, 1))]
)
def test_panels_wrap_into_even_rows(number, fit, layout):
    assert policy_maps.arranged(number, fit) == layout


# Agents


def test_agents_stand_in_rows_between_what_they_could_have():
    """The compromise for two: alone each gets 1/(1-gamma) = 2, the best common action pays 0.6 * 2 = 1.2."""
    problem = compromise()
    returns = np.random.default_rng(1).uniform(0, 2, (4, 3, 2))
    returns[:, 0] = 16 / 15
    runs = [outcome("one", GAPS[:4, :3], returns=returns), outcome("two", GAPS[:4, :3], returns=returns)]
    marks = curves.references(runs, problem)
    np.testing.assert_allclose(list(marks.values()), [[16 / 15] * 2, [1.2] * 2, [2.0] * 2])
    _, axis = plt.subplots()
    handles, labels = curves.draw_agents(axis, runs, problem)
    assert labels == ["one", "two", *marks]
    assert len(handles) == len(labels)
    mean, low, high = spread(returns[:, -1])
    first, second = axis.get_lines()
    np.testing.assert_allclose(first.get_xdata(), mean)
    assert (first.get_ydata() < second.get_ydata()).all()
    ends = np.array([segment[:, 0] for segment in axis.collections[0].get_segments()])
    np.testing.assert_allclose(ends, np.stack([low, high], axis=1))
    assert [t.get_text() for t in axis.get_yticklabels()] == ["agent 0", "agent 1"]
    assert "return (reward units" in axis.get_xlabel()


def test_a_start_far_away_is_told_instead_of_drawn():
    returns = np.random.default_rng(1).uniform(0, 2, (4, 3, 2))
    returns[:, 0] = [-1000, -900]
    _, axis = plt.subplots()
    _, labels = curves.draw_agents(axis, [outcome("one", GAPS[:4, :3], returns=returns)], compromise())
    assert labels == ["one", curves.COMMON, curves.ALONE]
    assert axis.get_xlim()[0] > -5
    assert "at the start: -1000 to -900" in axis.get_xlabel()


def test_references_with_entropy_are_returns_without_it():
    """With tau the best policies are softer, and so are paid less than without; never more."""
    problem = compromise()
    runs = [outcome("one", GAPS)]
    soft, hard = (list(curves.references(runs, problem, tau).values()) for tau in (0.3, 0.0))
    assert (soft[1] < hard[1]).all()
    assert (soft[2] < hard[2]).all()
    best = tabular_exact.own_optima(problem, 0.3)[0].policy
    assert soft[2][0] == pytest.approx(2 * float((best * problem.reward[0]).sum()))


def test_there_is_no_start_where_starts_differ_and_no_common_optimum_where_kernels_do():
    problem = random(agents=2, kernel=0.5)
    runs = [outcome("one", GAPS), outcome("two", GAPS, returns=np.ones((5, 6, 2)))]
    assert list(curves.references(runs, problem)) == [curves.ALONE]


def test_many_agents_are_sorted_side_by_side(tmp_path):
    problem = compromise(agents=40)
    returns = np.random.default_rng(2).uniform(0, 2, (4, 6, 40))
    runs = [outcome("one", GAPS[:4], returns=returns), outcome("two", GAPS[:4], returns=returns**2)]
    _, axis = plt.subplots()
    curves.draw_agents(axis, runs, problem)
    order = np.argsort(returns[:, -1].mean(axis=0))
    for line, values in zip(axis.get_lines()[:2], (returns, returns**2), strict=True):
        np.testing.assert_allclose(line.get_ydata(), values[:, -1].mean(axis=0)[order])
    assert "40 agents, sorted by their return under one" in axis.get_xlabel()
    assert "reward units" in axis.get_ylabel()
    assert curves.agents(tmp_path / "x", runs, problem, "title")


# Portraits


@pytest.mark.parametrize("name", [n for n in PROBLEMS if n not in ("lqr", *ENVIRONMENTS)])  # which have no tables
def test_every_problem_has_a_portrait(tmp_path, monkeypatch, name):
    """A panel for each of the first agents, and one for what they share; nothing is drawn outside the figure."""
    pictures = []
    monkeypatch.setattr(canvas, "save", lambda figure, path: pictures.append(figure) or [])
    problem = make(name)
    problem_picture.portrait(tmp_path / name, problem, name)
    pictures[0].draw_without_rendering()
    titles = [axis.get_title() for axis in pictures[0].axes if axis.get_title()]
    assert titles[: min(problem.N, 6)] == canvas.names(problem.agents[:6])
    last = (["best common policy"] * problem.shared) if problem.grid else ["transitions"] * (problem.S > 1)
    assert titles[min(problem.N, 6) :] == last
    (x0, y0), (x1, y1) = pictures[0].get_tightbbox().get_points()
    assert min(x0, y0) > -0.05
    assert (np.array([x1, y1]) < pictures[0].get_size_inches() + 0.05).all()


def drawn_portrait(problem):
    shown = min(problem.N, problem_picture.SHOWN) + problem.shared
    _, axes = plt.subplots(1, shown, squeeze=False)
    return axes[0], problem_picture.draw_grid(list(axes[0]), problem)


def test_a_portrait_shows_what_each_agent_is_paid_and_the_best_common_policy():
    problem = compromise_grid()
    axes, notes = drawn_portrait(problem)
    for i in range(4):
        np.testing.assert_allclose(axes[i].images[0].get_array(), problem.reward[i].mean(axis=1).reshape(5, 5))
        assert {"1", "0.5"} <= {t.get_text() for t in axes[i].texts}
    best = policy_maps.logits(tabular_exact.optimum(problem).policy)
    np.testing.assert_allclose(axes[4].images[0].get_array().ravel(), tabular_exact.occupancy(problem, best)[0])
    assert any("equally likely" in note for note in notes)


def test_rewards_of_both_signs_are_centred_and_cells_are_means_over_their_states():
    problem = shared_cells()
    reward = np.zeros((2, 4, 3))
    reward[0, 0], reward[0, 1], reward[1, 2] = 0.5, 0.1, [-1, 0, 0.4]
    problem = replace(problem, reward=reward, reward_range=(-1, 1))
    np.testing.assert_allclose(problem_picture.pay(problem, 0), [[0.3, np.nan], [np.nan, 0]])
    np.testing.assert_allclose(problem_picture.pay(problem, 1), [[0, np.nan], [np.nan, -0.2]])
    axes, notes = drawn_portrait(problem)
    for axis in axes[:2]:
        assert axis.images[0].get_clim() == pytest.approx((-0.3, 0.3))
        rings = [p for p in axis.patches if isinstance(p, Circle)]
        assert len(rings) == 0, "0.4 in each of the two cells"
        assert len([p for p in axis.patches if isinstance(p, Rectangle)]) == 1
    axes, notes = drawn_portrait(replace(problem, rho=np.array([0, 0.2, 0.8, 0])))
    radii = {p.center: p.radius for p in axes[0].patches if isinstance(p, Circle)}
    assert radii == {(0, 0): pytest.approx(0.15), (1, 1): pytest.approx(0.3)}
    assert any("rings" in note for note in notes)


def test_dynamics_that_differ_are_visible():
    """Agent 0 stays where it is; agent 1's action 0 takes it from the left cell to the right one half of the time."""
    P = np.tile(np.eye(2)[:, None, :], (2, 1, 2, 1))
    P[1, 0, 0] = 0.5
    grid = Grid(1, 2, {0: (0, 1), 1: (0, 0)}, {})
    problem = TabularProblem(P, np.zeros((2, 2, 2)), [0.5, 0.5], 0.5, grid=grid)
    assert not problem_picture.displacement(problem, 0).any()
    np.testing.assert_allclose(problem_picture.displacement(problem, 1), [[[0, 0.5], [0, 0]], [[0, 0], [0, 0]]])
    axes, notes = drawn_portrait(problem)
    assert [len(axis.patches) for axis in axes] == [0, 1]
    assert any("each action" in note for note in notes)


def test_a_portrait_without_a_grid_is_tables():
    problem = random(agents=2)
    _, axes = plt.subplots(1, 3)
    notes = problem_picture.draw_tables(list(axes), problem, problem.agents)
    for i in range(2):
        np.testing.assert_allclose(axes[i].images[0].get_array(), problem.reward[i])
    np.testing.assert_allclose(axes[2].images[0].get_array(), problem.P.mean(axis=1))
    assert [t.get_text() for t in axes[0].get_yticklabels()] == list(problem.states)
    assert "next one" in notes[0]


def test_agents_beyond_the_sixth_are_counted(tmp_path, monkeypatch):
    pictures = []
    monkeypatch.setattr(canvas, "save", lambda figure, path: pictures.append(figure) or [])
    problem_picture.portrait(tmp_path / "x", compromise_grid(agents=40), "title")
    assert len([axis for axis in pictures[0].axes if axis.get_title()]) == 7
    assert "and 34 more agents" in pictures[0].get_supxlabel()


# fastfedpg show


def shown(*words):
    """The exit code and what is printed."""
    console = Console(file=StringIO(), width=200)
    try:
        code = show([str(w) for w in words], console, console)
    except SystemExit as stop:
        code = stop.code
    return code, console.file.getvalue()


@pytest.fixture
def _fresh(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("_fresh")
def test_show_says_what_a_problem_is_and_draws_it(tmp_path):
    """Uniform over 3 actions: J = 2 (1 - 1.6/3); the best common action costs 2 (1 - 0.6)."""
    code, said = shown("compromise")
    assert code == 0
    definition = PROBLEMS["compromise"].__doc__.split()
    assert " ".join(definition) in " ".join(said.split())
    facts = dict(re.findall(r"^(\S.*?)  +(.*)$", said, flags=re.M))
    assert (facts["agents"], facts["states"], facts["gamma"]) == ("2", "1", "0.5")
    assert float(facts["J, uniform policy"]) == pytest.approx(2 * (1 - 1.6 / 3), rel=1e-5)
    assert float(facts["J*, best common policy"]) == pytest.approx(0.8)
    assert facts["own best returns"] == "agent 0 2; agent 1 2"
    assert facts["kernels"] == facts["starts"] == "shared by all agents"
    assert "picture: compromise.png, compromise.svg" in said
    assert sorted(file.name for file in tmp_path.iterdir()) == ["compromise.png", "compromise.svg"]


@pytest.mark.usefixtures("_fresh")
def test_show_takes_arguments_and_files(tmp_path):
    random(agents=3, kernel=0.5).save(tmp_path / "mine.npz")
    code, said = shown("mine.npz", "--out", "there/picture.png", "--reward-range", -1, 1)
    assert code == 0
    assert "differ between agents" in said
    assert "reward range -1 to 1" in said
    assert "lower bound" in said
    assert "J*, best" not in said
    assert (tmp_path / "there" / "picture.svg").exists()
    code, said = shown("compromise-grid", "--problem-args", "n=3", "--agents", 9, "--out", "a.b")
    assert (code, (tmp_path / "a.b.png").exists()) == (0, True)
    assert re.search(r"^states +9$", said, flags=re.M)
    assert "agents=9, n=3" in said


@pytest.mark.usefixtures("_fresh")
def test_show_always_prints_and_does_not_overwrite_unless_told(tmp_path):
    (tmp_path / "compromise.svg").write_text("mine")
    for words in ((), ("--out", "compromise"), ("--out", "compromise.png")):
        code, said = shown("compromise", *words)
        assert (code, "own best returns" in said) == (0, True)
        assert said.endswith(
            "no picture: compromise.svg already there; give --overwrite to replace, or another --out\n"
        )
    assert [file.name for file in tmp_path.iterdir()] == ["compromise.svg"]
    assert shown("compromise", "--overwrite")[0] == 0
    assert (tmp_path / "compromise.svg").read_text().startswith("<?xml")
    with pytest.raises(InputError, match="is a folder"):
        shown("compromise", "--out", tmp_path)
    with pytest.raises(InputError, match="can't be written"):
        shown("compromise", "--out", "compromise.svg/below")


@pytest.mark.usefixtures("_fresh")
def test_show_names_what_is_wrong(tmp_path, capsys):
    with pytest.raises(InputError, match="did you mean 'compromise'"):
        shown("compromize")
    with pytest.raises(InputError, match=r"nowhere\.npz"):
        shown("nowhere.npz")
    with pytest.raises(InputError, match="unknown argument"):
        shown("compromise-grid", "--problem-args", "m=3")
    assert shown()[0] == 2
    assert shown("--help")[0] == 0
    assert "PROBLEM" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_a_maze_shows_its_goal_and_obstacles_where_they_are():
    """What is paid for arriving is drawn in the cell one arrives in; the arrays say the same through P."""
    maze = make("mazes", agents=2)
    for i in range(2):
        drawn = problem_picture.pay(maze, i)
        np.testing.assert_allclose(maze.reward[i], maze.P @ drawn.reshape(-1), atol=1e-12)
        assert sorted(np.unique(drawn)) == [-1, 0, 1]
        assert ((drawn == 1).sum(), (drawn == -1).sum()) == (1, 15)
