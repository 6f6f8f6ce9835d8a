"""Watches a sidecar in a thread: queues the timeline of each ended turn, and an event when the sidecar answers."""

import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from queue import SimpleQueue
from typing import Any, Final

from sidecar.cli.output.drawing import Screen, TextLine, utc
from sidecar.cli.output.turn_timeline import Drawing, turn_lines
from sidecar.cli.record.client import RecordClient, RecordUnavailable, SidecarAddress
from subagents.history.v1 import history_pb2 as pb
from subagents.history.v1 import record_pb2

INTERVAL: Final = 0.3
"""Seconds between two queries."""
MOST: Final = 50
"""Turns that one query reads; more do not begin in an interval during development."""


@dataclass(frozen=True, slots=True)
class Answers:
    """The sidecar answers, for the first time or after a restart."""


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """A turn has ended; its timeline."""

    lines: tuple[TextLine, ...]


class TurnWatch:
    """Polls for turns that began after its own start. Use as a context manager.

    Args:
        where: the sidecar.
        screen: the output that the timelines are drawn for.
        events: the queue that receives `Answers` and `TurnEnded`.
    """

    def __init__(self, where: SidecarAddress, screen: Screen, events: "SimpleQueue[Any]") -> None:
        self._where = where
        self._screen = screen
        self._events = events
        self._shown: set[str] = set()
        # Turns of an earlier session are in the same record.
        self._since = datetime.now(UTC)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "TurnWatch":
        """Begin."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.wait(INTERVAL):
            try:
                with RecordClient(self._where) as client:
                    self._follow(client)
            except RecordUnavailable:
                # It starts or stops, or its secret is a new one since a restart; the next connection reads it again.
                continue

    def _follow(self, client: RecordClient) -> None:
        """Query the sidecar until the watch ends. Raises `RecordUnavailable` when the sidecar does not answer."""
        answered = False
        while not self._stop.wait(INTERVAL):
            rows, _ = client.turns(pb.ListTurnsRequest(), MOST)
            if not answered:
                self._events.put(Answers())
                answered = True
            # The list is newest first; timelines are shown in the order in which turns began.
            for row in reversed(rows):
                ended = row.state == record_pb2.TURN_STATE_ENDED and utc(row.started_at) >= self._since
                if ended and row.turn_id not in self._shown:
                    self._shown.add(row.turn_id)
                    drawing = Drawing(self._screen.marks, self._screen.width, datetime.now(UTC))
                    self._events.put(TurnEnded(tuple(turn_lines(client.turn(row.turn_id), drawing))))
