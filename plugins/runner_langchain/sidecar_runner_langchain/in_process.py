"""`LangChainRunner` runs sub-agents inside the sidecar, without a runner host; for tests and small deployments."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from sidecar.core.json_schemas import canonical_text
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
from sidecar_runner_langchain.failures import AgentFailed, CardNotRunnable
from subagents.dispatch.v1 import question_pb2
from subagents.runner.v1 import runner_pb2
from subagents_client.runner import Answer, AsksBack, Card, Run, Tool, TransientFailure
from subagents_client.runner.gateway import Gateways
from subagents_client.runner.return_values import InvalidReturnValue, answer_of, place_of_error
from subagents_errors import DependencyUnavailable

TARGET: Final = "in-process:langchain"
OURS: Final = (AgentFailed, CardNotRunnable, InvalidReturnValue)
"""Exceptions whose texts contain no user data."""
PASSING: Final = (TransientFailure, DependencyUnavailable)
"""Exceptions after which another attempt may succeed."""


@dataclass(frozen=True, slots=True)
class _Raised:
    """The exception of an agent. It is a value, because a task that raises e.g. `SystemExit` ends the sidecar."""

    error: BaseException


class LangChainRunner:
    """Runs attempts in this process. Like a runner host, it calls tools through the tool gateway's socket.

    Args:
        runs: runs one attempt, e.g. `AgentRuntime.run`.
        gateway_address: the address of the tool gateway.
    """

    def __init__(self, runs: Callable[[Run], Awaitable[Answer]], gateway_address: str) -> None:
        self._runs = runs
        self._gateway_address = gateway_address
        self._gateways = Gateways(allow_remote=False)
        self._working: dict[asyncio.Task[Answer | _Raised], str] = {}
        self._closed = False

    @property
    def target(self) -> str:
        """The target of the runner, by which the breaker counts failures."""
        return TARGET

    async def run(self, request: RunRequest) -> AsyncIterator[RunnerEvent]:
        """Run one attempt and yield its events, in order; the last one is `RunFinished`.

        Raises:
            RunnerError: the attempt failed, was stopped, or did not end in time; or the runner is closed.
        """
        if self._closed:
            raise RunnerError("the runner is closed", transient=True, unreachable=True)
        until = asyncio.get_running_loop().time() + request.timeout.total_seconds()
        run = self._run_of(request, until)
        work = asyncio.create_task(self._guarded(run))
        self._working[work] = run.attempt_id  # kept until it ends, even if no caller listens
        work.add_done_callback(lambda _: run.outbox.close())
        work.add_done_callback(lambda ended: self._working.pop(ended, None))
        try:
            async for event in _reported(run, work):
                yield event
            answer = self._answer_of(work)
            if isinstance(answer, AsksBack):
                yield RunFinished(asked=asked_of(answer))
                return
            if answer.narration:
                yield NarrationPart(answer.narration)
            yield RunFinished(answer.data_unavailable)
        finally:
            work.cancel()

    async def close(self) -> None:
        """Cancel all agents and close the connections. Does not wait for agents."""
        self._closed = True
        for work in list(self._working):
            work.cancel()
        await self._gateways.close()

    def _run_of(self, request: RunRequest, until: float) -> Run:
        loop = asyncio.get_running_loop()
        return Run(
            _message(request, self._gateway_address), card_of(request), self._gateways, lambda: until - loop.time()
        )

    async def _guarded(self, run: Run) -> Answer | _Raised:
        try:
            return answer_of(await self._runs(run), self._runs)
        except (asyncio.CancelledError, GeneratorExit):
            raise
        except BaseException as error:  # noqa: BLE001 - SystemExit in an agent must not end the sidecar
            return _Raised(error)

    def _answer_of(self, work: "asyncio.Task[Answer | _Raised]") -> Answer | AsksBack:
        if work.cancelled():
            raise RunnerError("the sub-agent was stopped", transient=True)
        ended = work.result()
        if isinstance(ended, Answer):
            return ended
        error = ended.error
        if isinstance(error, AsksBack):
            return error
        told = str(error) if isinstance(error, OURS) else place_of_error(error, self._runs)
        raise RunnerError(f"the sub-agent failed: {told}", transient=isinstance(error, PASSING))


def card_of(request: RunRequest) -> Card:
    """Return the card that the sidecar would send to a runner host."""
    definition, model, tuning = request.card.definition, request.card.model, request.card.definition.tuning
    return Card(
        prompt_prefix=request.prompt_prefix,
        model=model.id,
        provider_model=model.provider_model,
        base_url=model.base_url or "",
        max_output_tokens=tuning.max_output_tokens or 0,
        reasoning_effort=tuning.reasoning_effort or "",
        text_verbosity=tuning.text_verbosity or "",
        tools=[
            Tool(tool.id, tool.description, canonical_text(tool.arguments), tool.is_data_backed)
            for tool in request.card.tools
        ],
        component_schemas_json={name: canonical_text(schema) for name, schema in definition.components.items()},
    )


def _message(request: RunRequest, gateway_address: str) -> runner_pb2.RunRequest:
    definition, context = request.card.definition, request.context
    return runner_pb2.RunRequest(
        child_id=request.child_id,
        attempt_id=request.attempt_id,
        attempt=request.attempt,
        sub_agent_id=definition.slot,
        definition_id=definition.id,
        digest=request.card.digest,
        commit=request.card.commit,
        arguments_json=request.arguments_json,
        context=runner_pb2.InheritedContext(
            principal=context.principal,
            user_id=context.principal,
            episode_id=context.episode_id,
            turn_id=context.turn_id,
            locale=context.locale,
            location=context.location,
            prior_context=context.prior_context,
            task_prompt=context.task_prompt,
        ),
        prompt_suffix=request.prompt_suffix,
        contract_json=request.contract_json,
        gateway_target=gateway_address,
        grant=request.grant,
        delegates=[
            runner_pb2.DelegateTool(
                name=each.name, description=each.description, arguments_schema_json=each.arguments_schema_json
            )
            for each in request.delegates
        ],
        continuation=_continued(request.continuation),
    )


def asked_of(question: AsksBack) -> Asked:
    """Return an agent's question as a value of the sidecar."""
    kind, answerer = QuestionKind(question.kind.value), Answerer(question.answerer.value)
    return Asked(kind, question.text, question.about_json, answerer, question.expires_in, question.state)


