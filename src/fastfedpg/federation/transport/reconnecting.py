"""An engine that is connected again when it is lost."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from fastfedpg.errors import Stopped
from fastfedpg.federation.transport.engine import Engine, EngineLost, Failure

LOSSES = 5
"""So often in a row, without one answer between, an engine may be lost."""

Count: TypeAlias = Callable[[int], None]
"""Hears how many answers have come."""


def uncounted(answers: int) -> None:
    """Nobody counts."""


class Reconnecting:
    """Asks over an engine, and over a new one if it is lost: what was answered already is not asked again."""

    def __init__(self, connect: Callable[[float], Engine], patience: float, log: Callable[[str], None]) -> None:
        self.connect, self.patience, self.log = connect, patience, log
        self._engine: Engine | None = None
        self._losses = 0

    def nodes(self) -> dict[int, str]:
        """Who is there."""
        while True:
            try:
                found = self._connected().nodes()
            except EngineLost as error:
                self._lost(error)
            else:
                self._losses = 0
                return found

    def ask(
        self, questions: Mapping[int, bytes], seconds: float, count: Count = uncounted
    ) -> dict[int, bytes | Failure]:
        """What came in time."""
        heard: dict[int, bytes | Failure] = {}
        came = 0
        count(came)
        while True:
            left = {node: q for node, q in questions.items() if node not in heard}
            if not left:
                return heard
            try:
                for answer in self._connected().ask(left, seconds):
                    heard[answer.node] = answer.content
                    came += not isinstance(answer.content, Failure)
                    count(came)
                    self._losses = 0
                return heard
            except EngineLost as error:
                self._lost(error)

    def close(self) -> None:
        """Let the engine go."""
        close = getattr(self._engine, "close", None)
        if close is not None:
            close()
        self._engine = None

    def _connected(self) -> Engine:
        if self._engine is None:
            self._engine = self.connect(self.patience)
        return self._engine

    def _lost(self, error: EngineLost) -> None:
        self.close()
        self._losses += 1
        if self._losses > LOSSES:
            raise Stopped(f"the engine was lost {self._losses} times in a row: {error}")
        self.log(f"the engine was lost ({error}); connecting again")
