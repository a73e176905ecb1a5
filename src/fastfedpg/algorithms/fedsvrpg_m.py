"""FedSVRPG-M, after Wang, He, Zhang, Miao and Anderson, "Momentum for the Win" (2024)."""

from typing import NamedTuple

from fastfedpg.core import (
    WEIGHTS,
    Algorithm,
    Exchange,
    Info,
    Oracle,
    Own,
    RngKey,
    Scalar,
    Theta,
    check_positive,
    check_share,
    effective_share,
    local_steps,
    log_weights,
    once,
    sgd,
    watch,
    weighted_gradient,
)


class Broadcast(NamedTuple):
    """The server's parameters, and those of the round before."""

    theta: Theta
    old: Theta


def fedsvrpg_m(eta: Scalar, H: int, b: Scalar = 0.2, lam: Scalar | None = None) -> Algorithm:
    """Local steps along a momentum that all agents share, kept fresh by importance weights.

        v    = b g_i(x;tau) + (1 - b) (u + g_i(x;tau) - w g_i(theta-;tau)),    tau ~ pi_x,  w = p(tau|theta-) / p(tau|x)
        x   <- x - eta v,  H times from x = theta
        u+   = -mean_i (x - theta) / (eta H),     theta+ = theta - lam u+,     u = 0 and theta- = theta at first

    theta- is theta of the round before. w is the product over all steps of a trajectory, each of the B has its own, and
    E[w g_i(theta-;tau)] = grad J_i(theta-); where gradients are exact, that is what it becomes. The metric `ess` is the
    effective number of trajectories as a share of B.

    v = g_i(x) - (1 - b)(g_i(theta-) - u): 1 - b of Fast-FedPG's correction, from an anchor one round old. b = 1 is
    FedAvg-PG with a server step. Where it stops theta- = theta, so u = 0: agents then go b times FedAvg's way, exactly
    so on quadratics, and stop where their mean way is 0. That is FedAvg-PG's fixed point with the same eta and H, for
    every b and lam, to first order in eta: no heterogeneity remains only as eta -> 0, with eta << lam / H.

    H estimates a round; u = (theta- - theta) / lam is not sent. Agents that never miss a round know theta- themselves.

    Public code begins the momentum anew in each round, pairs x with the local iterate before, takes H - 1 steps, or
    adds eta times the gradient of minus the return.

    Use it where noise decides and weights stay near 1 (look at `ess`): short trajectories, small steps. Do not to
    remove the bias of heterogeneity at a fixed eta.

    Args:
        b: weight of the fresh gradient, in (0, 1].
        lam: server step size; eta H unless given, which is the average of the agents' parameters.
    """
    check_share("b", b)
    check_positive("lam", lam)
    lam = eta * H if lam is None else lam

    def send_change(
        memory: tuple[()], own: Own, down: Broadcast, oracle: Oracle, key: RngKey
    ) -> tuple[tuple[()], Own, Theta, Info]:
        theta, old = down
        u = (old - theta) / lam
        pair = lambda g, x, own, batch: g(x, own, batch) - (1 - b) * (weighted_gradient(oracle, old, x, own, batch) - u)
        note = lambda x, batch: {"ess": effective_share(log_weights(oracle, old, x, batch))}
        x, own, info = local_steps(
            watch(once(oracle), gradient=pair), lambda x, v: v, sgd(eta), theta, own, key, H, note=note
        )
        return memory, own, x - theta, info

    def move(state: Broadcast, Delta: Theta, share: float, key: RngKey) -> tuple[Broadcast, Broadcast]:
        state = Broadcast(state.theta + lam / (eta * H) * Delta, state.theta)
        return state, state

    def init(theta: Theta, N: int) -> tuple[Broadcast, Broadcast, tuple[()]]:
        return Broadcast(theta, theta), Broadcast(theta, theta), ()

    return Algorithm(init, (Exchange("local", send_change, move),), policy=lambda state: state.theta, needs=WEIGHTS)
