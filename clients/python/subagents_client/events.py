"""What happens while a dispatch runs, as plain values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum, unique

from subagents_client.outcomes import Outcome


@unique
class CallState(StrEnum):
    """What a call is doing."""

    UNSPECIFIED = "unspecified"
    WAITING = "waiting"
    """Waits for a place or for a sibling that owns the same things."""
    RUNNING = "running"
    SETTLED = "settled"


@unique
class StartState(StrEnum):
    """Whether a request with a client-made id began the work or found it begun."""

    UNSPECIFIED = "unspecified"
    STARTED = "started"
    ATTACHED = "attached"


@dataclass(frozen=True, slots=True)
class CallStateChanged:
    """A call began to wait, to run, or settled (then `outcome` says how)."""

    sequence: int
    occurred_at: datetime
    call_id: str
    state: CallState
    outcome: Outcome | None


@dataclass(frozen=True, slots=True)
class StatusUpdate:
    """Progress of one or several sub-agents; `StatusRenderer` makes the words.

    Attributes:
        sequence: ascending within the dispatch, from 1.
        occurred_at: when it happened.
        call_id: the call it is about; empty when several share it.
        type: a type of the configured vocabulary.
        sub_agent_ids: slots that reported it, in emission order.
        count: reports folded into this one; at least 1.
        attributes: values for the words, from the newest report.
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
    """Events between two sequences, both included, that can no longer be delivered."""

    sequence: int
    occurred_at: datetime
    from_sequence: int
    to_sequence: int


DispatchEvent = CallStateChanged | StatusUpdate | Gap
"""One thing that happened in a dispatch."""


@dataclass(frozen=True, slots=True)
class CallSnapshot:
    """Where one call stands."""

    call_id: str
    sub_agent_id: str
    child_id: str
    state: CallState


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Where a dispatch stood when its stream began; `calls` in emission order."""

    dispatch_id: str
    state: StartState
    sequence: int
    calls: Sequence[CallSnapshot]
