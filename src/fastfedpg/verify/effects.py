"""How much is drawn for a report: usually, and with --quick."""

from typing import NamedTuple

from fastfedpg.verify.claims.floors import Effort


class Effects(NamedTuple):
    """How much is drawn."""

    points: int  # along the pilot, without noise
    replicas: int  # of one round
    samples: int  # of estimates at one theta
    sweeps: Effort


LONG = Effects(
    points=8,
    replicas=2048,
    samples=32768,
    sweeps=Effort(
        seeds=32,
        relaxations=12,
        times=(0, 1, 4, 16, 64),
        steps=(1, 2, 4, 8, 16),
        long_steps=(1, 8, 64),
        totals=((0, (1,)), (1, (1, 8)), (16, (1,))),
        longer=(1, 3, 9),
        crowds=(1, 4, 16),
        steps_at_most=5e9,
    ),
)
QUICK = Effects(
    points=6,
    replicas=512,
    samples=4096,
    sweeps=Effort(
        seeds=16,
        relaxations=8,
        times=(0, 1, 16),
        steps=(),
        long_steps=(),
        totals=(),
        longer=(),
        crowds=(),
        steps_at_most=5e8,
        bias=False,
    ),
)
