"""What a command can't do without, looked for before it starts."""

import importlib.util
import sys

from fastfedpg.errors import InputError, missing_extra


def need_flower() -> None:
    """Refuse a command that needs the extra `federation`, where it is not installed, or where it would leave processes."""
    if sys.platform != "linux":
        raise InputError(
            f"this command needs Linux, and this is {sys.platform}: docs/install.md says what runs elsewhere"
        )
    if importlib.util.find_spec("flwr") is None:
        raise missing_extra("this command", "Flower", "federation")
