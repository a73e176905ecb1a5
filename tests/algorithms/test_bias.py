"""Where methods with local steps stop, to first order in eta."""

import numpy as np
import pytest

from fastfedpg import fast_fedpg, fedavg_pg, fedsvrpg_m
from stopping_points import PROBLEMS, derivatives, pushed, stops

H = 5


@pytest.mark.parametrize("name", PROBLEMS)
def test_fedavgs_bias_is_eta_half_of_h_less_one_times_the_conflict(name):
    """(theta_FedAvg - theta*)/eta -> (H-1)/2 (hess J)^-1 mean_i[hess J_i grad J_i]; what is missing falls with eta.

    x_l = theta - eta l grad J_i + O(eta^2), so that the mean gradient of a round is grad J - eta (H-1)/2 mean_i[hess
    J_i grad J_i] + O(eta^2), which is 0 where it stops. FedSVRPG-M stops there too,
    whatever b is; Fast-FedPG stops at theta*.
    """
    problem, best = PROBLEMS[name]()
    g, hess = derivatives(problem, best)
    wanted = (H - 1) / 2 * pushed(hess, np.einsum("nij,nj->i", hess, g) / problem.N)
    assert np.linalg.norm(wanted) > 1e-2
    etas = np.array([2e-3, 2e-4])
    for make in (lambda eta: fedavg_pg(eta, H), lambda eta: fedsvrpg_m(eta, H, 0.3)):
        bias = (stops(make, problem, best, etas) - best) / etas[:, None]
        off = np.linalg.norm(bias - wanted, axis=1) / np.linalg.norm(wanted)
        assert off[1] < 0.01
        assert off[1] == pytest.approx(off[0] / 10, rel=0.2)
    there = stops(lambda eta: fast_fedpg(eta, H), problem, best, etas)
    np.testing.assert_allclose(there, np.tile(best, (2, 1)), atol=1e-10)
