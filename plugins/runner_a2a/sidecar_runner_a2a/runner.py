"""Runner `a2a`."""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Final

from a2a.client import Client, ClientCallContext, ClientConfig, ClientFactory

from sidecar.policy.protocols import RunnerError, RunnerEvent, RunRequest
from sidecar_runner_a2a.agent_card import BINDINGS, EXTENSION, checked_card
from sidecar_runner_a2a.conversation import CANCEL_SECONDS, Conversation
from sidecar_runner_a2a.failures import error_of
from sidecar_runner_a2a.http import http_client
from sidecar_runner_a2a.identity import headers_of
from sidecar_runner_a2a.ledger import Ledger
from sidecar_runner_a2a.question import question_of, waiting_task
from sidecar_runner_a2a.settings import A2aSettings, Target, target_from

NO_TARGET: Final = Target("no target", "", is_local=False)
LOGGERS: Final = ("a2a", "httpx")
"""They write what an agent sent, and with that users' data, to the log."""


class A2aRunner:
    """Has one A2A agent carry out attempts. Repeats nothing by itself: what may be repeated is the contract's to say.

    Args:
        said: the agent's target; empty: the one in the settings. Without either, each attempt fails and says so.
        settings: of all A2A agents.
        gateway_address: where the tool gateway listens.

    Raises:
        ValueError: the target names no agent.
    """

    def __init__(self, said: str, settings: A2aSettings, gateway_address: str) -> None:
        self._settings = settings
        named = said or settings.target
        self._target = target_from(named) if named else NO_TARGET
        if settings.share_grant and named and not self._target.is_local:
            raise ValueError("share_grant gives the grant to agents on this machine only, and the target is elsewhere")
        self._gateway_address = gateway_address if settings.share_grant else ""
        self._http = http_client(settings)
        self._client: Client | None = None
        self._checked_at = 0.0
        self._cancelling: set[asyncio.Task[None]] = set()
        self._closed = False
        for name in LOGGERS:
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)

    @property
    def target(self) -> str:
        """Names what fails together."""
        return self._target.url

    async def run(self, request: RunRequest) -> AsyncIterator[RunnerEvent]:
        """Send the attempt as one message and yield what the agent makes of it; cancels its task if left early.

        Raises:
            RunnerError: the attempt failed.
        """
        if self._closed:
            raise RunnerError("the runner is closed", transient=True, unreachable=True)
        if self._target is NO_TARGET:
            raise RunnerError("there is no agent to ask: name its target in the card, in [targets] or in [runners.a2a]")
        context = await self._context_of(request)
        client = await self._checked_client()
        question = question_of(request, self._settings.context, self._gateway_address)
        ledger = Ledger(question.message.context_id, waiting_task(request))
        task = Conversation(client, question, context, self._settings.poll_seconds)
        try:
            while not ledger.closed:
                for event in ledger.events_of(await task.next_response(ledger.task_id)):
                    yield event
        except RunnerError:
            raise
        except Exception as error:  # noqa: BLE001  the SDK raises whatever an answer does to it
            raise error_of(error, self._target.url, heard=ledger.heard) from None
        finally:
            self._leave(task, ledger)

    async def close(self) -> None:
        """Close the connections; agents that work are told first, if they answer soon."""
        self._closed = True
        if self._cancelling:
            await asyncio.wait(self._cancelling, timeout=CANCEL_SECONDS / 2)
            for cancelling in list(self._cancelling):
                cancelling.cancel()
        await self._http.aclose()

    async def _context_of(self, request: RunRequest) -> ClientCallContext:
        try:
            headers = await asyncio.to_thread(headers_of, request, self._settings)
        except ValueError as problem:
            raise RunnerError(f"the user's identity cannot be carried: {problem}") from None
        return ClientCallContext(service_parameters={**headers, "A2A-Extensions": EXTENSION})

    async def _checked_client(self) -> Client:
        """Return a client made of a card that is young enough."""
        now = asyncio.get_running_loop().time()
        if self._client is None or now - self._checked_at > self._settings.card_seconds:
            has_token = self._settings.token_file is not None
            card = await checked_card(self._http, self._target, has_token=has_token)
            config = ClientConfig(httpx_client=self._http, supported_protocol_bindings=list(BINDINGS))
            self._client = ClientFactory(config).create(card)
            self._checked_at = now
        return self._client

    def _leave(self, task: Conversation, ledger: Ledger) -> None:
        """Stop listening; an agent that still works is told, by a task of the runner: the attempt does not wait."""
        if ledger.closed:
            task.stop()
            return
        telling = asyncio.create_task(task.cancelled(ledger))
        self._cancelling.add(telling)
        telling.add_done_callback(self._cancelling.discard)
