"""The `[audit]` section: who is handed the audit events of rollouts."""

from pydantic import Field

from sidecar.settings.values import Section


class AuditSettings(Section):
    """Where the audit events of rollouts go; every one is on record before, whatever stands here."""

    sinks: tuple[str, ...] | None = Field(
        None,
        min_length=1,
        description="Audit sinks, each of which gets every event. Unset: `log`, and `otlp` where "
        "`telemetry.otlp_endpoint` is set.",
    )
