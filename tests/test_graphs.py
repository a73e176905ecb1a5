"""Graphs by name and by weights: what they are, that agents on them come to agree, and what is refused."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from fastfedpg import Config, InputError, graphs
from fastfedpg.comparison.cell_plans import plan_cells
from fastfedpg.comparison.run_cells import begun
from fastfedpg.comparison.spec import Comparison, from_file
from fastfedpg.experiment import begin, plan, reopen, run_folder
from fastfedpg.experiment.config import from_toml
from fastfedpg.experiment.copies import described
from fastfedpg.experiment.results import Stored
from fastfedpg.graphs import EDGES, gossip, weights


def test_weights_by_hand():
    """Metropolis: on a ring everybody has degree 2, W_ij = 1/3. A star of 4 has degrees 3, 1, 1, 1: 1/4 on each edge,
    which leaves 1/4 to the hub and 3/4 to a leaf. Complete: 1/N everywhere. A torus of 3 x 4: 4 neighbours, 1/5."""
    third = 1 / 3
    np.testing.assert_allclose(
        weights("ring", 4),
        [[third, third, 0, third], [third, third, third, 0], [0, third, third, third], [third, 0, third, third]],
    )
    star = np.diag([0.25, 0.75, 0.75, 0.75])
    star[0, 1:] = star[1:, 0] = 0.25
    np.testing.assert_allclose(weights("star", 4), star)
    np.testing.assert_allclose(weights("complete", 5), np.full((5, 5), 0.2))
    torus = weights("torus", 12)
    np.testing.assert_allclose(torus[0], [0.2 * (j in (0, 1, 3, 4, 8)) for j in range(12)])
    np.testing.assert_allclose(torus[6], [0.2 * (j in (6, 5, 7, 2, 10)) for j in range(12)])
    for name in EDGES:
        np.testing.assert_array_equal(weights(name, 1), [[1.0]])
    np.testing.assert_allclose(weights("ring", 2), [[0.5, 0.5], [0.5, 0.5]])


@pytest.mark.parametrize("name", EDGES)
def test_agents_come_to_agree(name):
    """W is symmetric, doubly stochastic, and W^t -> 11'/N: all eigenvalues but one are below 1 in size."""
    W = weights(name, 12, edge_p=0.2, seed=3)
    np.testing.assert_allclose(W, W.T)
    np.testing.assert_allclose(W.sum(axis=1), 1, rtol=1e-14)
    assert (W >= 0).all()
    assert np.sort(np.abs(np.linalg.eigvalsh(W)))[-2] < 0.99
    assert gossip(name, 0.2, 3).of(12).degree == np.count_nonzero(W - np.diag(np.diag(W))) / 12


def test_random_graphs_have_a_seed_and_a_density():
    """p = .2 on 12 nodes has isolated nodes with probability about 12 * .8^11 = 1: most draws are drawn again."""
    one = weights("erdos-renyi", 12, 0.2, seed=0)
    np.testing.assert_array_equal(one, weights("erdos-renyi", 12, 0.2, seed=0))
    assert (one != weights("erdos-renyi", 12, 0.2, seed=1)).any()
    edges = lambda p: np.count_nonzero(np.triu(weights("erdos-renyi", 40, p), 1)) / 780
    assert edges(0.3) == pytest.approx(0.3, abs=4 * (0.3 * 0.7 / 780) ** 0.5)
    assert edges(1.0) == 1


def test_hopeless_draws_are_few_where_each_is_large(monkeypatch):
    """N^2 numbers a draw: at 10^8 numbers in all 500 agents have 400 draws; here 10^4, and five are the fewest."""
    monkeypatch.setattr(graphs, "NUMBERS", 10**4)
    with pytest.raises(InputError, match=r"in 25 draws 20 agents were never connected at edge_p = 0.0001"):
        weights("erdos-renyi", 20, 1e-4)
    with pytest.raises(InputError, match=r"in 5 draws 200 agents .* with edge_p = 0.053 they nearly always are"):
        weights("erdos-renyi", 200, 1e-4)
    assert weights("erdos-renyi", 200, 0.053).shape == (200, 200)


