"""MLflow's store as one SQLite file, which `mlflow ui --backend-store-uri sqlite:///…/mlflow.db` shows."""

import itertools
import logging
import os
import re
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"  # before it is imported: it would say abroad that it is used

from mlflow import MlflowClient
from mlflow.entities import Metric, Param

LONGEST = 500
"""Letters of a setting's value that every version takes."""

STATES = {"finished": "FINISHED", "interrupted": "KILLED"}
BEGUN = itertools.count()
AT_ONCE = 1000
"""Metrics that one call takes."""


class Store:
    """One run of one experiment, in a file of its own."""

    def __init__(self, folder: Path, title: str, settings: Mapping[str, Any]) -> None:
        logging.getLogger("mlflow").setLevel(logging.WARNING)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its own, about the versions of what it uses
            # MLflow keeps what it opened by its name: a run that goes on in one process gets another for its new file.
            again = "./" * next(BEGUN)
            self.client = MlflowClient(tracking_uri=f"sqlite:///{folder}/{again}mlflow.db")
            number = self.client.create_experiment("fastfedpg", artifact_location=(folder / "artifacts").as_uri())
            self.run = self.client.create_run(number, run_name=title).info.run_id
        params = [Param(_name(name), str(x)[:LONGEST]) for name, x in settings.items()]
        for k in range(0, len(params), 100):
            self.client.log_batch(self.run, params=params[k : k + 100])

    def add(self, round: int, scalars: Mapping[str, float]) -> None:
        """A metric each, with the round as its step."""
        now = int(1000 * time.time())
        metrics = [Metric(_name(name), x, now, round) for name, x in scalars.items()]
        for k in range(0, len(metrics), AT_ONCE):
            self.client.log_batch(self.run, metrics=metrics[k : k + AT_ONCE])

    def close(self, state: str) -> None:
        """How the run ended, in MLflow's words."""
        self.client.set_terminated(self.run, STATES.get(state, "FAILED"))


def _name(name: str) -> str:
    """A name with those signs alone that MLflow takes."""
    return re.sub(r"[^\w\-. /]", "_", name)


def begin(folder: Path, title: str, settings: Mapping[str, Any]) -> Store:
    """A new store."""
    return Store(folder, title, settings)
