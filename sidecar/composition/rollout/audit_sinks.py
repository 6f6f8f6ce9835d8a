"""Creates the audit sinks that the settings select, each behind its boundary."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from sidecar.composition.telemetry.collector import check_installed
from sidecar.observability.audit.boundary import BoundedSink
from sidecar.observability.audit.plugin import OTLP_SINK, cleaned_by
from sidecar.observability.redaction import Redactor
from sidecar.policy.factory import Making, make_audit_sink
from sidecar.policy.selection import PolicyMap
from sidecar.policy.specs import AuditSinkSpec
from sidecar.settings import Settings


@asynccontextmanager
async def opened_sinks(
    policy: PolicyMap, settings: Settings, redactor: Redactor, making: Making
) -> AsyncIterator[Mapping[str, BoundedSink]]:
    """Create the sinks by name; close all of them concurrently.

    Args:
        policy: selects them.
        settings: of the sidecar.
        redactor: for data that is sent to a collector.
        making: creates each sink; a sink of an installed plugin gets a thread of its own.

    Raises:
        PluginProblem: the settings of a sink are wrong, or it cannot be created.
        SettingsProblem: the OTLP exporter is not installed.
    """
    sinks: dict[str, BoundedSink] = {}
    try:
        for spec in policy.sinks:
            make = partial(make_audit_sink, cleaned_by(redactor, spec), _section(spec, settings))
            sinks[spec.name] = BoundedSink(spec.name, making.made(spec, make))
        yield sinks
    finally:
        # Concurrently, because each may take its whole time limit. `close` of a `BoundedSink` never raises.
        await asyncio.gather(*(sink.close() for sink in sinks.values()))


def _section(spec: AuditSinkSpec, settings: Settings) -> Mapping[str, Any]:
    """Return the settings of a sink. `otlp` uses the values of `[telemetry]` for missing ones."""
    configured = settings.audit_sinks.get(spec.name, {})
    if spec.factory is not OTLP_SINK.factory:
        return configured
    check_installed("audit.sinks")
    endpoint = settings.telemetry.otlp_endpoint
    # The section wins over the default from `[telemetry]`.
    return configured if endpoint is None else {"endpoint": endpoint, **configured}
