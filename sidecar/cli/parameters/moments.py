"""Times as operators write them: `10m`, `10m ago`, `now`, or ISO 8601."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

AGO: Final = re.compile(r"([1-9][0-9]{0,4})\s*(s|m|h|d)(\s+ago)?\Z", re.ASCII)
SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def moment_of(text: str, now: datetime) -> datetime:
    """Return a time. Without a zone it is UTC.

    Args:
        text: a length such as `10m` or `2 h ago`, counted back from `now`; the word `now`; else ISO 8601.
        now: aware.

    Raises:
        ValueError: the text is none of these.
    """
    if text.strip().lower() == "now":
        return now
    back = AGO.match(text.strip())
    try:
        if back is not None:
            return now - timedelta(seconds=int(back[1]) * SECONDS[back[2]])
        time = datetime.fromisoformat(text.strip())
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(f"{text[:40]!r} is no time; write 10m, 2h ago, or e.g. 2026-11-22T14:05:00Z") from None
