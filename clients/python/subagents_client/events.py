"""The events of a running dispatch, as plain values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum, unique

from subagents_client.outcomes import CallOutcome


@unique
class CallState(StrEnum):
    """The state of a call."""

    UNSPECIFIED = "unspecified"
    """A state that this version of the SDK does not know."""
    WAITING = "waiting"
    """The call waits for calls that run: the maximum number runs, or one of the same slot or `ownership` runs."""
    RUNNING = "running"
    """An attempt runs, or the next attempt is about to start."""
    SETTLED = "settled"
    """The call has its outcome."""


@unique
class StartState(StrEnum):
    """Whether a request started a turn, a dispatch or the end of a turn, or repeated an earlier request."""

    UNSPECIFIED = "unspecified"
    """A state that this version of the SDK does not know."""
    STARTED = "started"
    """This request was the first."""
    ATTACHED = "attached"
    """An earlier request with the same id and contents was the first."""


@dataclass(frozen=True, slots=True)
class CallStateChanged:
    """A call began to wait, began to run, or settled.

    Attributes:
        sequence: number of the event in its dispatch, ascending from 1.
        occurred_at: when it happened.
        call_id: the call that changed.
        state: the new state.
        outcome: the outcome of a settled call, which is recorded and never changes; None in other states.
    """

    sequence: int
    occurred_at: datetime
    call_id: str
    state: CallState
    outcome: CallOutcome | None


@dataclass(frozen=True, slots=True)
class StatusUpdate:
    """Progress of one or several sub-agents. `StatusRenderer` turns it into a text for the user.

    Attributes:
        sequence: number of the event in its dispatch, ascending from 1.
        occurred_at: when it happened.
        call_id: the call that made progress; empty if the update combines reports of several calls.
        type: a type of the configured vocabulary, e.g. `searching_offers`.
        sub_agent_ids: slots that reported this type, in emission order.
        count: number of reports that the update combines; at least 1.
        attributes: values for the text, from the newest report.
    """

    sequence: int
    occurred_at: datetime
    call_id: str
    type: str
    sub_agent_ids: Sequence[str]
    count: int
    attributes: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Gap:
    """Events that can no longer be delivered.

    Attributes:
        sequence: number of this event in its dispatch.
        occurred_at: when it happened.
        from_sequence: number of the first missing event.
        to_sequence: number of the last missing event.
    """

    sequence: int
    occurred_at: datetime
    from_sequence: int
    to_sequence: int


DispatchEvent = CallStateChanged | StatusUpdate | Gap
"""An event of a dispatch."""


@dataclass(frozen=True, slots=True)
class CallSnapshot:
    """The state of one call when a stream began.

    Attributes:
        call_id: id of the call.
        sub_agent_id: the slot that was called; empty for an unknown tool.
        child_id: id of the child; empty if none was started.
        state: the state of the call.
    """

    call_id: str
    sub_agent_id: str
    child_id: str
    state: CallState


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of a dispatch when a stream began.

    Attributes:
        dispatch_id: id of the dispatch.
        state: whether this request started the dispatch or repeated an earlier request.
        sequence: number of the newest event before the first event of this stream; 0 if there was none.
        calls: the state of each call, in emission order.
    """

    dispatch_id: str
    state: StartState
    sequence: int
    calls: Sequence[CallSnapshot]
