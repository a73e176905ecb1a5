"""Simulated equals deployed: the check that `fastfedpg verify` makes, and that it can fail."""

from dataclasses import replace

import numpy as np
import pytest

import reference as ref
from commands import command
from fastfedpg import fast_fedpg, simulate, with_oracle
from fastfedpg.federation.equals_simulation import LEVEL, distribution, equality
from fastfedpg.runtime import Result

PROBLEM = with_oracle(ref.small_problem(N=3, S=4, A=3, seed=30), "gpomdp", B=4, K=6)
SEEDS = 199


def one(result, s):
    """One seed of a result, as a result."""
    return part(result, slice(s, s + 1))


def test_equality_is_to_the_digits_it_says():
    """theta at 0.9 of the limit passes and at 1.1 does not, beside entries' sizes or theta's way, if less than 1."""
    run = one(simulate(PROBLEM, fast_fedpg(0.3, 3), 2), 0)
    start, moved = np.zeros(12), np.abs(run.theta).max()
    assert 0.01 < moved < 1
    large = replace(run, theta=run.theta.copy())
    large.theta[0, 0] = 100.0
    for base in (run, large):
        scale = moved if base is run else 100.0
        for limit, sampled in ((1e-12, False), (1e-9, True)):
            for factor in (0.9, 1.1):
                other = replace(base, theta=base.theta.copy())
                other.theta[0, 0] += factor * limit * scale
                assert equality(other, base, start, sampled).good == (factor < 1)
    apart = {**run.metrics, "J": run.metrics["J"] + np.array([[0, 0, 1e-3]])}
    found = equality(replace(run, metrics=apart, theta=run.theta + 1e-3), run, start, True)
    assert not found.good
    assert "J parts after round 2" in found.words


@pytest.fixture(scope="module")
def runs():
    return simulate(PROBLEM, fast_fedpg(0.3, 3), 5, seeds=SEEDS + 1)


def part(result, chosen):
    """Some seeds of a result, as a result."""
    metrics = {name: x[chosen] for name, x in result.metrics.items()}
    return Result(result.rounds, metrics, result.returns[chosen], result.theta[chosen])


def test_private_keys_pass_as_often_as_they_should():
    """400 independent sets of 20 runs, the first of each as the deployed one: P(p <= 0.2) = 4/20 exactly.

    By exchangeability, ties aside. The share among 400 has deviation sqrt(0.2 0.8 / 400) = 0.02: four of them.
    """
    many = simulate(PROBLEM, fast_fedpg(0.3, 3), 5, seeds=8000, metrics_every=5)
    sets = np.arange(8000).reshape(400, 20)
    p = np.array([distribution(part(many, s[:1]), part(many, s[1:])).value for s in sets])
    assert abs(np.mean(p <= 0.2) - 0.2) < 4 * 0.02
    assert p.min() == 1 / 20
    assert p.max() == 1


@pytest.mark.parametrize("wrong", ["eta", "local steps", "start"])
def test_another_algorithm_is_found_out(runs, wrong):
    """A step size of 0.9 instead of 0.3, 9 local steps instead of 3, or another start: at most 1 in 100."""
    other = {
        "eta": lambda: simulate(PROBLEM, fast_fedpg(0.9, 3), 5, first_seed=7),
        "local steps": lambda: simulate(PROBLEM, fast_fedpg(0.3, 9), 5, first_seed=7),
        "start": lambda: simulate(PROBLEM, fast_fedpg(0.3, 3), 5, first_seed=7, theta0=2.0 * np.eye(12)[0]),
    }[wrong]()
    found = distribution(one(other, 0), runs)
    assert not found.good
    assert found.value <= LEVEL


def test_a_simulated_run_is_no_deployed_one(tmp_path, capsys):
    assert command("run", "--rounds", 1, "--problem", "compromise", "--out", tmp_path / "a") == 0
    assert command("verify", tmp_path / "a") == 2
    assert "not the folder of a deployed run" in capsys.readouterr().err


AGENT = ("agent", "--agent", 0, "--socket", "s", "--state", "t")
ALONE = ("agent", "--agent", 0, "--state", "t")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("server",), "give --ca"),
        (("server", "--insecure", "--superlink", "nowhere"), "must be HOST:PORT"),
        (("server", "--insecure", "--superlink", "127.0.0.1:9"), "no SuperLink at 127.0.0.1:9"),
        (("server", "--ca", "gone.crt", "--superlink", "127.0.0.1:9"), "gone.crt"),
        (("federate", "--algorithm", "independent_pg"), "has no server"),
        (("federate", "--seeds", 2), "a deployed run has one"),
        (("federate", "--quorum", 9), "quorum = 9"),
        (("federate", "--timeout", 0), "timeout = 0"),
        (("federate", "--problem", "private"), "give --agents"),
        (("federate", "--problem", "gone:make", "--agents", 2, "--parameters", 3, "--evaluate", "server"), "private"),
        (("run", "--problem", "private"), "sites alone"),
        ((*AGENT, "--problem", "gone:make"), "give --agents"),
        ((*AGENT, "--problem", "gone:make", "--agents", 2), "no module 'gone'"),
        ((*AGENT, "--agent", 7), "agent = 7"),
        (ALONE, "give --superlink, to be a node too, or --socket, to wait for one"),
        ((*ALONE, "--superlink", "here", "--insecure"), "must be HOST:PORT"),
        ((*ALONE, "--superlink", "127.0.0.1:9"), "give --ca"),
    ],
)
def test_mistakes_are_named(tmp_path, monkeypatch, capsys, words, said):
    monkeypatch.chdir(tmp_path)
    assert command(*words) == 2
    assert said in capsys.readouterr().err.replace("\n", " ")
    assert not [p for p in tmp_path.rglob("*") if p.is_file()], "nothing was left behind"
