"""Momentum and the bias: FedSVRPG-M and MFPO have FedAvg-PG's to first order in eta; exact runs."""

import numpy as np

from fastfedpg.verify.others.stops import SHARES, Exact, as_fedavg, as_predicted, grows_with_eta, unbiased
from fastfedpg.verify.verdict import Row

PROVED = "proved as eta -> 0; none here", "proved as eta -> 0; biased here"


def needless(exact: Exact) -> list[Row]:
    """Against the bias momentum is neither needed, Eq. (6) has none, nor enough.

    FedSVRPG-M's direction is g_i(x) - (1 - b)(g_i(theta-) - u): where it stops u = 0 and theta- = theta, agents go b
    times FedAvg-PG's way, and stop where their mean way is 0: where FedAvg-PG does, to first order, for every b.
    MFPO's drift is shorter, and its u keeps it for longer: the two cancel.
    """
    name, average, a = exact.subject.name, exact.average, SHARES[0]
    settings = {"eta": exact.etas, "a": np.full(len(exact.etas), a)}
    mfpo = exact.stop(lambda s: exact.methods.mfpo(s["eta"], exact.H, s["a"]), settings)
    return [
        unbiased(f"Fast-FedPG, no momentum: at theta* ({name})", exact.fast, average),
        *(
            as_fedavg(f"FedSVRPG-M, b = {b:g}: bias over FedAvg-PG's ({name})", found, average)
            for b, found in exact.svrpg.items()
        ),
        as_fedavg(f"MFPO, a = {a:g}: bias over FedAvg-PG's ({name})", mfpo, average),
    ]


def vanishing(exact: Exact) -> list[Row]:
    """FedSVRPG-M has no bias as eta -> 0 with lambda fixed; at a fixed eta it has one, in proportion to it."""
    name, first = exact.subject.name, f"FedSVRPG-M, b = {SHARES[0]:g}"
    found = exact.svrpg
    rows = [unbiased(f"{first}: at theta* for a fixed eta ({name})", found[SHARES[0]], exact.average, spoken=PROVED)]
    for b, each in found.items():
        rows.append(grows_with_eta(f"FedSVRPG-M, b = {b:g}: bias in eta ({name})", each, exact.etas))
        law = f"FedSVRPG-M, b = {b:g}: FedAvg-PG's first-order law ({name})"
        rows.append(as_predicted(law, each, exact.etas[-1], exact.law))
    return rows
