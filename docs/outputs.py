"""Runs every command that a page names as `<!-- output: COMMAND -->` and puts what it prints below it.

What a command prints as Markdown stands between `<!-- markdown: COMMAND -->` and `<!-- end -->`. A page's own files,
`<!-- example: FILE -->` before a block, are there before its commands; each tutorial has a folder of its own.

python docs/outputs.py [PAGE …] from the repository's folder; all pages unless given. What a command prints that then
fails, as a report of `verify` with a claim that does not hold, is put there too; they are named at the end, with
exit code 1. `python docs/outputs.py --figures` makes the pictures alone, each by its command in `figures.toml`.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MARK = re.compile(r"(<!-- output: (?P<command>.+?) -->\n)(?P<block>```\n(?:.*?\n)??```\n)?", flags=re.S)
MARKDOWN = re.compile(r"(<!-- markdown: (?P<command>[^\n]+?) -->\n).*?(<!-- end -->\n)", flags=re.S)
OWN = re.compile(r"<!-- example: (?P<name>\S+\.\w+) -->\n```\w*\n(?P<text>.*?)```\n", flags=re.S)
FIGURES = tomllib.loads((ROOT / "docs" / "figures.toml").read_text(encoding="utf-8"))
"""By a command: what it makes, and the picture of ours that this is."""
HIDDEN = ("written: ", "a page of it: ")
"""How lines begin that name files, and are not shown."""


def printed(command: str, folder: Path) -> tuple[str, int]:
    """The command's own words, without the names of the files it wrote, and its exit code."""
    words = shlex.split(command)
    if words[0] == "fastfedpg":
        words[0] = str(Path(sys.executable).with_name("fastfedpg"))
    elif words[0] == "python":
        own = folder / words[1]
        words = [sys.executable, str(own if own.exists() else ROOT / words[1]), *words[2:]]
    elif words[0] == "make":
        given = any(word.startswith("ARGS=") for word in words)
        words += ["-s", "-C", str(ROOT), *([] if given else [f"ARGS=--out {folder / 'main'}"])]
    print(command, flush=True)
    done = subprocess.run(words, cwd=folder, env={**os.environ, "COLUMNS": "80"}, stdout=subprocess.PIPE, text=True)
    lines = [line.rstrip() for line in done.stdout.splitlines() if not line.startswith(HIDDEN)]
    return "\n".join(lines).strip("\n"), done.returncode


def own_files(page: Path, folder: Path) -> None:
    """Write the files that a page shows."""
    for found in OWN.finditer(page.read_text(encoding="utf-8")):
        (folder / found["name"]).write_text(found["text"], encoding="utf-8")


def pictures(command: str, folder: Path) -> None:
    """Put what a command has drawn in the place that the pages look in."""
    for name, there in FIGURES.get(command, {}).items():
        if (folder / name).exists():
            (ROOT / "docs" / there).write_bytes((folder / name).read_bytes())


def main(pages: list[Path], figures: bool = False) -> list[str]:
    """Each command once, whichever pages name it, or those alone that draw; returns those that failed, in words."""
    known: dict[tuple[Path, str], tuple[str, int]] = {}
    with tempfile.TemporaryDirectory() as place:
        common = Path(place) / "common"
        shutil.copytree(ROOT / "docs" / "studies", common / "studies")  # which took too long to be run again
        for page in pages:
            folder = common
            if page.parent.name == "tutorials":
                folder = Path(place) / page.stem
                folder.mkdir()
            own_files(page, folder)

            def said(command: str, folder: Path = folder) -> str:
                if (folder, command) not in known:
                    known[folder, command] = printed(command, folder)
                    pictures(command, folder)
                return known[folder, command][0]

            def fill(found: re.Match[str], said: Callable[[str], str] = said) -> str:
                command = found["command"]
                shown = "" if command.startswith("make") else f"$ {command}\n"
                return f"{found[1]}```\n{shown}{said(command)}\n```\n"

            def fill_markdown(found: re.Match[str], said: Callable[[str], str] = said) -> str:
                return f"{found[1]}{said(found['command'])}\n{found[3]}"

            text = page.read_text(encoding="utf-8")
            if figures:
                named = [found["command"] for found in MARK.finditer(text)]
                drawn = [k for k, command in enumerate(named) if command in FIGURES]
                for command in named[: max(drawn) + 1] if folder != common and drawn else [named[k] for k in drawn]:
                    said(command)  # in a tutorial, also what comes before
            else:
                page.write_text(MARKDOWN.sub(fill_markdown, MARK.sub(fill, text)), encoding="utf-8")
        for command in FIGURES:
            if figures and not any(command == done for _, done in known):
                known[common, command] = printed(command, common)
                pictures(command, common)
    return [f"exit code {code}: {command}" for (_, command), (_, code) in known.items() if code]


def all_pages() -> list[Path]:
    """README and the pages, but for what stored studies have."""
    docs = ROOT / "docs"
    return [ROOT / "README.md", *sorted(p for p in docs.rglob("*.md") if "studies" not in p.relative_to(docs).parts)]


if __name__ == "__main__":
    given = [Path(p).resolve() for p in sys.argv[1:] if p != "--figures"]
    failed = main(given or all_pages(), figures="--figures" in sys.argv)
    sys.exit("\n".join(failed) or 0)
