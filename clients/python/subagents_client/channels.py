"""Which addresses the SDK connects to, and how it opens connections."""

import ipaddress
import logging
from datetime import timedelta
from typing import Final
from urllib.parse import unquote

import grpc

from subagents_tls.channels import RotatingChannel
from subagents_tls.files import TlsFiles, WatchedFiles

LOG: Final = logging.getLogger("subagents_client")
UNIX_SCHEMES = ("unix:", "unix-abstract:")


def is_local(target: str) -> bool:
    """Return whether a gRPC target is on this machine: a Unix socket, `localhost` or a loopback address."""
    if target.startswith(UNIX_SCHEMES):
        return True
    host = _host_of(target)
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def refuse_remote(target: str, *, allowed: bool = False) -> None:
    """Refuse an address beyond this machine, because the connection would not be encrypted.

    Raises:
        ValueError: `target` is beyond this machine, and `allowed` is False.
    """
    if not allowed and not is_local(target):
        raise ValueError(
            f"{target} is beyond this machine, and the connection would not be encrypted: use TLS, a Unix socket or "
            "loopback"
        )


def unix_path(target: str) -> str | None:
    """Return the path in a target such as `unix:/run/host.sock`; None for an abstract socket or a TCP address."""
    if not target.startswith("unix:"):
        return None
    return "/" + target.removeprefix("unix://").lstrip("/") if target.startswith("unix://") else target[5:]


def _host_of(target: str) -> str:
    for scheme in ("dns:", "ipv4:", "ipv6:"):
        if target.startswith(scheme):
            target = target.removeprefix(scheme).rsplit("/", maxsplit=1)[-1]
    target = unquote(target)
    if target.startswith("["):
        return target[1:].partition("]")[0]
    return target.rpartition(":")[0] if target.count(":") == 1 else target


MOST_MESSAGE_BYTES: Final = 4 * 1024 * 1024
"""Maximum size of a sent or received message. Larger messages would block the event loop while they are parsed."""

CHANNEL_OPTIONS: Final[tuple[tuple[str, int], ...]] = (
    ("grpc.enable_retries", 0),  # only `retrying` decides which requests are repeated
    ("grpc.keepalive_time_ms", 10_000),  # else a network partition is noticed only at the deadline
    ("grpc.keepalive_timeout_ms", 3_000),
    ("grpc.http2.ping_timeout_ms", 3_000),  # gRPC's default is 60 s, and it would override the timeout above
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.min_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 500),  # connecting on this machine is cheap, and a bind waits at most 5 s
    ("grpc.max_receive_message_length", MOST_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MOST_MESSAGE_BYTES),
)


def open_channel(target: str, tls: TlsFiles | None = None) -> grpc.aio.Channel:
    """Return a channel, which connects at its first use. Call this function in a running event loop.

    Args:
        target: address of the server.
        tls: certificates. The channel reads them again when their files change, and logs problems with new files.
            None: the connection is not encrypted.

    Raises:
        ValueError: `tls` is given, and `target` is a Unix socket or the files cannot be used.
    """
    if tls is None:
        return grpc.aio.insecure_channel(target, options=CHANNEL_OPTIONS)
    if target.startswith(UNIX_SCHEMES):
        raise ValueError(f"{target} is a Unix socket, which carries no TLS: leave `tls` out, or give a TCP address")
    return RotatingChannel(target, watched_files(tls), CHANNEL_OPTIONS)


def watched_files(tls: TlsFiles) -> WatchedFiles:
    """Return files that are read again when they change. A problem with them is logged once, as a warning.

    Raises:
        ValueError: the files cannot be used.
    """
    return WatchedFiles(tls, lambda problem: LOG.warning("certificates: %s", problem))


def seconds(duration: timedelta) -> float:
    """Return a duration in seconds, the unit of gRPC's timeouts."""
    return duration.total_seconds()
