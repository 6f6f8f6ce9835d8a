"""The stored history of episodes, as plain values. The fields equal those of the messages in `subagents.history.v1`."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum, unique


@dataclass(frozen=True, slots=True)
class EpisodeRow:
    """One episode in a list, computed from its recorded turns.

    Attributes:
        episode_id: id of the conversation.
        principal: the user; an equal `episode_id` of another principal is another episode.
        turn_count: number of recorded turns.
        first_turn_at: when the first recorded turn began.
        last_turn_at: when the last recorded turn began.
        sub_agent_ids: the slots that were called, each once.
    """

    episode_id: str
    principal: str
    turn_count: int
    first_turn_at: datetime
    last_turn_at: datetime
    sub_agent_ids: Sequence[str]


@unique
class EpisodeView(StrEnum):
    """The part of an episode that `SidecarClient.read_episode` returns."""

    NARRATION = "narration"
    """The part for a model: user messages, narrations and references to components."""
    FULL = "full"
    """Also tool messages, and the turns that the summary covers; for replay and audit, not for a model."""


@dataclass(frozen=True, slots=True)
class EpisodeSummary:
    """The rolling summary, which replaces the older turns of an episode for the model.

    Attributes:
        revision: 1 for the first summary; each write increases it by 1.
        text: the summary, without component data.
        up_to_turn_id: the newest turn that the summary covers.
        written_at: when the summary was written.
    """

    revision: int
    text: str
    up_to_turn_id: str
    written_at: datetime


@dataclass(frozen=True, slots=True)
class SubAgentAnswer:
    """The request to one sub-agent, and its answer.

    Attributes:
        sub_agent_id: the slot that was called.
        call_id: id of the call; unique in its dispatch.
        asked: the request, in words.
        narration: the answer, without component data.
    """

    sub_agent_id: str
    call_id: str
    asked: str
    narration: str


@dataclass(frozen=True, slots=True)
class ComponentReference:
    """A reference to a component, which lets a model refer to the component without its content.

    Attributes:
        sub_agent_id: the slot that made the component.
        name: the `render_*` tool.
        position: position among all components of the turn, from 0.
        component_ids: ids in the arguments of the tool, in order; at most 32.
    """

    sub_agent_id: str
    name: str
    position: int
    component_ids: Sequence[str]


@dataclass(frozen=True, slots=True)
class ToolMessage:
    """One call of a `render_*` tool, and its component.

    Attributes:
        turn_id: the turn of the component.
        sub_agent_id: the slot that made the component.
        call_id: the sub-agent call in which the component was made.
        position: position among all components of the turn, from 0.
        name: the `render_*` tool.
        tool_input_json: the arguments of the tool, as JSON text.
        component_data_json: the component, as JSON text.
    """

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
        turn_id: id of the turn.
        ended_at: when the turn ended.
        user_message: the user's message; empty if the client did not send it.
        narration: the answer that the user saw; empty if the client did not end the turn, or sent no narration.
        answers: the answers of the sub-agents, in emission order of their calls.
        references: one reference for each component, by position.
        tool_messages: one message for each component, by position; empty unless the view is `EpisodeView.FULL`.
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
    """The size of an episode as a model gets it.

    Attributes:
        turn_count: number of turns after the summary.
        token_count: estimated tokens of the summary, and of the user messages and narrations of these turns.
    """

    turn_count: int
    token_count: int


@dataclass(frozen=True, slots=True)
class ContextMessage:
    """One message for a model. `role` is `system` (the summary), `user` or `assistant`."""

    role: str
    text: str


@dataclass(frozen=True, slots=True)
class Episode:
    """The history of an episode.

    Attributes:
        summary: the summary of older turns; None if there is none.
        turns: the turns, oldest first, without a gap up to the newest.
        turns_left_out: number of older turns omitted because of `max_turns`, the operator's limit or the message size.
        size: the size of the part for a model.
    """

    summary: EpisodeSummary | None
    turns: Sequence[EpisodeTurn]
    turns_left_out: int
    size: EpisodeSize

    @property
    def revision(self) -> int:
        """Revision of the summary; 0 without a summary. Pass it to `write_summary` as `expected_revision`."""
        return self.summary.revision if self.summary else 0

    def context_messages(self) -> Sequence[ContextMessage]:
        """Return the history for the orchestrator's model, oldest first: summary, user messages, narrations.

        Omits the turns that the summary covers, all tool messages and all components.
        Source: PC1-FR-10e, PC1-FR-10f, PC1-D-31.
        """
        messages = [ContextMessage("system", self.summary.text)] if self.summary else []
        covered = self.summary.up_to_turn_id if self.summary else ""
        places = [place for place, turn in enumerate(self.turns) if turn.turn_id == covered]
        for turn in self.turns[places[-1] + 1 :] if places else self.turns:
            exchange = (ContextMessage("user", turn.user_message), ContextMessage("assistant", turn.narration))
            messages += [message for message in exchange if message.text]
        return messages


@dataclass(frozen=True, slots=True)
class EpisodePage:
    """A page of episodes, the most recently used first.

    Attributes:
        episodes: the episodes on the page.
        next_page_token: argument for the next page; empty on the last page.
        as_of: set if the list is behind the record: later changes may be missing; else None.
    """

    episodes: Sequence[EpisodeRow]
    next_page_token: str
    as_of: datetime | None = None
