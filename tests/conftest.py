"""Shapes in signatures are checked at run time in tests, and all tests run in 64-bit mode, as the command line does.

Compiled programs are kept in the user's cache, for all copies of the repository; a test that is not marked as long has
`limits.SECONDS`.
"""

import gc
import os
import signal
from pathlib import Path

import compiled

PROGRAMS = compiled.folder(Path(__file__).parents[1] / ".pytest_cache" / "programs")
os.environ.update(compiled.environment(PROGRAMS))  # before JAX is imported

import jax  # noqa: E402
import pytest  # noqa: E402
from jaxtyping import install_import_hook  # noqa: E402

import limits  # noqa: E402
import longer  # noqa: E402

# A shell starts background jobs with these ignored; the tests of Ctrl-C and their child processes would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Tracing makes very many small objects that live on in caches: to look through all of them time and again is an eighth
# of the time that tests take.
gc.set_threshold(200_000, 50, 100)

jax.config.update("jax_enable_x64", True)
compiled.write_whole()
compiled.keep_context()

SHAPES = ("algorithms", "kernels", "policies")
"""Rooms in which shapes are checked: elsewhere many signatures ask for JAX's arrays and are rightly given NumPy's."""

# It stays: names of the package are loaded when they are first asked for.
install_import_hook([f"fastfedpg.{room}" for room in SHAPES], "typecheck.check")


def pytest_configure(config):
    """Once, before workers start: the programs that are kept have an end."""
    if not hasattr(config, "workerinput"):
        compiled.tidy(PROGRAMS)


@pytest.hookimpl(tryfirst=True)  # before marks choose what is run
def pytest_collection_modifyitems(items):
    """What `make test` leaves to the part `long`."""
    longer.leave(items)


def pytest_terminal_summary(terminalreporter):
    """With how many examples properties were tried, and with which seeds."""
    for report in terminalreporter.getreports("passed") + terminalreporter.getreports("failed"):
        if report.when == "call" and report.user_properties:
            said = ", ".join(f"{name}: {value}" for name, value in report.user_properties)
            terminalreporter.write_line(f"{report.nodeid.rpartition('::')[2]}: {said}")


def pytest_runtest_logfinish():
    """Forget compiled programs long before a run would, so that no test that counts traces does it on its way."""
    from fastfedpg.runtime.program import MAPPINGS, make_room

    make_room(MAPPINGS // 2)


@pytest.fixture(autouse=True)
def heard():
    """Who changes what a signal does puts it back: a later test of Ctrl-C would wait for what nobody hears."""
    yield
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        pytest.fail("this test leaves another handler of SIGINT than it found", pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """An unmarked test that takes too long fails; see `limits`."""
    if limits.is_long(item):
        return (yield)
    with limits.watched(limits.SECONDS * limits.times(item), limits.BY_THE_CLOCK * limits.times(item)):
        return (yield)


def _stand_in(out, title, result, note):
    """The files of the picture with which a run ends, with nothing in them."""
    from fastfedpg.files import write_text

    files = [out / "curve.png", out / "curve.svg"]
    for file in files:
        write_text(file, "")
    return files


@pytest.fixture(scope="session", autouse=True)
def written():
    """A file that was written need not be on the disk itself: no test takes the power away. Kills don't need it."""
    real, os.fsync = os.fsync, lambda descriptor: None
    yield
    os.fsync = real


@pytest.fixture(scope="session", autouse=True)
def drawing():
    """Hundreds of tests run the command, and a picture takes a tenth of a second or three: they get a stand-in.

    `tests/cli/test_curve.py` asks for the real function, which this gives.
    """
    from fastfedpg.cli import execute

    real, execute._picture = execute._picture, _stand_in
    yield real
    execute._picture = real


def _stand_in_for_ink(figure, file, format, **more):
    """What stands in the place of a rendered picture: the figure was made, with all that is in it, and not drawn."""
    Path(file).write_bytes(b"\x89PNG" if format == "png" else b"<svg></svg>")


@pytest.fixture(scope="session", autouse=True)
def ink():
    """To render a figure takes ten times as long as to make it, and every comparison has three, twice each.

    `rendered` gives the real function, to a test or, by a line, to a whole file.
    """
    from matplotlib.figure import Figure

    real, Figure.savefig = Figure.savefig, _stand_in_for_ink
    yield real
    Figure.savefig = real


@pytest.fixture
def rendered(ink, monkeypatch):
    """Pictures are drawn."""
    from matplotlib.figure import Figure

    monkeypatch.setattr(Figure, "savefig", ink)


@pytest.fixture(scope="session", autouse=True)
def one_repeat():
    """Comparisons without noise are repeated four times, by a program of their own; of a single seed, the run's does.

    `tests/comparison/test_repeats.py` has all four.
    """
    from fastfedpg.comparison import repeats

    real, repeats.REPEATS = repeats.REPEATS, 1
    yield real
    repeats.REPEATS = real