def _continued(continuation: Continuation | None) -> runner_pb2.Continuation | None:
    if continuation is None:
        return None
    answering = continuation.answering
    answer = question_pb2.Answering(
        text=answering.text,
        decision=f"DECISION_{'UNSPECIFIED' if answering.decision is None else answering.decision.name}",
        answered_by=f"ANSWERER_{answering.answered_by.name}",
    )
    return runner_pb2.Continuation(
        child_id=continuation.child_id,
        kind=f"QUESTION_KIND_{continuation.kind.name}",
        question=continuation.question,
        about_json=continuation.about_json,
        answer=answer,
        state=continuation.state,
    )


async def _reported(run: Run, work: "asyncio.Task[Answer | _Raised]") -> AsyncIterator[RunnerEvent]:
    while True:
        report = run.outbox.take()
        if report is not None:
            yield _event_of(report)
        elif work.done():
            return
        else:
            try:
                await asyncio.wait_for(run.outbox.wait(), run.time_left)
            except TimeoutError:
                raise RunnerError("the sub-agent did not end in time") from None


def _event_of(report: runner_pb2.RunResponse) -> RunnerEvent:
    match report.WhichOneof("event"):
        case "status":
            return StatusReported(report.status.type, dict(report.status.attributes))
        case "component":
            made = report.component
            return ComponentMade(made.name, made.tool_input_json, made.component_data_json)
        case "usage":
            used = report.usage
            cached = used.cached_input_tokens if used.HasField("cached_input_tokens") else None
            return UsageReported(used.input_tokens, used.output_tokens, cached)
        case _:
            return NarrationPart(report.narration)
