"""What an audit sink is: somewhere that audit events of rollouts are handed to. Source: PF1-FR-10c."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

import msgspec

from sidecar.core.rollout.events import RolloutEvent, TransitionEvent


class AuditEntry(msgspec.Struct, frozen=True):
    """One audit event on its way.

    Attributes:
        event_id: the same whenever the event is handed over again: a sink that must have each once goes by it.
        number: of its row; later rows have greater ones.
        effective_at: when a transition first took effect at a bind; None for every other event.
    """

    event_id: str
    number: int
    body: TransitionEvent | RolloutEvent
    effective_at: datetime | None


class AuditSink(Protocol):
    """Takes audit events. They are on record before; a sink that is away costs delay and nothing else."""

    async def take(self, entries: Sequence[AuditEntry]) -> None:
        """Return when all of `entries` are taken for good. The sidecar sets the deadline.

        Whatever is raised means that none counts as taken: all come again, in the same order.
        """
        ...
