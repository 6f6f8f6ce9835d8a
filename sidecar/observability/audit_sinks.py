"""Where audit events go: the log of the process, and over OTLP to the store of whoever keeps them. Source: PF1-FR-10c.

Both write the same fields, those of PF1 §5.7 by their own names. The log line is for people; what is handed to a
collector counts as taken only once the collector says so.
"""

import asyncio
import logging
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from sidecar.core.rollout.events import RolloutEvent, TransitionEvent
from sidecar.observability import names
from sidecar.observability.logging import StructuredLog
from sidecar.observability.outbox import Ship
from sidecar.policy.audit import AuditEntry

AUDIT_LOG: Final = "sidecar.audit"
"""Logger of audit events; no level silences it, and it is not the one whose lines go to the collector anyway."""


class CollectorRefused(Exception):
    """The collector did not take what was sent."""


def audit_fields(entry: AuditEntry) -> dict[str, Any]:
    """Return an audit event as it is written: the fields of PF1 §5.7 first, then ours. Source: PF1-D-45, PF1-D-46."""
    body = entry.body
    ours = {
        "event_id": entry.event_id,
        "slot": body.slot,
        "digest": body.digest,
        "at": body.at.isoformat(),
        "effective_at": None if entry.effective_at is None else entry.effective_at.isoformat(),
        "actor": body.actor,
        "reason": body.reason,
        "request_id": body.request_id,
    }
    given = {name: value for name, value in ours.items() if value is not None}
    return {**(_transition(body) if isinstance(body, TransitionEvent) else _happening(body)), **given}


class LogAuditSink:
    """Writes each event as a line of the log. Never fails."""

    def __init__(self) -> None:
        logging.getLogger(AUDIT_LOG).setLevel(logging.INFO)
        self._log = StructuredLog(AUDIT_LOG)

    async def take(self, entries: Sequence[AuditEntry]) -> None:
        """Write them."""
        for entry in entries:
            fields = audit_fields(entry)
            self._log.info(fields.pop("event"), text_of(entry), **fields)


class OtlpAuditSink:
    """Sends events as OpenTelemetry log records.

    Args:
        ship: sends log records and says whether the collector took them; waits, and is called in a thread.
    """

    def __init__(self, ship: Ship) -> None:
        self._ship = ship

    async def take(self, entries: Sequence[AuditEntry]) -> None:
        """Send them. Raises `CollectorRefused`."""
        if not await asyncio.to_thread(self._ship, [_record(entry) for entry in entries]):
            raise CollectorRefused("the collector did not take the audit events")


def text_of(entry: AuditEntry) -> str:
    """Return what happened, in a few words."""
    body = entry.body
    if isinstance(body, TransitionEvent):
        return f"{body.subagent_id} went from {body.source_state} to {body.target_state}"
    return f"{body.subagent_id}: {body.what.replace('_', ' ')}"


def _transition(event: TransitionEvent) -> dict[str, Any]:
    return {
        "event": names.LIFECYCLE_TRANSITION,
        "subagent_id": event.subagent_id,
        "source_state": event.source_state.value,
        "target_state": event.target_state.value,
        "trigger": event.trigger.value,
        "agent_definition_commit": event.agent_definition_commit,
        "cohort": {
            "agent_definition_version": event.cohort.agent_definition_version,
            "active_flags": list(event.cohort.active_flags),
            "ramp_step_percent": _plain(event.cohort.ramp_step_percent),
        },
    }


def _happening(event: RolloutEvent) -> dict[str, Any]:
    return {
        "event": names.ROLLOUT_EVENT,
        "subagent_id": event.subagent_id,
        "what": event.what.value,
        "ramp_percent_before": _plain(event.before / 100),
        "ramp_percent_after": _plain(event.after / 100),
        "detail": event.detail,
    }


def _plain(percent: float) -> float:
    """Return whole numbers as such: `100`, not `100.0`."""
    return int(percent) if percent == int(percent) else percent


def _record(entry: AuditEntry) -> logging.LogRecord:
    fields = audit_fields(entry)
    record = logging.LogRecord(AUDIT_LOG, logging.INFO, "", 0, text_of(entry), None, None)
    happened: datetime = entry.effective_at or entry.body.at
    record.created = happened.timestamp()
    record.__dict__.update(event=fields["event"], fields=fields)
    return record
