"""Translates requests of `DispatchService` to plain values.

Every field is checked, and one error reports all problems.

Only the form is checked. A mistake in what a model wrote (tool names, arguments) does not make the request invalid: the
call with the mistake gets an outcome that says so.
"""

import datetime as dt
import re
from typing import Final

from sidecar.core.dispatching.calls import ToolCall
from sidecar.core.dispatching.questions import LONGEST_ANSWER, Answering
from sidecar.core.identifiers import CallId, ChildId, DispatchId, EpisodeId, TurnId
from sidecar.operations.requests import (
    BindTurnRequest,
    CancelRequest,
    CloseChildRequest,
    DispatchRequest,
    EndTurnRequest,
    Integration,
    JoinPolicy,
    OnDisconnect,
    ResumeRequest,
)
from sidecar.rpc.translate import enums
from sidecar.rpc.translate.fields import Fields
from subagents.dispatch.v1 import dispatch_pb2 as pb
from subagents.dispatch.v1 import question_pb2

MOST_CALLS: Final = 64
"""The most calls of one dispatch."""
MOST_INTEGRATIONS: Final = 1024
"""The most verdicts about children in one `EndTurn`. With the default settings a turn has at most 640 calls."""
LONGEST_TOKEN: Final = 64 * 1024
"""Characters of a surface token or receipt. Both are created by the sidecar, and far shorter."""
LONGEST_TOOL_NAME: Final = 256  # characters
# Only the form of a BCP 47 tag: language and up to seven subtags. Whether they are registered does not matter here.
LOCALE: Final = re.compile(r"[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8}){0,7}\Z")
DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\Z")
SOURCE_NAMES: Final = enums.names_of(pb.TurnSource)
ON_DISCONNECT_NAMES: Final = enums.names_of(pb.OnDisconnect)
VERDICT_NAMES: Final = enums.names_of(pb.Verdict)
DECISION_NAMES: Final = enums.names_of(question_pb2.Decision)
ANSWERER_NAMES: Final = enums.names_of(question_pb2.Answerer)
FROM_BIND: Final = "what BindTurn returned"


def bind_turn(message: pb.BindTurnRequest, *, verified: bool = False) -> BindTurnRequest:
    """Return the request, without the user token. Raises `InvalidRequest`."""
    fields = Fields("BindTurnRequest")
    request = BindTurnRequest(
        turn_id=TurnId(fields.run_side_id("turn_id", message.turn_id)),
        episode_id=EpisodeId(fields.run_side_id("episode_id", message.episode_id)),
        principal=fields.principal("principal", message.principal),
        source=fields.member("source", message.source, enums.SOURCES, SOURCE_NAMES),
        orchestrator_id=fields.one_line("orchestrator_id", message.orchestrator_id, 60),
        locale=_locale(fields, message),
        location=fields.optional_line("location", message.location if message.HasField("location") else None, 256),
        experiment_arm=fields.one_line("experiment_arm", message.experiment_arm, 128),
        date=_date(fields, message.date),
        verified=verified,
    )
    fields.check()
    return request


def dispatch(message: pb.DispatchRequest, within: str = "") -> DispatchRequest:
    """Return the request. `within` is the field that contains the message. Raises `InvalidRequest`."""
    fields = Fields("DispatchRequest")
    # Before the request: it decides whether `continue_for` is needed or refused.
    policy = fields.member(f"{within}on_disconnect", message.on_disconnect, enums.ON_DISCONNECTS, ON_DISCONNECT_NAMES)
    request = DispatchRequest(
        surface_token=_token(fields, message.surface_token, within),
        binding_digest=fields.required(f"{within}binding_digest", message.binding_digest, 256, FROM_BIND),
        dispatch_id=DispatchId(fields.run_side_id(f"{within}dispatch_id", message.dispatch_id)),
        calls=_calls(fields, message, within),
        declared_intent_count=fields.count(f"{within}declared_intent_count", message.declared_intent_count),
        prior_context=fields.text(f"{within}prior_context", message.prior_context, 16),
        task_prompt=fields.text(f"{within}task_prompt", message.task_prompt, 64),
        on_disconnect=policy,
        continue_for=_continue_for(fields, message, policy, within),
        join=_join(fields, message, within),
    )
    fields.check()
    return request


