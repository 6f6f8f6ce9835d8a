"""Reports of lanes that were closed because their client did not read, kept for its next lane."""

from datetime import datetime
from typing import Final

from msgspec import Struct

MOST_REPORTS: Final = 1024
MOST_IDS: Final = 1024


class Stall(Struct, frozen=True):
    """One lane that was closed because its client did not read.

    Attributes:
        correlation_ids: operations whose results were not sent any more; at most `MOST_IDS`.
        dropped_bytes: size of the queued results.
    """

    lane_id: str
    time: datetime
    correlation_ids: tuple[int, ...]
    dropped_bytes: int


class Stalls:
    """The newest reports.

    A report is not forgotten when it is sent: the lane that carries it may break before the client has received it. The
    client then names the same lane again, because it knows no newer one.
    """

    def __init__(self) -> None:
        self._kept: dict[str, Stall] = {}

    def add(self, stall: Stall) -> None:
        """Store a report, replacing the oldest if there are too many."""
        # A client that never returns leaves its report behind: without a limit, such clients could fill the memory.
        if len(self._kept) >= MOST_REPORTS:
            # The oldest report: dictionaries keep the order of insertion.
            del self._kept[next(iter(self._kept))]
        self._kept[stall.lane_id] = stall

    def of(self, lane_id: str) -> Stall | None:
        """Return the report of a lane, if it has one."""
        return self._kept.get(lane_id)
