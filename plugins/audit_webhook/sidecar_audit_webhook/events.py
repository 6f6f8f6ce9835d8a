"""Audit events as CloudEvents 1.0 in structured mode; `docs/webhooks.md` describes them."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

import msgspec

from sidecar.core.rollout.decommission_facts import CleanupStep
from sidecar.core.rollout.events import RolloutEventKind
from sidecar.core.rollout.states import LifecycleState
from sidecar.policy.audit import AuditEntry

CONTENT_TYPE: Final = "application/cloudevents+json; charset=utf-8"
TRANSITION: Final = "subagent.lifecycle.transition"
DECOMMISSION: Final = "subagent.lifecycle.decommission_step"
ROLLOUT: Final = "subagent.rollout.event"
OF_DECOMMISSIONS: Final = frozenset(
    {
        RolloutEventKind.DECOMMISSION_BEGUN,
        RolloutEventKind.DECOMMISSION_STEP,
        RolloutEventKind.DECOMMISSION_DECIDED,
        RolloutEventKind.DECOMMISSION_UNDONE,
    }
)
TYPES: Final = frozenset(
    (
        *(f"{TRANSITION}.{state}" for state in LifecycleState),
        *(f"{DECOMMISSION}.{step}" for step in ("begin", *CleanupStep, "decide", "undo")),
        *(f"{ROLLOUT}.{kind}" for kind in RolloutEventKind if kind not in OF_DECOMMISSIONS),
    )
)
"""Every type that this version of the sidecar sends."""
DETAILS: Final = ("step", "what", "target_state")
"""The field that completes the type: the first one that the event has."""
DIGITS: Final = 32


def type_of(fields: Mapping[str, Any]) -> str:
    """Return the type of an event, which says what happened: `subagent.rollout.event.killed`."""
    detail = next((fields[name] for name in DETAILS if name in fields), None)
    return str(fields["event"]) if detail is None else f"{fields['event']}.{detail}"


def message_id_of(source: str, event_id: str) -> str:
    """Return the `webhook-id`: the same each time that the event is sent, and another one for another source.

    Event ids contain a digest with a colon, or a number that counts within one record. A digest of both is unique over
    all sources, and has no full stop, which the signature uses as its separator.
    """
    digest = sha256(f"{source}\n{event_id}".encode()).hexdigest()
    return f"evt_{digest[:DIGITS]}"


def body_of(entry: AuditEntry, source: str) -> bytes:
    """Return the body of a request."""
    # CloudEvents' extension for distributed tracing.
    trace = {"traceparent": entry.body.traceparent} if entry.body.traceparent else {}
    happened = entry.effective_at or entry.body.at
    return msgspec.json.encode(
        {
            "specversion": "1.0",
            "id": entry.event_id,
            "source": source,
            "type": type_of(entry.fields),
            "subject": f"{entry.body.slot}/{entry.body.subagent_id}",
            "time": happened.isoformat(),
            **trace,
            "datacontenttype": "application/json",
            "data": dict(entry.fields),
        }
    )
