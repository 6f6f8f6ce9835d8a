"""Rollouts for pages: as they are, or, marked, as they were when they could last be read."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from sidecar.cli.console.visit import Visit
from sidecar.cli.subagent.client import CannotOperate
from subagents.lifecycle.v1 import reading_pb2

AWAY: Final = frozenset({"STORE_UNAVAILABLE", ""})
"""Reasons for which what was read before is shown: the store is away, or the sidecar is."""


@dataclass(frozen=True, slots=True)
class KnownRollouts:
    """What is known of the rollouts.

    Attributes:
        answer: None: nothing was ever read.
        problem: why they cannot be read now; None: they are as they are now.
        read_at: when they were read.
    """

    answer: Any
    read_at: datetime | None
    problem: CannotOperate | None = None

    @property
    def slots(self) -> list[Any]:
        """All slots that are known."""
        return [] if self.answer is None else list(self.answer.slots)

    def slot(self, name: str) -> Any:
        """Return a slot, None if it is not known."""
        return next((each for each in self.slots if each.slot == name), None)


async def known_rollouts(visit: Visit) -> KnownRollouts:
    """Read the rollouts. Raises `CannotOperate` unless the reason is that they are away."""
    console = visit.console
    try:
        answer = await visit.sidecars.ask_all(visit.token, "ListRollouts", reading_pb2.ListRolloutsRequest(), "slots")
    except CannotOperate as problem:
        if problem.reason not in AWAY:
            raise
        kept, read_at = console.rollouts or (None, None)
        return KnownRollouts(kept, read_at, problem)
    console.rollouts = (answer, datetime.now(UTC))
    return KnownRollouts(*console.rollouts)
