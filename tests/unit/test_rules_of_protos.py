"""The rules in the protos (`buf.validate`): the sidecar enforces them, and the Python SDK checks them before it sends.

The cases come from the rules: a rule that is added, or whose limit changes, has its cases at once.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
from google.protobuf import descriptor_pool, message_factory, text_format
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from scripts.generate_protos import described
from scripts.proto_rules import rules_of, without_options
from sidecar.adapters.runner_grpc.messages import asked_of
from sidecar.core.dispatching.questions import problem_of
from sidecar.core.errors import InvalidRequest, SubagentsError
from sidecar.core.evaluation.scores import ScoreSource
from sidecar.core.features import require_features
from sidecar.core.session.incoming import IncomingValidator
from sidecar.operations.rollout import requests as steps_asked
from sidecar.policy.protocols import RunnerError
from sidecar.rpc.admin_servicer import AdminServicer
from sidecar.rpc.tool_gateway_servicer import ToolGatewayServicer
from sidecar.rpc.translate import (
    activity,
    decommission_steps,
    evidence,
    flag_steps,
    history,
    record,
    requests,
    rollouts,
    scores,
    steps,
)
from sidecar.rpc.translate.pages import page_of
from subagents.admin.v1 import admin_pb2
from subagents.dispatch.v1 import dispatch_pb2
from subagents.history.v1 import history_pb2
from subagents.lifecycle.v1 import lifecycle_pb2
from subagents.rules import RULES
from subagents.runner.v1 import runner_pb2
from subagents.tools.v1 import tools_pb2
from subagents_client.checking.requests import check_request, problems_of
from tests.support.rule_cases import DEPENDS, Case, cases_of, message_type

NOW: Final = datetime(2026, 5, 4, tzinfo=UTC)
ANYTHING: Any = None
"""What is behind the check of a request, and is not reached."""

Enforce = Callable[[Any], Any]
"""What the sidecar does first with a request; raises, or returns the words of a problem."""


def run_now(handler: Callable[[Any, Any], Any]) -> Enforce:
    """Run a handler up to what lies behind the check of its request, which is not there."""

    def enforce(message: Any) -> None:
        work = handler(message, ANYTHING)
        try:
            work.send(None)
        except (AttributeError, TypeError):
            return

    return enforce


def bind(message: dispatch_pb2.BindTurnRequest) -> None:
    """As the servicer; every feature that is well named is offered."""
    require_features(message.required_features, message.required_features, 1, "required_features")
    requests.bind_turn(message)


def hello(message: dispatch_pb2.SessionClientHello) -> None:
    """As the lane does with the client's hello."""
    IncomingValidator(8).hello(message.contract_version, message.credit_bytes)
    require_features(message.required_features, message.required_features, 1, "required_features")


def plain(kind: Any) -> Enforce:
    """A step that has nothing but a header."""
    return lambda message: steps.request_to_plain("Request", kind, message)


def page(message: Any) -> None:
    """A list that is at hand."""
    page_of([], message, str)


def active_periods(message: Any) -> None:
    """A list whose rows are read first."""
    activity.active_periods(message)
    page(message)


