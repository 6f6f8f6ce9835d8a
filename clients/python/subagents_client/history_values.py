"""What is on record of turns and conversations, as plain values: field for field `subagents.history.v1`."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum, unique

from subagents_client.ending import RoutingDecision, TurnCloseReason
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
    """Some turns, newest first; `next_page_token` is empty on the last page.

    Attributes:
        as_of: what came on record after this may be missing, or shown as it was; None: everything is in it.
    """

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
    """

    turn: TurnRow
    dispatches: Sequence[RecordedDispatch]
    children: Sequence[RecordedChild]
    routing_decision: RoutingDecision | None
    narration: str
    close_reason: TurnCloseReason
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
    turn_count: int
    first_turn_at: datetime
    last_turn_at: datetime
    sub_agent_ids: Sequence[str]


@unique
class EpisodeView(StrEnum):
    """How much of an episode is read."""

    NARRATION = "narration"
    """What a model may be given."""
    FULL = "full"
    """Tool messages too, and the turns under the summary; for replay and audit, not for a model."""


@dataclass(frozen=True, slots=True)
class EpisodeSummary:
    """The rolling summary; `revision` is 1 for the first."""

    revision: int
    text: str
    up_to_turn_id: str
    written_at: datetime


@dataclass(frozen=True, slots=True)
class SubAgentAnswer:
    """What one sub-agent was asked and narrated."""

    sub_agent_id: str
    call_id: str
    asked: str
    narration: str


@dataclass(frozen=True, slots=True)
class ComponentReference:
    """A compact annotation of a component; `position` counts all components of the turn, from 0."""

    sub_agent_id: str
    name: str
    position: int
    component_ids: Sequence[str]


@dataclass(frozen=True, slots=True)
class ToolMessage:
    """One `render_*` call, as it is kept."""

    turn_id: str
    sub_agent_id: str
    call_id: str
    position: int
    name: str
    tool_input_json: str
    component_data_json: str


@dataclass(frozen=True, slots=True)
class EpisodeTurn:
    """One ended turn.

    Attributes:
        user_message: what the user said, as far as the sidecar was told.
        narration: the answer that the user saw; empty if the turn's parent was lost.
        answers: of the sub-agents, in emission order of their calls.
        references: one for each component.
        tool_messages: with `EpisodeView.FULL` only.
    """

    turn_id: str
    ended_at: datetime
    user_message: str
    narration: str
    answers: Sequence[SubAgentAnswer]
    references: Sequence[ComponentReference]
    tool_messages: Sequence[ToolMessage]


@dataclass(frozen=True, slots=True)
class EpisodeSize:
    """How much a model would be given: turns after the summary, and an estimate of the tokens of it all."""

    turn_count: int
    token_count: int


@dataclass(frozen=True, slots=True)
class ContextMessage:
    """One message for a model. `role` is `system` (the summary), `user` or `assistant`."""

    role: str
    text: str


@dataclass(frozen=True, slots=True)
class Episode:
    """What is kept of an episode; turns oldest first. `turns_left_out` older ones did not fit."""

    summary: EpisodeSummary | None
    turns: Sequence[EpisodeTurn]
    turns_left_out: int
    size: EpisodeSize

    @property
    def revision(self) -> int:
        """Of the summary; 0 without one. `write_summary` takes it as `expected_revision`."""
        return self.summary.revision if self.summary else 0

    def context_messages(self) -> Sequence[ContextMessage]:
        """Return what the orchestrator's model is given of the past: summary, user messages, narration.

        No tool message and no component is among them. Source: PC1-FR-10e, PC1-FR-10f, PC1-D-31.
        """
        messages = [ContextMessage("system", self.summary.text)] if self.summary else []
        covered = self.summary.up_to_turn_id if self.summary else ""
        places = [place for place, turn in enumerate(self.turns) if turn.turn_id == covered]
        for turn in self.turns[places[-1] + 1 :] if places else self.turns:
            both = (ContextMessage("user", turn.user_message), ContextMessage("assistant", turn.narration))
            messages += [message for message in both if message.text]
        return messages
