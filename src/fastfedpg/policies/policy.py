"""What a policy is: a distribution over actions for every observation, on a flat theta."""

from collections.abc import Callable
from typing import Any, NamedTuple

from fastfedpg.errors import InputError
from fastfedpg.spaces import Space


class Policy(NamedTuple):
    """A distribution over actions for every observation, with parameters theta in R^d.

    `choose`, `action` and `log_prob` broadcast over leading axes of their later arguments, and answer NumPy with NumPy,
    JAX with JAX: the same definition plays in a compiled program and beside a Gymnasium environment. With NumPy a row's
    answer is the same to the bit whatever rows stand beside it.

    With a `memory` of m numbers an episode begins with m zeros. `choose` is told them after the observation, and gives
    the next ones after its choice; whoever plays carries them over. `log_prob`, `kl`, `entropy` and `surprise` are then
    asked about whole sequences, (…, K, o + 1), of observations with a number after each: 1 where an episode begins.
    """

    size: int  # d
    init: Callable[[Any], Any]  # (key) -> theta (d,): where learning starts
    noise: Callable[..., Any]  # (key, shape, dtype) -> (*shape, w): all randomness that choices need
    choose: Callable[[Any, Any, Any], Any]  # (theta (d,), observation (…, o), noise (…, w)) -> choice (…, a)
    action: Callable[[Any], Any]  # (choice (…, a)) -> action (…, a), as the environment wants it
    log_prob: Callable[[Any, Any, Any], Any]  # (theta, observation (…, o), choice (…, a)) -> (…)
    width: int  # of the vector x that networks see: the observation, perhaps normalised, or one-hot
    enter: Callable[[Any, Any, Any], Any]  # (theta, observation (…, o), M (width, q)) -> x M (…, q)
    normalise: Callable[[Any, Any, Any], Any] | None = None  # (theta, mean (o,), std (o,)) -> theta
    surprise: Callable[[Any, Any, Any], Any] | None = None  # what tau multiplies in the cost, if not log_prob
    kl: Callable[[Any, Any, Any], Any] | None = None  # (theta, other, observation (…, o)) -> KL(pi_theta || pi_other)
    entropy: Callable[[Any, Any], Any] | None = None  # (theta, observation (…, o)) -> -E log pi (…), in closed form
    memory: int = 0  # numbers that it keeps within an episode

    @property
    def parts(self) -> Any:
        """Its input, network and head (`makers.PolicyParts`), where it is made of them."""
        return getattr(self.choose, "__self__", None)

    @property
    def at_its_mode(self) -> "Policy":
        """The same, but that it always chooses what is likeliest, or the mean; one of one's own can't say that."""
        if not hasattr(self.parts, "mode"):
            raise InputError("deterministic actions need a policy of fastfedpg.policies; this one is one's own")
        return self._replace(choose=self.parts.mode)

    @property
    def last_layer(self) -> int:
        """How many numbers at the end of theta belong to its last layer and to its distribution; all, if unknown."""
        return self.size if self.parts is None else int(self.parts.last_layer)


class Acting(NamedTuple):
    """A policy, and what it acts on."""

    policy: Policy
    observations: Space
    actions: Space
