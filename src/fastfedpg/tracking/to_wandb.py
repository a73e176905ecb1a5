"""Weights & Biases, offline: a folder that `wandb sync` uploads if its owner wants that; nothing is sent by itself."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import wandb

HERE = ("WANDB_CACHE_DIR", "WANDB_DATA_DIR", "WANDB_CONFIG_DIR", "WANDB_ARTIFACT_DIR")
"""Where it would else put logs and copies: into the user's home."""


class Offline:
    """One run in a folder of its own."""

    def __init__(self, folder: Path, title: str, settings: Mapping[str, Any]) -> None:
        how = wandb.Settings(
            mode="offline",
            console="off",
            silent=True,
            symlink=False,
            disable_git=True,
            disable_code=True,
            save_code=False,
            disable_job_creation=True,
            x_disable_stats=True,
            x_disable_meta=True,
            x_disable_machine_info=True,
            x_save_requirements=False,
        )
        with _kept_in(folder):
            self.run = wandb.init(
                project="fastfedpg",
                name=title,
                config=dict(settings),
                dir=str(folder),
                settings=how,
                reinit="create_new",
            )

    def add(self, round: int, scalars: Mapping[str, float]) -> None:
        """A row of its history, with the round as its step."""
        self.run.log({**scalars, "round": round}, step=round)

    def close(self, state: str) -> None:
        """What is left is written."""
        self.run.summary["state"] = state
        self.run.finish(exit_code=0 if state == "finished" else 1)


@contextmanager
def _kept_in(folder: Path) -> Iterator[None]:
    """Its own program is started with these, and ends with us."""
    here = {"WANDB_ERROR_REPORTING": "false", **dict.fromkeys(HERE, str(folder))}
    before = {name: os.environ.get(name) for name in here}
    os.environ.update(here)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def begin(folder: Path, title: str, settings: Mapping[str, Any]) -> Offline:
    """A new run."""
    return Offline(folder, title, settings)
