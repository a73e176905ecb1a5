"""What a command can't do without, looked for before it starts."""

import importlib.util

from fastfedpg.errors import missing_extra


def need_flower() -> None:
    """Refuse a command that needs the extra `federation`, where it is not installed."""
    if importlib.util.find_spec("flwr") is None:
        raise missing_extra("this command", "Flower", "federation")
