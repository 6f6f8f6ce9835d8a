"""File descriptors, made visible in metrics and readiness, and shared out so that operators always find one."""

from sidecar.adapters.system.files import connections_within, files_limit, files_open
from sidecar.observability import call_names
from sidecar.observability.logging import StructuredLog
from sidecar.observability.metrics import Metrics
from sidecar.observability.readiness import Readiness


def listener_connections(wanted: int, listeners: int, metrics: Metrics, readiness: Readiness) -> int:
    """Return how many connections each listener of orchestrators and runner hosts may have, and show the files.

    Args:
        wanted: by the settings; fewer where the process may open few files.
        listeners: how many there are, sockets and addresses with TLS.
        metrics: of the process.
        readiness: of the process.
    """
    limit = files_limit()
    connections = connections_within(limit, wanted, listeners)
    if connections < wanted:
        StructuredLog("sidecar.files").warning(
            call_names.CONNECTIONS_LIMITED,
            "the process may open few files, so the listeners take fewer connections than server.limits says",
            limit=limit,
            connections=connections,
        )
    metrics.gauge(call_names.FILES_OPEN, "File descriptors that are open.", files_open)
    metrics.gauge(call_names.FILES_LIMIT, "File descriptors that may be open.", files_limit)
    readiness.section(
        "files", lambda: {"open": files_open(), "limit": files_limit(), "connections_of_a_listener": connections}
    )
    return connections
