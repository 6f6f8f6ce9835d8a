"""The frames that a listener of a dispatch receives, and the log of events behind them.

Frames are coalesced: events that happen while a frame is being sent go into the next frame.

`LiveDispatch` has one log, and each stream to a client reads from it at its own pace. A stream that comes back names
the last event that it has seen, and gets the later ones.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum, unique

import msgspec

from sidecar.core.dispatching.cap import CapBehaviour
from sidecar.core.dispatching.intents import IntentReport
from sidecar.core.dispatching.outcomes import CallOutcome
from sidecar.core.identifiers import CallId, ChildId, DispatchId, Slot


@unique
class CallState(StrEnum):
    """The state of a call."""

    WAITING = "waiting"
    RUNNING = "running"
    SETTLED = "settled"


class CallStateChanged(msgspec.Struct, frozen=True):
    """A call began to wait, to run, or settled. `outcome` only when settled."""

    call_id: CallId
    state: CallState
    outcome: CallOutcome | None = None


class StatusUpdate(msgspec.Struct, frozen=True):
    """Progress that the policy lets through; the client formulates the text.

    Attributes:
        call_id: None if several calls share it.
        slots: the reporting sub-agents, in emission order.
        count: number of reports combined in this one.
    """

    call_id: CallId | None
    type: str
    slots: tuple[Slot, ...]
    count: int
    attributes: Mapping[str, str]


class Gap(msgspec.Struct, frozen=True):
    """Events from `first` to `last` can no longer be delivered."""

    first: int
    last: int


class DispatchEvent(msgspec.Struct, frozen=True):
    """One event, with its position in the order of the dispatch."""

    sequence: int
    time: datetime
    what: CallStateChanged | StatusUpdate | Gap


class CallSnapshot(msgspec.Struct, frozen=True):
    """The state of one call in a snapshot."""

    call_id: CallId
    slot: Slot | None
    child_id: ChildId | None
    state: CallState


class Snapshot(msgspec.Struct, frozen=True):
    """The state of a dispatch when a listener arrives.

    Attributes:
        attached: an earlier request began the dispatch; the listener follows it.
        sequence: of the newest event before the listener's first event.
    """

    dispatch_id: DispatchId
    attached: bool
    sequence: int
    calls: tuple[CallSnapshot, ...]


class DispatchResult(msgspec.Struct, frozen=True):
    """The end of a dispatch: one outcome per call, in emission order. `overhead`: its time without a running call."""

    outcomes: tuple[CallOutcome, ...]
    intents: IntentReport
    cap: CapBehaviour
    overhead: timedelta


class Frame(msgspec.Struct, frozen=True):
    """One message to a listener: snapshot in the first only, result in the last only."""

    snapshot: Snapshot | None = None
    events: Sequence[DispatchEvent] = ()
    result: DispatchResult | None = None


class EventLog:
    """The newest events of one dispatch, up to a limit.

    The events are in a list: most dispatches have a handful, for which a deque would allocate a block of 64 places, and
    few reach the limit.

    Args:
        kept: the most stored events; a listener that asks for older events gets a `Gap`.

    Attributes:
        newest: sequence of the newest event, stored or not; 0 before the first.
    """

    def __init__(self, kept: int) -> None:
        self._most = kept
        self._kept: list[DispatchEvent] = []
        self.newest = 0

    def begin_after(self, sequence: int) -> None:
        """Continue after `sequence`.

        Earlier events happened at another sidecar; a listener that asks for them gets a gap.
        """
        # The numbers continue, so that a listener of the former owner cannot take a new event for one that it has seen.
        self.newest = sequence

    def add(self, at: datetime, what: CallStateChanged | StatusUpdate) -> None:
        """Append with the next sequence."""
        self.newest += 1
        # The oldest is dropped. A listener that needs it gets a `Gap`, and reads the present states from its snapshot.
        if len(self._kept) >= self._most:
            # Moving a few hundred references costs less than the block of a deque for each dispatch.
            del self._kept[0]
        self._kept.append(DispatchEvent(self.newest, at, what))

    def after(self, sequence: int, at: datetime) -> list[DispatchEvent]:
        """Return every event after `sequence`, preceded by a gap if some are no longer stored.

        Args:
            sequence: the newest that the listener has seen, 0 for none. A number above the newest means that all were
                seen.
            at: time for a gap.
        """
        # An empty log can still have a newest sequence: this sidecar has taken the dispatch over. Then every earlier
        # event is part of the gap.
        oldest = self._kept[0].sequence if self._kept else self.newest + 1
        # Strictly greater: an event that the listener has seen must not be delivered again after a resume.
        events = [event for event in self._kept if event.sequence > sequence]
        # Declared and not skipped silently: the listener then reads the present states from its snapshot.
        if sequence + 1 < oldest:
            return [DispatchEvent(oldest - 1, at, Gap(sequence + 1, oldest - 1)), *events]
        return events
