"""How the SDK opens connections."""

from datetime import timedelta
from typing import Final

import grpc

MOST_MESSAGE_BYTES: Final = 4 * 1024 * 1024
"""Largest message sent or taken; bigger ones would hold up the event loop."""

CHANNEL_OPTIONS: Final[tuple[tuple[str, int], ...]] = (
    ("grpc.enable_retries", 0),  # what may be repeated is decided in `retrying`, by contract, and nowhere else
    ("grpc.keepalive_time_ms", 10_000),  # without it a partition is noticed at the deadline only
    ("grpc.keepalive_timeout_ms", 3_000),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.min_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 1_000),  # on this machine trying is cheap, and a bind waits 3 s at most
    ("grpc.max_receive_message_length", MOST_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MOST_MESSAGE_BYTES),
)


def open_channel(target: str) -> grpc.aio.Channel:
    """Return a channel; connects when first used. To be called in a running event loop."""
    return grpc.aio.insecure_channel(target, options=CHANNEL_OPTIONS)


def seconds(duration: timedelta) -> float:
    """Return a duration as gRPC wants it."""
    return duration.total_seconds()
