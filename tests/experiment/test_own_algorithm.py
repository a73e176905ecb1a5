"""A user's own algorithm, in a file that the package has never seen: every command takes it, and mistakes are said."""

import json
import tomllib
from pathlib import Path

import numpy as np
import pytest

import fastfedpg as ff
from commands import command
from fastfedpg import Config, InputError, cli
from fastfedpg.experiment import made_once, plan
from fastfedpg.experiment.config import from_toml

MINE = '''
"""FedProx: local steps with a pull towards where the round began."""
from fastfedpg.core import Algorithm, Exchange, Scalar, local_steps, sgd


def fedprox_pg(eta: Scalar, H: int, mu: float = 1.0, lam: float = 0.25) -> Algorithm:
    """x <- x - eta (g_i(x) + mu (x - theta)).

    Args:
        mu: how strong the pull is.
        lam: is never used.
    """

    def send(memory, own, theta, oracle, key):
        x, own, info = local_steps(oracle, lambda x, g: g + mu * (x - theta), sgd(eta), theta, own, key, H)
        return memory, own, x, info

    server = lambda theta, x, share, key: (x, x)
    return Algorithm(lambda theta, N: (theta, theta, ()), (Exchange("local", send, server),), lambda theta: theta)


def stepless(H: int, weights: tuple[float, ...] = (1.0,), lam: float = 0.5) -> Algorithm:
    """x <- x - sum(weights) g_i(x): there is no eta.

    Args:
        lam: may be anything here.
    """
    return fedprox_pg(sum(weights), H, 0.0)


def raises(eta: Scalar) -> Algorithm:
    raise RuntimeError("no such luck")


def exits(eta: Scalar) -> Algorithm:
    raise SystemExit(0)


def untrue(eta: Scalar) -> Algorithm:
    wrong = Exchange("local", lambda memory, own, theta, oracle, key: 3, lambda t, x, s, k: (x, x))
    return Algorithm(lambda theta, N: (theta, theta, ()), (wrong,), lambda theta: theta)


def number(eta: Scalar):
    return 3


def refuses(eta: Scalar, mu: float = 1.0) -> Algorithm:
    raise ValueError(f"mu = {mu:g}; it must be 2")
'''
SMALL = ("--problem", "compromise", "--rounds", 3, "--H", 4, "--eta", 0.5)


@pytest.fixture(autouse=True)
def _mine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    Path("mine.py").write_text(MINE)


def theta(folder):
    with np.load(Path(folder) / "final.npz") as file:
        return file["theta"].reshape(-1)


def test_without_a_pull_it_is_fedavg_and_with_one_it_is_not():
    """mu = 0 is FedAvg-PG's own step, to the bit."""
    assert command("run", *SMALL, "--algorithm", "mine.py:fedprox_pg", "--mu", 0, "--out", "none") == 0
    assert command("run", *SMALL, "--algorithm", "mine:fedprox_pg", "--algorithm.mu", 2, "--out", "some") == 0
    assert command("run", *SMALL, "--algorithm", "fedavg_pg", "--out", "fedavg") == 0
    np.testing.assert_array_equal(theta("none"), theta("fedavg"))
    assert np.abs(theta("some") - theta("fedavg")).max() > 1e-3
    said = tomllib.loads(Path("some/config.toml").read_text())["algorithm"]
    assert len(said.pop("source_sha256")) == 64
    assert said == {"name": "mine:fedprox_pg", "eta": 0.5, "H": 4, "mu": 2.0, "lam": 0.25}
    again = Config("compromise", algorithm="mine.py:fedprox_pg", mu=2, eta=0.5, H=4, rounds=3)
    np.testing.assert_array_equal(ff.run(again).theta.reshape(-1), theta("some"))
    assert command("run", "--config", "some/config.toml", "--out", "third") == 0
    np.testing.assert_array_equal(theta("third"), theta("some"))


def test_it_is_in_a_toml_file_in_help_and_in_the_list(capsys):
    Path("run.toml").write_text(
        'problem = "compromise"\nrounds = 2\n[algorithm]\nname = "mine.py:fedprox_pg"\nmu = 3\n'
    )
    assert command("run", "--config", "run.toml", "--out", "out") == 0
    assert from_toml("out/config.toml").choice("algorithm").args == {"eta": 0.1, "H": 10, "mu": 3.0, "lam": 0.25}
    capsys.readouterr()
    assert command("run", "--algorithm", "mine.py:fedprox_pg", "--help") == 0
    said = capsys.readouterr().out
    assert "--mu FLOAT" in said
    assert "How strong the pull is." in said
    assert "--alpha-g" not in said, "another algorithm's"
    assert command("list", "mine.py:fedprox_pg") == 0
    said = capsys.readouterr().out
    assert "x <- x - eta (g_i(x) + mu (x - theta))" in said
    assert "--mu" in said