def resume(message: pb.ResumeDispatchRequest) -> ResumeRequest:
    """Return the request. Raises `InvalidRequest`."""
    fields = Fields("ResumeDispatchRequest")
    if message.after_sequence < 0:
        fields.refuse("after_sequence", f"must be 0 or more, was {message.after_sequence}")
    request = ResumeRequest(
        surface_token=_token(fields, message.surface_token),
        dispatch_id=DispatchId(fields.run_side_id("dispatch_id", message.dispatch_id)),
        after_sequence=message.after_sequence,
    )
    fields.check()
    return request


def cancel(message: pb.CancelCallRequest) -> CancelRequest:
    """Return the request. Raises `InvalidRequest`."""
    fields = Fields("CancelCallRequest")
    request = CancelRequest(
        surface_token=_token(fields, message.surface_token),
        dispatch_id=DispatchId(fields.run_side_id("dispatch_id", message.dispatch_id)),
        call_id=CallId(fields.run_side_id("call_id", message.call_id)),
    )
    fields.check()
    return request


def close_child(message: pb.CloseChildRequest) -> CloseChildRequest:
    """Return the verdict on one child. Raises `InvalidRequest`."""
    fields = Fields("CloseChildRequest")
    request = CloseChildRequest(_token(fields, message.surface_token), _integration(fields, message, ""))
    fields.check()
    return request


def end_turn(message: pb.EndTurnRequest) -> EndTurnRequest:
    """Return the request. Raises `InvalidRequest`."""
    fields = Fields("EndTurnRequest")
    if len(message.integrations) > MOST_INTEGRATIONS:
        fields.refuse("integrations", f"are more than {MOST_INTEGRATIONS}")
    integrations = [
        _integration(fields, each, f"integrations[{place}].")
        # Cut although it was refused: the number of problems must be bounded.
        for place, each in enumerate(message.integrations[:MOST_INTEGRATIONS])
    ]
    _refuse_repeated(fields, [each.child_id for each in integrations], "integrations[{}].child_id")
    request = EndTurnRequest(
        surface_token=_token(fields, message.surface_token),
        # Sorted, so that a repeated request with the verdicts in another order equals the first one.
        integrations=tuple(sorted(integrations, key=lambda each: each.child_id)),
        narration=fields.text("narration", message.narration, 256),
        declared_intent_count=fields.count("declared_intent_count", message.declared_intent_count),
        user_message=fields.text("user_message", message.user_message, 64),
    )
    fields.check()
    return request


def _token(fields: Fields, value: str, within: str = "") -> str:
    return fields.required(f"{within}surface_token", value, LONGEST_TOKEN, FROM_BIND)


def _locale(fields: Fields, message: pb.BindTurnRequest) -> str | None:
    if not message.HasField("locale"):
        return None
    if not LOCALE.match(message.locale):
        fields.refuse("locale", "must be a BCP 47 tag such as en-US; leave it out if it is unknown")
    return message.locale


def _date(fields: Fields, value: str) -> dt.date | None:
    if not value:
        return None
    try:
        # `fromisoformat` alone also accepts other forms, e.g. 20260131 or 2026-W05-1.
        if DATE.match(value):
            return dt.date.fromisoformat(value)
    except ValueError:
        pass
    fields.refuse("date", "must be a day as YYYY-MM-DD; leave it empty for today in UTC")
    return None


