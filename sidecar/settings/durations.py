"""Durations as settings write them: `"250ms"`, `"1h30m"`, ISO 8601."""

import re
from datetime import timedelta
from typing import Any, Final

PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)", re.ASCII)
MILLISECONDS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}
NUMBER: Final = r"(\d+(?:\.\d+)?)"
ISO: Final = re.compile(
    rf"P(?=[\dT])(?:{NUMBER}W)?(?:{NUMBER}D)?(?:T(?=\d)(?:{NUMBER}H)?(?:{NUMBER}M)?(?:{NUMBER}S)?)?", re.ASCII
)
"""Without years and months, which are no fixed time."""
LONGEST_TEXT: Final = 100
"""Characters."""


def duration(text: Any) -> timedelta:
    """Return `"250ms"`, `"90s"`, `"1h30m"` or an ISO 8601 duration. Raises `ValueError`."""
    if isinstance(text, timedelta):
        return text
    if isinstance(text, str) and len(text) <= LONGEST_TEXT:
        parts = PART.findall(text)
        try:
            if parts and "".join(number + unit for number, unit in parts) == text:
                return timedelta(milliseconds=sum(float(number) * MILLISECONDS[unit] for number, unit in parts))
            if iso := ISO.fullmatch(text):
                weeks, days, hours, minutes, seconds = (float(number or 0) for number in iso.groups())
                return timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)
        except OverflowError:
            raise ValueError("is longer than a duration can be") from None
    raise ValueError('must be a duration with its unit, e.g. "250ms", "90s", "15m" or "PT1.5S"')


def duration_text(value: timedelta) -> str:
    """Return the duration in the largest unit that fits; `duration` reads it back."""
    milliseconds = round(value / timedelta(milliseconds=1))
    unit = next(name for name in ("h", "m", "s", "ms") if milliseconds % MILLISECONDS[name] == 0)
    return f"{milliseconds // MILLISECONDS[unit]}{unit}"