def test_an_argument_that_the_oracle_has_too_is_called_by_both_names(capsys):
    """lam is the algorithm's own and the critic's: neither gets what was meant for the other."""
    words = (
        "--problem",
        "compromise",
        "--oracle",
        "actor_critic",
        "--policy",
        "table",
        "--algorithm",
        "mine.py:fedprox_pg",
    )
    assert command("run", *words, "--lam", 0.5, "--out", "out") == 2
    assert "--lam could mean two things: say --algorithm.lam or --oracle.lam" in capsys.readouterr().err
    config = Config("compromise", oracle="actor_critic", policy="table", algorithm="mine.py:fedprox_pg")
    own = config.but(given={"algorithm.lam": 0.75})
    assert own.choice("algorithm").args["lam"] == 0.75
    assert own.choice("oracle").args["lam"] == 0.95
    with pytest.raises(InputError, match=r"say algorithm\.lam or oracle\.lam"):
        config.but(lam=0.5).choice("algorithm")
    alone = Config("compromise", algorithm="mine.py:fedprox_pg")
    assert alone.but(lam=0.5).choice("algorithm").args["lam"] == 0.5


def test_what_the_oracle_is_given_is_the_oracles_own(monkeypatch):
    """Not the algorithm's lam, nor its K: seen where the oracle is made."""
    from fastfedpg.problems import with_policy as module  # noqa: F401

    seen = {}
    import fastfedpg.experiment.problem as building

    made_once.forget()
    real = building.with_policy
    monkeypatch.setattr(building, "with_policy", lambda *given, **named: seen.update(named) or real(*given, **named))
    config = Config("compromise", oracle="actor_critic", policy="table", algorithm="mine.py:fedprox_pg", B=2, K=3)
    plan(config)
    assert (seen["lam"], seen["K"]) == (0.95, 3)
    plan(config.but(given={**config.given, "oracle.lam": 0.75, "algorithm.lam": 0.1}))
    assert seen["lam"] == 0.75


def test_both_names_in_a_comparison_and_a_cell():
    words = ("--oracle", "actor_critic", "--policy", "table", "--B", 2, "--K", 3, "--oracle.lam", 0.9)
    methods = ("a=mine.py:fedprox_pg,algorithm.lam=0.2", "b=mine.py:fedprox_pg,algorithm.lam=0.3")
    small = ("--problem", "compromise", "--rounds", 1, "--seeds", 1, "--evaluation-episodes", 2)
    assert command("compare", *small, *words, "--algorithms", *methods, "--out", "cmp") == 0
    said = [from_toml(f"cmp/{label}/config.toml") for label in "ab"]
    assert [(c.get("algorithm.lam"), c.get("oracle.lam")) for c in said] == [(0.2, 0.9), (0.3, 0.9)]


def test_an_algorithm_without_eta_runs_is_compared_and_is_not_tuned(capsys):
    """Its weights are numbers, 0.25 and 0.25; its lam is its own, and 2 is no mistake."""
    own = ("--algorithm", "mine.py:stepless", "--weights", 0.25, 0.25, "--lam", 2)
    assert command("run", "--problem", "compromise", "--rounds", 2, "--H", 3, *own, "--out", "out") == 0
    assert json.loads(Path("out/summary.json").read_text())["eta"] is None
    assert from_toml("out/config.toml").choice("algorithm").args == {"H": 3, "weights": (0.25, 0.25), "lam": 2.0}
    half = ("--algorithm", "mine.py:fedprox_pg", "--mu", 0, "--eta", 0.5)
    assert command("run", "--problem", "compromise", "--rounds", 2, "--H", 3, *half, "--out", "half") == 0
    np.testing.assert_array_equal(theta("out"), theta("half"))
    assert command("runs", ".") == 0
    methods = ("--algorithms", "fedavg_pg", "mine.py:stepless")
    assert command("compare", "--problem", "compromise", "--rounds", 2, "--seeds", 1, *methods, "--out", "cmp") == 0
    capsys.readouterr()
    assert command("compare", "--problem", "compromise", "--rounds", 2, *methods, "--tune", "--out", "tuned") == 2
    assert "method 'stepless' has no eta that could be tuned" in capsys.readouterr().err