def _calls(fields: Fields, message: pb.DispatchRequest, within: str) -> tuple[ToolCall, ...]:
    if not 1 <= len(message.calls) <= MOST_CALLS:
        fields.refuse(f"{within}calls", f"must be 1 to {MOST_CALLS}, were {len(message.calls)}")
    calls = []
    for place, call in enumerate(message.calls[:MOST_CALLS]):
        name = f"{within}calls[{place}]"
        call_id = CallId(fields.run_side_id(f"{name}.call_id", call.call_id))
        tool_name = fields.required(f"{name}.tool_name", call.tool_name, LONGEST_TOOL_NAME, "what the model called")
        answering = _answering(fields, call.answering, f"{name}.answering") if call.HasField("answering") else None
        # The arguments are neither parsed nor limited here: invalid ones give the call an outcome, so that the model
        # can correct itself.
        calls.append(ToolCall(call_id, tool_name, call.arguments_json, answering))
    _refuse_repeated(fields, [call.call_id for call in calls], within + "calls[{}].call_id")
    return tuple(calls)


def _answering(fields: Fields, message: question_pb2.Answering, within: str) -> Answering:
    receipt = fields.required(f"{within}.receipt", message.receipt, LONGEST_TOKEN, "the receipt of the question")
    # An empty text is valid: a decision alone answers a question of approval.
    if len(message.text) > LONGEST_ANSWER:
        fields.refuse(f"{within}.text", f"is over {LONGEST_ANSWER} characters")
    decision = fields.member(f"{within}.decision", message.decision, enums.DECISIONS, DECISION_NAMES)
    answered_by = fields.member(f"{within}.answered_by", message.answered_by, enums.ANSWERED_BY, ANSWERER_NAMES)
    return Answering(receipt, message.text, decision, answered_by)


def _refuse_repeated(fields: Fields, ids: list[CallId] | list[ChildId], name: str) -> None:
    """Note a problem for each id that is there twice. `name`: the path of an id, with `{}` for its place."""
    first: dict[str, int] = {}
    for place, each in enumerate(ids):
        # An empty id has its own problem already.
        if each and first.setdefault(each, place) != place:
            fields.refuse(name.format(place), f"is the same as {name.format(first[each])}")


def _continue_for(
    fields: Fields, message: pb.DispatchRequest, policy: OnDisconnect, within: str
) -> dt.timedelta | None:
    name = f"{within}continue_for"
    if policy is not OnDisconnect.CONTINUE_UNTIL:
        # Refused and not ignored: the client would expect that its dispatch continues.
        if message.HasField("continue_for"):
            fields.refuse(name, "is only for ON_DISCONNECT_CONTINUE_UNTIL; leave it out")
        return None
    if not message.HasField("continue_for"):
        fields.refuse(name, "is missing; ON_DISCONNECT_CONTINUE_UNTIL needs it")
        return None
    return fields.duration(name, message.continue_for)


def _join(fields: Fields, message: pb.DispatchRequest, within: str) -> JoinPolicy:
    join, name = message.join, f"{within}join"
    return JoinPolicy(
        # Of the request and not of the checked calls, which may be fewer. 0, the value of an absent field, means no
        # minimum.
        min_success=fields.count(f"{name}.min_success", join.min_success, min(len(message.calls), MOST_CALLS)) or None,
        max_parallel=fields.count(f"{name}.max_parallel", join.max_parallel, MOST_CALLS) or None,
        timeout=fields.duration(f"{name}.timeout", join.timeout) if join.HasField("timeout") else None,
    )


def _integration(fields: Fields, message: pb.Integration | pb.CloseChildRequest, within: str) -> Integration:
    """Return the parent's verdict on one child. `within`: the path of the message, for problems."""
    return Integration(
        child_id=ChildId(fields.run_side_id(f"{within}child_id", message.child_id)),
        verdict=fields.member(f"{within}verdict", message.verdict, enums.VERDICTS, VERDICT_NAMES),
        reason=fields.text(f"{within}reason", message.reason, 1),
    )