ADMIN: Final = AdminServicer(ANYTHING)
TOOLS: Final = ToolGatewayServicer(ANYTHING, ANYTHING, ANYTHING, ANYTHING, ANYTHING)
SIDECAR: Final[Mapping[str, Enforce]] = {
    "BindTurnRequest": bind,
    "DispatchRequest": requests.dispatch,
    "DispatchUnaryRequest": lambda message: requests.dispatch(message.dispatch, "dispatch."),
    "ResumeDispatchRequest": requests.resume,
    "CancelCallRequest": requests.cancel,
    "CloseChildRequest": requests.close_child,
    "EndTurnRequest": requests.end_turn,
    "SessionClientHello": hello,
    "SessionOperation": lambda message: IncomingValidator(8).begin(message.correlation_id, message.credit_bytes),
    "SessionCredit": lambda message: IncomingValidator(8).granted(message.bytes),
    "ReadEpisodeRequest": history.read_episode,
    "WriteSummaryRequest": history.write_summary,
    "ListTurnsRequest": record.list_turns,
    "GetTurnRequest": record.get_turn,
    "WatchEventsRequest": record.watch_events,
    "ExportReplayRequest": record.export_replay,
    "ListEpisodesRequest": record.list_episodes,
    "RecordScoreRequest": lambda message: scores.record_score(message, tuple(ScoreSource)),
    "CallToolRequest": run_now(TOOLS._call_tool),
    "ReadOwnTurnsRequest": run_now(TOOLS._read_own_turns),
    "DelegateRequest": run_now(TOOLS._delegate_call),
    "ListPluginsRequest": page,
    "DrainRequest": run_now(ADMIN._drain),
    "ForceEndTurnRequest": run_now(ADMIN._end_turn),
    "EraseUserRequest": run_now(ADMIN._erase_user),
    "TransitionRequest": steps.transition,
    "SetRampRequest": steps.set_ramp,
    "ConfigureRolloutRequest": steps.configure,
    "RampDownRequest": steps.ramp_down,
    "AcknowledgeBreachRequest": steps.acknowledge_breach,
    "OverrideGateRequest": lambda message: steps.override_gate(message, NOW),
    "RollBackRequest": steps.roll_back,
    "ActivateRequest": plain(steps_asked.Activate),
    "KillRequest": plain(steps_asked.Kill),
    "RetireFlagsRequest": plain(steps_asked.RetireFlags),
    "SwitchFlagOnRequest": flag_steps.switch_on,
    "SwitchCohortFlagOffRequest": flag_steps.switch_cohort_off,
    "SwitchKillFlagOffRequest": flag_steps.switch_kill_off,
    "BeginDecommissionRequest": plain(steps_asked.BeginDecommission),
    "TakeDecommissionStepRequest": decommission_steps.take_step,
    "DecideDecommissionRequest": decommission_steps.decide,
    "UndoDecommissionRequest": plain(steps_asked.UndoDecommission),
    "ListActivePeriodsRequest": active_periods,
    "GetFlagsRequest": flag_steps.of_slot,
    "GetRolloutRequest": rollouts.get,
    "ListRolloutsRequest": page,
    "ExplainServingRequest": rollouts.explain,
    "PreviewRampRequest": rollouts.preview,
    "WatchAuditRequest": rollouts.watch_audit,
    "ListReplicasRequest": page,
    "ListDecommissionsRequest": page,
    "GetRampEvidenceRequest": evidence.asked_slot,
}
"""Every request with rules, and what checks it."""
MORE: Final[Mapping[str, Mapping[str, Any]]] = {
    "BindTurnRequest": {"principal": "user-1"},
    "ListActivePeriodsRequest": {"principal": "user-1"},
    "RecordScoreRequest": {"principal": "user-1"},
    "OverrideGateRequest": {"expires_at": NOW + timedelta(days=1)},
}
"""What the sidecar asks for beyond the rules, with reasons that no rule can say."""


def kinds() -> Mapping[str, Any]:
    """Return the class of every request that has rules, by name."""
    return {name.rpartition(".")[2]: message_type(name) for name in RULES if name.rpartition(".")[2] in SIDECAR}


def cases(name: str) -> list[Case]:
    """Return the cases of a request; of the lane's messages, those of their own fields."""

    def complete(message: Any) -> None:
        for field, value in MORE.get(name, {}).items():
            (getattr(message, field).FromDatetime if isinstance(value, datetime) else _setter(message, field))(value)
        if "header" in message.DESCRIPTOR.fields_by_name and not message.header.HasField("expected_revision"):
            message.header.expected_revision = 1

    found = list(cases_of(kinds()[name], complete))
    assert found
    return [case for case in found if name != "SessionOperation" or "." not in case.field]


def _setter(message: Any, field: str) -> Callable[[Any], None]:
    return lambda value: setattr(message, field, value)


def refused_by_the_sidecar(name: str, case: Case) -> list[str]:
    """Return the fields that the sidecar names; empty: it lets the request pass."""
    try:
        SIDECAR[name](case.request)
    except SubagentsError as error:
        return [each.field for each in error.fields]
    return []


def is_named(field: str, named: list[str]) -> bool:
    """Return whether a field is among those that were named, itself or as an element of its list."""
    return any(each in {field, field.removesuffix("[0]")} or each.endswith(f".{field}") for each in named)