def test_an_own_setting_is_a_flag_beside_other_methods():
    methods = ("fast_fedpg", "mine.py:fedprox_pg")
    assert command("compare", *SMALL, "--seeds", 1, "--algorithms", *methods, "--mu", 3, "--out", "cmp") == 0
    assert from_toml("cmp/fedprox_pg/config.toml").get("mu") == 3


def test_a_sweep_of_an_own_setting_is_resumed(capsys):
    assert command("sweep", *SMALL, "--algorithm", "mine.py:fedprox_pg", "--mu", 1, 2, "--out", "swept") == 0
    before = theta("swept/mu=2")
    Path("swept/mu=2/summary.json").unlink()
    assert command("resume", "swept", "--restart") == 0
    np.testing.assert_array_equal(theta("swept/mu=2"), before)
    Path("mine.py").write_text(MINE + "\n# changed\n")
    capsys.readouterr()
    assert command("resume", "swept") == 0
    assert "mu=2: the file of its algorithm has changed since it ran" in capsys.readouterr().err
    Path("mine.py").unlink()
    assert command("runs", "swept") == 0
    said = capsys.readouterr().out
    assert "mine.py:fedprox_pg" in said
    assert "failed" not in said


def test_python_says_what_compare_takes():
    with pytest.raises(InputError, match="compare takes the problem itself"):
        ff.compare(ff.with_oracle(ff.problems.compromise()), {"a": "fast_fedpg"})
    with pytest.raises(InputError, match="compare takes methods by their labels"):
        ff.compare("compromise", ["fast_fedpg"])


def test_an_object_has_no_eta_in_the_table():
    report = ff.compare("compromise", {"object": ff.fast_fedpg(0.5, 2), "named": "fast_fedpg"}, rounds=1, seeds=1, H=2)
    assert [np.isnan(line.eta) for line in report.lines] == [True, False]


def test_a_file_may_be_called_as_a_module_of_pythons(monkeypatch):
    import types

    Path("types.py").write_text(MINE)
    assert "mine" not in Config("compromise", algorithm="types.py:fedprox_pg").choice("algorithm").name
    import sys

    assert sys.modules["types"] is types


def test_it_is_compared_under_labels_and_resumed(capsys):
    methods = ("fedavg_pg", "weak=mine.py:fedprox_pg,mu=0.1", "mine.py:fedprox_pg,mu=4")
    assert command("compare", *SMALL, "--seeds", 2, "--algorithms", *methods, "--out", "cmp") == 0
    said = capsys.readouterr().out
    for label in ("fedavg_pg", "weak", "fedprox_pg,mu=4"):
        assert label in said
        assert json.loads(Path("cmp", label, "summary.json").read_text())["state"] == "finished"
    assert from_toml("cmp/weak/config.toml").get("mu") == 0.1
    before = theta("cmp/weak")
    Path("cmp/weak/summary.json").unlink()
    assert command("resume", "cmp", "--restart") == 0
    np.testing.assert_array_equal(theta("cmp/weak"), before)


def test_a_changed_source_is_another_algorithm(capsys):
    """A checkpoint of the old file is refused by name."""
    config = Config("compromise", algorithm="mine.py:fedprox_pg", eta=0.5, H=2, rounds=4, checkpoint_rounds=1)

    def stop(done, record=None, stage=""):
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(ff.Interrupted):
        ff.run(config, "out", report=stop)
    Path("mine.py").write_text(MINE + "\n# changed\n")
    said = "of another configuration: the file that mine.py:fedprox_pg is in has changed"
    with pytest.raises(ff.InputError, match=said):
        ff.resume("out", note=lambda words: None)
    heard = []
    ff.resume("out", note=heard.append, restart=True)
    assert any(f"refused: {said}" in h for h in heard)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("mine.py:fedprox", ("mine.py: unknown function 'fedprox'", "did you mean 'fedprox_pg'?")),
        ("gone.py:fedprox_pg", ("algorithm 'gone.py:fedprox_pg': no file gone.py",)),
        ("gone:fedprox_pg", ("algorithm 'gone:fedprox_pg': no module 'gone'",)),
        ("mine.py:raises", ("algorithm 'mine.py:raises': RuntimeError: no such luck", "mine.py, line")),
        ("mine.py:number", ("algorithm 'mine.py:number' returns a int; it must return a fastfedpg.Algorithm",)),
        ("mine.py:exits", ("algorithm 'mine.py:exits': SystemExit",)),
        ("mine.py:untrue", ("algorithm 'mine.py:untrue', in its first round: TypeError: cannot unpack",)),
        ("mine.py:refuses", ("algorithm 'mine.py:refuses': mu = 1; it must be 2",)),
        ("mine.py:fedprox_pg --mu much", ("'much' is not a number", "--mu")),
        ("mine.py:fedprox_pg --H 0", ("H = 0; it must be at least 1",)),
    ],
)
def test_mistakes_in_it_are_said(words, says, capsys):
    before = {*Path().iterdir()}
    assert command("run", "--problem", "compromise", "--out", "out", "--algorithm", *words.split()) == 2
    said = " ".join(capsys.readouterr().err.replace("│", " ").split())
    for part in says:
        assert part in said
    assert "Traceback" not in said
    assert {p for p in Path().iterdir() if p.name != "__pycache__"} == before