def test_weights_from_files(tmp_path):
    W = weights("star", 3)
    np.save(tmp_path / "w.npy", W)
    np.savez(tmp_path / "w.npz", W)
    np.savez(tmp_path / "named.npz", other=np.ones(2), W=W)
    ups = np.arange(6.0).reshape(3, 2)
    for given in (W, W.tolist(), *(str(tmp_path / name) for name in ("w.npy", "w.npz", "named.npz"))):
        rule = gossip(given).of(3)
        np.testing.assert_allclose(rule.merge(ups, np.arange(3)), W @ ups)
        assert (rule.agents, rule.degree) == (3, 4 / 3)


def write_bad_files(folder):
    np.savez(folder / "two.npz", a=np.ones(2), b=np.ones(2))
    (folder / "text.npy").write_text("W = 1")
    np.savez(folder / "words.npz", W=np.array([["1"]]))
    for name, W in {"complex": [[1 + 0j]], "nan": [[0.5, np.nan]] * 2, "objects": np.array([[{}]])}.items():
        np.save(folder / f"{name}.npy", W, allow_pickle=True)
    for name, save in {"cut.npy": np.save, "cut.npz": np.savez}.items():
        save(folder / name, np.eye(9))
        (folder / name).write_bytes((folder / name).read_bytes()[:300])
    with (folder / "huge.npy").open("wb") as file:
        about = {"descr": "<f8", "fortran_order": False, "shape": (10**7, 10**7)}
        np.lib.format.write_array_header_1_0(file, about)


@pytest.mark.parametrize(
    ("graph", "words"),
    [
        ("rnig", "unknown graph 'rnig'; did you mean 'ring'?"),
        ("none.npy", "graph: none.npy: no such file or directory$"),
        ("two.npz", "graph: two.npz has a, b, and none is W"),
        ("text.npy", "graph: text.npy: damaged, or neither .npy nor .npz; save the weights with numpy.save"),
        ("cut.npy", "graph: cut.npy: damaged, or neither"),
        ("cut.npz", "graph: cut.npz: damaged, or neither"),
        ("huge.npy", r"graph: huge.npy, of shape \(10000000, 10000000\), needs .* of memory"),
        ("complex.npy", "graph: complex.npy has complex numbers; weights must be real numbers"),
        ("words.npz", "graph: words.npz has text; weights must be real numbers"),
        ("objects.npy", "graph: objects.npy holds Python objects"),
        ("nan.npy", r"graph: nan.npy: W\[0, 1\] = nan; weights must be finite"),
        ([["1"]], "graph: what was given has text; weights must be real numbers"),
        ([[1 + 0j]], "graph: what was given has complex numbers"),
        ([[np.inf]], r"graph: what was given: W\[0, 0\] = inf; weights must be finite"),
        ([[0.5, 0.5], [1.0]], "graph: its rows differ in length; weights are a square matrix"),
        ([[0.5, 0.5]], r"W has shape \(1, 2\); it must be \(N, N\)"),
        ([[0.6, 0.4], [0.5, 0.5]], "column 0 of W sums to 1.1; each must sum to 1"),
        (
            np.kron(np.eye(2), np.full((2, 2), 0.5)),
            "what agent 0 says never reaches agent 2; W must connect all agents",
        ),
        ([[0.0, 1.0], [1.0, 0.0]], "take turns for ever, all ways back have a multiple of 2 steps"),
        (np.roll(np.eye(3), 1, axis=0), "all ways back have a multiple of 3 steps; .* W_ii > 0"),
    ],
)
def test_bad_graphs_are_refused(graph, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if isinstance(graph, str):
        write_bad_files(tmp_path)
    with pytest.raises(ValueError, match=words):
        gossip(graph)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"graph": "torus"}, "graph = torus has 7 agents; it needs rows and columns of at least 3: 9, 12, 15, 16"),
        ({"graph": [[0.5, 0.5], [0.5, 0.5]]}, "combines the uploads of 2 agents, and there are 7"),
        (
            {"graph": "erdos-renyi", "edge_p": 1e-6},
            r"in 1000 draws 7 agents were never connected at edge_p = 1e-06; from log N / N = 0.28 on .* edge_p = 0.56",
        ),
        ({"graph": "erdos-renyi", "edge_p": 1.5}, "edge_p = 1.5; the probability of an edge must lie in"),
        ({"graph": 3}, "graph of algorithm 'mdpgt' is 3; it must be a name, a file, or rows of numbers"),
        ({"graph_seed": -1}, "graph_seed = -1; it must be at least 0"),
        ({"b": 0.0}, r"b = 0; it must lie in \(0, 1\]"),
    ],
)
def test_what_can_t_be_is_refused_before_anything_is_run(given, words):
    with pytest.raises(InputError, match=words):
        plan(Config("compromise", agents=7, algorithm="mdpgt", **given))


