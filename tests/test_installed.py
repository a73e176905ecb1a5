"""What is said of an installation is so: versions, extras, systems, interpreters. `installs.py` installs them."""

import importlib.metadata
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import fastfedpg
import installs
from commands import command
from fastfedpg.tracking import TRACKERS

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_version_stands_in_one_place():
    """The package asks the installation for it, and neither its source nor the citation has another."""
    assert fastfedpg.__version__ == importlib.metadata.version("fastfedpg") == PROJECT["version"]
    texts = [*(ROOT / "src" / "fastfedpg").rglob("*.py"), ROOT / "CITATION.cff", ROOT / "Makefile"]
    assert [f for f in texts if PROJECT["version"] in re.findall(r"\d+\.\d+\.\d+", f.read_text(encoding="utf-8"))] == []


def test_the_page_has_every_extra_and_each_is_tried_alone():
    rows = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs" / "install.md").read_text(encoding="utf-8"), flags=re.M)
    assert sorted(rows) == sorted(PROJECT["optional-dependencies"])
    assert {*installs.USES} == {*rows} - {"dev"}
    assert {*TRACKERS} < {*rows}
    for file in installs.SUBSET:
        assert (ROOT / "tests" / file).is_file()


def test_the_main_job_of_the_release_check_is_that_of_the_makefile():
    """With the same methods, problem and oracle: fewer steps, nothing else."""
    main = re.search(r"^run: .*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), flags=re.M).group(1)
    given = [word for word in main.replace("\\\n", " ").split() if word.startswith("--") and word != "--overwrite"]
    assert [word for word in installs.COMPARE.split() if word in given] == given


@pytest.mark.parametrize("name", ["federate", "server", "agent", "kit"])
def test_what_needs_linux_is_refused_elsewhere_with_a_sentence(name, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.chdir(tmp_path)
    given = {"agent": ("--agent", 0, "--state", "s"), "kit": ("k",)}.get(name, ())
    assert command(name, *given) == 2
    assert "this command needs Linux, and this is darwin; all but federation runs here too" in capsys.readouterr().err
    assert [*tmp_path.iterdir()] == []


def test_on_windows_the_first_import_says_so(monkeypatch):
    program = "import importlib.metadata, lazy_loader, sys; sys.platform = 'win32'; import fastfedpg"
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(
        "ImportError: fastfedpg runs on Linux and macOS; on Windows in WSL 2"
    )


def test_the_citation_names_the_paper():
    """Plain YAML of which every line is a key, an item, or a field of one."""
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert all(re.match(r"^ *(- )?(\w[\w-]*: .+|\w[\w-]*:|\w[\w -]+)$", line) for line in text.splitlines())
    assert (
        json.loads(re.search(r'title: (".+Multi-Task.+")', text).group(1)) in (ROOT / "docs" / "paper.md").read_text()
    )
    assert re.findall(r"family-names: (\w+)", text) == ["Zhu", "Heath", "Mitra"]


def test_optunas_example_runs(monkeypatch, capsys):
    """Small: two trials; the best of them is one of the two, and what is reported was not tuned on."""
    pytest.importorskip("optuna", reason="Optuna is not installed: pip install 'fastfedpg[optuna]'")
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    monkeypatch.setattr(sys, "argv", ["tune_with_optuna.py", "--trials", "2", "--rounds", "2"])
    import tune_with_optuna

    seeds = []
    real = fastfedpg.run
    monkeypatch.setattr(fastfedpg, "run", lambda c, **how: (seeds.append(c.first_seed), real(c, **how))[1])
    tune_with_optuna.main()
    best, reported = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"best of 2: eta = \S+, H = (5|10|20|40)", best)
    assert float(re.fullmatch(r"gap on seeds 0 to 3, geometric mean: (\S+)", reported).group(1)) > 0
    assert seeds == [1000, 1000, 0]
