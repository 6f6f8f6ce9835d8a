"""The turn as it is stored in the graph's state, so that a later run, perhaps in another process, can continue it."""

from dataclasses import asdict, replace
from typing import Annotated, Any, Final, NotRequired, TypedDict
from uuid import UUID, uuid4, uuid5

from langchain.agents.middleware import AgentState
from langchain.agents.middleware.types import PrivateStateAttr
from langchain_core.messages import BaseMessage

from subagents_client import DispatchResult, SidecarClient, TurnRequest, TurnSource, TurnState
from subagents_errors import UnknownTurn

NAMES: Final = UUID("6f1c8a52-3f0e-4b7e-9f57-2a6d1f0c9b11")
"""Namespace of derived ids. Must not change: with these ids a run finds the dispatches of earlier runs."""


class OpenTurn(TypedDict):
    """One turn as plain values, which every checkpointer can store.

    Attributes:
        turn_id: id of the turn.
        request: the fields of the `TurnRequest` with which the turn was bound.
        dispatch_ids: ids of the dispatches of its responses, in order. An id may stay unused, if other middleware
            answers all calls of a response.
        finished: whether the agent has finished the turn.
    """

    turn_id: str
    request: dict[str, Any]
    dispatch_ids: list[str]
    finished: bool


class SidecarState(AgentState[Any]):
    """The state of the agent's graph, with the turn in `sidecar_turn`."""

    sidecar_turn: NotRequired[Annotated[OpenTurn | None, PrivateStateAttr]]


class ForeignTurn(ValueError):
    """The turn that waits in the thread has another principal or episode than the request."""


def begun(request: TurnRequest) -> OpenTurn:
    """Return a new turn for the graph's state; make its id if the request has none."""
    turn_id = request.turn_id or uuid4().hex
    fields = {**asdict(replace(request, turn_id=turn_id)), "source": request.source.value}
    return OpenTurn(turn_id=turn_id, request=fields, dispatch_ids=[], finished=False)


def request_of(kept: OpenTurn, asked: TurnRequest) -> TurnRequest:
    """Return the request with which a turn was bound, to bind it again.

    Args:
        kept: the turn in the graph's state.
        asked: the request of the caller that continues the turn; only its principal and episode are checked.

    Raises:
        ForeignTurn: principal or episode differ.
    """
    request = TurnRequest(**{**kept["request"], "source": TurnSource(kept["request"]["source"])})
    if (request.principal, request.episode_id) != (asked.principal, asked.episode_id):
        raise ForeignTurn(
            "the turn that waits in this thread is of another principal or episode; go on with it as who began it,"
            " or begin a new turn with a message"
        )
    return request


def dispatch_id(turn_id: str, response: BaseMessage, number: int) -> str:
    """Return the id of a dispatch of a response; it is equal in every run that continues the turn.

    Args:
        turn_id: id of the turn of the response.
        response: the response, with its id in the graph's state.
        number: number of the dispatch, from 0. A response has several dispatches if some calls arrive late.
    """
    return uuid5(NAMES, f"{turn_id}\n{response.id}\n{number}").hex


async def is_open(client: SidecarClient, request: TurnRequest) -> tuple[TurnRequest, list[DispatchResult]]:
    """Return the request with which a turn can continue, and the results of the turns that have ended meanwhile.

    The sidecar closes a turn that waits for too long. The turn that replaces it has an id derived from the id of the
    closed turn, so that every later run finds it.

    Raises:
        DependencyUnavailable, DeadlineExceeded: the record cannot be read now.
    """
    earlier: list[DispatchResult] = []
    while True:
        try:
            recorded = await client.history.get_turn(request.turn_id)
        except UnknownTurn:
            return request, earlier
        if recorded.turn.state not in {TurnState.ENDED, TurnState.LOST}:
            return request, earlier
        earlier += [DispatchResult(dispatch_id=one.dispatch_id, outcomes=one.outcomes) for one in recorded.dispatches]
        request = replace(request, turn_id=uuid5(NAMES, request.turn_id).hex)
