"""What is on record of turns, as plain values. Field for field the messages of `subagents.history.v1`."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum, unique

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


@dataclass(frozen=True, slots=True)
class TurnRow:
    """One turn in a list.

    Attributes:
        began_at: of the first dispatch; of the end if there was none.
        ended_at: None while it is open.
        sub_agent_ids: slots that were called, each once, in emission order.
        children: how many, delegated ones included; `failed` of them were closed as failed.
    """

    turn_id: str
    episode_id: str
    principal: str
    state: TurnState
    began_at: datetime
    ended_at: datetime | None
    sub_agent_ids: Sequence[str]
    children: int
    failed: int


@dataclass(frozen=True, slots=True)
class TurnPage:
    """Some turns, newest first; `next_page_token` is empty on the last page."""

    turns: Sequence[TurnRow]
    next_page_token: str


@dataclass(frozen=True, slots=True)
class ChildEvent:
    """One thing that happened to one child. The events of a child are a chain of hashes: `previous_link`, `link`.

    Attributes:
        sequence: from 1, without gaps, for each child.
        actor: who caused it: `sidecar`, `parent` or `sub-agent`.
        summary: one line.
        details_json: everything else, a JSON object; empty if it was left out for size.
    """

    event_id: str
    child_id: str
    sequence: int
    name: str
    time: datetime
    actor: str
    summary: str
    details_json: str
    previous_link: str
    link: str


@dataclass(frozen=True, slots=True)
class RecordedChild:
    """One delegated execution.

    Attributes:
        step_idx: emission index over the turn, from 0.
        parent_child_id: the child that delegated to it; empty if the orchestrator called it.
        context_json: the delegation contract; empty if it was left out for size.
        events: in order; empty in an `EventBatch`.
    """

    child_id: str
    dispatch_id: str
    call_id: str
    sub_agent_id: str
    step_idx: int
    parent_child_id: str
    opened_at: datetime
    context_json: str
    events: Sequence[ChildEvent]


@dataclass(frozen=True, slots=True)
class RecordedDispatch:
    """One dispatch; `outcomes` has one for each of the `calls` that has settled, in emission order.

    Attributes:
        owner: the running sidecar that goes on with it; `owner_alive` says whether it is believed to run.
        epoch: how often another sidecar has taken it over.
    """

    dispatch_id: str
    opened_at: datetime
    settle_by: datetime
    calls: int
    owner: str
    epoch: int
    owner_alive: bool
    outcomes: Sequence[CallOutcome]


@dataclass(frozen=True, slots=True)
class RecordedTurn:
    """All that is on record of one turn.

    Attributes:
        routing_decision_json: JSON of `subagents.dispatch.v1.RoutingDecision`; empty while the turn is open.
        narration, close_reason: empty while it is open.
        texts_left_out: long texts that did not fit into the answer; ask for fewer children.
        events_left_out: events that did not fit; `watch_events` brings them all.
    """

    turn: TurnRow
    dispatches: Sequence[RecordedDispatch]
    children: Sequence[RecordedChild]
    routing_decision_json: str
    narration: str
    close_reason: str
    texts_left_out: int
    events_left_out: int


@dataclass(frozen=True, slots=True)
class EventBatch:
    """Some of what happened; `children` are those of `events` that were not named before. `ended` in the last one."""

    children: Sequence[RecordedChild]
    events: Sequence[ChildEvent]
    ended: bool


@dataclass(frozen=True, slots=True)
class EpisodeRow:
    """One conversation in a list, from what is on record of its turns."""

    episode_id: str
    principal: str
    turns: int
    first_at: datetime
    last_at: datetime
    sub_agent_ids: Sequence[str]
