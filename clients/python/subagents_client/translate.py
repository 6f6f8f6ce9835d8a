"""Translates protobuf messages into values of the SDK, so that no protobuf type leaves the SDK."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Final, Protocol, TypeVar

from google.protobuf.timestamp_pb2 import Timestamp

from subagents.dispatch.v1 import dispatch_pb2, outcome_pb2, surface_pb2
from subagents.errors.v1 import error_reason_pb2
from subagents_client.asking.messages import question_of
from subagents_client.events import (
    CallSnapshot,
    CallState,
    CallStateChanged,
    DispatchEvent,
    Gap,
    Snapshot,
    StartState,
    StatusUpdate,
)
from subagents_client.outcomes import (
    CallOutcome,
    CallStatus,
    CapBehaviour,
    Component,
    DispatchResult,
    IntentReport,
    Outcome,
    TokenUsage,
)
from subagents_client.surface import (
    Candidate,
    CandidateVerdict,
    Cohort,
    CompactionDue,
    OrchestratorTool,
    PreviousSubAgents,
    Prompt,
    SubAgentTool,
    Surface,
)
from subagents_client.synthetic_outcomes import NONE_TOLD
from subagents_errors import Axis

Member = TypeVar("Member", bound=StrEnum)


class EnumTable(Protocol):
    """An enum of the generated code."""

    def items(self) -> Sequence[tuple[str, int]]:
        """Return every name with its number."""


def table(kind: type[Member], names: EnumTable, prefix: str) -> Mapping[int, Member]:
    """Return a table from the numbers of a protobuf enum to the members of the SDK's enum."""
    ours = {f"{prefix}_{one.name}": one for one in kind}
    return {number: ours[name] for name, number in names.items() if name in ours}


VERDICTS: Final = table(CandidateVerdict, surface_pb2.CandidateVerdict, "CANDIDATE_VERDICT")
START_STATES: Final = table(StartState, dispatch_pb2.StartState, "START_STATE")
CALL_STATES: Final = table(CallState, dispatch_pb2.CallState, "CALL_STATE")
OUTCOMES: Final = table(Outcome, outcome_pb2.Outcome, "OUTCOME")
COMPACTION: Final = table(CompactionDue, dispatch_pb2.CompactionDue, "COMPACTION_DUE")
CAPS: Final = table(CapBehaviour, outcome_pb2.CapBehaviour, "CAP_BEHAVIOUR")
REASONS: Final = {number: name.removeprefix("ERROR_REASON_") for name, number in error_reason_pb2.ErrorReason.items()}
"""Numbers of protobuf enums to members or names of the SDK. The tables lack numbers of newer protos."""


def timestamp(stamp: Timestamp) -> datetime:
    """Return the time of a stamp, in UTC."""
    return stamp.ToDatetime(tzinfo=UTC)


def surface(message: surface_pb2.Surface, compaction_due: int = 0) -> Surface:
    """Return a surface; `compaction_due` is a field of the bind's response beside the surface."""
    return Surface(
        sub_agent_tools=[_sub_agent_tool(one) for one in message.sub_agent_tools],
        orchestrator_tools=[
            OrchestratorTool(one.name, one.description, one.arguments_schema_json) for one in message.orchestrator_tools
        ],
        prompt=Prompt(message.prompt.prefix, message.prompt.suffix, message.prompt.prefix_digest),
        cohort=cohort(message.cohort),
        fan_out_cap=message.fan_out_cap,
        max_dispatches_per_turn=message.max_dispatches_per_turn,
        binding_digest=message.binding_digest,
        previous_sub_agents=PreviousSubAgents(
            message.previous_sub_agents.known, list(message.previous_sub_agents.sub_agent_ids)
        ),
        model=message.model,
        provider_model=message.provider_model,
        candidates=[candidate(one) for one in message.candidates],
        compaction_due=COMPACTION.get(compaction_due, CompactionDue.UNKNOWN),
    )


def _sub_agent_tool(one: surface_pb2.SubAgentTool) -> SubAgentTool:
    return SubAgentTool(
        one.name,
        one.description,
        one.arguments_schema_json,
        one.sub_agent_id,
        one.definition_id,
        one.commit,
        one.digest,
    )


def cohort(message: surface_pb2.Cohort) -> Cohort:
    """Return a cohort."""
    return Cohort(
        message.agent_definition_version,
        message.prompt_block_registry_version,
        message.xml_prompt_component_registry_version,
        list(message.active_feature_flags),
        message.experiment_arm_assignment,
        list(message.active_sub_agents),
    )


def candidate(message: surface_pb2.Candidate) -> Candidate:
    """Return a candidate."""
    verdict = VERDICTS.get(message.verdict, CandidateVerdict.UNSPECIFIED)
    return Candidate(message.sub_agent_id, message.definition_id, verdict)


