"""A scripted data service in memory, and a right connector to it, for tests of the connector suite."""

import asyncio
import json
from typing import Any, Final

from sidecar.policy.protocols import EnricherAnswer, EnricherCall, EnricherRefused, EnricherReply, RefusalKind
from sidecar_conformance.connector_bench import ConnectorBench, SeenCall, ServiceScript

HERE: Final = "memory:service"
REFUSALS: Final = {
    ServiceScript.MISSING_PRINCIPAL: RefusalKind.MISSING_PRINCIPAL,
    ServiceScript.PRINCIPAL_MISMATCH: RefusalKind.PRINCIPAL_MISMATCH,
    ServiceScript.FAIL: RefusalKind.UNAVAILABLE,
    ServiceScript.TRUNCATE: RefusalKind.UNAVAILABLE,
}


class StraightConnector:
    """Does everything right. The steps are methods, so that a defect replaces one."""

    def __init__(self, bench: "MemoryServiceBench", max_body_bytes: int) -> None:
        self.bench = bench
        self.max_body_bytes = max_body_bytes
        self.closed = asyncio.Event()

    async def enrich(self, call: EnricherCall) -> EnricherReply:
        """Ask once, within the time."""
        if self.closed.is_set() or call.endpoint != HERE:
            return self.refused(RefusalKind.UNAVAILABLE)
        try:
            async with asyncio.timeout(call.timeout.total_seconds()):
                return await self.exchange(call)
        except TimeoutError:
            return self.refused(RefusalKind.TIMEOUT)

    async def exchange(self, call: EnricherCall) -> EnricherReply:
        """Send and read."""
        body = await self.sent(self.seen_of(call))
        if isinstance(body, RefusalKind):
            return self.refused(body)
        if len(body) > self.max_body_bytes:
            return self.refused(RefusalKind.TOO_LARGE)
        return self.answered(body)

    async def sent(self, request: SeenCall) -> bytes | RefusalKind:
        """Bring one request to the service, and back what it says; a close breaks the connection off."""
        await self.bench.take(request)
        script = self.bench.script
        if script is ServiceScript.HANG:
            await self.closed.wait()
            return RefusalKind.UNAVAILABLE
        return REFUSALS.get(script) or self.bench.body

    def seen_of(self, call: EnricherCall) -> SeenCall:
        """Return the request as it goes out."""
        try:
            arguments = json.loads(call.arguments_json)
        except ValueError:
            arguments = {}
        return SeenCall(
            principal=call.principal,
            domain_type=call.domain_type,
            enricher_id=call.enricher_id,
            arguments=arguments,
            nonce=call.nonce,
            traceparent=call.trace_headers.get("traceparent"),
        )

    def refused(self, kind: RefusalKind) -> EnricherReply:
        """Return a refusal."""
        return EnricherRefused(kind)

    def answered(self, body: bytes) -> EnricherReply:
        """Return an answer."""
        return EnricherAnswer(body)

    async def close(self) -> None:
        """Break everything off."""
        self.closed.set()


class MemoryServiceBench(ConnectorBench):
    """The service."""

    def __init__(self, connector_type: type[StraightConnector] = StraightConnector) -> None:
        self._type = connector_type
        self._calls: list[SeenCall] = []
        self.seen = self._calls
        self._arrived: Any = None

    def make(self, max_body_bytes: int) -> StraightConnector:
        """Make one."""
        self._arrived = asyncio.Condition()
        return self._type(self, max_body_bytes)

    @property
    def endpoint(self) -> str:
        """Return where it is."""
        return HERE

    @property
    def endpoint_of_nobody(self) -> str:
        """Return where nobody is."""
        return "memory:nobody"

    async def take(self, request: SeenCall) -> None:
        """See a request."""
        async with self._arrived:
            self._calls.append(request)
            self._arrived.notify_all()

    async def asked(self, times: int) -> None:
        """Wait for requests."""
        async with self._arrived:
            await self._arrived.wait_for(lambda: len(self._calls) >= times)
