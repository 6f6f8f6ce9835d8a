"""The built-in plugins `log` and `otlp`: their descriptors and their hook."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from sidecar.observability.audit.sinks import DeferredSender, LogAuditSink, OtlpAuditSink
from sidecar.observability.redaction import Redactor
from sidecar.policy.specs import AuditSinkSpec

LOG_SINK: Final = AuditSinkSpec(
    name="log",
    contract="audit-sink/1",
    summary="Each event as a line of the sidecar's own log, whatever its level",
    factory=lambda settings: LogAuditSink(),
)


def _otlp_sink(settings: Mapping[str, Any], redactor: Redactor) -> OtlpAuditSink:
    # Not required by the schema: composition fills it in from `[telemetry]`.
    if "endpoint" not in settings:
        raise ValueError("needs `telemetry.otlp_endpoint`, or an `endpoint` of its own")
    return OtlpAuditSink(DeferredSender(settings["endpoint"], redactor))


OTLP_SINK: Final = AuditSinkSpec(
    name="otlp",
    contract="audit-sink/1",
    summary="Each event as an OpenTelemetry log record, over OTLP/gRPC",
    config_schema={
        "type": "object",
        "properties": {
            "endpoint": {
                "type": "string",
                "pattern": "^https?://",
                "description": "The collector that keeps the audit; default: `telemetry.otlp_endpoint`.",
            }
        },
        "additionalProperties": False,
    },
    # Used only by tools that create plugins without a running sidecar; `cleaned_by` replaces it for the others.
    factory=lambda settings: _otlp_sink(settings, Redactor()),
)


def cleaned_by(redactor: Redactor, spec: AuditSinkSpec) -> AuditSinkSpec:
    """Return a descriptor whose sink uses `redactor`, if `spec` is `otlp` or an instance of it.

    The redactor is added here because factories get only settings.
    """
    if spec.factory is not OTLP_SINK.factory:
        return spec
    return replace(spec, factory=lambda settings: _otlp_sink(settings, redactor))


def sidecar_audit_sinks() -> Sequence[AuditSinkSpec]:
    """Offer `log` and `otlp`."""
    return [LOG_SINK, OTLP_SINK]
