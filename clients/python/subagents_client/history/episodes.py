"""What is kept of conversations, as plain values: field for field `subagents.history.v1`."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum, unique


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


@dataclass(frozen=True, slots=True)
class EpisodePage:
    """Some conversations, those used last first; as `TurnPage`."""

    episodes: Sequence[EpisodeRow]
    next_page_token: str
    as_of: datetime | None = None
