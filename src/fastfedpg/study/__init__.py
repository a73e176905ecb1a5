"""Runs on disk, their statistics and their pictures."""

from fastfedpg.study.runs import Interrupted, Plan, begin, execute, plan, run
from fastfedpg.study.statistics import Interval, bootstrap

__all__ = ["Interrupted", "Interval", "Plan", "begin", "bootstrap", "execute", "plan", "run"]
