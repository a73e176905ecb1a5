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
from fastfedpg import runtime, theory
from fastfedpg.comparison import Comparison, compare, run_cells
from fastfedpg.experiment import Settings
from fastfedpg.experiment.plan import plan
from fastfedpg.precision import float64, precision_of
from fastfedpg.problems import compromise, lqr_exact, tabular_exact
from grid import agents_of, engine_of, federated, grid_of

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


IN_A_THREAD = """
import sys, threading
from fastfedpg import entry
sys.argv = ["fastfedpg", "list"]
try:
    entry.main()
except SystemExit:
    import jax.numpy as jnp
    thread = threading.Thread(target=lambda: print("in a thread:", jnp.ones(1).dtype))
    thread.start()
    thread.join()
"""


def test_the_command_line_has_it_in_all_threads():
    """JAX calls an environment's own callbacks from threads of its own, and rounds there by their mode."""
    done = subprocess.run([sys.executable, "-c", IN_A_THREAD], capture_output=True, text=True, timeout=120)
    assert done.stdout.endswith("in a thread: float64\n"), done.stderr


NARROW = replace(PLAYED, oracle="ppo", given={**PLAYED.given, "epochs": 1, "minibatches": 2}, K=4, dtype="float32")


@pytest.mark.parametrize("config", [replace(SAMPLED, dtype="float32"), NARROW], ids=lambda c: c.problem)
def test_float32_is_asked_for(config):
    """What is computed and sent has 32 bits, half the bytes, and theta is that of 64 bits but for rounding.

    A policy is worth what it is worth in float64: evaluated again there, J is the same to the last bit.
    """
    planned = plan(config)
    with precision_of(planned.problem.theta0):
        form = runtime.shapes(planned.problem, planned.algorithm, planned.schedule)
    kinds = {
        np.dtype(getattr(x, "dtype", int)) for x in jax.tree.leaves((form.state, form.down, form.memory, form.own))
    }
    reals = {kind.name for kind in kinds if kind.kind == "f"}
    narrow, wide = ff.run(config), ff.run(replace(config, dtype="float64"))
    assert reals == {narrow.theta.dtype.name} == {"float32"}
    assert planned.sizes.bytes_up * 2 == plan(replace(config, dtype="float64")).sizes.bytes_up
    if not planned.here.played:  # there noise is drawn in theta's type, and other numbers are drawn
        assert 0 < np.abs(narrow.theta - wide.theta).max() < 1e-4
    worth = float64(planned.problem.evaluate)(np.asarray(narrow.theta, float), [0])
    assert narrow.metrics["J"].dtype == np.float64
    np.testing.assert_array_equal(narrow.metrics["J"][:, -1], worth.J)
    by_loop = ff.run(replace(config, runtime="loop"))
    assert by_loop.theta.dtype == np.float32
    np.testing.assert_allclose(by_loop.theta, narrow.theta, atol=1e-5)


def test_a_float32_run_goes_on_as_one(tmp_path):
    config = replace(SAMPLED, checkpoint_rounds=1, dtype="float32")

    def stop(done=0, record=None, **_):
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(ff.Interrupted):
        ff.run(config, tmp_path / "run", report=stop)
    written = (tmp_path / "run" / "config.toml").read_text()
    (tmp_path / "run" / "config.toml").write_text(written.replace('"float32"', '"float64"'))
    heard = []
    with pytest.raises(ff.InputError, match="dtype is float32 there and float64 here"):
        ff.resume(tmp_path / "run", note=heard.append)
    (tmp_path / "run" / "config.toml").write_text(written)
    np.testing.assert_array_equal(ff.resume(tmp_path / "run").theta, ff.run(config).theta)


def test_float32_over_flower(tmp_path):
    """The agents answer on threads of their own, which know nothing of the server's mode."""
    config = replace(SAMPLED, dtype="float32")
    planned = plan(config)
    agents = agents_of(planned.problem, planned.algorithm, tmp_path)
    with grid_of(agents) as grid, precision_of(planned.problem.theta0):
        last = federated(engine_of(grid), planned.problem, planned.algorithm, planned.schedule)[-1]
    assert last.theta.dtype == np.float32
    np.testing.assert_array_equal(last.theta, ff.run(replace(config, runtime="loop")).theta)
