"""Plays cases: the history by script, then the message with the measured model."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Final
from uuid import uuid4

from langchain_core.callbacks import (
    AsyncCallbackManagerForLLMRun,
    CallbackManagerForLLMRun,
    UsageMetadataCallbackHandler,
)
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from typing_extensions import override

from subagents_client import SidecarClient, TurnRequest
from subagents_errors import CallFailure
from subagents_evals.inputs.cases import Case, EarlierTurn, GoldenSet
from subagents_evals.inputs.configuration import Configuration
from subagents_evals.measures.trial import DelegatedRequest, Observed, TranscriptLine, Trial, judged
from subagents_evals.runs.stage import EvaluationEnvironment, Script
from subagents_langchain import (
    Answer,
    Compacted,
    CompactionRules,
    Orchestrator,
    OrchestratorRules,
    StatusLine,
    TurnEvent,
    rendered_text,
)

CONCURRENT: Final = 4
TURN_SECONDS: Final = 180.0
PREFIX: Final = "ask_"
MALFORMED: Final = CallFailure.ARGUMENTS_INVALID.name


@dataclass(frozen=True, slots=True)
class Models:
    """The measured models: `router` routes and composes, `summary` writes summaries."""

    router: BaseChatModel
    summary: BaseChatModel


@dataclass(frozen=True, slots=True)
class CasePlayer:
    """Number of trials of each case, and maximum number of trials at a time."""

    repetitions: int = 1
    concurrent: int = CONCURRENT


class Director:
    """Plays cases on one stage.

    Args:
        stage: the running sidecar.
        configuration: for prices and slots.
        golden: the cases.
        models: what is measured.
    """

    def __init__(
        self, stage: EvaluationEnvironment, configuration: Configuration, golden: GoldenSet, models: Models
    ) -> None:
        self._stage = stage
        self._configuration = configuration
        self._golden = golden
        self._models = models

    async def play(
        self, cases: Sequence[Case], how: CasePlayer, told: Callable[[Trial], None] = lambda _: None
    ) -> Sequence[Trial]:
        """Return one trial for each case and repetition, in order.

        Args:
            cases: of the golden set.
            how: how often, and how many at a time.
            told: of each trial as soon as it is over.
        """
        room = asyncio.Semaphore(how.concurrent)

        async def one(case: Case, repetition: int) -> Trial:
            async with room:
                observed = await self._observed(case)
            trial = judged(case, self._golden.suite, self._configuration.slots, observed, repetition)
            told(trial)
            return trial

        return await asyncio.gather(*(one(case, number) for case, number in product(cases, range(how.repetitions))))

    async def _observed(self, case: Case) -> Observed:
        episode = f"eval-{uuid4().hex}"
        request = TurnRequest(principal=f"user-of-{episode}", episode_id=episode, locale=case.language)
        with self._stage.scripts.of(episode) as script:
            conversation = _Conversation(self._stage.client, self._models, request, script)
            try:
                async with asyncio.timeout(TURN_SECONDS):
                    for past in case.history:
                        await conversation.past(past)
                    answer = await conversation.present(case)
            except Exception as error:  # noqa: BLE001  a provider may raise anything; the other cases are still played
                return Observed(problem=f"the turn failed with {type(error).__name__}: {str(error)[:300]}")
        return self._seen(conversation, answer)

    def _seen(self, conversation: "_Conversation", answer: Answer) -> Observed:
        outcomes = [one for result in answer.results for one in result.outcomes]
        used = conversation.usage.usage_metadata.values()
        cached = [one["input_token_details"].get("cache_read") for one in used if "input_token_details" in one]
        said = [tokens for tokens in cached if tokens is not None]
        unbound = answer.unbound_because
        named = {one.call_id: one.tool_name for one in answer.missing}
        return Observed(
            called=tuple(one.sub_agent_id or _slot(one.tool_name) for one in outcomes),
            malformed=tuple(_slot(one.tool_name) for one in outcomes if one.status and one.status.reason == MALFORMED),
            declared_intents=answer.results[0].intents.declared if answer.results else 0,
            handed=tuple(
                DelegatedRequest(one.slot, one.request, one.prior_context) for one in conversation.script.received
            ),
            answer=answer.full_text,
            notes=" ".join(one.text for one in answer.notes),
            stated=tuple(_slot(named.get(one, one)) for one in answer.stated),
            noted=tuple(_slot(named.get(one, one)) for note in answer.notes for one in note.call_ids),
            seconds_to_status=conversation.seconds_to_status,
            seconds_to_answer=conversation.seconds_to_answer,
            longest_silence=conversation.longest_silence,
            status_events=sum(isinstance(one, StatusLine) for one in conversation.events),
            input_tokens=sum(one["input_tokens"] for one in used),
            cached_input_tokens=sum(said) if said else None,
            output_tokens=sum(one["output_tokens"] for one in used),
            cost=self._configuration.cost(conversation.usage.usage_metadata),
            summary_written=Compacted.WRITTEN in conversation.compactions,
            transcript=tuple(lines_of(answer.messages)),
            problem=f"the sidecar could not bind the turn: {unbound}" if unbound else "",
        )


@dataclass(slots=True)
class _Conversation:
    """One conversation: its messages, and the observations of its last turn."""

    client: SidecarClient
    models: Models
    request: TurnRequest
    script: Script
    messages: list[AnyMessage] = field(default_factory=list)
    events: list[TurnEvent] = field(default_factory=list)
    compactions: list[Compacted] = field(default_factory=list)
    usage: UsageMetadataCallbackHandler = field(default_factory=UsageMetadataCallbackHandler)
    seconds_to_status: float | None = None
    seconds_to_answer: float = 0.0
    longest_silence: float = 0.0

    async def past(self, past: EarlierTurn) -> None:
        """Play an earlier turn: the calls and the answer are scripted, sidecar and record are real."""
        self.script.answers, self.script.faults = dict.fromkeys(past.called, past.assistant), {}
        async with self._orchestrator(ScriptedTurn(past)) as orchestrator:
            said = [*self.messages, HumanMessage(past.user)]
            self.messages = list((await orchestrator.answer(self.request, said)).messages)

    async def present(self, case: Case) -> Answer:
        """Play the message of the case with the measured model."""
        self.script.answers, self.script.faults = case.answers, case.faults
        self.script.received.clear()
        async with self._orchestrator(self.models.router) as orchestrator:
            said = [*self.messages, HumanMessage(case.message)]
            begun = seen = time.monotonic()

            def show() -> float:
                nonlocal seen
                last, seen = seen, time.monotonic()
                self.longest_silence = max(self.longest_silence, seen - last)
                return seen - begun

            def listen(event: TurnEvent) -> None:
                self.events.append(event)
                since = show()
                if self.seconds_to_status is None and isinstance(event, StatusLine):
                    self.seconds_to_status = since

            answer = await orchestrator.answer(self.request, said, listener=listen, config={"callbacks": [self.usage]})
            self.seconds_to_answer = show()
        return answer

    @asynccontextmanager
    async def _orchestrator(self, model: BaseChatModel) -> AsyncIterator[Orchestrator]:
        rules = OrchestratorRules(compaction=CompactionRules(on_compaction=self.compactions.append))
        orchestrator = Orchestrator(self.client, model, summary_model=self.models.summary, rules=rules)
        yield orchestrator
        await orchestrator.settled()


class ScriptedTurn(BaseChatModel):
    """A model that plays one earlier turn: it makes the calls of the case, then gives its answer."""

    turn: Any

    def __init__(self, turn: EarlierTurn) -> None:
        super().__init__(turn=turn)

    @property
    @override
    def _llm_type(self) -> str:
        return "scripted-history"

    @override
    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, AIMessage]:
        return self

    @override
    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        past: EarlierTurn = self.turn
        message = AIMessage(past.assistant)
        if past.called and not isinstance(messages[-1], ToolMessage):
            # With a `prior_context`, an earlier turn does not call the summary model.
            arguments = {"request": past.user, "intent_count": len(past.called), "prior_context": "see the request"}
            calls = [
                {"name": f"{PREFIX}{slot}", "args": arguments, "id": f"{slot}-{uuid4().hex}"} for slot in past.called
            ]
            message = AIMessage("", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=message)])

    @override
    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return self._generate(messages, stop, None, **kwargs)


def _slot(tool_name: str) -> str:
    return tool_name.removeprefix(PREFIX)


def lines_of(messages: Sequence[BaseMessage]) -> Sequence[TranscriptLine]:
    """Return a history as a transcript, with the answers that the user read."""
    return [
        TranscriptLine(
            who={"human": "user", "ai": "assistant"}.get(one.type, one.type),
            text=rendered_text(one),
            calls=tuple(f"{call['name']}({call['args']})" for call in one.tool_calls)
            if isinstance(one, AIMessage)
            else (),
        )
        for one in messages
    ]
