"""Where a simulation's agents are computed: how many at a time, and on which devices."""

from typing import Any, NamedTuple

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from fastfedpg.core import Problem
from fastfedpg.errors import InputError
from fastfedpg.runtime.pytrees import is_key
from fastfedpg.runtime.schedule import Order, Schedule

AXIS = "agents"
"""The mesh's only axis."""

EVERYWHERE = PartitionSpec()
"""The same on every device."""

TASKS = PartitionSpec(AXIS)
"""Arrays (N, …), a block of neighbouring agents on each device."""

AGENTS = PartitionSpec(None, AXIS)
"""Arrays (runs, N, …), likewise."""


class Layout(NamedTuple):
    """m agents take part in a round; `batch` of them are computed at a time, on the devices of a mesh if any."""

    m: int
    batch: int | None = None
    mesh: Mesh | None = None
    order: Order = "random"
    speeds: tuple[float, ...] | None = None

    @property
    def shards(self) -> int:
        """How many devices share the agents."""
        return 1 if self.mesh is None else self.mesh.size

    def place(self, tree: Any, spec: PartitionSpec) -> Any:
        """Arrays that every process has, as arrays on the mesh, to which each process gives its own part."""
        mesh = self.mesh
        if mesh is None:
            return jax.tree.map(jax.numpy.asarray, tree)

        def put(x: Any) -> Any:
            if is_key(x):
                return jax.random.wrap_key_data(put(jax.random.key_data(x)), impl=jax.random.key_impl(x))
            host = np.asarray(x, jax.dtypes.canonicalize_dtype(np.asarray(x).dtype))
            return jax.make_array_from_callback(host.shape, NamedSharding(mesh, spec), lambda index: host[index])

        return jax.tree.map(put, tree)

    def whole(self, tree: Any) -> Any:
        """All of an array, in every process. All processes must ask, since each has a part of the answer."""
        if self.mesh is None:
            return tree

        def get(x: Any) -> Any:
            if is_key(x):
                return jax.random.wrap_key_data(get(jax.random.key_data(x)), impl=jax.random.key_impl(x))
            there = not isinstance(x, jax.Array) or x.is_fully_addressable or x.is_fully_replicated
            return np.asarray(x if there else multihost_utils.process_allgather(x, tiled=True))

        return jax.tree.map(get, tree)

    def agreed(self, number: int) -> int:
        """What the first process says: clocks differ, and all processes must do the same number of rounds."""
        if self.mesh is None or jax.process_count() == 1:
            return number
        return int(multihost_utils.broadcast_one_to_all(np.int32(min(number, 2**30))))


def layout_of(problem: Problem, schedule: Schedule) -> Layout:
    """Check `agent_batch` and `shards` against the agents and devices that there are."""
    mesh, n, whose = None, schedule.taking_part(problem), "that take part in a round"
    if schedule.shards is not None:
        mesh = _mesh(schedule.shards, problem.N)
        n, whose = problem.N // schedule.shards, f"of each of {schedule.shards} shards"
    batch = schedule.agent_batch
    if batch is not None and (batch < 1 or n % batch):
        near = ", ".join(map(str, _divisors_near(batch, n)))
        raise InputError(f"agent_batch = {batch}; it must divide the {n} agents {whose}, as {near} would")
    speeds = None if schedule.speeds is None else tuple(map(float, schedule.speeds))
    return Layout(schedule.taking_part(problem), None if batch == n else batch, mesh, schedule.order, speeds)


def _mesh(shards: int, N: int) -> Mesh:
    if shards < 1:
        raise InputError(f"shards = {shards}; it must be at least 1")
    if shards > N:
        raise InputError(f"shards = {shards}; there are only {N} agents to split, so it must be at most {N}")
    if N % shards:
        near = ", ".join(map(str, _divisors_near(shards, N)))
        raise InputError(f"shards = {shards}; it must divide the number of agents, {N}, as {near} would")
    devices = jax.devices()
    if shards > len(devices):
        raise InputError(
            f"shards = {shards}; JAX sees {len(devices)} device{'s' * (len(devices) > 1)}. On a processor as many as "
            f"wanted come with XLA_FLAGS=--xla_force_host_platform_device_count={shards} in the environment, before "
            "Python starts"
        )
    idle = {*range(jax.process_count())} - {d.process_index for d in devices[:shards]}
    if idle:
        raise InputError(
            f"shards = {shards} leaves process {min(idle)} without agents; {len(devices)} shards use all devices"
        )
    return Mesh(np.array(devices[:shards]), (AXIS,))


def _divisors_near(wanted: int, n: int) -> list[int]:
    """The largest divisor of n below what was wanted, and the smallest above, where there are such."""
    divisors = [k for k in range(1, int(n**0.5) + 1) if n % k == 0]
    divisors += [n // k for k in reversed(divisors)]
    below, above = [k for k in divisors if k < wanted], [k for k in divisors if k > wanted]
    return [*below[-1:], *above[:1]]
