"""Times and durations, without the slow detours of the well-known types' own methods."""

from datetime import UTC, datetime, timedelta
from typing import Final

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def timestamp(moment: datetime) -> Timestamp:
    """Return an aware time as a message."""
    since = moment - EPOCH
    return Timestamp(seconds=since.days * 86_400 + since.seconds, nanos=since.microseconds * 1000)


def duration(length: timedelta) -> Duration:
    """Return a duration of 0 or more as a message."""
    return Duration(seconds=length.days * 86_400 + length.seconds, nanos=length.microseconds * 1000)
