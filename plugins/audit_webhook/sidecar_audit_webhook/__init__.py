"""The audit sink `webhook`: sends audit events as signed CloudEvents over HTTP."""

from sidecar_audit_webhook.settings import WebhookSettings
from sidecar_audit_webhook.sink import WebhookSink

__all__ = ["WebhookSettings", "WebhookSink"]
