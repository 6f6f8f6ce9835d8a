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
    """Whether a gRPC target stays on this machine: a Unix socket, `localhost` or a loopback address."""
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
    """Refuse an address beyond this machine, as these connections are not encrypted.

    Raises:
        ValueError: `target` leaves the machine and `allowed` is False.
    """
    if not allowed and not is_local(target):
        raise ValueError(
            f"{target} is beyond this machine, and the connection would not be encrypted: use TLS, a Unix socket or "
            "loopback"
        )


def unix_path(target: str) -> str | None:
    """Return the path of a Unix socket target, or None for any other."""
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
"""Largest message sent or taken; bigger ones would hold up the event loop."""

CHANNEL_OPTIONS: Final[tuple[tuple[str, int], ...]] = (
    ("grpc.enable_retries", 0),  # what may be repeated is decided in `retrying`, by contract, and nowhere else
    ("grpc.keepalive_time_ms", 10_000),  # without it a partition is noticed at the deadline only
    ("grpc.keepalive_timeout_ms", 3_000),
    ("grpc.http2.ping_timeout_ms", 3_000),  # without it a probe is waited for a minute, whatever the line above says
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.min_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 500),  # on this machine trying is cheap, and a bind waits 5 s at most
    ("grpc.max_receive_message_length", MOST_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MOST_MESSAGE_BYTES),
)


def open_channel(target: str, tls: TlsFiles | None = None) -> grpc.aio.Channel:
    """Return a channel; connects when first used. To be called in a running event loop.

    Args:
        target: where to.
        tls: certificates; they are read again when their files change, and what is wrong with them then is logged.
            None: the connection is not encrypted.

    Raises:
        ValueError: `target` is a Unix socket, which needs no TLS, or the files cannot be used.
    """
    if tls is None:
        return grpc.aio.insecure_channel(target, options=CHANNEL_OPTIONS)
    if target.startswith(UNIX_SCHEMES):
        raise ValueError(f"{target} is a Unix socket, which carries no TLS: leave `tls` out, or give a TCP address")
    return RotatingChannel(target, watched_files(tls), CHANNEL_OPTIONS)


def watched_files(tls: TlsFiles) -> WatchedFiles:
    """Return files that are followed; what is wrong with them is logged once, as a warning.

    Raises:
        ValueError: they cannot be used.
    """
    return WatchedFiles(tls, lambda problem: LOG.warning("certificates: %s", problem))


def seconds(duration: timedelta) -> float:
    """Return a duration as gRPC wants it."""
    return duration.total_seconds()
