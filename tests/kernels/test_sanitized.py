"""Random calls of the compiled loops under AddressSanitizer and UndefinedBehaviourSanitizer, in child processes."""

import os
import secrets
import subprocess
import sys
from pathlib import Path

import jax
import pytest

from fastfedpg.kernels import library

HERE = Path(__file__).parent
FLAGS = ("-O1", "-g", "-pthread", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-Wno-psabi")
LONG = int(os.environ.get("FUZZ_CASES", "20000"))
MUTANTS = {
    "states": ("const V s = least(then, last_state);", "const V s = then;"),
    "pairs": ("if (w->B * w->K > 0 && (highest > INT32_MAX || highest >= w->d)) return NOT_THERE;", ""),
    "discounts": ("|| length(in[2], 1) != K)", ")"),
    "generators": ("if (length(in[3], 2) != B || length(in[3], 1) != 4)", "if (0)"),
    "bins": ("|| !power_of_two(W) || !power_of_two(W0))", ")"),
}


def build(folder, more=(), change=None):
    """The driver with the loops in it, as they are or with one thing broken."""
    source = library.SOURCES[0]
    if change:
        text = source.read_text()
        assert text.count(change[0]) == 1
        source = folder / "rollouts.c"
        source.write_text(text.replace(*change))
        for header in library.SOURCES[2:]:
            (folder / header.name).write_bytes(header.read_bytes())
    made, flags = folder / "driver.so", [flag for flag in library.FLAGS if flag not in ("-O3", "-march=native")]
    words = ["gcc", *flags, *FLAGS, *more, f'-DSOURCE="{source}"', "-I", jax.ffi.include_dir()]
    done = subprocess.run([*words, str(HERE / "driver.c"), "-o", str(made)], capture_output=True, text=True)
    if "cannot find" in done.stderr:
        pytest.skip("gcc has no sanitizers here")
    assert done.returncode == 0, done.stderr
    return made


def fuzz(made, *words):
    """A process with the sanitizer: its exit code, and all it said."""
    preload = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("LD_", "PYTEST"))}
    options = {"LD_PRELOAD": preload.stdout.strip(), "ASAN_OPTIONS": "detect_leaks=0", "PYTHONMALLOC": "malloc"}
    done = subprocess.run(
        [sys.executable, str(HERE / "fuzzed.py"), str(made), *map(str, words)],
        env={**kept, **options},
        cwd=made.parent,
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    return build(tmp_path_factory.mktemp("sanitized"), ["-march=native"])


def test_the_sanitizer_is_there(driver):
    """The control: one byte too far is seen."""
    code, said = fuzz(driver, "overrun")
    assert code != 0
    assert "AddressSanitizer: heap-buffer-overflow" in said


def test_few_random_calls(driver):
    """Always the same 200; `sanitizers` has as many as one likes."""
    code, said = fuzz(driver, 200, 0)
    assert code == 0, said[-4000:]
    assert said.startswith("200 cases, seed 0")
    assert "equal bits" in said
    assert "refused, weigh:" in said


@pytest.mark.sanitizers
@pytest.mark.parametrize("machine", [["-march=native"], ["-mno-avx2"]], ids=" ".join)
def test_many_random_calls(machine, tmp_path):
    """FUZZ_CASES of them, with a new seed each time, which is printed; with and without vector instructions."""
    code, said = fuzz(build(tmp_path, machine), LONG, secrets.randbits(32))
    print(said[-4000:])
    assert code == 0, said[-4000:]


@pytest.mark.sanitizers
@pytest.mark.parametrize("check", MUTANTS)
def test_without_a_check_it_is_found(check, tmp_path):
    code, said = fuzz(build(tmp_path, ["-march=native"], MUTANTS[check]), 8000, 1)
    assert code != 0, said[-4000:]
