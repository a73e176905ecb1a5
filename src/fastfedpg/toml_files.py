"""TOML files, and where they are wrong: by line and column, also where they are cut off."""

import tomllib
from pathlib import Path
from typing import Any

from fastfedpg.errors import InputError
from fastfedpg.files import read_bytes, read_text

END = "(at end of document)"


def read_toml(path: Path | str) -> dict[str, Any]:
    """What a TOML file says."""
    path, text = Path(path), ""
    try:
        text = read_text(path, "utf-8-sig").replace("\r\n", "\n")
        return tomllib.loads(text)
    except IsADirectoryError:
        raise InputError(f"{path}: a folder; give the file, {path / 'config.toml'}") from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        before = read_bytes(path)[: error.start].decode("utf-8", "replace")
        raise InputError(f"{path}: not a TOML file (a byte that is no UTF-8 {_place(before)})") from None
    except (ValueError, RecursionError) as error:  # no TOML, or numbers and nesting beyond Python's limits
        said = str(error).replace(END, f"({_place(text)}, where the file ends)")
        raise InputError(f"{path}: not a TOML file ({said})") from None


def _place(before: str) -> str:
    """Where one is after some text, counted from 1, as in tomllib's own words."""
    return f"at line {before.count(chr(10)) + 1}, column {len(before) - before.rfind(chr(10))}"
