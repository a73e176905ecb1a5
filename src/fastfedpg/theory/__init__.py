"""The paper's constants, conditions, proofs and schedules, each a function with its formula and its source."""

from fastfedpg.theory import proofs
from fastfedpg.theory.constants import (
    C_PAPER,
    C,
    lemma2_step_limit,
    self_consistent_C,
    smoothness_bound,
    theorem1_step_limit,
    truncation_bound,
    variance_bound,
)
from fastfedpg.theory.estimates import (
    Estimate,
    domination_estimate,
    hessian_norm,
    heterogeneity,
    smoothness_estimate,
    variance_estimate,
)
from fastfedpg.theory.pilot import Pilot, pilot
from fastfedpg.theory.proofs import Round
from fastfedpg.theory.right_sides import (
    G,
    beta,
    lemma1_right,
    lemma1_terms,
    lemma2_right,
    theorem1_right,
    theorem1_terms,
    theorem2_floor,
    theorem2_right,
    theorem3_right,
)
from fastfedpg.theory.schedules import Condition, Parameters, horizon, not_covered, theorem2, theorem3

__all__ = [
    "C_PAPER",
    "C",
    "Condition",
    "Estimate",
    "G",
    "Parameters",
    "Pilot",
    "Round",
    "beta",
    "domination_estimate",
    "hessian_norm",
    "heterogeneity",
    "horizon",
    "lemma1_right",
    "lemma1_terms",
    "lemma2_right",
    "lemma2_step_limit",
    "not_covered",
    "pilot",
    "proofs",
    "self_consistent_C",
    "smoothness_bound",
    "smoothness_estimate",
    "theorem1_right",
    "theorem1_step_limit",
    "theorem1_terms",
    "theorem2",
    "theorem2_floor",
    "theorem2_right",
    "theorem3",
    "theorem3_right",
    "truncation_bound",
    "variance_bound",
    "variance_estimate",
]
