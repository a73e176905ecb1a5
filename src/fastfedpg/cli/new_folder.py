"""A new folder under runs/, for a run that was given none."""

import os
from datetime import datetime
from pathlib import Path

from fastfedpg.registry import is_own


def new_folder(*names: str) -> Path:
    """A folder that no other run has: what it is of, the time, and the process."""
    return Path("runs") / "-".join([*map(_short, names), datetime.now().strftime("%Y%m%d-%H%M%S"), str(os.getpid())])


def _short(name: str) -> str:
    """A problem's or an algorithm's name, as part of a folder's."""
    return Path(name).stem.replace(":", "-") if not is_own(name) else name.rpartition(":")[2]
