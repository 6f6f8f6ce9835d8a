"""Sub-agent hosts in processes of their own: they go on when the sidecar that asked them dies."""

import asyncio
from collections.abc import AsyncIterator
from contextvars import Context
from dataclasses import dataclass

from sidecar.adapters.virtual_time import VirtualLoop
from sidecar.core.definitions.cards.card import Card
from sidecar.policy.protocols import RunnerEvent, RunRequest
from tests.support.simulation.runner import ScriptedRunner


@dataclass(frozen=True, slots=True)
class _Over:
    """The host has nothing more to say."""

    error: BaseException | None


class RemoteRunner:
    """How one sidecar reaches the hosts: by messages, so that what is on its way when it dies is thrown away."""

    target = "simulated"

    def __init__(self, loop: VirtualLoop, hosts: ScriptedRunner, asked_by: dict[str, str], name: str) -> None:
        """Join the parts; `asked_by` is told which sidecar minted a grant."""
        self._loop = loop
        self._hosts = hosts
        self._asked_by = asked_by
        self._name = name

    def runner_for(self, card: Card) -> "RemoteRunner":
        """Return itself."""
        return self

    async def close(self) -> None:
        """Nothing to release."""

    async def run(self, request: RunRequest) -> AsyncIterator[RunnerEvent]:
        """Have a host play the script of the attempt."""
        self._asked_by[request.grant] = self._name
        sent: asyncio.Queue[RunnerEvent | _Over] = asyncio.Queue()
        name = f"host of {request.attempt_id}"
        host = self._loop.create_task(self._play(request, sent), name=name, context=Context())
        try:
            while True:
                event = await sent.get()
                if isinstance(event, _Over):
                    if event.error is not None:
                        raise event.error
                    return
                yield event
        finally:
            host.cancel()

    async def _play(self, request: RunRequest, sent: "asyncio.Queue[RunnerEvent | _Over]") -> None:
        try:
            async for event in self._hosts.run(request):
                sent.put_nowait(event)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001  whatever a host raises travels to the sidecar
            sent.put_nowait(_Over(error))
        else:
            sent.put_nowait(_Over(None))
