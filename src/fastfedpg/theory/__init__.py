"""The paper's constants and conditions, each a function with its formula and its source."""

from fastfedpg.theory.constants import lemma2_step_limit, smoothness_bound

__all__ = ["lemma2_step_limit", "smoothness_bound"]
