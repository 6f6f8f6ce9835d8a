"""Times and durations, without the slow detours of the well-known types' own methods."""

from datetime import UTC, datetime, timedelta
from typing import Final

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def timestamp(moment: datetime) -> Timestamp:
    """Return an aware time as a message."""
    message = Timestamp()
    fill_timestamp(message, moment)
    return message


def duration(length: timedelta) -> Duration:
    """Return a duration of 0 or more as a message."""
    message = Duration()
    fill_duration(message, length)
    return message


def fill_timestamp(message: Timestamp, moment: datetime) -> None:
    """Fill in an aware time where it stands."""
    since = moment - EPOCH
    message.seconds, message.nanos = since.days * 86_400 + since.seconds, since.microseconds * 1000


def fill_duration(message: Duration, length: timedelta) -> None:
    """Fill in a duration of 0 or more where it stands."""
    message.SetInParent()  # 0 has no field to set, and is not the same as unknown
    message.seconds, message.nanos = length.days * 86_400 + length.seconds, length.microseconds * 1000
