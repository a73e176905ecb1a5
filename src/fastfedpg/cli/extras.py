"""What a command can't do without, looked for before it starts."""

import importlib.util
import sys

from fastfedpg.errors import InputError, missing_extra


def need_flower() -> None:
    """Refuse a command that needs the extra `federation` where it can't run, or is not installed."""
    if sys.platform != "linux":
        raise InputError(f"this command needs Linux, and this is {sys.platform}; all but federation runs here too")
    if importlib.util.find_spec("flwr") is None:
        raise missing_extra("this command", "Flower", "federation")
