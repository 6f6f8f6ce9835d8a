"""The record of turns, as plain values. The fields equal those of the messages in `subagents.history.v1`."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum, unique

from subagents_client.ending import RoutingDecision, TurnCloseReason
from subagents_client.history.scores import RecordedScore
from subagents_client.outcomes import CallOutcome


@unique
class TurnState(StrEnum):
    """The state of a turn on record."""

    UNSPECIFIED = "unspecified"
    """A state that this version of the SDK does not know; as a filter: any state."""
    OPEN = "open"
    """The turn has called sub-agents and has not ended."""
    ENDED = "ended"
    """The client ended the turn."""
    LOST = "lost"
    """The client did not end the turn; the sidecar closed it."""


@unique
class EventActor(StrEnum):
    """What caused an event of a child."""

    UNSPECIFIED = "unspecified"
    """A cause that this version of the SDK does not know."""
    SIDECAR = "sidecar"
    """The sidecar, on its own."""
    PARENT = "parent"
    """The parent, with a verdict or the end of the turn."""
    SUB_AGENT = "sub_agent"
    """The sub-agent, with a data call or a delegation."""
    OPERATOR = "operator"
    """An operator who ended the turn."""


@dataclass(frozen=True, slots=True)
class TurnRow:
    """One turn in a list.

    Attributes:
        turn_id: id of the turn.
        episode_id: id of the conversation.
        principal: the user.
        state: the state of the turn.
        started_at: when the first dispatch was accepted; for a turn without a dispatch, when the turn ended.
        ended_at: when the turn ended; None while it is open.
        sub_agent_ids: the slots that were called, each once, in emission order.
        child_count: number of children, including those of delegations.
        failed_child_count: number of children that were closed as failed.
    """

    turn_id: str
    episode_id: str
    principal: str
    state: TurnState
    started_at: datetime
    ended_at: datetime | None
    sub_agent_ids: Sequence[str]
    child_count: int
    failed_child_count: int


@dataclass(frozen=True, slots=True)
class TurnPage:
    """A page of turns, newest first.

    Attributes:
        turns: the turns on the page.
        next_page_token: argument for the next page; empty on the last page.
        as_of: set if the list is behind the record: later changes may be missing; else None.
    """

    turns: Sequence[TurnRow]
    next_page_token: str
    as_of: datetime | None = None


@dataclass(frozen=True, slots=True)
class ChildEvent:
    """An event of one child. The events of a child are linked by hashes.

    Attributes:
        event_id: id of the event; unique in the record.
        child_id: id of the child.
        sequence: number of the event among the events of the child, from 1 without gaps.
        name: name of the event, e.g. `agent.subagent_started`.
        occurred_at: when the event happened.
        actor: what caused the event.
        summary: the event in one line, for a timeline.
        details_json: all other data, as a JSON object; empty if the answer would have become too large.
        previous_link: `link` of the previous event; for the first event, the hash of the recorded child; 64 hex digits.
        link: hash of this event and `previous_link`; 64 hex digits.
    """

    event_id: str
    child_id: str
    sequence: int
    name: str
    occurred_at: datetime
    actor: EventActor
    summary: str
    details_json: str
    previous_link: str
    link: str


@dataclass(frozen=True, slots=True)
class RecordedChild:
    """A child: the execution of one call or delegation.

    Attributes:
        child_id: id of the child.
        dispatch_id: the dispatch of the child.
        call_id: the call that the child executes.
        sub_agent_id: the slot that was called.
        emission_index: position of the call in emission order over all dispatches of the turn, from 0.
        parent_child_id: the child that delegated to this child; empty if the orchestrator made the call.
        opened_at: when the child was recorded, which is before it starts.
        contract_json: the contract, as JSON text; empty if the answer would have become too large.
        events: the events of the child, in order; empty in an `EventBatch`.
        answered_in_turn_id: the turn in which the child's question was answered; empty if it asked none, or has no
            answer yet.
    """

    child_id: str
    dispatch_id: str
    call_id: str
    sub_agent_id: str
    emission_index: int
    parent_child_id: str
    opened_at: datetime
    contract_json: str
    events: Sequence[ChildEvent]
    answered_in_turn_id: str = ""


@dataclass(frozen=True, slots=True)
class RecordedDispatch:
    """One dispatch of a turn.

    Attributes:
        dispatch_id: id of the dispatch.
        opened_at: when the dispatch was accepted.
        settle_by: when calls that still run are stopped.
        call_count: number of calls.
        owner_instance_id: instance id of the owner, the sidecar that runs the dispatch.
        takeover_count: number of takeovers by other sidecars.
        owner_alive: whether the owner counts as alive.
        outcomes: the outcomes of settled calls, in emission order; fewer than `call_count` while the dispatch runs.
    """

    dispatch_id: str
    opened_at: datetime
    settle_by: datetime
    call_count: int
    owner_instance_id: str
    takeover_count: int
    owner_alive: bool
    outcomes: Sequence[CallOutcome]


@dataclass(frozen=True, slots=True)
class RecordedTurn:
    """The record of one turn.

    Attributes:
        turn: the turn as in a list.
        dispatches: the dispatches, in the order in which they began.
        children: the children, in emission order, each with its events.
        routing_decision: the summary of the turn; None while the turn is open.
        narration: the answer that the user saw; empty while the turn is open, and if the client did not end the turn.
        close_reason: why the turn ended; `UNSPECIFIED` while it is open.
        texts_left_out: number of long texts that are empty because the answer would be too large; to get them, request
            fewer children.
        events_left_out: number of events omitted for this reason; `watch_events` returns all events.
        scores: the scores of the turn's calls, in the order in which they were recorded.
    """

    turn: TurnRow
    dispatches: Sequence[RecordedDispatch]
    children: Sequence[RecordedChild]
    routing_decision: RoutingDecision | None
    narration: str
    close_reason: TurnCloseReason
    texts_left_out: int
    events_left_out: int
    scores: Sequence[RecordedScore] = ()


@dataclass(frozen=True, slots=True)
class EventBatch:
    """Events of a turn that happened at about the same time.

    Attributes:
        children: the children of these events that no earlier batch contained, without their events.
        events: the events, in order for each child, and in order of time over all children.
        ended: whether the turn has ended; True only in the last batch.
    """

    children: Sequence[RecordedChild]
    events: Sequence[ChildEvent]
    ended: bool
