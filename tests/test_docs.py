"""README and docs: their examples run, their links lead somewhere, their names exist; the main job's parts work."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fastfedpg
from fastfedpg.statistics import bootstrap

ROOT = Path(__file__).parent.parent
DOCS = sorted([*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "tutorials").glob("*.md")])
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *DOCS]


def examples():
    return re.findall(r"<!-- example: python -->\n```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.S)


@pytest.mark.docs
def test_readme_examples_run(capsys):
    """As it stands: Fast-FedPG's gap is far below FedAvg's.

    In `make test` the same gaps are those of test_algorithms.py, and names are test_public_names_are_there's.
    """
    (first,) = examples()
    assert len(first.strip().splitlines()) <= 12
    exec(compile(first, "README.md", "exec"), {})
    lines = capsys.readouterr().out.splitlines()
    gaps = [float(line.split(" gap ")[1].split()[0]) for line in lines[1:3]]
    assert gaps[0] < 0.3 * gaps[1]
    assert len(lines[3].split("[")[1].split()) == 3


def code_lines(source: str) -> int:
    """Lines of code: none that is blank, or in a docstring or an import."""
    tree, beside = ast.parse(source), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            beside |= {*range(node.lineno, node.end_lineno + 1)}
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            beside |= {*range(node.lineno, node.end_lineno + 1)}
    return sum(bool(line.strip()) for k, line in enumerate(source.splitlines(), 1) if k not in beside)


def test_algorithms_are_as_short_as_contributing_says():
    """Of the example below `x = 1` and `return x` with its head are code."""
    example = '"""Words."""\nfrom a import (\n  b,\n)\n\nx = 1\ndef f():\n  """In\n  two."""\n  return x\n'
    assert code_lines(example) == 3
    files = (ROOT / "src" / "fastfedpg" / "algorithms").glob("*.py")
    assert {f.name: n for f in files if (n := code_lines(f.read_text(encoding="utf-8"))) >= 80} == {}


def test_what_a_command_that_fails_prints_is_on_the_page_and_it_is_named(tmp_path):
    """A report with a failing row has exit code 1; the page has it, and so have the commands after it."""
    (tmp_path / "fails.py").write_text("print('a row fails')\nraise SystemExit(1)")
    (tmp_path / "works.py").write_text("print('all is well')")
    fails, works = (f"python {tmp_path / name}.py" for name in ("fails", "works"))
    page = tmp_path / "page.md"
    page.write_text(f"<!-- output: {fails} -->\n```\nold\n```\n<!-- output: {works} -->\n")
    words = [sys.executable, str(ROOT / "docs" / "outputs.py"), str(page)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (1, f"exit code 1: {fails}\n")
    blocks = [f"```\n$ {command}\n{said}\n```\n" for command, said in ((fails, "a row fails"), (works, "all is well"))]
    assert page.read_text() == f"<!-- output: {fails} -->\n{blocks[0]}<!-- output: {works} -->\n{blocks[1]}"


def test_what_a_command_prints_as_markdown_takes_the_place_of_what_stood_there(tmp_path):
    """All between its two marks, and nothing after them."""
    (tmp_path / "card.py").write_text("print('### one')\nprint()\nprint('a card')")
    mark, page = f"<!-- markdown: python {tmp_path / 'card.py'} -->\n", tmp_path / "page.md"
    words = [sys.executable, str(ROOT / "docs" / "outputs.py"), str(page)]
    for before in ("", "### old\n\nan old card\n"):
        page.write_text(f"# page\n{mark}{before}<!-- end -->\nrest <!-- end -->\n")
        subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
        assert page.read_text() == f"# page\n{mark}### one\n\na card\n<!-- end -->\nrest <!-- end -->\n"


def references(text):
    """Markdown's reference links, `[core]: ../src/…`, by their label."""
    return dict(re.findall(r"^\[(\w+)\]: (\S+)$", text, flags=re.M))


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    text = page.read_text()
    known = references(text)
    for label in re.findall(r"\]\[(\w+)\]", text):
        assert label in known, f"{page.name} has no target for [{label}]"
    for target in [*re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text), *known.values()]:
        if not target.startswith("http"):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_paper_page_names_what_exists():
    """A code name beside links to source files occurs in one of them; test files named there exist."""
    text, checked = (ROOT / "docs" / "paper.md").read_text(), 0
    known = references(text)
    for line in text.splitlines():
        labels = re.findall(r"\]\[(\w+)\]", line)
        sources = "\n".join((ROOT / "docs" / known[label]).read_text() for label in labels)
        for name in re.findall(r"`([A-Za-z_][A-Za-z_0-9]*)`", line) if labels else ():
            assert name in sources, f"`{name}` is in none of {labels}"
            checked += 1
        for test in re.findall(r"\btest_\w+\.py", line):
            assert list((ROOT / "tests").rglob(test)), f"{test} is no test"
    assert checked > 150


