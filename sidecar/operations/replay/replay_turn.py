"""Sends the recorded inputs of a turn through the code that runs turns, and collects the outcomes.

The recording contains inputs: runner frames, results of the tool gateway, stops, random waits, and the times at which
attempts could begin. Of the recorded outcomes the replay uses only which calls were refused because of facts outside
the turn: an invalid answer to a question, or the user's daily limit. It runs in virtual time.
"""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import msgspec
from msgspec.structs import replace

from sidecar.core.binding.surface_token import SigningKeys, sign_token
from sidecar.core.dispatching.outcomes import CallOutcome, Outcome
from sidecar.core.errors import SubagentsError
from sidecar.core.executing.records import DispatchOpened
from sidecar.core.identifiers import CallId, DispatchId
from sidecar.core.replaying.document import ReplayDocument
from sidecar.operations.process.turn_assembly import Operations
from sidecar.operations.replay.play_frames import Recording
from sidecar.operations.requests import DispatchRequest, OnDisconnect
from sidecar.operations.rules import DispatchRules
from sidecar.operations.turn.state.live_dispatch import LiveDispatch
from sidecar.operations.turn.state.opening_records import request_from_json
from subagents_errors import CallFailure


class Replayed(msgspec.Struct, frozen=True):
    """The result of a turn with the present code.

    Attributes:
        outcomes: of each dispatch, in the order of its calls.
        refused: dispatches that are refused now, and why.
        unrecorded: attempts that are made now but were not made in the recorded turn.
    """

    outcomes: dict[DispatchId, tuple[CallOutcome, ...]]
    refused: dict[DispatchId, str]
    unrecorded: tuple[str, ...]


class ReplayReport(msgspec.Struct, frozen=True):
    """The result of a replay.

    Attributes:
        differences: in words; empty if the replay equals the recorded turn.
        notes: what could not be compared, in words.
    """

    replayed: Replayed
    differences: tuple[str, ...]
    notes: tuple[str, ...]


async def replay_turn(
    document: ReplayDocument, recording: Recording, operations: Operations, keys: SigningKeys, rules: DispatchRules
) -> Replayed:
    """Send the turn's dispatches at their recorded times, and return the outcomes."""
    loop = asyncio.get_running_loop()
    token, first, start = sign_token(document.claims(), keys), document.dispatches[0].opened_at, loop.time()
    running: list[LiveDispatch] = []
    refused: dict[DispatchId, str] = {}
    for opened in document.dispatches:
        # In virtual time: the sleep costs nothing, but keeps the order in which dispatches and events happened.
        await asyncio.sleep(start + (opened.opened_at - first).total_seconds() - loop.time())
        recording.begun_at[opened.dispatch_id] = loop.time()  # recorded times count from here
        _schedule_stops(recording, operations, opened)
        request = _request_of(opened, document.recorded_outcomes.get(opened.dispatch_id, ()), token)
        # `begin` subtracts the margin again, so the calls are stopped after the same time as in the recorded turn.
        time_left = opened.settle_by - opened.opened_at + rules.delivery_margin
        try:
            running.append((await operations.dispatch_calls.begin(request, time_left)).dispatch)
        except SubagentsError as error:
            refused[opened.dispatch_id] = f"{error.reason}: {error.message}"
    outcomes = {each.dispatch_id: (await each.finished.wait()).outcomes for each in running}
    return Replayed(outcomes, refused, tuple(recording.unrecorded))


def _request_of(opened: DispatchOpened, recorded: Sequence[CallOutcome], token: str) -> DispatchRequest:
    """Return the request of a dispatch.

    A call that answered the question of an earlier turn starts without this answer, because the earlier turn is not
    replayed. A refused call keeps its answer, so that it is refused again.
    """
    request = request_from_json(opened.request_json, token)
    refused = {each.call_id for each in recorded if each.outcome is Outcome.REFUSED}
    calls = [each if each.call_id in refused else replace(each, answering=None) for each in request.calls]
    # A replay has no listener, so `CANCEL` would stop every call at once.
    return replace(request, calls=tuple(calls), on_disconnect=OnDisconnect.CONTINUE)


def rules_of_replay(rules: DispatchRules, fan_out_cap: int) -> DispatchRules:
    """Return the rules without limits whose effect is in the recording already, or that depend on other turns.

    Args:
        rules: the present rules.
        fan_out_cap: of the recorded turn.
    """
    return replace(
        rules,
        binding=replace(rules.binding, fan_out_cap=fan_out_cap),
        # A dispatch gets the time that it had when it was recorded: a limit that was lowered since must not shorten it.
        join_timeout=timedelta(days=1),
        strict_prior_context=False,
        # A replay must not record itself.
        record_frames=False,
        admission=replace(rules.admission, min_remaining_time=timedelta(0)),
        # The budget and the breakers depend on other turns of that time. The recording says where they stopped a retry.
        retries=replace(rules.retries, share=1.0, floor=1_000_000),
        breaker=replace(rules.breaker, failures=1_000_000),
    )


def _schedule_stops(recording: Recording, operations: Operations, opened: DispatchOpened) -> None:
    """Schedule the stops of the calls of a dispatch that were stopped before they ran."""
    begun_at = recording.begun_at[opened.dispatch_id]

    def stop(call_id: CallId, reason: CallFailure) -> None:
        turn = operations.turns.known(opened.turn_id)
        dispatch = None if turn is None else turn.dispatches.get(opened.dispatch_id)
        if dispatch is not None:
            dispatch.calls.stop(call_id, reason)

    for (dispatch_id, call_id), (reason, after) in recording.stops_before_running().items():
        if dispatch_id == opened.dispatch_id:
            asyncio.get_running_loop().call_at(begun_at + after, stop, call_id, reason)