def test_weights_are_a_setting_like_any_other(tmp_path):
    """Rows of numbers are written down with the run, and read again."""
    config = Config("compromise", agents=2, algorithm="decentralised_pg", graph=[[0.75, 0.25], [0.25, 0.75]])
    (tmp_path / "config.toml").write_text(config.to_toml())
    again = from_toml(tmp_path / "config.toml")
    assert again.choice("algorithm").args["graph"] == ((0.75, 0.25), (0.25, 0.75))
    assert again == config
    assert plan(again).sizes.floats_up == 3


def test_a_file_of_weights_is_known_by_its_sum_and_not_by_its_place(tmp_path):
    """What was learned on other weights is not gone on with, and moving a file changes nothing."""
    file, there = tmp_path / "w.npy", tmp_path / "there.npy"
    of = lambda path: described(Config(algorithm="decentralised_pg", given={"graph": str(path)}))
    np.save(file, np.full((2, 2), 0.5))
    before = of(file)
    shutil.copy(file, there)
    assert of(there) == before
    np.save(file, [[0.75, 0.25], [0.25, 0.75]])
    assert "graph is graph-" in before.differs(of(file))


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """A folder with weights in a file, and the way out of it."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    np.save("w.npy", [[0.75, 0.25], [0.25, 0.75]])

    def leave():
        Path("w.npy").unlink()
        monkeypatch.chdir(tmp_path)

    return leave


def test_a_run_s_folder_stands_alone(elsewhere):
    config = Config("compromise", agents=2, algorithm="decentralised_pg", graph="w.npy")
    for given, overwrite in ((config, False), (lambda: from_toml("out/config.toml"), True)):  # over its own copy
        with begin(given() if overwrite else given, Path("out"), overwrite) as planned:
            pass
        (copy,) = Path("out").glob("graph-*.npy")
        assert planned.config.get("graph") == str(copy)
    elsewhere()
    with reopen(Path("here/out"), print) as (planned, _):
        assert planned.config.get("graph") == f"here/{copy}"
        assert planned.sizes.floats_up == 3
    np.save(Path("here") / copy, np.full((2, 2), 0.5))
    stored = Stored(None, (), run_folder.ran_with(config.but(graph=copy.name)))
    with pytest.raises(InputError, match=f"graph is {copy.name} there and graph-.* here"):
        run_folder.check_config(Path("here/out"), stored, from_toml("here/out/config.toml"))


def test_a_comparison_s_folder_stands_alone(elsewhere):
    """Files are named for all methods, in words that are a label too, and in tables; labels and their order stay."""
    methods = ("mdpgt,graph=w.npy", "fast_fedpg")
    cells = {"table": {"algorithm": {"name": "mdpgt", "graph": "w.npy"}}, "common": {"algorithm": "decentralised_pg"}}
    comparison = Comparison(Config("compromise", agents=2, graph="w.npy"), methods, cells=cells)
    with begun(comparison, plan_cells(comparison), Path("out")) as plans:
        found = {label: p.config.get("graph") for label, p in plans.items()}
    elsewhere()
    again = from_file(Path("here/out/compare.toml"))
    assert again.labels == ["mdpgt,graph=w.npy", "fast_fedpg", "table", "common"]
    assert {label: p.config.get("graph") for label, p in plan_cells(again).items()} == {
        label: name and f"here/{name}" for label, name in found.items()
    }
    assert len([*Path("here/out").glob("graph-*")]) == 1