LAYERS = (
    "errors",
    "messages precision children columns cache memory written",
    "files kinds npz_headers",
    "parameters scratch graph_files graph_weights toml_files",
    "signatures graphs",
    "registry",
    "tables",
    "mdp",
    "answers kernels",
    "definitions",
    "gradients stepping",
    "core",
    "spaces optimisers many_values",
    "statistics",
    "policies crossed",
    "envs",
    "gym_workers",
    "oracles theory",
    "problems",
    "algorithms",
    "runtime",
    "tracking",
    "experiment",
    "draw",
    "comparison",
    "verify",
    "federation",
    "pages",
    "cli",
    "entry",
    "__main__",
)


def test_imports_point_one_way():
    """A file imports only from its own folder and from the layers before it; an algorithm from core alone."""
    rank = {name: k for k, names in enumerate(LAYERS) for name in names.split()}
    source = ROOT / "src" / "fastfedpg"
    for file in source.rglob("*.py"):
        here = file.relative_to(source).parts[0].removesuffix(".py")
        if here == "__init__":
            continue
        text = file.read_text()
        found = re.findall(r"^\s*(?:from|import) fastfedpg\.(\w+)", text, flags=re.M)
        for names in re.findall(r"^\s*from fastfedpg import (.+)$", text, flags=re.M):
            found += [n.strip() for n in names.split(",") if n.strip() in rank]
        for there in found:
            assert there == here or rank[there] < rank[here], f"{file.name} imports {there}"
        if here == "algorithms" and file.name != "__init__.py":
            assert set(found) == {"core"}


def test_no_two_modules_have_one_name():
    """Nor a module a package's; but for commands, whose files are named after them."""
    source = ROOT / "src" / "fastfedpg"
    files = [file for file in source.rglob("*.py") if file.stem != "__init__" and "cli" not in file.parts]
    named = [*(file.stem for file in files), *{folder.name for folder in {file.parent for file in files} - {source}}]
    assert sorted(name for name in {*named} if named.count(name) > 1) == []


def test_public_names_are_there():
    for name in fastfedpg.__all__:
        assert getattr(fastfedpg, name) is not None


@pytest.mark.docs
def test_the_main_job_is_a_comparison_that_may_be_repeated(tmp_path):
    """`make run`'s own command, with two rounds, twice over: the second replaces the first.

    In `make test` overwriting is test_mistakes.py's of comparisons.
    """
    said = subprocess.run(["make", "-n", "run"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    words = next(line for line in said.replace("\\\n", " ").splitlines() if " compare " in line).split()
    assert words[0].endswith("bin/fastfedpg")
    command = [
        Path(sys.executable).with_name("fastfedpg"),
        *words[1:],
        "--rounds",
        "2",
        "--seeds",
        "2",
        "--out",
        "there",
    ]
    for _ in range(2):
        environment = {**os.environ, "COLUMNS": "80"}
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment, timeout=300)
        assert done.returncode == 0, done.stderr
        assert re.search(r"^ *fast_fedpg +fedavg_pg +scaffold_pg", done.stdout, flags=re.M)
        assert "…" not in done.stdout, "the table fits 80 columns"
    for name in ("curves", "policies", "agents"):
        assert (tmp_path / "there" / f"{name}.png").read_bytes()[:4] == b"\x89PNG"
        assert (tmp_path / "there" / f"{name}.svg").read_text().startswith("<?xml")
    assert (tmp_path / "there" / "fedavg_pg" / "metrics.csv").exists()


@pytest.mark.docs
def test_examples_run(tmp_path):
    """Whole processes; what they call is tested in its own room."""
    says = {"act_on_images.py": "", "tune_with_optuna.py": "best of 20: eta = "}  # others import the first
    for file in (ROOT / "examples").glob("*.py"):
        short = ["--rounds", "2", "--years", "2", "--search-years", "1"] if file.name == "offices.py" else []
        done = subprocess.run([sys.executable, file, *short], cwd=tmp_path, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        assert says.get(file.name, "fast_fedpg") in done.stdout, file.name
        if file.name == "own_problem.py":
            assert re.search(r"rounds to 1% of the first gap +\d", done.stdout), "its step size is one that works"


def test_examples_are_short():
    for file in (ROOT / "examples").glob("*.py"):
        assert len(file.read_text().splitlines()) < 60


def test_bootstrap_interval_covers_as_often_as_it_says():
    """8 normal values, 2,000 repetitions: the docstring's 94%, to four standard errors of 0.53%.

    The plain percentile interval covers about 89% there and would fail.
    """
    _, low, high = bootstrap(np.random.default_rng(0).normal(size=(8, 2000)), resamples=4000)
    assert np.mean((low < 0) & (high > 0)) == pytest.approx(0.94, abs=4 * 0.0053)
    assert np.isnan(bootstrap(np.ones((1, 3))).low).all()
