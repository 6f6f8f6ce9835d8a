"""Reports of lanes that were closed because their client did not read, kept until the client opens another lane."""

from datetime import datetime
from typing import Final

from msgspec import Struct

MOST_REPORTS: Final = 1024
MOST_IDS: Final = 1024


class Stall(Struct, frozen=True):
    """One lane that was closed because its client did not read.

    Attributes:
        correlation_ids: operations whose results did not leave any more; at most `MOST_IDS`.
        dropped_bytes: what was queued.
    """

    lane_id: str
    time: datetime
    correlation_ids: tuple[int, ...]
    dropped_bytes: int


class Stalls:
    """The newest reports; each is reported once."""

    def __init__(self) -> None:
        self._kept: dict[str, Stall] = {}

    def add(self, stall: Stall) -> None:
        """Keep a report; the oldest gives way."""
        if len(self._kept) >= MOST_REPORTS:
            del self._kept[next(iter(self._kept))]
        self._kept[stall.lane_id] = stall

    def take(self, lane_id: str) -> Stall | None:
        """Return the report of a lane, if there is one, and forget it."""
        return self._kept.pop(lane_id, None)
