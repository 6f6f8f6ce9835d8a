"""Parses percentages, times and durations. Imports nothing heavy: an invalid argument is reported immediately."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

PERCENT: Final = re.compile(r"(100(\.0{1,2})?|[0-9]{1,2}(\.[0-9]{1,2})?)\s?%?\Z", re.ASCII)
LENGTH: Final = re.compile(r"([1-9][0-9]{0,4})(s|m|h|d)\Z", re.ASCII)
DIGEST: Final = re.compile(r"(?:sha256:)?([0-9a-f]{8,64})\Z", re.ASCII)
WHOLE_DIGEST: Final = 64
"""Hexadecimal digits of a digest; screens show the first eight."""
UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
POINTS: Final = 100
"""Basis points of one percent."""
PLACES: Final = 2
"""Decimals of a percentage."""
LONGEST: Final = timedelta(days=31)
"""The longest duration that an option accepts. Only an override lasts that long; other options are shorter."""


def basis_points(percent: str) -> int:
    """Return a share of users in basis points. Raises `ValueError` for other text or more than two decimals."""
    match = PERCENT.match(percent.strip())
    if match is None:
        raise ValueError(
            f"{percent[:20]!r} is not a percentage from 0 to 100 with at most two decimals, e.g. 5 or 0.25"
        )
    whole, _, decimals = match[1].partition(".")
    # Integers only: a float such as 0.29 * 100 would be one basis point less.
    return int(whole) * POINTS + int(decimals.ljust(PLACES, "0"))


def curve_of(text: str) -> tuple[int, ...]:
    """Return the steps of a ramp, e.g. `5,25,100`, in basis points; `none`: any step. Raises `ValueError`."""
    return () if text.strip().lower() == "none" else tuple(basis_points(each) for each in text.split(","))


def percent(points: int) -> str:
    """Return basis points as a percentage, e.g. `2.25 %`."""
    return f"{points / POINTS:g} %"


def is_named(digest: str, given: str) -> bool:
    """Return whether `given` means `digest`: the whole, its first eight digits or more, or empty (any digest)."""
    match = DIGEST.match(given)
    return given in {"", digest} or bool(match and digest.rpartition(":")[2].startswith(match[1]))


def is_short(given: str) -> bool:
    """Return whether `given` is only the beginning of a digest."""
    match = DIGEST.match(given)
    return match is not None and len(match[1]) < WHOLE_DIGEST


def timestamp_of(text: str) -> datetime:
    """Return a time; without a zone it is UTC. Raises `ValueError`."""
    try:
        time = datetime.fromisoformat(text.strip())
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(f"{text[:40]!r} is not a time; write e.g. 2026-11-22T14:05:00Z") from None


def duration_of(text: str) -> timedelta:
    """Return a duration of at most 31 days. Raises `ValueError`."""
    match = LENGTH.match(text.strip())
    # The pattern permits five digits, so the product cannot overflow a `timedelta`.
    if match is None or (length := timedelta(seconds=int(match[1]) * UNITS[match[2]])) > LONGEST:
        raise ValueError(f"{text[:20]!r} is not a duration of up to 31 days; write e.g. 90s, 15m, 4h or 2d")
    return length


def window_end(text: str, now: datetime) -> datetime:
    """Return the end of a window, given as a duration from now or as a time, to the second. Raises `ValueError`."""
    # Without microseconds: the end is printed to the second, and the operator must be able to rely on what is printed.
    if LENGTH.match(text.strip()):
        return now.replace(microsecond=0) + duration_of(text)
    return timestamp_of(text)
