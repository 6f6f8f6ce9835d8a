"""Values that a sub-agent's function returns, and results of `Run`'s methods."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from subagents_client.outcomes import Component, Outcome


@dataclass(frozen=True, slots=True)
class Answer:
    """The return value of a sub-agent's function that needs more than a text.

    Attributes:
        narration: text of the answer, without component JSON; appended to the pieces that `Run.narrate` sent.
        data_unavailable: whether the sub-agent lacked data that it needed; True makes the outcome degraded.
    """

    narration: str = ""
    data_unavailable: bool = False


@dataclass(frozen=True, slots=True)
class ToolData:
    """The data that a tool returned.

    Attributes:
        payload: the payload of the envelope, a JSON value.
        partial: whether a source that is not critical failed, so that the answer may be incomplete.
    """

    payload: Any
    partial: bool = False


@dataclass(frozen=True, slots=True)
class DataUnavailable:
    """The tool returned no data. The reason is deliberately withheld from the sub-agent (PC2-FR-12)."""


@dataclass(frozen=True, slots=True)
class Delegate:
    """Another sub-agent of the turn that this one may call with `Run.delegate`.

    Attributes:
        name: name of the tool, e.g. `ask_rewards`.
        description: description of the tool, for the model.
        arguments_schema_json: JSON schema of the arguments, as JSON text.
    """

    name: str
    description: str
    arguments_schema_json: str


@dataclass(frozen=True, slots=True)
class Delegated:
    """The result of a delegation.

    Attributes:
        outcome: how the call of the other sub-agent ended.
        narration: text of its answer, as input for the answer of this sub-agent; not for the user. Empty if it failed.
        components: the components that it made. The user gets them only if this sub-agent renders them.
        data_unavailable: whether the other sub-agent lacked data that it needed.
        message: a neutral sentence for the model if the call did not succeed; else empty.
    """

    outcome: Outcome
    narration: str
    components: Sequence[Component]
    data_unavailable: bool
    message: str


@dataclass(frozen=True, slots=True)
class OwnComponent:
    """A reference to a component that this sub-agent made in an earlier turn.

    Attributes:
        name: the `render_*` tool.
        position: position among all components of the turn, from 0.
        component_ids: ids in the arguments of the tool, in order.
    """

    name: str
    position: int
    component_ids: Sequence[str]


@dataclass(frozen=True, slots=True)
class OwnTurn:
    """One earlier request to this sub-agent in this episode, and its answer. Source: PC1-FR-7a.

    Attributes:
        turn_id: id of the turn.
        ended_at: when the turn ended.
        asked: the request, in words.
        answered: text of the answer, without component data.
        components: references to the components of the answer.
    """

    turn_id: str
    ended_at: datetime
    asked: str
    answered: str
    components: Sequence[OwnComponent] = ()


class TransientFailure(Exception):
    """A sub-agent's function raises this exception if it failed, but another attempt may succeed.

    The sidecar starts another attempt if the definition's `max_retries` allows it. Other exceptions, except
    `DependencyUnavailable`, fail the call without another attempt. The exception's text is written only to the host's
    log.
    """
