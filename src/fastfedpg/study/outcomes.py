"""Runs as a comparison sees them: read from their folders, one outcome for each."""

from typing import NamedTuple

import numpy as np

from fastfedpg.config import Config
from fastfedpg.runtime import Result


class Outcome(NamedTuple):
    """A run that has come to its end, under the name that tables and legends give it."""

    label: str
    config: Config
    seeds: tuple[int, ...]
    result: Result  # arrays with the leading axis of the seeds
    samples: np.ndarray  # (records,): all agents together, from the start
    unit: str  # what the samples are: "environment steps", or "gradient estimates" where nothing is played
    seconds: float
