"""Runs on disk, their statistics and their pictures."""

from fastfedpg.study.comparison import Comparison
from fastfedpg.study.comparisons import compare, compare_runs
from fastfedpg.study.plans import Plan, plan
from fastfedpg.study.runs import Interrupted, begin, execute, reopen, resume, run
from fastfedpg.study.statistics import Interval, bootstrap

__all__ = [
    "Comparison",
    "Interrupted",
    "Interval",
    "Plan",
    "begin",
    "bootstrap",
    "compare",
    "compare_runs",
    "execute",
    "plan",
    "reopen",
    "resume",
    "run",
]
