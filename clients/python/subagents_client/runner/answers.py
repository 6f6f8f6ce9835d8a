"""What passes between a sub-agent's function and its host."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any


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
