"""The interface of an audit sink, the plugin that receives the audit events of rollouts. Source: PF1-FR-10c."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any, Protocol

import msgspec

from sidecar.core.rollout.events import RolloutEvent, TransitionEvent


class AuditEntry(msgspec.Struct, frozen=True):
    """One audit event for a sink.

    Attributes:
        event_id: id of the event. It is the same if the event is sent again, so a sink can drop duplicates by it.
        number: position of the event among all events; later events have greater numbers.
        body: the event as an object.
        effective_at: when a transition first took effect at a bind; None for every other event.
        fields: the event as JSON values, by name, including its name (`event`). All sinks write these fields. Never
            empty in a call of `take`.
    """

    event_id: str
    number: int
    body: TransitionEvent | RolloutEvent
    effective_at: datetime | None
    fields: Mapping[str, Any] = MappingProxyType({})


class SinkUnavailable(Exception):
    """A sink has not accepted a batch of events.

    The log and `/readyz` show the text to operators, so it must contain no secret. Of any other exception they show
    only the name of its class.
    """


class AuditSink(Protocol):
    """Receives audit events. The record already has them, so the outage of a sink only delays them."""

    async def take(self, entries: Sequence[AuditEntry]) -> None:
        """Accept a batch of events. Return only when the sink has stored all of them durably.

        Args:
            entries: 1 to 200 events, by number. The next call begins after this call has ended.

        After an exception, no event of the batch counts as accepted: all are sent again, in the same order. The sidecar
        cancels a call after 10 s, with the same effect. An accepted batch is sent again if the sidecar dies before it
        has recorded that the batch was accepted.
        """

    async def close(self) -> None:
        """Release connections. Called once, in any state. Must end soon and raise nothing."""
