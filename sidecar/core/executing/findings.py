"""What can be wrong with the log, each as one sentence with its place."""

from enum import StrEnum, unique

import msgspec

from sidecar.core.executing.events import ChildEvent
from sidecar.core.identifiers import ChildId, InstanceId


@unique
class FindingKind(StrEnum):
    """Everything that verifying tells apart."""

    EVENT_ALTERED = "event_altered"
    """Its contents do not give its link."""
    EVENT_MISSING = "event_missing"
    """A sequence number is not there, or an event does not link to the one before it."""
    EVENTS_REORDERED = "events_reordered"
    """It stands at another place than it was written for."""
    EVENT_AFTER_CLOSED = "event_after_closed"
    ILLEGAL_ORDER = "illegal_order"
    """The states it would lead through are no life of a child."""
    ROW_ALTERED = "row_altered"
    """The child's row, contract included, is not the one its first event links to."""
    TAIL_CUT = "tail_cut"
    """It was closed, and its last events are not there."""
    CHILD_REWRITTEN = "child_rewritten"
    """Its chain is whole, and ends in another link than the one it was closed with."""
    CHILD_REMOVED = "child_removed"
    """Something names it, and it is not there."""
    CHILD_NOT_IN_ROOT = "child_not_in_root"
    """It is closed, and no running root says so."""
    ROOT_ALTERED = "root_altered"
    """A link of a running root is not what the link before and the child give."""
    ROOT_MISSING = "root_missing"
    """A number of a running root is not there."""
    ROOT_CUT = "root_cut"
    """A running root ends before a number that is known."""
    ROOT_CONTRADICTED = "root_contradicted"
    """A signed checkpoint says otherwise."""
    CHECKPOINT_ALTERED = "checkpoint_altered"
    """A line's signature does not fit its contents."""
    CHECKPOINT_MISSING = "checkpoint_missing"
    """A line that was there is not."""
    CHECKPOINT_UNREADABLE = "checkpoint_unreadable"
    CHECKPOINT_OTHER_KEY = "checkpoint_other_key"
    """A line is signed with a key that was not given."""
    MARKER_FORGED = "marker_forged"
    """A retention marker's signature does not fit, or is by a key that was not given."""
    MARKER_MISFIT = "marker_misfit"
    """A retention marker fits neither the running root nor the second place."""


class Finding(msgspec.Struct, frozen=True):
    """One thing that is wrong.

    Attributes:
        text: one sentence.
        instance: whose running root, checkpoint or marker; empty where it is about a child alone.
        child_id: empty where it is about none.
        sequence: of the event, of the link in the running root, or of the line; None where there is none.
    """

    kind: FindingKind
    text: str
    instance: InstanceId = InstanceId("")
    child_id: ChildId = ChildId("")
    sequence: int | None = None


def of_event(kind: FindingKind, event: ChildEvent, text: str) -> Finding:
    """Return a finding about one event."""
    return Finding(kind, text, child_id=event.child_id, sequence=event.sequence)
