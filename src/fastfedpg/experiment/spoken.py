"""How a person or an environment says observations and actions, and the rows of numbers that a policy takes."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from fastfedpg.errors import InputError
from fastfedpg.gym_workers.faults import Wrong
from fastfedpg.gym_workers.flatten import converted, observed, reader, writer
from fastfedpg.policies.informed import beside
from fastfedpg.spaces import Box, Discrete, Space, said


class Spoken(NamedTuple):
    """The spaces of a policy; with `native`, Gymnasium's own, whose shapes, types and first numbers are used."""

    observations: Space
    actions: Space
    native: tuple[Any, Any] | None = None
    columns: int = 0  # of the context that the policy sees beside an observation
    context: np.ndarray | None = None  # whose it is, if somebody's

    def like(self, env: Any) -> "Spoken":
        """In an environment's own spaces, which must be those that the policy knows."""
        native = env.observation_space, env.action_space
        pairs = ("observations", self.observations), ("actions", self.actions)
        found = observed(native[0]), converted(native[1])
        for (what, ours), theirs in zip(pairs, found, strict=True):
            if theirs != ours and not (isinstance(theirs, Box) and _fits(ours, theirs)):
                words = theirs if isinstance(theirs, str) else said(theirs)
                raise InputError(f"the policy's {what} are {said(ours)}; those of the environment are {words}")
        return self._replace(native=native)

    def heard(self, observation: Any) -> tuple[np.ndarray, bool]:
        """Rows of numbers (B, o), with the context beside them, and whether it is a single observation."""
        rows, one = self._shown(observation)
        if not self.columns:
            return rows, one
        if self.context is None:
            raise InputError("the policy sees its agent's context, too: say whose, as in load(folder, agent=0)")
        return beside(np, self.observations, rows, self.context), one

    def _shown(self, observation: Any) -> tuple[np.ndarray, bool]:
        space = self.observations
        if self.native is not None and self.native[0].shape is None and isinstance(observation, Mapping | tuple):
            try:
                return np.asarray(reader(self.native[0])(observation), np.float64)[None], True
            except Wrong as why:
                raise InputError(f"{why}") from None
        own = None if self.native is None else self.native[0].shape  # a Dict has none
        shape = () if isinstance(space, Discrete) else (space.width,) if own is None else own
        start = 0 if self.native is None else getattr(self.native[0], "start", 0)
        try:
            x = np.asarray(observation, np.float64)
        except (TypeError, ValueError):
            x = np.full((0, 0, 0), np.nan)
        if x.shape != shape and x.shape[1:] != shape:
            given = np.shape(observation) if x.size else type(observation).__name__
            one = f"shape {shape}" if shape else "a number"
            several = f"(B, {', '.join(map(str, shape))})" if shape else "(B,)"
            raise InputError(f"an observation of {given}; one of {said(space)} is {one}, and several are {several}")
        rows = x.reshape(-1, *shape) - start
        rows = rows.reshape(len(rows), -1)
        inside = np.isfinite(rows)
        if not isinstance(space, Box):
            inside &= (rows >= 0) & (rows < np.array(space.n)) & (rows == np.round(rows))
        if not inside.all():
            wrong = x.reshape(len(rows), -1)[~inside][0]
            first = f", from {start} on" * bool(np.any(start))
            raise InputError(f"the observation {wrong:g} is not in {said(space)}{first}")
        return rows, x.shape == shape

    def said(self, actions: np.ndarray, one: bool) -> Any:
        """Actions (B, a) as the space has them: of one observation the action, else an array of all."""
        if self.native is not None:
            write = writer(self.native[1])
            return write(actions[0]) if one else np.stack([np.asarray(write(x)) for x in actions])
        if isinstance(self.actions, Discrete):
            return int(actions[0, 0]) if one else actions[:, 0].astype(int)
        actions = actions if isinstance(self.actions, Box) else actions.astype(int)
        return actions[0] if one else actions


def _fits(ours: Space, theirs: Box) -> bool:
    """Boxes of one width: bounds may differ where observations are only read."""
    return isinstance(ours, Box) and ours.width == theirs.width
