"""What the graph's state keeps of a turn, so that another run, in another process too, can go on with it."""

from dataclasses import asdict, replace
from typing import Annotated, Any, Final, NotRequired, TypedDict
from uuid import UUID, uuid4, uuid5

from langchain.agents.middleware import AgentState
from langchain.agents.middleware.types import PrivateStateAttr
from langchain_core.messages import BaseMessage

from subagents_client import DispatchResult, SidecarClient, TurnRequest, TurnSource, TurnState
from subagents_errors import UnknownTurn

NAMES: Final = UUID("6f1c8a52-3f0e-4b7e-9f57-2a6d1f0c9b11")
"""Namespace of ids that are made of other ids. Fixed: a run finds by them what an earlier one has sent."""


class OpenTurn(TypedDict):
    """One turn, in plain values, so that every checkpointer keeps it.

    Attributes:
        turn_id: of the request.
        request: the fields of the `TurnRequest` that it was bound with.
        dispatch_ids: of the dispatches that its responses go out as, in order; one may turn out not to be needed.
        finished: whether the agent has come to its end.
    """

    turn_id: str
    request: dict[str, Any]
    dispatch_ids: list[str]
    finished: bool


class SidecarState(AgentState[Any]):
    """The agent's state with the turn in it."""

    sidecar_turn: NotRequired[Annotated[OpenTurn | None, PrivateStateAttr]]


class ForeignTurn(ValueError):
    """The thread waits to go on with a turn of another user or conversation."""


def begun(request: TurnRequest) -> OpenTurn:
    """Return what is kept of a turn that begins; it gets an id if it has none."""
    turn_id = request.turn_id or uuid4().hex
    fields = {**asdict(replace(request, turn_id=turn_id)), "source": request.source.value}
    return OpenTurn(turn_id=turn_id, request=fields, dispatch_ids=[], finished=False)


def request_of(kept: OpenTurn, asked: TurnRequest) -> TurnRequest:
    """Return the request that the turn was bound with, to bind it again.

    Args:
        kept: from the state.
        asked: by the caller that goes on with it; everything but principal and episode is taken from `kept`.

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
    """Return the id of a dispatch of a response: the same in every run that goes on with the turn.

    Args:
        turn_id: of the turn that the response was made in.
        response: has its id in the graph's state.
        number: from 0; more than one only if some calls came later than others.
    """
    return uuid5(NAMES, f"{turn_id}\n{response.id}\n{number}").hex


async def is_open(client: SidecarClient, request: TurnRequest) -> tuple[TurnRequest, list[DispatchResult]]:
    """Return the request to bind for going on with a turn, and what was dispatched in it if it is over meanwhile.

    A turn that waited for longer than the sidecar keeps one is over. The next one has an id that is made of its id, so
    that every later run finds it.

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
