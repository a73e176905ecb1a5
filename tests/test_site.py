"""The site, its tutorials and its notebooks: links, pictures, commands, and that all of it runs.

`make docs` builds the site itself, strictly; here are the parts of that which a test can hold without building it.
"""

import functools
import importlib.util
import json
import re
import runpy
import shlex
from pathlib import Path

import pytest

from commands import command

ROOT = Path(__file__).parent.parent
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *TUTORIALS]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
STEP = re.compile(r"<!-- (?P<kind>example|output): (?P<what>[^\n]+?) -->\n```\w*\n(?P<text>.*?)```\n", flags=re.S)


@functools.cache
def script(name):
    """A file of docs/, as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_links_that_leave_the_site_lead_to_copies_and_dead_ones_stay():
    """A link that stays as it is leads nowhere in the site, so that a strict build refuses it."""
    pages, File = script("pages"), type("File", (), {"src_uri": "tutorials/page.md"})
    page = type("Page", (), {"file": File})
    text = "[a](../../src/fastfedpg/core.py) [b](../../README.md#more) [c](../compare.md) "
    text += "[d](../../src/no.py) [e](../studies)"
    assert pages.on_page_markdown(text, page, None, None) == (
        "[a](../source/src/fastfedpg/core.py.txt) [b](../index.md#more) [c](../compare.md) [d](../../src/no.py) "
        "[e](../source/docs/studies/files.txt)"
    )
    assert pages.text_of("src/fastfedpg/core.py") == (ROOT / "src/fastfedpg/core.py").read_text()


def test_every_page_is_in_the_sites_contents():
    """And all that is in the contents is there."""
    named = re.findall(r"^ +- (?:\w[\w ]*: )?(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), flags=re.M)
    written = {str(page.relative_to(ROOT / "docs")) for page in PAGES[1:]} | set(script("pages").OUTSIDE)
    assert sorted(named) == sorted(written)  # each once


def test_every_picture_has_the_command_that_makes_it_and_a_page_that_names_it():
    figures = script("outputs").FIGURES
    made = [picture for pictures in figures.values() for picture in pictures.values()]
    shown = {Path(name).name for page in PAGES for name in re.findall(r"!\[[^\]]*\]\(([^)]+\.png)\)", page.read_text())}
    assert sorted(made) == sorted({path.name for path in (ROOT / "docs").glob("*.png")})
    assert shown <= set(made)
    text = "\n".join(page.read_text() for page in PAGES)
    assert [name for name in figures if name not in text] == []


def lines_of(page):
    """The commands of a page's blocks, a line each, without what is behind a #."""
    for block in re.findall(r"^```\n(.*?)^```", page.read_text(), flags=re.S | re.M):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line.removeprefix("$ "), comments=True) if "fastfedpg " in line else []
            if words[:1] == ["fastfedpg"]:
                yield words


@pytest.mark.parametrize("name", ["README", "start", "commands", *(f"tutorials/{page.stem}" for page in TUTORIALS)])
def test_commands_of_the_first_hour_have_flags_that_there_are(name, capsys):
    """Of settings that belong to what is chosen, an algorithm's or an oracle's, help shows those of the usual ones."""
    page = ROOT / "README.md" if name == "README" else ROOT / "docs" / f"{name}.md"
    usual = {"--baseline", "--B", "--K", "--help"}
    for words in lines_of(page):
        assert command(words[1], "--help") == 0, words
        known = set(re.findall(r"--[\w-]+", capsys.readouterr().out))
        assert {word for word in words if re.match("--[A-Za-z]", word)} <= known | usual, words


def test_every_command_has_its_place_on_the_page_of_commands(capsys):
    assert command("--help") == 0
    known = set(re.findall(r"^  (\w+) ", capsys.readouterr().out, flags=re.M))
    heads = re.findall(r"^## (.+)$", (ROOT / "docs" / "commands.md").read_text(), flags=re.M)
    assert {name for head in heads for name in head.split(", ")} == known


def words_of(text):
    """What a command says, without its numbers and its clock, which other machines have others of."""
    return re.findall(r"[A-Za-z][A-Za-z_*]+", re.sub(r"^seconds .*|^ *\S+ per .*", "", text, flags=re.M))


def walk(page, capsys):
    """Do all that a page does, in the current folder; each command says what the page says."""
    for step in STEP.finditer(page.read_text()):
        kind, what, text = step["kind"], step["what"], step["text"]
        if kind == "example" and what != "python":
            Path(what).write_text(text)
        elif kind == "example":
            exec(compile(text, page.name, "exec"), {})
        else:
            words = shlex.split(what)
            capsys.readouterr()
            if words[0] == "python":
                runpy.run_path(words[1], run_name="__main__")
            else:
                assert command(*words[1:]) == 0, what
            shown = text.removeprefix(f"$ {what}\n")
            assert words_of(capsys.readouterr().out)[:12] == words_of(shown)[:12], what


@pytest.mark.whole
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial_does_what_it_says(page, tmp_path, monkeypatch, capsys):
    """Every file, command and example of it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")  # as the pages are made
    monkeypatch.syspath_prepend(str(tmp_path))
    walk(page, capsys)
    if page.stem == "own-environment":
        lamp = runpy.run_path("lamps.py")["make"](1, "rgb_array")
        assert lamp.reset(seed=0)[0] in lamp.observation_space
        seen, reward, *_ = lamp.step(2)
        assert reward == pytest.approx(1 - abs(lamp.level - 0.5))
        assert (seen.shape, lamp.render().shape) == ((1,), (48, 48, 3))
    if page.stem == "own-algorithm":
        with pytest.raises(ValueError, match="between 0 and 1"):
            runpy.run_path("dial.py")["dial"](0.5, 2, trust=2.0)


@pytest.mark.whole
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(notebook, capsys):
    """Its cells, one after another, in this process: no kernel is started. They assert what they say."""
    names = {}
    for k, cell in enumerate(json.loads(notebook.read_text())["cells"]):
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"{notebook.name}, cell {k}", "exec"), names)
    assert capsys.readouterr().out


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_clean(notebook):
    """Cells that compile, without outputs: those are made where they are read."""
    cells = json.loads(notebook.read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert all(compile("".join(cell["source"]), notebook.name, "exec") for cell in code)
    assert all((cell["outputs"], cell["execution_count"]) == ([], None) for cell in code)
    assert any("assert" in "".join(cell["source"]) for cell in code)