def start_state(number: int) -> StartState:
    """Return whether a request was the first for its id or repeated an earlier one."""
    return START_STATES.get(number, StartState.UNSPECIFIED)


def snapshot(message: dispatch_pb2.DispatchSnapshot) -> Snapshot:
    """Return the state of a dispatch when its stream began."""
    calls = [CallSnapshot(one.call_id, one.sub_agent_id, one.child_id, _call_state(one.state)) for one in message.calls]
    return Snapshot(message.dispatch_id, start_state(message.state), message.sequence, calls)


def _call_state(number: int) -> CallState:
    return CALL_STATES.get(number, CallState.UNSPECIFIED)


def event(message: dispatch_pb2.DispatchEvent) -> DispatchEvent | None:
    """Return an event, or None for a kind that this version does not know."""
    at = timestamp(message.occurred_at)
    match message.WhichOneof("kind"):
        case "state_changed":
            settled = message.state_changed.state == dispatch_pb2.CALL_STATE_SETTLED
            ended = call_outcome(message.state_changed.outcome) if settled else None
            state = _call_state(message.state_changed.state)
            return CallStateChanged(message.sequence, at, message.call_id, state, ended)
        case "status":
            said = message.status
            return StatusUpdate(
                message.sequence,
                at,
                message.call_id,
                said.type,
                list(said.sub_agent_ids),
                max(said.count, 1),
                dict(said.attributes),
            )
        case "gap":
            return Gap(message.sequence, at, message.gap.from_sequence, message.gap.to_sequence)
        case _:
            return None


def outcome_of(number: int) -> Outcome:
    """Return how a call ended; a number that this version does not know counts as failed."""
    return OUTCOMES.get(number, Outcome.FAILED)


def result(
    dispatch_id: str, message: dispatch_pb2.DispatchResult, told: Mapping[str, CallOutcome] = NONE_TOLD
) -> DispatchResult:
    """Return the result of a dispatch.

    Args:
        dispatch_id: id of the dispatch.
        message: the result; it lacks the texts of outcomes that events of the stream have contained.
        told: the outcomes in events of the stream, by call id; they replace those of `message`.
    """
    return DispatchResult(
        dispatch_id=dispatch_id,
        outcomes=[told.get(one.call_id) or call_outcome(one) for one in message.outcomes],
        intents=intent_report(message.intents),
        cap=cap(message.cap),
        overhead=message.overhead.ToTimedelta(),
    )


def cap(number: int) -> CapBehaviour:
    """Return how the number of calls compares with the fan-out cap."""
    return CAPS.get(number, CapBehaviour.UNSPECIFIED)


def call_outcome(message: outcome_pb2.CallOutcome) -> CallOutcome:
    """Return the outcome of one call."""
    return CallOutcome(
        call_id=message.call_id,
        tool_name=message.tool_name,
        sub_agent_id=message.sub_agent_id,
        child_id=message.child_id,
        emission_index=message.emission_index,
        outcome=outcome_of(message.outcome),
        narration=message.narration,
        components=[Component(one.name, one.tool_input_json, one.component_data_json) for one in message.components],
        data_unavailable=message.data_unavailable,
        status=_call_status(message.status) if message.HasField("status") else None,
        attempts=message.attempts,
        duration=message.duration.ToTimedelta() if message.HasField("duration") else None,
        usage=_usage(message.usage) if message.HasField("usage") else None,
        question=question_of(message.question) if message.HasField("question") else None,
    )


def _usage(used: outcome_pb2.TokenUsage) -> TokenUsage:
    cached = used.cached_input_tokens if used.HasField("cached_input_tokens") else None
    cost = Decimal(used.cost_usd) if used.HasField("cost_usd") else None
    return TokenUsage(used.input_tokens, used.output_tokens, cached, cost)


def reason(number: int) -> str:
    """Return the name of a reason without its prefix; `UNSPECIFIED` for 0 and for reasons of newer protos."""
    return REASONS.get(number, "UNSPECIFIED")


def axis(number: int) -> Axis:
    """Return the kind of a call's failure; `Axis.NONE` for unknown numbers."""
    return Axis(number) if number in tuple(Axis) else Axis.NONE


def _call_status(message: error_reason_pb2.CallStatus) -> CallStatus:
    return CallStatus(reason(message.reason), axis(message.axis), message.message)


def intent_report(message: outcome_pb2.IntentReport) -> IntentReport:
    """Return the intents of a response."""
    return IntentReport(
        message.declared, message.emitted, message.failsafe, message.switched, message.prior_context_missing
    )
