"""What is on record of turns, as plain values: field for field `subagents.history.v1`."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum, unique

from subagents_client.ending import RoutingDecision, TurnCloseReason
from subagents_client.history.scores import RecordedScore
from subagents_client.outcomes import CallOutcome


@unique
class TurnState(StrEnum):
    """How a turn stands on the record."""

    UNSPECIFIED = "unspecified"
    """One that this version does not know; as a filter: any."""
    OPEN = "open"
    ENDED = "ended"
    LOST = "lost"
    """Its parent never ended it; the sidecar closed it."""


@unique
class EventActor(StrEnum):
    """What caused an event of a child."""

    UNSPECIFIED = "unspecified"
    """One that this version does not know."""
    SIDECAR = "sidecar"
    PARENT = "parent"
    SUB_AGENT = "sub_agent"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True)
class TurnRow:
    """One turn in a list.

    Attributes:
        started_at: of the first dispatch; of the end if there was none.
        ended_at: None while it is open.
        sub_agent_ids: slots that were called, each once, in emission order.
        child_count: delegated children included; `failed_child_count` of them were closed as failed.
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
    """Some turns, newest first; `next_page_token` is empty on the last page. What came after `as_of` may be missing."""

    turns: Sequence[TurnRow]
    next_page_token: str
    as_of: datetime | None = None


@dataclass(frozen=True, slots=True)
class ChildEvent:
    """One thing that happened to one child. The events of a child are a chain of hashes: `previous_link`, `link`.

    Attributes:
        sequence: from 1, without gaps, for each child.
        actor: what caused it.
        summary: one line.
        details_json: everything else, a JSON object; empty if it was left out for size.
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
    """One delegated execution.

    Attributes:
        emission_index: place of its call over all dispatches of the turn, from 0.
        parent_child_id: the child that delegated to it; empty if the orchestrator called it.
        contract_json: the delegation contract; empty if it was left out for size.
        events: in order; empty in an `EventBatch`.
        answered_in_turn_id: the turn in which its question was answered; empty: none.
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
    """One dispatch; `outcomes` has one for each of the `call_count` calls that has settled, in emission order.

    Attributes:
        owner_instance_id: the sidecar that runs it; `owner_alive` says whether that one is believed to run.
        takeover_count: how often another sidecar has taken it over.
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
    """All that is on record of one turn.

    Attributes:
        routing_decision: what was routed where; None while the turn is open.
        narration: empty while the turn is open.
        close_reason: unspecified while the turn is open.
        texts_left_out: long texts that did not fit into the answer; ask for fewer children.
        events_left_out: events that did not fit; `watch_events` brings them all.
        scores: of its calls, in the order in which they were recorded.
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
    """Some of what happened; `children` are those of `events` that were not named before. `ended` in the last one."""

    children: Sequence[RecordedChild]
    events: Sequence[ChildEvent]
    ended: bool
