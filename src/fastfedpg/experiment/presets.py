"""Settings that were found to work, by name: files of ours that are read as any configuration is."""

from pathlib import Path

from fastfedpg.errors import unknown
from fastfedpg.files import read_text
from fastfedpg.registry import PACKAGE

PRESETS = PACKAGE / "presets"


def known() -> list[str]:
    """Their names."""
    return sorted(file.stem for file in PRESETS.glob("*.toml"))


def said(name: str) -> str:
    """What its file says first of itself."""
    return read_text(find(name), "utf-8").partition("\n")[0].removeprefix("# ")


def find(name: str) -> Path:
    """The file of one."""
    if name not in known():
        raise unknown("preset", name, known())
    return PRESETS / f"{name}.toml"
