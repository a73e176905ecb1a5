"""A problem whose best common policy is random, since kernels differ."""

import numpy as np

from fastfedpg.problems.arguments import at_least
from fastfedpg.problems.tabular import TabularProblem

# From states 3 to 6, for each of the four actions, tenths of the probability of states 0, 1, …, 6.
TENTHS = (
    ("0008200", "0007210", "0002800", "0009100"),
    ("0006220", "0005221", "0006211", "0001090"),
    ("0001450", "0000541", "0004033", "0000118"),
    ("0005302", "0000181", "0002224", "9000001"),
)
REWARDS = ((0, 0, 0, 0), (1, 1, 1, 1), (1, 1, 1, 1), (0.1, 0.2, 0, 0), (0.05, 0.05, 0.1, 0), (0.1, 0.1, 0, 0),
           (0.1, 0.2, 0.05, 0))  # fmt: skip


def hard_mdp(agents: int = 2, gamma: float = 0.99) -> TabularProblem:
    """Two kinds of agents to whom the same actions do the opposite in one state: nobody's best policy is all's.

    Seven states, four actions, one reward. States 1 and 2 pay 1 for ever. In state 0, which pays nothing, actions 0 and
    1 stay and actions 2 and 3 lead to state 1 for agents 0, 2, 4, …; for agents 1, 3, 5, … actions 0 and 1 lead to
    state 2, and 2 and 3 stay. So a common policy that always does the same in state 0 leaves half of the agents there,
    and one that does both leaves nobody. The kernels differ in nothing else. States 3 to 6 pay between 0 and 0.2, and
    action 3 in each of them, which pays nothing, is the way up to state 6 and from there, with probability 0.9, to
    state 0; their rows are `TENTHS` in hard_mdp.py, and R is `REWARDS` there. rho is uniform.

    The arrays are those of the experiments of Labbi et al. (2026), "On Global Convergence Rates for Federated Softmax
    Policy Gradient under Heterogeneous Environments" (github.com/Labbi-Safwan/FedPolicy-gradient), where training
    starts from other states than the objective.
    """
    at_least("agents", agents, 1)
    P = np.zeros((agents, 7, 4, 7))
    P[:, 1, :, 1] = P[:, 2, :, 2] = 1
    P[:, 3:] = np.array([[[int(x) for x in row] for row in rows] for rows in TENTHS]) / 10
    stay, go = ((0, 1), (2, 3)), ((2, 3), (0, 1))
    for i in range(agents):
        P[i, 0, stay[i % 2], 0] = 1
        P[i, 0, go[i % 2], 1 + i % 2] = 1
    return TabularProblem(
        P if agents > 1 else P[0],
        np.tile(np.array(REWARDS, float), (agents, 1, 1)),
        np.full(7, 1 / 7),
        gamma,
        name="hard-mdp",
        agents=tuple(f"leaves by {'2, 3' if i % 2 == 0 else '0, 1'}" for i in range(agents)),
    )
