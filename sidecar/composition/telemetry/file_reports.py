"""Reports file descriptors, and divides them among the listeners so that operators always get a connection."""

from sidecar.adapters.system.files import connections_within, files_limit, files_open
from sidecar.observability import call_names, event_names
from sidecar.observability.logging import StructuredLog
from sidecar.observability.metrics import Metrics
from sidecar.observability.readiness import Readiness


def listener_connections(wanted: int, listeners: int, metrics: Metrics, readiness: Readiness) -> int:
    """Return how many connections each listener of orchestrators and runner hosts may have; report file descriptors.

    Args:
        wanted: the number in the settings. The result is smaller if the process may open only few files.
        listeners: the number of listeners on sockets and TLS addresses.
        metrics: of the process.
        readiness: of the process.
    """
    limit = files_limit()
    connections = connections_within(limit, wanted, listeners)
    # Fewer connections instead of a start that fails: the limit of the system may be outside of the operator's reach.
    if connections < wanted:
        StructuredLog("sidecar.files").warning(
            event_names.CONNECTIONS_LIMITED,
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
