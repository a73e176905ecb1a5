"""Between Gymnasium's spaces and flat vectors of numbers."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from fastfedpg.errors import printable
from fastfedpg.gym_workers.faults import REALS, Wrong, numbers, short


def converted(space: Any) -> Any:
    """Gymnasium's space as one of ours, or its name where there is none."""
    from gymnasium import spaces as theirs

    from fastfedpg import spaces as ours

    if isinstance(space, theirs.Discrete):
        return ours.Discrete(int(space.n))
    if isinstance(space, theirs.MultiDiscrete):
        return ours.MultiDiscrete(tuple(int(n) for n in space.nvec.reshape(-1)))
    if isinstance(space, theirs.Box):
        bounds = lambda x: tuple(map(float, x.reshape(-1)))
        return ours.Box(bounds(space.low), bounds(space.high))
    return f"{space}"


class Leaf(NamedTuple):
    """A space inside a Dict or a Tuple: its keys, from outside in, and what it is."""

    path: tuple[Any, ...]
    space: Any

    @property
    def name(self) -> str:
        """Its keys, as in room.heat or 0.speed."""
        return ".".join(map(str, self.path))


def leaves(space: Any, path: tuple[Any, ...] = ()) -> list[Leaf]:
    """All that is inside a Dict, in the order of the names, or a Tuple, nested too; of any other space itself.

    Names decide, and not who was declared first: agents whose factories say the same in another order are alike.
    """
    from gymnasium import spaces as theirs

    inside: list[tuple[Any, Any]]
    if isinstance(space, theirs.Dict):
        inside = sorted(space.spaces.items(), key=lambda item: str(item[0]))
    elif isinstance(space, theirs.Tuple):
        inside = [*enumerate(space.spaces)]
    else:
        return [Leaf(path, space)]
    return [leaf for key, each in inside for leaf in leaves(each, (*path, key))]


def observed(space: Any) -> Any:
    """Observations as one of our spaces, or words where there is none.

    Of a Dict or a Tuple that is a Box of everything side by side: boxes and bits as they are, discrete ones one-hot.
    """
    from gymnasium import spaces as theirs

    from fastfedpg import spaces as ours

    low: list[float] = []
    high: list[float] = []
    for leaf in leaves(space):
        bits = isinstance(leaf.space, theirs.MultiBinary)
        found = ours.box(int(np.prod(leaf.space.shape)), 0.0, 1.0) if bits else converted(leaf.space)
        if leaf.space is space:
            image = isinstance(found, ours.Box) and len(space.shape) > 1
            return found._replace(shape=tuple(map(int, space.shape))) if image else found
        if isinstance(found, str):
            return f"{space}, in which '{leaf.name}' is {found}"
        if not isinstance(found, ours.Box):
            found = ours.box(int(np.sum(found.n)), 0.0, 1.0)
        low += found.low
        high += found.high
    return ours.Box(tuple(low), tuple(high))


def described(env: Any) -> dict[str, Any]:
    """What the parent wants to know of an environment."""
    several = hasattr(env, "single_observation_space")
    kind = "single_" * several
    return {
        "observations": observed(getattr(env, f"{kind}observation_space")),
        "names": tuple(leaf.name for leaf in leaves(getattr(env, f"{kind}observation_space"))),
        "actions": converted(getattr(env, f"{kind}action_space")),
        "steps": getattr(getattr(env, "spec", None), "max_episode_steps", None),
        "part": int(env.num_envs) if several else 0,
        "native": _sendable(getattr(env, f"{kind}observation_space"), getattr(env, f"{kind}action_space")),
        "wants": printable(wants) if isinstance(wants := getattr(env, "wants", ""), str) else "",
        "fps": (getattr(env, "metadata", None) or {}).get("render_fps"),
    }


def _sendable(*spaces: Any) -> Any:
    """Gymnasium's own spaces; one of the user's may not be known where it is sent to."""
    return spaces if all(type(space).__module__.startswith("gymnasium.") for space in spaces) else None


def reader(space: Any) -> Callable[[Any], Any]:
    """From an observation to its vector, or to what can be assigned to one; one outside the space's shape is wrong."""
    inside = leaves(space)
    if not any(leaf.space is space for leaf in inside):
        return _gatherer(inside)
    start: Any = getattr(space, "start", None)
    if hasattr(space, "n") and start is not None:
        n = int(space.n)

        def number(x: Any) -> Any:
            if type(x) is not int and type(x) is not np.int64:
                x = numbers(x, ())
            if np.shape(x) not in ((), (1,)) or not 0 <= (x := x - start) < n:
                raise Wrong(f"the observation {x} is not in {space}")
            return x

        return number
    shape, usual = space.shape, space.dtype

    def flat(x: Any) -> Any:
        if type(x) is not np.ndarray or (x.dtype is not usual and x.dtype.kind not in REALS):
            x = numbers(x, shape)
        if x.shape != shape:
            raise Wrong(f"an observation has shape {x.shape}; that of its space is {shape}")
        return x if start is None else x - start

    if len(shape) == 1:
        return flat
    return lambda x: np.reshape(flat(x), -1)


