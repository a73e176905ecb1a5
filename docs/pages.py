"""MkDocs' hook: the pages that stand outside docs/, and links from pages to files of the repository.

A link that leads to a file outside docs/, or into what the site leaves out, becomes one to a copy of it as text, so
that the site stands alone. A link that leads nowhere is left as it is, and `mkdocs build --strict` refuses it.
"""

import os
import re
from pathlib import Path, PurePosixPath

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent
OUTSIDE = {
    "index.md": "README.md",
    "project/contributing.md": "CONTRIBUTING.md",
    "project/changelog.md": "CHANGELOG.md",
    "project/security.md": "SECURITY.md",
}
"""The site's name of a page, and the repository's."""

LINK = re.compile(r"(?P<before>\]\(|^\[\w+\]: )(?P<target>[^)\s#]+)(?P<anchor>#[^)\s]*)?(?=\)|\s*$)", flags=re.M)


def source(page: str) -> str:
    """Where in the repository a page of the site is written."""
    return OUTSIDE.get(page, f"docs/{page}")


def copied(target: str) -> bool:
    """Whether a file of the repository is no page and no picture of the site."""
    inside = target.startswith("docs/") and not target.startswith("docs/studies")
    return not (inside and target.endswith((".md", ".png"))) and target not in OUTSIDE.values()


def address(target: str) -> str:
    """Where the site has a file or a folder of the repository."""
    pages = {written: page for page, written in OUTSIDE.items()}
    if target in pages:
        return pages[target]
    if not copied(target):
        return target.removeprefix("docs/")
    return f"source/{target}/files.txt" if (ROOT / target).is_dir() else f"source/{target}.txt"


def targets(page: str, text: str) -> dict[str, str]:
    """Each link of a page to a file that is there, and that file's path in the repository."""
    found = {}
    for link in LINK.finditer(text):
        if not re.match(r"[a-z]+:", link["target"]):
            there = os.path.normpath(PurePosixPath(source(page)).parent / link["target"])
            if (ROOT / there).exists():
                found[link["target"]] = there
    return found


def text_of(target: str) -> str:
    """A file as it stands, or the names of the files below a folder."""
    path = ROOT / target
    if path.is_dir():
        files = sorted(p for p in path.rglob("*") if p.is_file() and "__pycache__" not in p.parts)
        return "\n".join(str(p.relative_to(ROOT)) for p in files) + "\n"
    return path.read_text(encoding="utf-8")


def on_files(files, config):
    """Add the pages from outside, and a copy of every file that a page leads to."""
    for page, written in OUTSIDE.items():
        files.append(File.generated(config, page, content=(ROOT / written).read_text(encoding="utf-8")))
    pages = [file for file in files if file.src_uri.endswith(".md")]
    for target in sorted({there for file in pages for there in targets(file.src_uri, file.content_string).values()}):
        if copied(target):
            files.append(File.generated(config, address(target), content=text_of(target)))
    return files


def on_page_markdown(markdown, page, config, files):
    """Links as the site has them."""
    here = page.file.src_uri
    known = targets(here, markdown)

    def changed(link):
        there = known.get(link["target"])
        if there is None:
            return link[0]
        to = os.path.relpath(address(there), PurePosixPath(here).parent)
        return f"{link['before']}{to}{link['anchor'] or ''}"

    return LINK.sub(changed, markdown)
