"""Checks the fields of a request, and collects all problems for one error; converts times and durations of messages."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from sidecar.core.errors import FieldProblem, InvalidRequest
from sidecar.core.identifiers import DEFINITION_SIDE, Principal, problem_with_run_side_id

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
    """Fill an aware time into a message in place."""
    # In integers: the float of `datetime.timestamp` would lose microseconds.
    since = moment - EPOCH
    message.seconds, message.nanos = since.days * 86_400 + since.seconds, since.microseconds * 1000


def fill_duration(message: Duration, length: timedelta) -> None:
    """Fill a duration of 0 or more into a message in place."""
    message.SetInParent()  # for 0 no field is set, and the message would look like an unknown duration
    message.seconds, message.nanos = length.days * 86_400 + length.seconds, length.microseconds * 1000


Value = TypeVar("Value")

LONGEST_DURATION: Final = timedelta(days=1)
"""The longest duration that a request may name; a longer one is probably a mistake in the unit."""
MOST_COUNT: Final = 1000
KIB: Final = 1024
INVISIBLE: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode categories of characters that could forge a line in a log or prompt, or hide text in it."""
NANOS: Final = 1_000_000_000


def _is_any_invisible(value: str) -> bool:
    import unicodedata  # noqa: PLC0415  a megabyte that only texts need which are not printable

    return any(unicodedata.category(char) in INVISIBLE for char in value)


class Fields:
    """The fields of one request. Each method returns the value to use, and collects the problems of the field.

    Args:
        message: name of the request, for the error.
    """

    def __init__(self, message: str) -> None:
        self._message = message
        self._problems: list[FieldProblem] = []

    def refuse(self, field: str, what: str) -> None:
        """Note a problem of a field."""
        self._problems.append(FieldProblem(field, what))

    def check(self) -> None:
        """Raise `InvalidRequest` with every problem, if there is one."""
        if not self._problems:
            return
        # The message names one problem, so that it stays readable; the details of the status have the others.
        first = self._problems[0]
        more = len(self._problems) - 1
        others = f" (and {more} more {'field' if more == 1 else 'fields'})" if more else ""
        raise InvalidRequest(
            f"{self._message} cannot be used: {first.field} {first.description}{others}", fields=self._problems
        )

    def run_side_id(self, field: str, value: str) -> str:
        """An id that the client created."""
        problem = problem_with_run_side_id(field, value)
        if problem is not None:
            # The invalid value is returned: it is never used, because `check` raises.
            self._problems.append(problem)
        return value

    def definition_name(self, field: str, value: str) -> str:
        """An id of a definition or slot."""
        if not DEFINITION_SIDE.match(value):
            self.refuse(field, "must be 1 to 60 characters a-z, 0-9, _ and -, beginning with a letter or digit")
        return value

    def moment(self, field: str, value: Timestamp) -> datetime | None:
        """A time; None if it is invalid. Protobuf allows any 64-bit number of seconds."""
        try:
            return (EPOCH + timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)).astimezone(UTC)
        except (OverflowError, ValueError):
            self.refuse(field, "is no time between the years 1 and 9999")
            return None

    def principal(self, field: str, value: str) -> Principal:
        """The user on whose behalf the request is made; kept byte for byte."""
        if not value:
            self.refuse(field, "is empty; say on whose behalf the turn happens")
        return Principal(self.one_line(field, value, 256))

    def required(self, field: str, value: str, most: int, where_from: str) -> str:
        """An opaque text of at most `most` characters that the client got from `where_from`."""
        if not value:
            self.refuse(field, f"is empty; send {where_from}")
        elif len(value) > most:
            self.refuse(field, f"is over {most} characters; send {where_from}")
        return value

    def text(self, field: str, value: str, most_kib: int) -> str:
        """A free text; at most `most_kib` KiB of UTF-8."""
        # A character has at most four bytes: a text with at most a quarter as many characters fits without encoding it.
        if len(value) * 4 > most_kib * KIB and len(value.encode()) > most_kib * KIB:
            self.refuse(field, f"is over {most_kib} KiB of UTF-8")
        return value

    def one_line(self, field: str, value: str, most: int) -> str:
        """A visible text of at most `most` characters, kept byte for byte."""
        if len(value) > most:
            self.refuse(field, f"is over {most} characters")
        # `isprintable` first, because it is fast and true for nearly every text. It is also false for spaces other than
        # U+0020, which are allowed.
        elif not value.isprintable() and _is_any_invisible(value):
            self.refuse(field, "holds control, format or line-separating characters")
        return value

    def optional_line(self, field: str, value: str | None, most: int) -> str | None:
        """As `one_line`, or None for explicitly unknown; an empty text is refused, because it has no third meaning."""
        if value == "":
            self.refuse(field, "is empty; leave it out if it is unknown")
        return None if value is None else self.one_line(field, value, most)

    def count(self, field: str, value: int, most: int = MOST_COUNT) -> int:
        """A number from 0 to `most`."""
        if not 0 <= value <= most:
            self.refuse(field, f"must be from 0 to {most}, was {value}")
        return value

    def member(self, field: str, number: int, values: Mapping[int, Value], names: Mapping[int, str]) -> Value:
        """A value of an enum. Enums are open in proto3, so the number may be unknown."""
        if number not in values:
            accepted = ", ".join(names[each] for each in values)
            # The problem is collected, so some valid value is returned: the request is refused anyway before it is
            # used.
            self.refuse(field, f"must be one of {accepted}; was {names.get(number, number)}")
            return next(iter(values.values()))
        return values[number]

    def duration(self, field: str, value: Duration) -> timedelta:
        """A time of more than 0 and at most a day."""
        # In integers: a float would lose nanoseconds, and could make a tiny duration 0.
        nanos = value.seconds * NANOS + value.nanos
        # Protobuf demands that seconds and nanos have the same sign.
        well_formed = abs(value.nanos) < NANOS and value.seconds * value.nanos >= 0
        if not well_formed or not 0 < nanos <= LONGEST_DURATION.total_seconds() * NANOS:
            self.refuse(field, "must be more than 0 and at most 24 hours")
            return LONGEST_DURATION
        # Rounded up, so that a duration above 0 stays above 0.
        return timedelta(seconds=value.seconds, microseconds=-(-value.nanos // 1000))
