"""Runs on disk, their statistics and their pictures."""

from fastfedpg.study.plans import Plan, plan
from fastfedpg.study.runs import Interrupted, begin, execute, reopen, resume, run
from fastfedpg.study.statistics import Interval, bootstrap

__all__ = ["Interrupted", "Interval", "Plan", "begin", "bootstrap", "execute", "plan", "reopen", "resume", "run"]
