"""Model averaging is biased, and strategies like Fast-FedPG's are not: exact runs, on tables with entropy."""

from fastfedpg.verify.listening import counted
from fastfedpg.verify.others.stops import Exact, as_predicted, biased, grows_with_eta, unbiased
from fastfedpg.verify.verdict import Row


def model_averaging(exact: Exact) -> list[Row]:
    """The update before Eq. (6), x <- x - eta grad J_i(x), and the mean of what it leads to.

    With H > 1 it stops where grad J = eta (H-1)/2 mean_i[hess J_i grad J_i] + O(eta^2): off theta* in proportion to
    eta. With H = 1 it is centralised PG, and Eq. (6) has none of it for any H. Without a server, (I - W) Theta = -eta
    G(Theta): agents take their gradients apart from each other even with one local step, and the mean is off too.
    """
    H, etas, name, methods = exact.H, exact.etas, exact.subject.name, exact.methods
    average, fast = exact.average, exact.fast
    single = exact.stop(lambda eta: methods.fedavg(eta * H, 1))
    graph = exact.stop(lambda eta: methods.decentralised(eta * H))
    return [
        biased(f"FedAvg-PG, H = {H}: off theta* ({name})", average),
        grows_with_eta(f"FedAvg-PG, H = {H}: bias in eta ({name})", average, etas),
        as_predicted(f"FedAvg-PG, H = {H}: first-order law ({name})", average, etas[-1], exact.law),
        unbiased(f"FedAvg-PG, H = 1: at theta* ({name})", single, average),
        unbiased(f"Fast-FedPG, H = {H}: at theta* ({name})", fast, average),
        biased(f"decentralised PG, ring: off theta* ({name})", graph),
    ]


UNCLEAR = "unclear a priori; exact here", "unclear a priori; biased here"


def similar(exact: Exact) -> list[Row]:
    """FedLin and SCAFFOLD, whose correction Eq. (6) resembles: whether they reach theta* with policy gradients too."""
    H, both = exact.H, {"FedLin-PG": exact.methods.fedlin, "SCAFFOLD-PG": exact.methods.scaffold}
    return [
        unbiased(
            f"{who}, H = {H}: at theta* ({exact.subject.name})",
            exact.stop(lambda eta, make=make: make(eta, H)),  # type: ignore[misc]
            exact.average,
            spoken=UNCLEAR,
        )
        for who, make in counted(both.items())
    ]