def _gatherer(inside: list[Leaf]) -> Callable[[Any], Any]:
    """From an observation of a Dict or a Tuple to the numbers of all that is in it."""
    parts = [(leaf, _hot(leaf.space, reader(leaf.space))) for leaf in inside]

    def gathered(x: Any) -> Any:
        found = []
        for leaf, read in parts:
            part = x
            for key in leaf.path:
                try:
                    part = part[key]
                except (KeyError, IndexError, TypeError):
                    raise Wrong(f"the observation has no '{leaf.name}', and its space has") from None
            try:
                found.append(read(part))
            except Wrong as why:
                raise Wrong(f"'{leaf.name}' of the observation: {why}") from None
        return np.concatenate(found)

    return gathered


def _hot(space: Any, read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A reader whose discrete numbers are one-hot vectors, side by side; what is none stays as it is, laid flat."""
    ours = converted(space)
    if isinstance(ours, str) or not hasattr(ours, "n"):
        return lambda x: np.reshape(read(x), -1)
    n = np.reshape(ours.n, -1)
    first, size = np.cumsum(n) - n, int(n.sum())

    def hot(x: Any) -> Any:
        numbers = np.reshape(read(x), -1)
        if not ((numbers >= 0) & (numbers < n)).all():
            raise Wrong(f"{x} is not in {space}")
        vector = np.zeros(size)
        vector[first + numbers.astype(int)] = 1
        return vector

    return hot


def row(space: Any, batch: Any, j: int) -> Any:
    """The observation of one environment among those of several: in a Dict or a Tuple each part has them all.

    Last observations, which some vectors keep elsewhere, may be a list of whole ones.
    """
    inside = getattr(space, "spaces", None)
    if isinstance(inside, Mapping) and isinstance(batch, Mapping):
        return {key: row(each, batch[key], j) for key, each in inside.items()}
    if isinstance(inside, tuple) and isinstance(batch, tuple):
        return tuple(row(each, part, j) for each, part in zip(inside, batch, strict=True))
    return batch[j]


def _check_count(space: Any, batch: Any, size: int) -> None:
    """Say if there are not as many observations as environments, in each part of a Dict or a Tuple."""
    inside: Any = getattr(space, "spaces", None)
    if isinstance(inside, Mapping) and isinstance(batch, Mapping):
        if lacking := [key for key in inside if key not in batch]:
            raise Wrong(f"the observation has no '{lacking[0]}', and its space has")
        parts = [(each, batch[key]) for key, each in inside.items()]
    elif isinstance(inside, tuple) and isinstance(batch, tuple) and len(batch) == len(inside):
        parts = [*zip(inside, batch, strict=True)]
    else:
        try:
            count = None if isinstance(batch, Mapping) else len(batch)
        except TypeError:
            count = None
        if count is None:
            raise Wrong(f"the observation is {short(batch)}; it must be one for each of {size} environments")
        if count != size:
            raise Wrong(f"there are {count} observations, or parts of them, for {size} environments")
        return
    for each, part in parts:
        _check_count(each, part, size)


def rows(space: Any, size: int) -> Callable[[Any, np.ndarray], Any]:
    """From what several environments show to the vectors of some of them, in order: at once where it is one array."""
    one, start = reader(space), getattr(space, "start", None)
    n = int(space.n) if hasattr(space, "n") and start is not None else None
    plain, shape = not hasattr(space, "spaces"), space.shape
    flat = plain and start is None and n is None and len(shape) == 1
    every = (size, *shape) if plain else ()

    def read(batch: Any, which: np.ndarray) -> Any:
        if flat and type(batch) is np.ndarray and batch.shape == every and batch.dtype.kind in REALS:
            return batch if len(which) == size else batch[which]
        if not plain:
            _check_count(space, batch, size)
            return [one(row(space, batch, j)) for j in which]
        batch = numbers(batch, every)
        if batch.shape[:1] != every[:1]:
            raise Wrong(f"observations have shape {batch.shape}; those of {size} environments have {every}")
        if batch.shape == every:
            found = batch if len(which) == size else batch[which]
            found = found if start is None else found - start
            if n is None or ((found >= 0) & (found < n)).all():
                return found.reshape(len(which), -1)
        return [one(row(space, batch, j)) for j in which]

    return read


def writer(space: Any) -> Callable[[np.ndarray], Any]:
    """From an action's vector to the action the environment takes."""
    start: Any = getattr(space, "start", None)
    if hasattr(space, "n"):
        offset = int(start)
        return lambda x: int(x[0]) + offset
    shape, dtype = space.shape, space.dtype
    if start is None and np.issubdtype(dtype, np.integer):
        return lambda x: np.rint(x).reshape(shape).astype(dtype)
    if start is None:
        return lambda x: x.reshape(shape).astype(dtype)
    return lambda x: (x.reshape(shape) + start).astype(dtype)


def each_action(space: Any) -> Callable[[np.ndarray], list[Any]]:
    """From actions, a row for each environment, to what each of them takes."""
    write = writer(space)
    if not hasattr(space, "n"):
        return lambda actions: [write(x) for x in actions]
    offset = int(space.start)
    return lambda actions: [int(x) + offset for x in actions[:, 0].tolist()]


def writers(space: Any, dtype: Any) -> Callable[[np.ndarray], Any]:
    """From the actions of several environments, a row for each, to what their vector environment takes."""
    start: Any = getattr(space, "start", None)
    if start is None and np.issubdtype(space.dtype, np.integer):
        return lambda x: np.rint(x).reshape(-1, *space.shape).astype(dtype)
    shape = (-1, *space.shape)
    if start is not None and not np.any(start):
        return lambda x: x.reshape(shape).astype(dtype)
    return lambda x: (x.reshape(shape) + (0 if start is None else start)).astype(dtype)
