"""What can go wrong where environments are played, in words."""

import os
import traceback
from pathlib import Path

from fastfedpg.errors import text_of


class Wrong(Exception):
    """What an environment did that it should not."""


class Refused(Exception):
    """What can't be done, through no fault of the environment's code."""


def blamed(why: BaseException) -> str:
    """An exception in words, with the place in the user's own code, or else where it was raised."""
    frames = traceback.extract_tb(why.__traceback__)
    here, library = str(Path(__file__).parent), str(Path(os.__file__).parent)
    ours = (here, library, "site-packages", "dist-packages", "<frozen")
    theirs = [x for x in frames if not any(part in x.filename for part in ours)]
    place = (theirs or list(frames))[-1]
    return f"{type(why).__name__}: {text_of(why)} ({place.filename}:{place.lineno})"
