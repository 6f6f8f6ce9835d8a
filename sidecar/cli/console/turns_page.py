"""The pages of the console about turns: a search (e.g. for failed turns), and what happened in one turn."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from starlette.responses import Response, StreamingResponse

from sidecar.cli.console.visit import Visit
from sidecar.cli.console.waterfall import Waterfall, waterfall_of
from sidecar.cli.parameters.moments import moment_of
from sidecar.cli.subagent.client import CannotOperate
from subagents.dispatch.v1 import outcome_pb2
from subagents.errors.v1 import error_reason_pb2
from subagents.history.v1 import history_pb2 as pb
from subagents.history.v1 import record_pb2
from subagents_errors import CallFailure

PAGE: Final = 50
"""The most turns on a page of the search."""
CHANGED: Final = "data: changed\n\n"
LAST: Final = "event: last\ndata: changed\n\n"
"""Server-sent events: the page reads the turn again at each of them, and closes the stream at the last one."""
LAST_PART: Final = 286
"""The HTTP status that makes htmx, the library of the page, stop polling."""
TEXTS: Final = {
    "slot": "sub_agent_id",
    "user": "principal",
    "definition": "definition_id",
    "episode": "episode_id",
    "page": "page_token",
}
"""Fields of the request by the parameter of the URL."""
OUTCOMES: Final = tuple(name.removeprefix("OUTCOME_").lower() for name in outcome_pb2.Outcome.keys()[1:])
STATES: Final = tuple(name.removeprefix("TURN_STATE_").lower() for name in record_pb2.TurnState.keys()[1:])
REASONS: Final = tuple(map(str, CallFailure))
CHOICES: Final = {"outcomes": OUTCOMES, "states": STATES, "reasons": REASONS}


async def turns(visit: Visit) -> Response:
    """Return the search page with its result."""
    answer, wrong = None, ""
    try:
        answer = await visit.sidecars.ask(visit.token, "ListTurns", _request(visit))
    except ValueError as problem:
        wrong = str(problem)
    except CannotOperate as problem:
        # A wrong search term is shown beside the form; everything else is a problem of the whole page.
        if problem.reason != "INVALID_REQUEST":
            raise
        wrong = problem.message
    # Without the page: a link to another search must begin at its first page.
    query = {name: value for name, value in visit.request.query_params.items() if value and name != "page"}
    found = {"answer": answer, "rows": answer.turns if answer else [], "wrong": wrong}
    return visit.render("turns.html", found=found, query=query, choices=CHOICES)


async def turn(visit: Visit) -> Response:
    """Return the page of one turn, or the part of it that changes while it is open."""
    request = pb.GetTurnRequest(turn_id=visit.request.path_params["turn_id"])
    answer = await visit.sidecars.ask(visit.token, "GetTurn", request)
    drawn: Waterfall = waterfall_of(answer, visit.now)
    # A part of an ended turn does not change any more. The whole page is not polled, so its status stays 200.
    status = 200 if drawn.is_open or not visit.is_part else LAST_PART
    return visit.render("turn.html", status, turn=answer, drawn=drawn)


async def changes(visit: Visit) -> Response:
    """Return a stream of server-sent events: one whenever something happens in the turn."""
    return StreamingResponse(_changes(visit), media_type="text/event-stream")


async def _changes(visit: Visit) -> AsyncGenerator[str, None]:
    """Yield an event for each message of the sidecar; the page then asks for the part of it that changes.

    The last event says that no more follow: otherwise the browser would open the stream again and again.
    """
    try:
        # Closed at once when the browser leaves, and not at some later garbage collection.
        async with aclosing(visit.sidecars.watch(visit.token, visit.request.path_params["turn_id"])) as messages:
            async for _ in messages:
                yield CHANGED
    except CannotOperate:  # e.g. too many watchers; the page asks at intervals, and says what is wrong
        pass
    yield LAST


def _request(visit: Visit) -> pb.ListTurnsRequest:
    """Return the request for the search in the URL. Raises `ValueError`: a reason or a time is invalid."""
    request = pb.ListTurnsRequest(page_size=PAGE)
    for name, field in TEXTS.items():
        setattr(request, field, visit.query(name))
    # An unknown word is ignored: links of an older console must still work.
    if visit.query("outcome") in OUTCOMES:
        request.outcome = getattr(outcome_pb2, f"OUTCOME_{visit.query('outcome').upper()}")
    if visit.query("state") in STATES:
        request.state = getattr(record_pb2, f"TURN_STATE_{visit.query('state').upper()}")
    reason = visit.query("reason").upper()
    if reason:
        if reason not in REASONS:
            raise ValueError(f"no call ends with {reason[:40]}")
        request.reason = getattr(error_reason_pb2, f"ERROR_REASON_{reason}")
    for name in ("since", "until"):
        if visit.query(name):
            getattr(request, name).FromDatetime(moment_of(visit.query(name), visit.now))
    return request
