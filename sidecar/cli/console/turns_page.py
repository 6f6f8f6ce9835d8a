"""Turns: those that failed and why, and what happened in one of them."""

import asyncio
from typing import Any, Final

from starlette.responses import Response

from sidecar.cli.console.visit import Visit
from sidecar.cli.console.waterfall import Waterfall, waterfall_of
from sidecar.cli.parameters.moments import moment_of
from sidecar.cli.subagent.client import CannotOperate
from subagents.dispatch.v1 import outcome_pb2
from subagents.errors.v1 import error_reason_pb2
from subagents.history.v1 import history_pb2 as pb
from subagents.history.v1 import record_pb2

PAGE: Final = 50
TOGETHER: Final = 8
"""Turns that are read at a time to look for a reason."""
TEXTS: Final = {
    "slot": "sub_agent_id",
    "user": "principal",
    "definition": "definition_id",
    "episode": "episode_id",
    "page": "page_token",
}
"""Parameters of the address, and fields of the request."""
OUTCOMES: Final = tuple(name.removeprefix("OUTCOME_").lower() for name in outcome_pb2.Outcome.keys()[1:])
STATES: Final = tuple(name.removeprefix("TURN_STATE_").lower() for name in record_pb2.TurnState.keys()[1:])
REASONS: Final = tuple(name.removeprefix("ERROR_REASON_") for name in error_reason_pb2.ErrorReason.keys()[1:])

CHOICES: Final = {"outcomes": OUTCOMES, "states": STATES, "reasons": REASONS}


async def turns(visit: Visit) -> Response:
    """Return the page that searches."""
    answer, wrong, looked = None, "", 0
    try:
        answer = await visit.sidecars.ask(visit.token, "ListTurns", _request(visit))
        rows = list(answer.turns)
        if visit.query("reason"):
            looked = len(rows)
            rows = await _with_reason(visit, rows, visit.query("reason").upper())
    except ValueError as problem:
        rows, wrong = [], str(problem)
    except CannotOperate as problem:
        if problem.reason != "INVALID_REQUEST":
            raise
        rows, wrong = [], problem.message
    query = {name: value for name, value in visit.request.query_params.items() if value and name != "page"}
    found = {"answer": answer, "rows": rows, "wrong": wrong, "looked": looked}
    return visit.render("turns.html", found=found, query=query, choices=CHOICES)


async def turn(visit: Visit) -> Response:
    """Return the page of one turn, or the part of it that changes while it is open."""
    request = pb.GetTurnRequest(turn_id=visit.request.path_params["turn_id"])
    answer = await visit.sidecars.ask(visit.token, "GetTurn", request)
    drawn: Waterfall = waterfall_of(answer, visit.now)
    return visit.render("turn.html", turn=answer, drawn=drawn)


def _request(visit: Visit) -> pb.ListTurnsRequest:
    request = pb.ListTurnsRequest(page_size=PAGE)
    for name, of_request in TEXTS.items():
        setattr(request, of_request, visit.query(name))
    if visit.query("outcome") in OUTCOMES:
        request.outcome = getattr(outcome_pb2, f"OUTCOME_{visit.query('outcome').upper()}")
    if visit.query("state") in STATES:
        request.state = getattr(record_pb2, f"TURN_STATE_{visit.query('state').upper()}")
    for name in ("since", "until"):
        if visit.query(name):
            getattr(request, name).FromDatetime(moment_of(visit.query(name), visit.now))
    return request


async def _with_reason(visit: Visit, rows: list[Any], reason: str) -> list[Any]:
    """Return those turns of a page in which a call has a reason; a list of turns does not name it."""
    number = error_reason_pb2.ErrorReason.Value(f"ERROR_REASON_{reason}") if reason in REASONS else -1
    places = asyncio.Semaphore(TOGETHER)

    async def has(row: Any) -> bool:
        async with places:
            answer = await visit.sidecars.ask(visit.token, "GetTurn", pb.GetTurnRequest(turn_id=row.turn_id))
        return any(each.status.reason == number for of in answer.dispatches for each in of.outcomes)

    kept = await asyncio.gather(*map(has, rows))
    return [row for row, wanted in zip(rows, kept, strict=True) if wanted]
