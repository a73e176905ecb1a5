"""What a method asks of an oracle is what it says that it needs: so it is refused before anything is played."""

import jax
import jax.numpy as jnp
import pytest

from conformance_rows import TABLE
from fastfedpg import InputError, mdpgt
from fastfedpg.oracles import ANSWERED_BY
from fastfedpg.runtime.schedule import check_answers
from fastfedpg.runtime.walk import counting_oracle, walk

N, d = 3, 4


@pytest.mark.parametrize("row", TABLE.values(), ids=TABLE)
def test_no_more_is_asked_for_than_is_needed(row):
    """A walk with an oracle that answers the first four and, of each "one or another", one of them: each in turn."""
    algorithm, every = row.make(0.1), counting_oracle(lambda B: 1, d, 2)._replace(anywhere=True)
    for chosen in {tuple(need.split(" or ")[which] for need in algorithm.needs) for which in (0, -1)}:
        bare = every._replace(**{name: False if name == "anywhere" else None for name in {*ANSWERED_BY} - {*chosen}})
        walked = jax.eval_shape(lambda theta, bare=bare: walk(algorithm, bare, theta, N).policy, jnp.zeros(d))
        assert walked.shape in ((d,), (N, d))


def test_momentum_on_a_graph_is_refused_before_it_starts_and_tracking_alone_is_not():
    """mdpgt weighs trajectories where b < 1, and only there."""
    silent = counting_oracle(lambda B: 1, d, 2)._replace(log_prob=None, credit=None)
    with pytest.raises(InputError, match="needs anywhere or log_prob, which the problem's oracle does not answer"):
        check_answers(mdpgt(0.1), silent)
    check_answers(mdpgt(0.1, b=1.0), silent)
