"""What playing a policy in an environment leaves behind, whatever played it."""

from typing import NamedTuple

from jaxtyping import Array, Bool, Float


class Episodes(NamedTuple):
    """B lanes of K steps: an episode each, padded after its end with rewards of 0; or one episode after another.

    Where lanes go on, a step that is not taken stands between two episodes: its observation is the last one of the
    episode before it, so that what a step led to always stands one place further on.

    An episode that did not terminate was cut: by K, or by its environment's own time limit. Then the world went on from
    its last observation, and what would have come is not 0.
    """

    observations: Float[Array, "B K+1 o"]  # after a last episode's end its last observation is repeated
    choices: Float[Array, "B K a"]  # what the policy drew, before it became an action
    rewards: Float[Array, "B K"]  # in the user's units
    alive: Bool[Array, "B K"]  # whether the step was taken
    terminated: Bool[Array, "B K"]  # whether nothing comes after the step
