"""A conversation with the reference orchestrator over a real socket: only models and sub-agents are scripted.

async with talking(calling("ask_shop"), composes) as talk:
    answer = await talk.say("What is on offer?")
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AnyMessage, HumanMessage

from clients.langchain.tests.support.scripted_model import ScriptedModel, Step
from subagents_client import SidecarClient, TurnRequest
from subagents_langchain import (
    Answer,
    MissingNote,
    Orchestrator,
    OrchestratorRules,
    Preamble,
    StatusLine,
    TurnEvent,
    validate_history,
)
from tests.support.harness import SECRET, SidecarForTests, running_sidecar_for_tests


@dataclass(slots=True)
class Talk:
    """What takes part in a conversation.

    Attributes:
        history: what was said so far, as the orchestrator gave it back.
        events: of the custom stream, in order.
    """

    sidecar: SidecarForTests
    orchestrator: Orchestrator
    model: ScriptedModel
    summary_model: ScriptedModel
    client: SidecarClient
    history: list[AnyMessage] = field(default_factory=list)
    events: list[TurnEvent] = field(default_factory=list)

    async def say(self, text: str = "What is new?", **request: Any) -> Answer:
        """Carry out one turn; its history must be one that a provider takes."""
        wanted = TurnRequest(**{"principal": "user-1", "episode_id": "episode-1", **request})
        answer = await self.orchestrator.answer(
            wanted, [*self.history, HumanMessage(text)], listener=self.events.append
        )
        validate_history(answer.messages)
        self.history = list(answer.messages)
        return answer

    @property
    def lines(self) -> list[str]:
        """Progress in words."""
        return [one.text for one in self.events if isinstance(one, StatusLine)]

    @property
    def preambles(self) -> list[str]:
        """What was said before sub-agents answered."""
        return [one.text for one in self.events if isinstance(one, Preamble)]

    @property
    def noted(self) -> list[str]:
        """What the user was told beside answers."""
        return [one.text for one in self.events if isinstance(one, MissingNote)]

    @property
    def dispatches(self) -> int:
        """How many dispatches the sidecar has carried out."""
        return len(self.sidecar.recorder.of("dispatch_settled"))


@asynccontextmanager
async def talking(
    *steps: Step,
    summaries: Sequence[Step] = (),
    rules: OrchestratorRules | None = None,
    more: Any = None,
    dispatching: Any = None,
    **sidecar: Any,
) -> AsyncIterator[Talk]:
    """Run a sidecar and an orchestrator on it.

    Args:
        steps: of the orchestrator's model, over all turns.
        summaries: of the model that writes `prior_context` and summaries of conversations.
        rules: of the orchestrator.
        more: other arguments of `Orchestrator`.
        dispatching: rules of the sidecar.
        sidecar: see `tests.support.harness.Setup`.
    """
    async with AsyncExitStack() as stack:
        running = await stack.enter_async_context(running_sidecar_for_tests(rules=dispatching or {}, **sidecar))
        client = await stack.enter_async_context(SidecarClient.connect(running.dispatch_target, boot_secret=SECRET))
        model, summary_model = ScriptedModel(steps=list(steps)), ScriptedModel(steps=list(summaries))
        orchestrator = Orchestrator(client, model, summary_model=summary_model, rules=rules, **(more or {}))
        yield Talk(running, orchestrator, model, summary_model, client)
        await orchestrator.settled()


def routed(answer: Answer) -> list[tuple[str, str]]:
    """Return (sub-agent, outcome) of the routing decision of a turn."""
    assert answer.end is not None
    return [(one.sub_agent_id, one.outcome.value) for one in answer.end.routing_decision.calls]
