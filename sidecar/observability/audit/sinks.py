"""The built-in audit sinks: the log of the process, and OTLP. Source: PF1-FR-10c.

All sinks write the same fields: those of PF1 §5.7 with their original names, then the sidecar's own. The text of the
log line is for people. An event for a collector counts as accepted only when the collector confirms it.
"""

import asyncio
import logging
import threading
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, Protocol

import msgspec

from sidecar.core.rollout.events import DecommissionMark, RolloutEvent, TransitionEvent
from sidecar.observability import event_names
from sidecar.observability.logging import StructuredLog
from sidecar.observability.redaction import Redactor
from sidecar.operations.trace_context import trace_context
from sidecar.policy.audit import AuditEntry

AUDIT_LOG: Final = "sidecar.audit"
"""Logger of audit events, which no log level silences. Its lines are not sent to the collector: the OTLP sink sends
audit events itself, and repeats them until the collector confirms them."""


class CollectorRefused(Exception):
    """The collector did not accept the data."""


class RecordSender(Protocol):
    """Sends log records. Called in a thread, where it may wait."""

    def __call__(self, records: Sequence[logging.LogRecord]) -> bool:
        """Send a batch; return whether the collector accepted it."""

    def close(self) -> None:
        """Abort the batch that is being sent."""


def written(entry: AuditEntry) -> AuditEntry:
    """Return an entry with the fields of PF1 §5.7 first, then the sidecar's own. Source: PF1-D-45, PF1-D-46."""
    body = entry.body
    of_sidecar = {
        "event_id": entry.event_id,
        "slot": body.slot,
        "digest": body.digest,
        "at": body.at.isoformat(),
        "effective_at": None if entry.effective_at is None else entry.effective_at.isoformat(),
        "actor": body.actor,
        "actor_key": body.actor_key,
        "actor_role": body.actor_role,
        "reason": body.reason,
        "request_id": body.request_id,
        **_trace(body),
    }
    # A field without a value is left out, so that a consumer can tell "none" from an empty text.
    present = {name: value for name, value in of_sidecar.items() if value is not None}
    # The fields of the requirements come first. No name is in both groups.
    required = _transition_fields(body) if isinstance(body, TransitionEvent) else _rollout_event_fields(body)
    return msgspec.structs.replace(entry, fields={**required, **present})


class LogAuditSink:
    """Writes each event as a line of the log. Never fails."""

    def __init__(self) -> None:
        # Whatever the level of the root logger is: an audit must not depend on the verbosity of the log.
        logging.getLogger(AUDIT_LOG).setLevel(logging.INFO)
        self._log = StructuredLog(AUDIT_LOG)

    async def take(self, entries: Sequence[AuditEntry]) -> None:
        """Write the entries."""
        for entry in entries:
            fields = dict(entry.fields)
            # The log thread writes later, and a full queue loses lines; deployments that need every event use another
            # sink as well.
            self._log.info(fields.pop("event"), text_of(entry), **fields)

    async def close(self) -> None:
        """Do nothing: the log stays open."""


class OtlpAuditSink:
    """Sends events as OpenTelemetry log records.

    Args:
        send: sends log records and returns whether the collector accepted them.
    """

    def __init__(self, send: RecordSender) -> None:
        self._send = send

    async def take(self, entries: Sequence[AuditEntry]) -> None:
        """Send the entries. Raises `CollectorRefused`."""
        # In a thread: gRPC's exporter blocks until the collector answers.
        if not await asyncio.to_thread(self._send, [_record(entry) for entry in entries]):
            raise CollectorRefused("the collector did not take the audit events")

    async def close(self) -> None:
        """Abort the batch that is being sent."""
        # In a thread, because it may wait for the batch that `take` sends.
        await asyncio.to_thread(self._send.close)


class DeferredSender:
    """Sends log records to a collector. The exporter is loaded with the first batch, because loading takes long.

    Args:
        endpoint: `http://…` without, `https://…` with TLS.
        redactor: removes secrets from the records.
    """

    def __init__(self, endpoint: str, redactor: Redactor) -> None:
        self._endpoint = endpoint
        self._redactor = redactor
        self._loading = threading.Lock()  # an abandoned batch may still load the exporter when the next batch arrives
        self._sender: Any = None

    def __call__(self, records: Sequence[logging.LogRecord]) -> bool:
        """Send a batch; return whether the collector accepted it."""
        with self._loading:
            if self._sender is None:
                from sidecar.observability.otlp.exporters import LogSender  # noqa: PLC0415  the class says why
                from sidecar.observability.tracing import sender  # noqa: PLC0415  the same reason

                self._sender = LogSender(self._endpoint, sender(), self._redactor)
        # Outside the lock: a batch that hangs must not keep the next one from being sent.
        accepted: bool = self._sender.send(records)
        return accepted

    def close(self) -> None:
        """Abort the batch that is being sent."""
        if self._sender is not None:
            self._sender.close()


def text_of(entry: AuditEntry) -> str:
    """Return a short description of the event."""
    body = entry.body
    if isinstance(body, TransitionEvent):
        return f"{body.subagent_id} went from {body.source_state} to {body.target_state}"
    return f"{body.subagent_id}: {body.what.replace('_', ' ')}"


def _transition_fields(event: TransitionEvent) -> dict[str, Any]:
    return {"event": event_names.LIFECYCLE_TRANSITION, "subagent_id": event.subagent_id, **_lifecycle_fields(event)}


def _lifecycle_fields(event: TransitionEvent | DecommissionMark) -> dict[str, Any]:
    """Return the fields of PF1-FR-10."""
    return {
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


def _rollout_event_fields(event: RolloutEvent) -> dict[str, Any]:
    if event.decommission is not None:
        of_step = {"what": event.what.value, "step": event.decommission.step, "detail": event.detail}
        return {
            "event": event_names.DECOMMISSION_STEP,
            "subagent_id": event.subagent_id,
            **_lifecycle_fields(event.decommission),
            **of_step,
        }
    return {
        "event": event_names.ROLLOUT_EVENT,
        "subagent_id": event.subagent_id,
        "what": event.what.value,
        "ramp_percent_before": _plain(event.before / 100),
        "ramp_percent_after": _plain(event.after / 100),
        "detail": event.detail,
    }


def _trace(body: TransitionEvent | RolloutEvent) -> dict[str, str]:
    """Return the trace in which the step was requested, with the names that it has in every line of the log."""
    trace = trace_context(body.traceparent, "")
    return {"trace_id": trace.trace_id, "span_id": trace.span_id} if trace.traceparent else {}


def _plain(percent: float) -> float:
    """Return whole numbers as such: `100`, not `100.0`."""
    return int(percent) if percent == int(percent) else percent


def _record(entry: AuditEntry) -> logging.LogRecord:
    record = logging.LogRecord(AUDIT_LOG, logging.INFO, "", 0, text_of(entry), None, None)
    # The time at which binds first used the new state; before that, users were still served by the old one.
    happened: datetime = entry.effective_at or entry.body.at
    record.created = happened.timestamp()
    trace = trace_context(entry.body.traceparent, "")
    # As `StructuredLog` would set them; the record itself goes to the collector only, not to the log.
    record.__dict__.update(event=entry.fields["event"], fields=dict(entry.fields), of_trace=trace)
    return record
