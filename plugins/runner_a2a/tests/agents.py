"""A2A agents made with the official SDK, over real HTTP, and runners that reach them."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from a2a.helpers import new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types.a2a_pb2 import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Message, Part, TaskState
from google.protobuf.json_format import MessageToDict
from starlette.applications import Starlette
from typing_extensions import override

from examples.http_serving import serving
from sidecar.core.decoding import from_base64url, from_json
from sidecar.policy.specs import RunnerConfig
from sidecar_runner_a2a.agent_card import EXTENSION
from sidecar_runner_a2a.identity import IDENTITY
from sidecar_runner_a2a.plugin import a2a_runner
from sidecar_runner_a2a.runner import A2aRunner

NOBODY: Final = "http://127.0.0.1:9"


@dataclass(frozen=True)
class Asked:
    """One task as the agent sees it.

    Attributes:
        updates: reports on the task.
        text: of the message.
        details: what a sub-agent's extension holds.
        headers: of the request.
        context_id: under which it was asked.
        message_id: of the message.
    """

    updates: TaskUpdater
    text: str
    details: Mapping[str, str]
    headers: Mapping[str, str]
    context_id: str
    message_id: str

    @property
    def identity(self) -> Mapping[str, Any]:
        """Return for whom it works."""
        return from_json(from_base64url(self.headers[IDENTITY]), dict[str, Any])

    async def report(self, **said: Any) -> None:
        """Report progress in the words of a sub-agent."""
        await self.updates.update_status(TaskState.TASK_STATE_WORKING, metadata={EXTENSION: said})

    async def say(self, *texts: str) -> None:
        """Add an artifact for each text."""
        for text in texts:
            await self.updates.add_artifact([Part(text=text)])

    def words(self, text: str) -> Message:
        """Return a message of the agent's."""
        return self.updates.new_agent_message([Part(text=text)])


Work = Callable[[Asked], Awaitable[None]]
Carding = Callable[[AgentCard], None]


@dataclass
class Agent(AgentExecutor):
    """An agent whose work a test gives.

    Attributes:
        work: what it does with a task.
        asked: every task, in order.
        cancelled: ids of tasks whose cancel has arrived.
        ended: set at the end of a task's work, also by being cancelled.
    """

    work: Work
    asked: list[Asked] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    started: asyncio.Event = field(default_factory=asyncio.Event)
    stopped: asyncio.Event = field(default_factory=asyncio.Event)
    _working: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    @override
    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        message = context.message
        assert message is not None
        assert context.call_context is not None
        await event_queue.enqueue_event(context.current_task or new_task_from_user_message(message))
        updates = TaskUpdater(event_queue, context.task_id or "", context.context_id or "")
        asked = Asked(
            updates=updates,
            text=context.get_user_input(),
            details=MessageToDict(message.metadata).get(EXTENSION, {}),
            headers=context.call_context.state["headers"],
            context_id=context.context_id or "",
            message_id=message.message_id,
        )
        self.asked.append(asked)
        self.started.set()
        await self.work(asked)

    @override
    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        self.cancelled.append(context.task_id or "")
        await TaskUpdater(event_queue, context.task_id or "", context.context_id or "").cancel()
        self.stopped.set()

    @asynccontextmanager
    async def running(
        self, binding: str = "JSONRPC", *, streaming: bool = True, carding: Carding = lambda card: None
    ) -> AsyncIterator[str]:
        """Serve; yield the target.

        Args:
            binding: the transport that the card names.
            streaming: whether the card says that it streams.
            carding: changes the card.
        """
        app = Starlette()
        async with serving(app, lambda: None, "critical") as url:
            card = card_of(f"{url}/a2a", binding, streaming=streaming)
            handler = DefaultRequestHandler(agent_executor=self, task_store=InMemoryTaskStore(), agent_card=card)
            told = AgentCard()
            told.CopyFrom(card)
            carding(told)
            app.router.routes += [
                *create_agent_card_routes(told),
                *create_jsonrpc_routes(handler, "/a2a"),
                *create_rest_routes(handler, path_prefix="/a2a"),
            ]
            yield url


def card_of(url: str, binding: str, *, streaming: bool) -> AgentCard:
    """Return the card of a plain agent."""
    return AgentCard(
        name="scripted",
        description="Does what a test says.",
        version="1.0.0",
        supported_interfaces=[AgentInterface(url=url, protocol_binding=binding, protocol_version="1.0")],
        capabilities=AgentCapabilities(streaming=streaming),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="all", name="all", description="Everything.", tags=["all"])],
    )


def runner_of(target: str | None, gateway: str = "", **settings: Any) -> A2aRunner:
    """Return a runner."""
    return a2a_runner(RunnerConfig(settings, target, gateway))


def as_json(value: Any) -> str:
    """Return JSON text."""
    return json.dumps(value)
