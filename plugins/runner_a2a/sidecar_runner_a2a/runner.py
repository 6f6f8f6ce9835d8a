"""Runner `a2a`, which runs attempts at agents over the A2A protocol."""

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
"""Loggers of the SDK. They are switched off because they log responses of agents, which contain users' data."""


class A2aRunner:
    """Runs attempts at one A2A agent. It does not retry; the contract decides what is repeated.

    Args:
        said: target of the agent; empty: the target in the settings. If there is none either, each attempt fails.
        settings: settings of all A2A agents.
        gateway_address: address of the tool gateway.

    Raises:
        ValueError: the target is malformed, or `share_grant` is set and the agent is on another machine.
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
        """The URL of the agent, under which the sidecar counts failures."""
        return self._target.url

    async def run(self, request: RunRequest) -> AsyncIterator[RunnerEvent]:
        """Send the attempt as one message, and yield the agent's events. Cancels the agent's task if it is left early.

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
        except Exception as error:  # noqa: BLE001  the SDK may raise anything for a malformed response
            raise error_of(error, self._target.url, heard=ledger.heard) from None
        finally:
            self._stop(task, ledger)

    async def close(self) -> None:
        """Close the connections, after waiting briefly for running requests that cancel tasks of agents."""
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
        """Return a client for the agent's card, which is read again if it is older than `card_seconds`."""
        now = asyncio.get_running_loop().time()
        if self._client is None or now - self._checked_at > self._settings.card_seconds:
            has_token = self._settings.token_file is not None
            card = await checked_card(self._http, self._target, has_token=has_token)
            config = ClientConfig(httpx_client=self._http, supported_protocol_bindings=list(BINDINGS))
            self._client = ClientFactory(config).create(card)
            self._checked_at = now
        return self._client

    def _stop(self, task: Conversation, ledger: Ledger) -> None:
        """Stop reading. If the agent still works, a task of the runner cancels its work: the attempt does not wait."""
        if ledger.closed:
            task.stop()
            return
        telling = asyncio.create_task(task.cancelled(ledger))
        self._cancelling.add(telling)
        telling.add_done_callback(self._cancelling.discard)
