"""Single records of `core/executing` as parts of facts: what a fact has of each, and its texts."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

import msgspec

from sidecar.core.binding.surface_token import SurfaceClaims
from sidecar.core.dispatching.cap import CapBehaviour
from sidecar.core.dispatching.intents import IntentReport
from sidecar.core.dispatching.outcomes import CallOutcome, Usage
from sidecar.core.dispatching.routing_record import RoutedCall, RoutingRecord
from sidecar.core.executing.records import CallSettled, DispatchOpened, TurnEnded
from sidecar.core.identifiers import CallId, Digest, DispatchId
from sidecar.core.journal import facts
from sidecar.core.journal.child_events import MICROSECOND
from sidecar.core.journal.facts import Intents, Routed, Routing, Settlement
from sidecar.core.journal.opening.claims import unnamed
from sidecar.core.journal.opening.requests import Request, asked_of, texts_of
from sidecar.core.journal.texts import EndTexts, OutcomeTexts, Texts


class OpenDispatch(msgspec.Struct, frozen=True):
    """What later records of a dispatch are looked up in.

    Attributes:
        claims: under which it was accepted.
        places: by call id.
    """

    opened: DispatchOpened
    request: Request
    claims: SurfaceClaims
    places: dict[CallId, int]


class Part(msgspec.Struct, frozen=True):
    """A body with its texts."""

    body: facts.Body
    texts: Texts


def open_dispatch(opened: DispatchOpened, request: Request, claims: SurfaceClaims) -> OpenDispatch:
    """Return a dispatch ready for look-ups."""
    places = {call.call_id: place for place, call in enumerate(request.calls)}
    return OpenDispatch(opened, request, claims, places)


def opening_of(dispatch: OpenDispatch, claims: SurfaceClaims | None) -> Part:
    """Return the fact that opens a dispatch, without its children; `claims` if no fact before has the same."""
    opened = dispatch.opened
    parts = None if claims is None else unnamed(claims)
    body = facts.DispatchOpened(
        dispatch_id=opened.dispatch_id,
        claims=None if parts is None else parts.claims,
        asked=asked_of(dispatch.request),
        first_step=opened.first_step,
        places=opened.places,
        intents=_intents(opened.intents),
        settle_after=microseconds(opened.settle_by - opened.opened_at),
        cap=None if opened.cap is CapBehaviour.WITHIN else opened.cap,
    )
    return Part(body, Texts(user=None if parts is None else parts.user, request=texts_of(dispatch.request)))


def settlement_of(settled: CallSettled, dispatch: OpenDispatch, at: datetime) -> Settlement:
    """Return an outcome without its texts; `at` is the time of its fact. Raises `KeyError` of an unknown call."""
    outcome = settled.outcome
    return Settlement(
        place=dispatch.places[outcome.call_id],
        outcome=outcome.outcome,
        reason=outcome.reason,
        after=microseconds(settled.settled_at - at),
        revision=settled.revision,
        ran=outcome.child_id is not None,
        slot=outcome.sub_agent_id if outcome.child_id is None else None,
        attempts=outcome.attempts,
        took=None if outcome.duration is None else microseconds(outcome.duration),
        tokens=None if outcome.usage is None else _counts(outcome.usage),
    )


def texts_of_outcome(outcome: CallOutcome, dispatch: OpenDispatch) -> OutcomeTexts:
    """Return the texts of an outcome."""
    asked, answer = dispatch.request.calls[dispatch.places[outcome.call_id]].tool_name, outcome.answer
    return OutcomeTexts(
        narration=answer.narration,
        components=tuple((each.name, each.tool_input_json, each.component_data_json) for each in answer.components),
        data_unavailable=answer.data_unavailable,
        hint=outcome.hint,
        tool_name=None if outcome.tool_name == asked else outcome.tool_name,
    )


def end_of(
    ended: TurnEnded,
    routing: RoutingRecord,
    dispatches: Mapping[DispatchId, OpenDispatch],
    claims: SurfaceClaims | None,
) -> Part:
    """Return the fact that ends a turn, without progress.

    Args:
        ended: the turn's row.
        routing: the other record of the end.
        dispatches: all of the turn.
        claims: if no fact before has the same.
    """
    parts = None if claims is None else unnamed(claims)
    known = _in_order(routing, dispatches)
    beyond = routing.intents[len(known) :]
    digest = next((each.request.binding_digest for each in known), "")
    rest = Routing(
        calls=tuple(_routed(call, each, ended.ended_at) for each in known for call in _calls_of(routing, each)),
        overhead=microseconds(routing.overhead),
        asserted_by=routing.principal_asserted_by,
        gate_passed=routing.gate_passed,
        undispatched=_intents(beyond[0]) if beyond else None,
        binding_digest="" if routing.binding_digest == digest else routing.binding_digest,
    )
    body = facts.TurnEnded(None if parts is None else parts.claims, ended.close_reason, rest)
    end = EndTexts(ended.fingerprint, ended.narration, ended.user_message)
    return Part(body, Texts(user=None if parts is None else parts.user, end=end))


def microseconds(duration: timedelta) -> int:
    """Return a duration as facts have it."""
    return duration // MICROSECOND


def claims_at_end(ended: TurnEnded, routing: RoutingRecord, known: SurfaceClaims | None) -> SurfaceClaims:
    """Return the claims that a routing decision comes from.

    Args:
        ended: says of whom the turn is.
        routing: the decision; it may be made under a newer binding than the turn's dispatches.
        known: what facts before say; None: the turn had no dispatch, and what no record says of it stays empty.
    """
    cohort, known = routing.cohort, known or _unknown(ended)
    slots = tuple(slot for slot, _ in known.tools)
    return msgspec.structs.replace(
        known,
        orchestrator_id=routing.orchestrator_id,
        tools=known.tools
        if slots == cohort.active_sub_agents
        else tuple((slot, Digest("")) for slot in cohort.active_sub_agents),
        candidates=tuple((each.slot, each.definition_id, each.verdict.value) for each in routing.candidates),
        versions=(
            cohort.agent_definition_version,
            cohort.prompt_block_registry_version,
            cohort.xml_prompt_component_registry_version,
        ),
        flags=cohort.active_feature_flags,
        arm=cohort.experiment_arm_assignment,
        fan_out_cap=routing.fan_out_cap,
        bound_at=routing.bound_at,
    )


def _in_order(routing: RoutingRecord, dispatches: Mapping[DispatchId, OpenDispatch]) -> list[OpenDispatch]:
    """Return the dispatches that a routing decision knows of, in the order of its intents."""
    named = {call.dispatch_id for call in routing.calls}
    left = [dispatch for each, dispatch in dispatches.items() if each in named]
    found = []
    for intents in routing.intents:
        one = next((each for each in left if each.opened.intents == intents), None)
        if one is not None:
            left.remove(one)
            found.append(one)
    return found + left


def _calls_of(routing: RoutingRecord, dispatch: OpenDispatch) -> Iterator[RoutedCall]:
    return (call for call in routing.calls if call.dispatch_id == dispatch.opened.dispatch_id)


def _routed(call: RoutedCall, dispatch: OpenDispatch, at: datetime) -> Routed:
    return Routed(
        dispatch_id=call.dispatch_id,
        place=dispatch.places[call.call_id],
        settled=microseconds(call.settled_at - at),
        started=None if call.started_at is None else microseconds(call.started_at - at),
        status_events=call.status_events,
    )


def _unknown(ended: TurnEnded) -> SurfaceClaims:
    return SurfaceClaims(
        turn_id=ended.turn_id,
        episode_id=ended.episode_id,
        principal=ended.principal,
        source="",
        locale=None,
        location=None,
        date="",
        orchestrator_digest=Digest(""),
        tools=(),
        candidates=(),
        versions=("", "", ""),
        flags=(),
        arm="",
        previous=None,
        fan_out_cap=0,
        max_dispatches=0,
        bound_at=ended.ended_at,
        expires_at=ended.ended_at,
    )


def _intents(report: IntentReport) -> Intents:
    return Intents(*msgspec.structs.astuple(report))


def _counts(usage: Usage) -> tuple[int, ...]:
    counts = (usage.input_tokens, usage.output_tokens, usage.cached_input_tokens)
    return tuple(count for count in counts if count is not None)
