"""TensorBoard's event files, by tensorboardX, which needs no TensorFlow."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tensorboardX import SummaryWriter
from tensorboardX.summary import hparams

FLUSH_SECONDS = 5


class EventFile:
    """An event file in a folder of its own."""

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self.writer = SummaryWriter(str(folder), flush_secs=FLUSH_SECONDS)
        plain = {name: x if isinstance(x, bool | int | float | str) else str(x) for name, x in settings.items()}
        for summary in hparams(plain, {}):
            self.writer.file_writer.add_summary(summary)
        rows = "\n".join(f"| {name} | {x} |" for name, x in plain.items())
        self.writer.add_text("settings", f"| setting | value |\n|---|---|\n{rows}")

    def add(self, round: int, scalars: Mapping[str, float]) -> None:
        """A scalar each, at its round."""
        for name, x in scalars.items():
            self.writer.add_scalar(name, x, round)

    def close(self, state: str) -> None:
        """Write what is left, and how the run ended."""
        self.writer.add_text("state", state)
        self.writer.close()


def begin(folder: Path, title: str, settings: Mapping[str, Any]) -> EventFile:
    """A new event file; TensorBoard calls a run as its folder is called."""
    return EventFile(folder, settings)
