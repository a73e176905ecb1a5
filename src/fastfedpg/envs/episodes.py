"""What playing a policy in an environment leaves behind, whatever played it."""

from typing import NamedTuple

from jaxtyping import Array, Bool, Float


class Episodes(NamedTuple):
    """B episodes of at most K steps; after its end an episode is padded, with rewards of 0.

    An episode that did not terminate was cut: by K, or by its environment's own time limit. Then the world went on from
    its last observation, and what would have come is not 0.
    """

    observations: Float[Array, "B K+1 o"]  # after an episode's end its last observation is repeated
    choices: Float[Array, "B K a"]  # what the policy drew, before it became an action
    rewards: Float[Array, "B K"]  # in the user's units
    alive: Bool[Array, "B K"]  # whether the step was taken
    terminated: Bool[Array, " B"]
