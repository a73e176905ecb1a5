"""64-bit mode at the doors: whoever calls from a 32-bit JAX gets the very numbers of a 64-bit one."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fastfedpg as ff
from fastfedpg import theory
from fastfedpg.comparison import Comparison, compare, run_cells
from fastfedpg.experiment import Settings
from fastfedpg.precision import float64
from fastfedpg.problems import compromise, lqr_exact, tabular_exact

SOURCE = Path(ff.__file__).parent
SAMPLED = ff.Config("compromise", oracle="gpomdp", H=2, B=4, K=5, eta=0.3, rounds=3)
PLAYED = replace(SAMPLED, problem="point-mass", policy="linear", B=2, rounds=1, evaluation_episodes=2)


def both(call):
    """What a call gives in 64-bit mode, and in 32-bit mode."""
    wide = call()
    with jax.enable_x64(False):
        narrow = call()
        assert not jax.config.jax_enable_x64, "the user's setting is the user's"
    return wide, narrow


def test_the_mode_is_that_of_the_call_alone():
    """Calling itself, too: with `jax.enable_x64(True)` as the decorator the inner call would leave its mode behind."""

    @float64
    def mode(again):
        return (jnp.ones(1).dtype.name, *(mode(False) if again else ()))

    with jax.enable_x64(False):
        assert mode(True) == ("float64", "float64")
        assert not jax.config.jax_enable_x64
        assert jnp.ones(1).dtype == jnp.float32


def test_nobody_else_asks_for_it():
    asks = {file.name for file in SOURCE.rglob("*.py") if "enable_x64" in file.read_text()}
    assert asks == {"precision.py"}


@pytest.mark.parametrize("config", [SAMPLED, PLAYED], ids=lambda c: c.problem)
def test_runs(config):
    wide, narrow = both(lambda: ff.run(config))
    assert narrow.theta.dtype == np.float64
    np.testing.assert_array_equal(narrow.theta, wide.theta)
    np.testing.assert_array_equal(narrow.metrics["J"], wide.metrics["J"])


def test_a_resumed_run(tmp_path):
    """Stopped at its second record by its own report, it goes on to the numbers of a run that never stopped."""
    config = replace(SAMPLED, checkpoint_rounds=1)

    def stop(done=0, record=None, **_):
        if done == 2:
            raise KeyboardInterrupt

    with jax.enable_x64(False):
        with pytest.raises(ff.Interrupted):
            ff.run(config, tmp_path / "run", report=stop)
        np.testing.assert_array_equal(ff.resume(tmp_path / "run").theta, ff.run(SAMPLED).theta)


def test_comparisons(tmp_path, monkeypatch):
    monkeypatch.setattr(run_cells, "present", lambda *given: None)  # tables and pictures are not at stake
    methods = Comparison(Settings("compromise", rounds=2, H=2, seeds=2), ("fedavg_pg",))

    def theta():
        out = tmp_path / jnp.ones(1).dtype.name
        compare(methods, out)
        return np.load(out / "fedavg_pg" / "final.npz")["theta"]

    wide, narrow = both(theta)
    assert narrow.dtype == np.float64
    np.testing.assert_array_equal(narrow, wide)


@pytest.mark.parametrize("exact", [tabular_exact, lqr_exact], ids=["tabular", "lqr"])
def test_what_a_policy_is_worth(exact):
    problem = compromise() if exact is tabular_exact else ff.problems.make("lqr")
    theta = np.full(problem.theta_shape, 0.03)
    for call in (
        lambda: exact.J(problem, theta),
        lambda: exact.gradient(problem, theta),
        lambda: exact.evaluator(problem)(theta.reshape(1, -1)).grad_norm_sq,
        lambda: exact.optimum(problem).J,
    ):
        wide, narrow = both(call)
        np.testing.assert_array_equal(narrow, wide)


def test_constants_of_the_theory():
    """Gradients too are made in 32-bit mode: their arrays must not be rounded before they are used."""

    def constants():
        gradients, gaps = compromise().gradients(0.1), compromise().gap(0.1)
        found = theory.pilot(gradients, gaps, np.zeros(3), rounds=5)
        return found.L, found.gaps, theory.smoothness_estimate(gradients, found.thetas[None, :2])

    wide, narrow = both(constants)
    for a, b in zip(wide, narrow, strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_command_line(tmp_path):
    """A process of its own, in which nobody has set anything."""
    flags = "--oracle gpomdp --H 2 --B 4 --K 5 --eta 0.3 --rounds 3 --out there"
    words = [Path(sys.executable).with_name("fastfedpg"), "run", "--problem", "compromise", *flags.split()]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(np.load(tmp_path / "there" / "final.npz")["theta"][0], ff.run(SAMPLED).theta)
