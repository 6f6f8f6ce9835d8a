"""Registers audit sink `webhook`."""

from collections.abc import Mapping, Sequence
from typing import Any

from sidecar.policy.hookspecs import hookimpl
from sidecar.policy.specs import AuditSinkSpec
from sidecar_audit_webhook.settings import SCHEMA, settings_from
from sidecar_audit_webhook.sink import WebhookSink


def webhook(settings: Mapping[str, Any]) -> WebhookSink:
    """Return a sink. Raises `ValueError`, `OSError`."""
    return WebhookSink(settings_from(settings))


@hookimpl
def sidecar_audit_sinks() -> Sequence[AuditSinkSpec]:
    """Offer `webhook`."""
    return [
        AuditSinkSpec(
            name="webhook",
            contract="audit-sink/1",
            summary="each audit event as a signed CloudEvent over HTTP",
            config_schema=SCHEMA,
            factory=webhook,
        )
    ]
