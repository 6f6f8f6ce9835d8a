"""What an audit sink is: somewhere that audit events of rollouts are handed to. Source: PF1-FR-10c."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any, Protocol

import msgspec

from sidecar.core.rollout.events import RolloutEvent, TransitionEvent


class AuditEntry(msgspec.Struct, frozen=True):
    """One audit event for a sink.

    Attributes:
        event_id: the same whenever the event is handed over again: a sink that must have each once goes by it.
        number: of its row; later rows have greater ones.
        effective_at: when a transition first took effect at a bind; None for every other event.
        fields: the event as every sink writes it, `event` (its name) among them: what JSON can hold, no more. Set for
            whatever a sink is handed.
    """

    event_id: str
    number: int
    body: TransitionEvent | RolloutEvent
    effective_at: datetime | None
    fields: Mapping[str, Any] = MappingProxyType({})


class SinkUnavailable(Exception):
    """A sink has not taken a batch.

    Its text is for operators: the log and `/readyz` show it, so it contains no secret. Of every other exception they
    show the name only.
    """


class AuditSink(Protocol):
    """Takes audit events. They are on record before; a sink that is away costs delay and nothing else."""

    async def take(self, entries: Sequence[AuditEntry]) -> None:
        """Return when all of `entries` are taken for good: they are not handed over again once it has returned.

        Args:
            entries: 1 to 200, by number; never two calls at once.

        Whatever is raised, and an end after the sidecar's deadline (10 s, by cancelling), means that none counts as
        taken: all come again, in the same order. A batch that was taken comes again if the sidecar dies before it has
        noted that.
        """

    async def close(self) -> None:
        """Give everything back. Called once, in any state; must end soon and raise nothing."""
