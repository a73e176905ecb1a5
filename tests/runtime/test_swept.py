"""What can be swept inside one program, and what is said of what can't."""

import pytest

import fastfedpg as ff
from fastfedpg import InputError, fast_fedpg, simulate

PROBLEM = ff.with_oracle(ff.problems.compromise(), "exact")


@pytest.mark.parametrize("make", [lambda H: fast_fedpg(0.1, H), lambda H: fast_fedpg(0.1, int(H))])
def test_local_steps_decide_the_program(make):
    with pytest.raises(InputError, match="run it once for each value"):
        simulate(PROBLEM, make, 1, sweep=[2, 3])


def test_step_sizes_do_not():
    assert simulate(PROBLEM, lambda eta: fast_fedpg(eta, 2), 1, sweep=[0.1, 0.2]).theta.shape == (2, 1, 3)
