"""Builds the A2A message that asks an agent: one message for each attempt."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

import msgspec
from a2a.types.a2a_pb2 import ROLE_USER, Message, Part, SendMessageRequest

from sidecar.core.decoding import DecodeError, from_json
from sidecar.core.json_schemas import canonical_text
from sidecar.policy.protocols import Answering, RunnerError, RunRequest
from sidecar_runner_a2a.agent_card import EXTENSION
from sidecar_runner_a2a.settings import ContextScope

OUTPUT_MODES: Final = ("text/plain", "application/json")


def context_id_of(request: RunRequest, scope: ContextScope) -> str:
    """Return the `contextId`, which depends on user, conversation, slot and, with scope `CALL`, the call.

    All attempts of a call have one `contextId`. It is a hash, so it does not reveal its parts.
    """
    context = request.context
    parts = [context.principal, context.episode_id, request.card.definition.slot]
    if scope is ContextScope.CALL:
        parts.append(request.child_id)
    return f"sidecar-{sha256(chr(31).join(parts).encode()).hexdigest()[:32]}"


def question_of(request: RunRequest, scope: ContextScope, gateway: str) -> SendMessageRequest:
    """Return the message for an attempt.

    Args:
        request: the attempt.
        scope: which calls share a `contextId`.
        gateway: address where the agent calls data services with the grant; empty: the agent gets no grant.

    Raises:
        RunnerError: the attempt answers a question that was not asked by an A2A agent.
    """
    waiting = waiting_task(request)
    message = SendMessageRequest(
        message=Message(
            message_id=request.attempt_id,
            task_id=waiting.task_id if waiting else "",
            context_id=waiting.context_id if waiting else context_id_of(request, scope),
            role=ROLE_USER,
            parts=[Part(text=text_of(request), media_type="text/plain")],
            extensions=[EXTENSION],
        )
    )
    message.configuration.accepted_output_modes.extend(OUTPUT_MODES)
    # All values are texts, because A2A's metadata store numbers as floats, which changes large integers.
    message.message.metadata.update({EXTENSION: _details_of(request, gateway)})
    return message


class WaitingTask(msgspec.Struct, frozen=True):
    """A task of an agent that waits for the user's answer.

    Attributes:
        task_id: id of the task, from the agent.
        context_id: `contextId` of the task.
        asked: identifies the question among the questions of this task.
    """

    task_id: str
    context_id: str
    asked: str


def waiting_task(request: RunRequest) -> WaitingTask | None:
    """Return the task whose question the attempt answers; None if it answers none.

    Raises:
        RunnerError: the question was not asked by an A2A agent.
    """
    if request.continuation is None:
        return None
    try:
        return from_json(request.continuation.state, WaitingTask)
    except DecodeError:
        raise RunnerError("the question was not asked by an A2A agent, which cannot continue its work") from None


def answer_of(answering: Answering) -> str:
    """Return the answer to an agent's question, in words."""
    decided = f"The user has {answering.decision.value} it." if answering.decision else ""
    return "\n\n".join(part for part in (decided, answering.text) if part)


def text_of(request: RunRequest) -> str:
    """Return the text of the message, in the form in which the LangChain runtime shows it to a model.

    An attempt that answers a question sends only the answer, because the agent's task has the rest. Source: PC1-FR-7a.
    """
    if request.continuation is not None:
        return answer_of(request.continuation.answering)
    arguments = _arguments_of(request)
    context = request.context
    others = {name: value for name, value in arguments.items() if name not in {"request", "intent_count"}}
    parts = {
        "prior_context": context.prior_context,
        "user_message": context.task_prompt,
        "arguments": canonical_text(others) if others else "",
    }
    framed = [f"<{name}>\n{text}\n</{name}>" for name, text in parts.items() if text]
    asked = arguments.get("request")
    return "\n\n".join([*framed, asked] if isinstance(asked, str) and asked else framed)


def _details_of(request: RunRequest, gateway: str) -> Mapping[str, str]:
    context = request.context
    details = {
        "arguments_json": request.arguments_json,
        "contract_json": request.contract_json,
        "attempt": str(request.attempt),
        "prior_context": context.prior_context,
        "task_prompt": context.task_prompt,
    }
    if context.locale is not None:
        details["locale"] = context.locale
    if context.location is not None:
        details["location"] = context.location
    if gateway:
        details |= {"gateway_target": gateway, "grant": request.grant}
    return details


def _arguments_of(request: RunRequest) -> Mapping[str, Any]:
    try:
        return from_json(request.arguments_json, dict[str, Any])
    except DecodeError:
        return {}
