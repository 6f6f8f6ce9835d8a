"""The layers of an episode memory: narration, tool messages, the rolling summary. Source: REQUIREMENTS 6.9.

No layer contains a part of another: bodies are narration only, components are in tool messages only, and the summary
does not change the turns that it covers.
"""

from datetime import datetime

import msgspec

from sidecar.core.identifiers import CallId, EpisodeId, Principal, Slot, TurnId


class EpisodeKey(msgspec.Struct, frozen=True):
    """One conversation of one user. The same episode id under another principal is another episode."""

    episode_id: EpisodeId
    principal: Principal


class SubAgentAnswer(msgspec.Struct, frozen=True):
    """The request and the narration of one sub-agent, tagged with its slot. Source: PC1-D-29.

    Attributes:
        asked: the request in words, or the arguments as JSON text if they have none.
        narration: text without component data.
    """

    sub_agent_id: Slot
    call_id: CallId
    asked: str
    narration: str


class ToolMessage(msgspec.Struct, frozen=True):
    """One `render_*` call of a sub-agent: its input and its component. Source: PC1-FR-10b, PC1-FR-10c, PC1-D-25.

    Attributes:
        position: among all components of the turn, in emission order of the calls, from 0.
        tool_input_json: ids, titles, analytics tags.
        component_data_json: the formatted component.
    """

    turn_id: TurnId
    sub_agent_id: Slot
    call_id: CallId
    position: int
    name: str
    tool_input_json: str
    component_data_json: str


class TurnHistory(msgspec.Struct, frozen=True):
    """One stored turn. `turn_id` is its key: storing it again changes nothing.

    Attributes:
        user_message: the user's message; empty if the sidecar never received it.
        narration: the answer that the user saw; empty if the turn's parent was lost.
        answers: of the sub-agents that answered, in emission order.
    """

    episode: EpisodeKey
    turn_id: TurnId
    ended_at: datetime
    user_message: str = ""
    narration: str = ""
    answers: tuple[SubAgentAnswer, ...] = ()
    tool_messages: tuple[ToolMessage, ...] = ()


class Summary(msgspec.Struct, frozen=True):
    """The rolling summary in the episode's metadata. Source: PC1-FR-11b, PC1-D-31.

    Attributes:
        revision: 1 for the first; 0 means that there is none.
        up_to_turn_id: the newest turn that it replaces.
    """

    revision: int
    text: str
    up_to_turn_id: TurnId
    written_at: datetime


class EpisodeSize(msgspec.Struct, frozen=True):
    """The size of an episode for a model: the summary and the turns after it.

    Attributes:
        turns: turns after the summary.
        tokens: estimate of their user messages and narrations, and of the summary.
    """

    turns: int = 0
    tokens: int = 0


class EpisodeContents(msgspec.Struct, frozen=True):
    """The requested contents of an episode.

    Attributes:
        turns: oldest first, without a gap up to the newest.
        kept: number of stored turns of the episode, requested or not.
    """

    summary: Summary | None = None
    turns: tuple[TurnHistory, ...] = ()
    kept: int = 0


class Reference(msgspec.Struct, frozen=True):
    """A compact annotation of one component, for "the second one you showed me". Source: PC1-D-28.

    Attributes:
        position: among all components of the turn, from 0.
        component_ids: ids that its tool input names, in order.
    """

    turn_id: TurnId
    sub_agent_id: Slot
    name: str
    position: int
    component_ids: tuple[str, ...]


class OwnTurn(msgspec.Struct, frozen=True):
    """One earlier answer of one sub-agent, as it alone may read it. Source: PC1-FR-7a."""

    turn_id: TurnId
    sub_agent_id: Slot
    ended_at: datetime
    asked: str
    narration: str
    references: tuple[Reference, ...] = ()
