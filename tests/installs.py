"""What an installation is: the release from an empty environment, each extra alone, the oldest and newest versions.

python tests/installs.py release | extras [NAME …] | versions {oldest,newest} [PYTHON …]

It fetches packages, from wherever pip is told to; nothing of it belongs to `make test`.
"""

import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
UV = str(Path(sys.executable).with_name("uv"))
PINNED = ("-c", str(ROOT / "constraints.txt"))
COMPARE = (
    "compare --algorithms fast_fedpg fedavg_pg scaffold_pg --problem compromise-grid --oracle gpomdp --baseline "
    "leave-one-out --H 5 --eta 2 --B 4 --K 10 --rounds 4 --seeds 2 --tune --candidates 6 --tune-seeds 2 --out run"
)
"""The main job, in its quick form."""

PLAY = "fastfedpg run --policy linear --oracle gpomdp --B 2 --K 5 --rounds 1 --evaluation-episodes 2 --problem"
USES = {
    "plot": "fastfedpg show compromise-grid",
    "frame": "import fastfedpg as ff; print(ff.run(ff.Config('compromise', rounds=2)).to_frame())",
    "neural": "fastfedpg run --problem compromise --optimiser momentum --rounds 2 --out run",
    "gym": f"{PLAY} gym:CartPole-v1 --agents 2",
    "mujoco": f"{PLAY} gym:InvertedPendulum-v5 --agents 2",
    "box2d": f"{PLAY} gym:LunarLander-v3 --agents 2",
    "gymnax": f"{PLAY} gymnax:CartPole-v1 --agents 2",
    "mo": f"{PLAY} mo:mo-mountaincar-v0 --agents 2",
    "sumo": "import libsumo, sumo_rl",
    "report": f"fastfedpg report {ROOT / 'docs' / 'studies' / 'speedup'} --out page.html",
    "docs": "import mkdocs, mkdocstrings",
    "federation": "fastfedpg federate --problem compromise --agents 2 --rounds 1 --out run",
    "tensorboard": "fastfedpg run --problem compromise --rounds 2 --track tensorboard --out run",
    "mlflow": "fastfedpg run --problem compromise --rounds 2 --track mlflow --out run",
    "wandb": "fastfedpg run --problem compromise --rounds 2 --track wandb --out run",
    "optuna": f"{ROOT / 'examples' / 'tune_with_optuna.py'} --trials 3 --rounds 3",
}
"""What each extra is for: a command, a program, or lines of Python."""

SUBSET = (
    "algorithms/test_fedprox_pg.py", "cli/test_help.py", "cli/test_init.py", "cli/test_tables.py",
    "experiment/test_results.py", "experiment/test_tracking.py", "policies/test_plain.py", "runtime/test_views.py",
    "oracles/test_alias.py",
)  # fmt: skip
"""Tests that pass through every room and need few minutes."""


def said(words: list[str], **how) -> str:
    """What a command prints; where it fails, that is printed here, and this ends."""
    done = subprocess.run(words, capture_output=True, text=True, check=False, **how)
    if done.returncode:
        sys.exit(f"{' '.join(words)}\n{done.stdout}{done.stderr}exit code {done.returncode}")
    return done.stdout


def environment(where: Path, *what: str, python: str = sys.executable) -> Path:
    """A new environment with these packages and nothing else; its folder of programs."""
    said([UV, "venv", "--quiet", "--python", python, str(where)])
    said([UV, "pip", "install", "--quiet", "--python", str(where / "bin" / "python"), *what])
    return where / "bin"


def built(folder: Path) -> list[Path]:
    """Wheel and source distribution of what is here."""
    said([UV, "build", "--quiet", "--wheel", "--sdist", "--out-dir", str(folder), str(ROOT)])
    return sorted(file for file in folder.iterdir() if file.name.startswith("fastfedpg-"))


def release(folder: Path) -> None:
    """The main job, from each of both, where nothing else of this project is."""
    files = built(folder / "dist")
    assert [f.name.removeprefix(f"fastfedpg-{PROJECT['version']}") for f in files] == ["-py3-none-any.whl", ".tar.gz"]
    for file in files:
        home = folder / file.name.replace(".", "-")
        bin = environment(home / "env", *PINNED, f"{file}[plot]")
        outside = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        version = said([str(bin / "fastfedpg"), "--version"], cwd=home, env=outside)
        assert version.startswith(f"fastfedpg {PROJECT['version']}, "), version
        table = said([str(bin / "fastfedpg"), *COMPARE.split()], cwd=home, env=outside)
        assert "mean gap to best common policy" in table
        assert {"table.csv", "curves.png", "sensitivity.png"} <= {p.name for p in (home / "run").iterdir()}
        print(f"{file.name}: installed alone, and the main job runs from there", flush=True)


def extras(folder: Path, *names: str) -> None:
    """Each in an environment of its own, used for what it is for."""
    known = [name for name in PROJECT["optional-dependencies"] if name != "dev"]
    if missing := {*known} ^ {*USES} or {*names} - {*known}:
        sys.exit(f"extras and what they are for differ, or are unknown: {', '.join(sorted(missing))}")
    (wheel, _) = built(folder / "dist")
    for name in names or known:
        home = folder / name
        bin = environment(home / "env", *PINNED, f"{wheel}[{name}]")
        first, *rest = USES[name].split()
        program = [first, *rest] if first.endswith(".py") else ["-c", USES[name]]
        words = [str(bin / first), *rest] if first == "fastfedpg" else [str(bin / "python"), *program]
        outside = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        said(words, cwd=home, env=outside)
        print(f"{name}: installed alone, and of use", flush=True)


OLDEST = "plot,frame,neural,gym,tensorboard,optuna,federation"
"""Extras beside which the oldest JAX can be installed: gymnax and mo ask for newer ones by way of others."""
TOOLS = ("pytest>=8", "pytest-xdist>=3.6", "beartype>=0.20", "hypothesis>=6.100")


def versions(folder: Path, which: str, *pythons: str) -> None:
    """A part of the tests, with the oldest versions that pyproject.toml allows, or with the newest there are."""
    how = {"oldest": ["--resolution", "lowest-direct"], "newest": ["--upgrade"]}[which]
    # What an old package calls, a newer one beside it may be about to give up.
    lenient = ["-W", "ignore::DeprecationWarning"] if which == "oldest" else []
    for python in pythons or (sys.executable,):
        bin = environment(folder / Path(python).name, *how, "-e", f"{ROOT}[{OLDEST}]", *TOOLS, python=python)
        outside = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        words = [str(bin / "python"), "-m", "pytest", "-n", "0", *lenient, *(f"tests/{file}" for file in SUBSET)]
        tests = said(words, cwd=ROOT, env=outside).splitlines()[-1]
        about = "import sys, jax; print('Python', sys.version.split()[0], 'jax', jax.__version__)"
        print(f"{which}: {said([str(bin / 'python'), '-c', about]).strip()}: {tests}", flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="fastfedpg-installs-") as made:
        {"release": release, "extras": extras, "versions": versions}[sys.argv[1]](Path(made), *sys.argv[2:])
