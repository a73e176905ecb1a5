"""Personal heads: part of the parameters is learned together, and the rest by each agent for itself."""

from typing import Any, NamedTuple

import jax.numpy as jnp

from fastfedpg.core import (
    Algorithm,
    Down,
    Exchange,
    Info,
    Oracle,
    Own,
    RngKey,
    Scalar,
    Theta,
    Up,
    estimate,
    local_steps,
    sgd,
)


class Memory(NamedTuple):
    """What agent i keeps: its head, and within a round the common part where it began and the gradient it sent."""

    v_i: Any
    u: Any
    g_i: Any


def personal_heads(eta: Scalar, H: int, head: float = 0.5, correct: bool = True) -> Algorithm:
    """One common part u of theta, and a head v_i at each agent: they minimise mean_i J_i(u, v_i).

        (u, v_i) <- (u, v_i) - eta (du g_i(u, v_i) - g_i + mean_i g_i, dv g_i(u, v_i)),      H times
        u+ = mean_i u_i,     v_i+ = v_i,     g_i = du g_i(u, v_i) where the round began

    du and dv are the two parts of an estimate of the gradient of J_i. Where mean_i du J_i = 0 and dv J_i = 0 for every
    agent, nobody moves. Without `correct` g_i is not there, and du g_i drives each agent's u: FedAvg-PG on u, with its
    drift. Without a head it is Fast-FedPG, or FedAvg-PG; with nothing but a head each agent learns alone.

    The head is the end of theta, as many numbers as the nearest to `head` d: of a table the last states' rows, of a
    network its last layers. `Policy.last_layer` says how many numbers the last layer and the distribution have. Each
    agent's policy is (u, v_i); it is evaluated on its own task, and heads are in no message: d - n numbers each way,
    for a head of n, and twice as many with `correct`, in two synchronisations.

    Use it where agents need not have all of a policy in common, as with a last layer of their own. Do not where one
    policy for all is asked for: it solves another problem.

    Args:
        eta: local step size.
        H: local steps in a round.
        head: the part of theta that stays with each agent, in [0, 1].
        correct: whether local steps on the common part are corrected as Fast-FedPG's are.
    """
    if not 0 <= head <= 1:
        raise ValueError(f"head = {head:g}; it is a part of theta, and must lie in [0, 1]")

    def send_gradient(memory: Memory, own: Own, u: Down, oracle: Oracle, key: RngKey) -> tuple[Memory, Own, Up, Info]:
        g, own, steps = estimate(oracle, joined(u, memory.v_i), own, key)
        return Memory(memory.v_i, u, g[: u.size]), own, g[: u.size], Info(steps=steps)

    def send_change(memory: Memory, own: Own, g: Down, oracle: Oracle, key: RngKey) -> tuple[Memory, Own, Up, Info]:
        v_i, u, g_i = memory
        whole_g_i, whole_g = (joined(part, jnp.zeros_like(v_i)) for part in (g_i, g))
        direction = lambda x, fresh: fresh - whole_g_i + whole_g  # on the head, fresh alone
        x, own, info = local_steps(oracle, direction, sgd(eta), joined(u, v_i), own, key, H)
        return Memory(x[u.size :], u, g_i), own, x[: u.size] - u, info

    def send_parameters(memory: Memory, own: Own, u: Down, oracle: Oracle, key: RngKey) -> tuple[Memory, Own, Up, Info]:
        start = joined(u, memory.v_i)
        x, own, info = local_steps(oracle, lambda x, g: g, sgd(eta), start, own, key, H)
        return memory._replace(v_i=x[u.size :]), own, x[: u.size], info

    def broadcast(theta: Theta, g: Up, share: float, key: RngKey) -> tuple[Theta, Down]:
        return theta, g

    def move(theta: Theta, change: Up, share: float, key: RngKey) -> tuple[Theta, Down]:
        return average(theta, theta[: change.size] + change, share, key)

    def average(theta: Theta, u: Up, share: float, key: RngKey) -> tuple[Theta, Down]:
        return joined(u, theta[u.size :]), u

    def init(theta: Theta, N: int) -> tuple[Theta, Down, Memory]:
        c = theta.size - round(head * theta.size)
        each = jnp.broadcast_to(theta, (N, theta.size))
        nothing = jnp.zeros((N, c), theta.dtype) if correct else jnp.zeros((N, 0), theta.dtype)
        return theta, theta[:c], Memory(each[:, c:], nothing, nothing)

    corrected = Exchange("gradient", send_gradient, broadcast), Exchange("local", send_change, move)
    return Algorithm(
        init,
        corrected if correct else (Exchange("local", send_parameters, average),),
        policy=lambda theta: theta,
        personalise=lambda theta, memory: joined(theta[: theta.size - memory.v_i.size], memory.v_i),
    )


def joined(u: Any, v: Any) -> Theta:
    """Both parts as one; without a second the first itself, which XLA then rounds as if there were no parts."""
    return jnp.concatenate([u, v]) if v.size else u
