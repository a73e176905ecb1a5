"""Runs on disk, their statistics and their pictures."""

from fastfedpg.study.runs import Interrupted, Plan, execute, plan, run
from fastfedpg.study.statistics import Interval, bootstrap

__all__ = ["Interrupted", "Interval", "Plan", "bootstrap", "execute", "plan", "run"]
