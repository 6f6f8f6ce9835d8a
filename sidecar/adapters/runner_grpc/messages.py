"""Translates requests for a runner host to messages, and the host's messages to events."""

from datetime import timedelta
from functools import lru_cache
from hashlib import sha256
from typing import Final

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import DecodeError

from sidecar.core.definitions.cards.card import Card, ToolEntry
from sidecar.policy.protocols import (
    Answerer,
    Asked,
    ComponentMade,
    Continuation,
    NarrationPart,
    QuestionKind,
    RunFinished,
    RunnerError,
    RunnerEvent,
    RunRequest,
    StatusReported,
    UsageReported,
)
from subagents.dispatch.v1 import question_pb2
from subagents.runner.v1 import runner_pb2

# Without the unspecified kind: a question without a kind cannot be answered, so it is refused.
KINDS: Final = {question_pb2.QuestionKind.Value(f"QUESTION_KIND_{each.name}"): each for each in QuestionKind}
ANSWERERS: Final = {question_pb2.Answerer.Value(f"ANSWERER_{each.name}"): each for each in Answerer}
"""Unspecified means the user: if a question does not say who may answer, the model may not."""
MOST_SECONDS: Final = 366 * 86_400
"""The longest life of a question that a host can ask for; a longer one is cut."""
CARDS_KEPT: Final = 256
"""The most cached digests of cards with their prompts; a dropped one is computed again."""


def run_message(request: RunRequest, gateway_target: str) -> runner_pb2.RunRequest:
    """Return the request for a host, without the card (the definition with its prompt), which is sent on demand."""
    definition, continuation = request.card.definition, request.continuation
    seconds = request.timeout.total_seconds()
    return runner_pb2.RunRequest(
        child_id=request.child_id,
        attempt_id=request.attempt_id,
        attempt=request.attempt,
        sub_agent_id=definition.slot,
        definition_id=definition.id,
        digest=request.card.digest,
        commit=request.card.commit,
        arguments_json=request.arguments_json,
        context=_context(request),
        prompt_suffix=request.prompt_suffix,
        contract_json=request.contract_json,
        gateway_target=gateway_target,
        grant=request.grant,
        timeout=Duration(seconds=int(seconds), nanos=int(seconds % 1 * 1_000_000_000)),
        card_digest=_card_digest(request.card.digest, request.prompt_prefix),
        delegates=[
            runner_pb2.DelegateTool(
                name=each.name, description=each.description, arguments_schema_json=each.arguments_schema_json
            )
            for each in request.delegates
        ],
        continuation=None if continuation is None else continuation_message(continuation),
    )


def card_message(card: Card, prompt_prefix: str) -> runner_pb2.CardContent:
    """Return a definition in the form for a host."""
    tuning = card.definition.tuning
    return runner_pb2.CardContent(
        prompt_prefix=prompt_prefix,
        model=card.model.id,
        provider_model=card.model.provider_model,
        base_url=card.model.base_url or "",
        max_output_tokens=tuning.max_output_tokens or 0,
        reasoning_effort=tuning.reasoning_effort or "",
        text_verbosity=tuning.text_verbosity or "",
        tools=[_tool(tool) for tool in card.tools],
        component_schemas_json=card.definition.component_schemas_json,
    )


def event_of(raw: bytes) -> RunnerEvent | None:
    """Return the event in a host's message; None for a kind that this version does not know.

    Raises:
        RunnerError: the bytes are not a `RunResponse`.
    """
    try:
        message = runner_pb2.RunResponse.FromString(raw)
    except DecodeError:
        raise RunnerError("the host sent bytes that are no RunResponse") from None
    match message.WhichOneof("event"):
        case "status":
            return StatusReported(message.status.type, dict(message.status.attributes))
        case "component":
            component = message.component
            return ComponentMade(component.name, component.tool_input_json, component.component_data_json)
        case "narration":
            return NarrationPart(message.narration)
        case "usage":
            usage = message.usage
            # An absent number is unknown, which is not the same as 0.
            cached = usage.cached_input_tokens if usage.HasField("cached_input_tokens") else None
            return UsageReported(usage.input_tokens, usage.output_tokens, cached)
        case "finished":
            finished = message.finished
            question = asked_of(finished.question) if finished.HasField("question") else None
            return RunFinished(finished.data_unavailable, question)
        case _:
            return None


@lru_cache(CARDS_KEPT)
def _card_digest(digest: str, prompt_prefix: str) -> str:
    """Return the digest of a card with its prompt: cohorts share a definition, but not its prompt. Source: PC1-D-20."""
    return f"sha256:{sha256(f'{digest}{prompt_prefix}'.encode()).hexdigest()}"


def _context(request: RunRequest) -> runner_pb2.InheritedContext:
    context = request.context
    return runner_pb2.InheritedContext(
        principal=context.principal,
        user_id=context.principal,  # in a chat, both are the user of the turn
        episode_id=context.episode_id,
        turn_id=context.turn_id,
        locale=context.locale,
        location=context.location,
        prior_context=context.prior_context,
        task_prompt=context.task_prompt,
    )


def _tool(tool: ToolEntry) -> runner_pb2.ToolDeclaration:
    return runner_pb2.ToolDeclaration(
        tool_id=tool.id,
        description=tool.description,
        arguments_schema_json=tool.arguments_schema_json,
        data_backed=tool.is_data_backed,
    )


def asked_of(message: runner_pb2.QuestionAsked) -> Asked:
    """Return the question of a host; its limits are checked with the rest of the result.

    Raises:
        RunnerError: this version does not know the kind or the answerer.
    """
    is_known_answerer = message.answerer == question_pb2.ANSWERER_UNSPECIFIED or message.answerer in ANSWERERS
    if message.kind not in KINDS or not is_known_answerer:
        raise RunnerError("the host asks back with an unknown kind of question, or with an unknown addressee")
    # A `Duration` may have more seconds than a `timedelta` can, so the value is limited before the conversion.
    seconds = message.expires_in.seconds + message.expires_in.nanos / 1e9
    return Asked(
        kind=KINDS[message.kind],
        text=message.text,
        about_json=message.about_json,
        answerer=ANSWERERS.get(message.answerer, Answerer.USER),
        expires_in=timedelta(seconds=max(0.0, min(seconds, MOST_SECONDS))) if message.HasField("expires_in") else None,
        state=message.state,
    )


def continuation_message(continuation: Continuation) -> runner_pb2.Continuation:
    """Return the message about the work that a host continues, without the receipt."""
    answering = continuation.answering
    decision = "UNSPECIFIED" if answering.decision is None else answering.decision.name
    return runner_pb2.Continuation(
        child_id=continuation.child_id,
        kind=f"QUESTION_KIND_{continuation.kind.name}",
        question=continuation.question,
        about_json=continuation.about_json,
        answer=question_pb2.Answering(
            text=answering.text,
            decision=f"DECISION_{decision}",
            answered_by=f"ANSWERER_{answering.answered_by.name}",
        ),
        state=continuation.state,
    )
