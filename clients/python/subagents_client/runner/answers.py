"""What passes between a sub-agent's function and its host."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from subagents_client.outcomes import Component, Outcome


@dataclass(frozen=True, slots=True)
class Answer:
    """What a sub-agent's function returns, if not just text.

    Attributes:
        narration: the answer as text, without component JSON; joined to what `Run.narrate` sent before.
        data_unavailable: the sub-agent had to answer without data it needed; makes the outcome degraded.
    """

    narration: str = ""
    data_unavailable: bool = False


@dataclass(frozen=True, slots=True)
class ToolData:
    """What a data-backed tool gave.

    Attributes:
        payload: the JSON value.
        partial: some source that is not critical failed: the answer may carry a soft caveat.
    """

    payload: Any
    partial: bool = False


@dataclass(frozen=True, slots=True)
class DataUnavailable:
    """There is no data to be had from this call. Nothing says why, on purpose (PC2-FR-12)."""


@dataclass(frozen=True, slots=True)
class Delegate:
    """Another sub-agent of the turn that this one may ask.

    Attributes:
        name: of its tool, e.g. `ask_rewards`.
        arguments_schema_json: JSON schema of its arguments, as text.
    """

    name: str
    description: str
    arguments_schema_json: str


@dataclass(frozen=True, slots=True)
class Delegated:
    """What another sub-agent came to.

    Attributes:
        narration: its answer; input for this one's, never for the user as it is. Empty if it failed.
        components: what its `render_*` tools made. They are in this answer only if this sub-agent renders them.
        data_unavailable: it had to do without data it needed.
        message: a neutral sentence for the model if it did not succeed; else empty.
    """

    outcome: Outcome
    narration: str
    components: Sequence[Component]
    data_unavailable: bool
    message: str


@dataclass(frozen=True, slots=True)
class OwnComponent:
    """A compact annotation of an own component; `position` counts all components of the turn, from 0."""

    name: str
    position: int
    component_ids: Sequence[str]


@dataclass(frozen=True, slots=True)
class OwnTurn:
    """One earlier answer of this sub-agent in this session. Source: PC1-FR-7a.

    Attributes:
        asked: what it was asked.
        answered: what it answered; narration only.
    """

    turn_id: str
    ended_at: datetime
    asked: str
    answered: str
    components: Sequence[OwnComponent] = ()


class TransientFailure(Exception):
    """Raised by a sub-agent's function: it failed, but another attempt may succeed.

    The sidecar makes another attempt if the card's `max_retries` allows one. Any other exception fails the call for
    good. The text goes to the host's log only.
    """