def test_a_mistake_in_a_table_names_the_nearest_argument(capsys):
    Path("run.toml").write_text('problem = "compromise"\n[algorithm]\nname = "mine.py:fedprox_pg"\nmuu = 3\n')
    assert command("run", "--config", "run.toml", "--out", "out") == 2
    assert (
        "run.toml: algorithm 'mine.py:fedprox_pg': unknown argument 'muu'; did you mean 'mu'?"
        in capsys.readouterr().err
    )
    with pytest.raises(InputError, match="unknown setting 'muu'; did you mean 'mu'"):
        Config("compromise", algorithm="mine.py:fedprox_pg", muu=3)


def test_objects_made_in_python_are_compared():
    """The same algorithm twice, by name and as an object, differs in nothing but its label."""
    report = ff.compare(
        ff.problems.compromise(), {"object": ff.fast_fedpg(0.5, 4), "name": {"algorithm": "fast_fedpg", "H": 4}},
        eta=0.5, rounds=3, seeds=2,
    )  # fmt: skip
    one, two = (outcome.result for outcome in report.outcomes)
    np.testing.assert_array_equal(one.theta, two.theta)
    assert [line.label for line in report.lines] == ["object", "name"]


def test_an_object_is_gone_with_its_program():
    with pytest.raises(InputError, match="made in Python, and is gone with the program"):
        plan(Config("compromise", algorithm="object:another"))


def test_a_site_declares_its_source():
    """The declaration names the function, its arguments and a hash of its file: a site with another file is refused."""
    from fastfedpg.federation import protocol, site

    config = Config("compromise", algorithm="mine.py:fedprox_pg", mu=0.5, eta=0.5, H=2)
    said = site.build(config, 0).declared
    assert (said["algorithm"], said["mu"]) == ("mine.py:fedprox_pg", 0.5)
    assert len(said["algorithm_source"]) == 64
    Path("mine.py").write_text(MINE + "\n# changed\n")
    other = site.build(config, 1).declared
    assert "algorithm_source is" in protocol.differences(said, other)


def test_the_command_line_takes_a_users_own_policy_and_oracle(capsys):
    Path("own.py").write_text(
        "from fastfedpg.policies import table\nfrom fastfedpg.oracles import gpomdp\n"
        "def rows(observations, actions, normalise=False, width: int = 1):\n"
        "    return table(observations, actions, normalise)\n"
        "def halved(model, cost, gamma, B: int, K: int, tau=0.0, share: float = 0.5):\n"
        "    import jax\n"
        "    from fastfedpg.oracles import sampled\n"
        "    o = gpomdp(sampled.prepare(model.P, model.rho), cost, gamma, B, K, tau)\n"
        "    return o._replace(gradient=lambda *a: share * o.gradient(*a))\n"
    )
    small = ("--problem", "compromise", "--rounds", 1, "--B", 2, "--K", 3)
    assert command("run", *small, "--oracle", "gpomdp", "--policy", "own.py:rows", "--width", 2, "--out", "a") == 0
    assert command("run", *small, "--oracle", "own.py:halved", "--share", 0.25, "--out", "b") == 0
    assert from_toml("b/config.toml").get("share") == 0.25


def test_the_package_was_not_touched():
    assert ff.ALGORITHMS.rows["fedprox_pg"] == "algorithms.fedprox_pg:fedprox_pg"
    assert "mine" not in cli.COMMANDS
