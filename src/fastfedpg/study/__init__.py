"""Runs on disk, their statistics and their pictures."""

from fastfedpg.study.run import Interrupted, Plan, RunDiverged, execute, plan, run
from fastfedpg.study.statistics import Interval, bootstrap

__all__ = ["Interrupted", "Interval", "Plan", "RunDiverged", "bootstrap", "execute", "plan", "run"]