def test_every_request_with_rules_is_tried_here() -> None:
    """Requests of all services, by their descriptors."""
    services: list[ServiceDescriptor] = [
        service
        for module in (dispatch_pb2, history_pb2, tools_pb2, admin_pb2, lifecycle_pb2)
        for service in module.DESCRIPTOR.services_by_name.values()
    ]
    asked = {method.input_type.full_name for service in services for method in service.methods}
    assert len(asked) > 45
    missing = {name.rpartition(".")[2] for name in asked & RULES.keys()} - SIDECAR.keys()
    assert missing == {"SessionRequest"}, "its parts are tried one by one"
    assert SIDECAR.keys() == kinds().keys()


@pytest.mark.parametrize("name", SIDECAR)
def test_the_sidecar_refuses_what_breaks_a_rule_and_names_the_field(name: str) -> None:
    """One value beyond each limit at a time; a value at the limit is not refused."""
    for case in cases(name):
        named = refused_by_the_sidecar(name, case)
        told = f"{case.field} {str(case.request)[:300]!r}: {named}"
        if case.allowed:
            assert not is_named(case.field, named) or f"{name}.{case.field}" in DEPENDS, told
        elif f"{name}.{case.field}" != "BindTurnRequest.user_token":
            assert is_named(case.field, named), told


@pytest.mark.parametrize("name", SIDECAR)
def test_the_sdk_refuses_the_same_before_it_sends(name: str) -> None:
    """With the same field; everything at a limit is sent."""
    for case in cases(name):
        named = [each.field for each in problems_of(case.request)]
        assert named == ([] if case.allowed else [case.field]), str(case.request)[:300]


def test_the_error_of_the_sdk_is_that_of_the_sidecar() -> None:
    """The same class, with all fields and the same beginning of the message."""
    empty = dispatch_pb2.CancelCallRequest()
    with pytest.raises(InvalidRequest) as here:
        check_request(empty)
    with pytest.raises(InvalidRequest) as there:
        requests.cancel(empty)
    assert [each.field for each in here.value.fields] == [each.field for each in there.value.fields]
    assert here.value.message.startswith("CancelCallRequest cannot be used: surface_token is empty")
    assert there.value.message.startswith("CancelCallRequest cannot be used: surface_token is empty")


def test_a_host_s_question_is_held_to_its_rules_on_both_sides() -> None:
    """What a sub-agent asks back: refused by the host's SDK, and by the sidecar if another host sends it."""
    for case in cases_of(runner_pb2.QuestionAsked):
        asked: Any = case.request
        try:
            problem = problem_of(asked_of(asked))
        except RunnerError as error:
            problem = str(error)
        sent = [each.field for each in problems_of(asked)]
        assert sent == ([] if case.allowed else [case.field])
        may_depend = case.field in {"about_json", "answerer"}  # JSON, and the model may not approve
        assert bool(problem) != case.allowed or (case.allowed and may_depend), f"{case.field}: {problem}"


def test_the_rules_are_in_the_protos_and_not_in_the_generated_code() -> None:
    """The generated code needs no package of protovalidate's."""
    image = described()
    assert any(file.name == "buf/validate/validate.proto" for file in image.file)
    bare = without_options(image)
    assert not any(name.startswith("buf/") for file in bare.file for name in (file.name, *file.dependency))
    assert set(RULES) == set(rules_of(image))


@pytest.mark.parametrize(
    ("rule", "complaint"),
    [
        ("string.email = true", "no table can say string.email"),
        ("int32.const = 3", "no table can say"),
        ("required = true", "no table can say required"),
    ],
)
def test_a_rule_that_no_table_can_say_is_refused(rule: str, complaint: str) -> None:
    """It would hold in no client."""
    with pytest.raises(ValueError, match=complaint):
        rules_of(with_rule(rule))


def with_rule(rule: str) -> FileDescriptorSet:
    """Return the protos with another rule on one field."""
    image = described()
    pool = descriptor_pool.DescriptorPool()
    for file in image.file:
        pool.AddSerializedFile(file.SerializeToString())
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName("google.protobuf.FieldOptions"))
    path, _, value = rule.partition(" = ")
    names = path.split(".")
    text = f"{names[0]} {{ {names[1]}: {value} }}" if len(names) > 1 else f"{names[0]}: {value}"
    options = text_format.Parse(f"[buf.validate.field] {{ {text} }}", kind(), descriptor_pool=pool)
    (dispatch,) = (file for file in image.file if file.name.endswith("dispatch.proto"))
    field = dispatch.message_type[0].field[0]
    field.options.ParseFromString(options.SerializeToString())
    return image
