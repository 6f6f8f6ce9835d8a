"""Serves `grpc.health.v1`: reports whether the process accepts new work. It is served under any load."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from google.protobuf.message import Message
from grpc_health.v1 import health_pb2

from sidecar.core.errors import AdmissionRefused, NotFound
from sidecar.rpc.methods import Call, Method, MethodShape

SERVICE: Final = "/grpc.health.v1.Health/"
Status = health_pb2.HealthCheckResponse
MOST_WATCHES: Final = 256
"""The most watches of one listener.

A watch needs no secret and takes about 15 KB of memory; a client needs one for each connection.
"""
WATCHES_LIMIT: Final = "health_watches"
WATCHES_RETRY: Final = timedelta(seconds=5)


class Health:
    """The health of the process; NOT_SERVING until it is set.

    Args:
        services: full names that clients may ask for, besides the empty name for all of them.
    """

    def __init__(self, services: Sequence[str]) -> None:
        self._services = ("", *services)
        self._serving = False
        self._watches = 0
        self._changed = asyncio.Condition()

    @property
    def serving(self) -> bool:
        """Whether new work is accepted."""
        return self._serving

    async def set_serving(self, serving: bool) -> None:
        """Change the status and notify the watchers."""
        async with self._changed:
            # Each watcher compares the status under the lock, too: it either sees the new one, or waits already and is
            # notified.
            self._serving = serving
            self._changed.notify_all()

    def methods(self) -> Sequence[Method]:
        """Return the RPCs."""
        parse = health_pb2.HealthCheckRequest.FromString
        # `reserved`: served under any load.
        return (
            Method(SERVICE + "Check", MethodShape.ONE_TO_ONE, parse, self._check, reserved=True),
            Method(SERVICE + "Watch", MethodShape.ONE_TO_MANY, parse, self._watch, reserved=True),
            Method(
                SERVICE + "List",
                MethodShape.ONE_TO_ONE,
                health_pb2.HealthListRequest.FromString,  # type: ignore[attr-defined]  # younger than the stubs
                self._list,
                reserved=True,
            ),
        )

    async def _check(self, request: health_pb2.HealthCheckRequest, call: Call) -> Status:
        if request.service not in self._services:
            raise NotFound("no service of that name is served here")
        return self._answer(request.service)

    async def _list(self, request: Message, call: Call) -> Message:
        statuses = {name: self._answer(name) for name in self._services}
        answer: Message = health_pb2.HealthListResponse(statuses=statuses)  # type: ignore[attr-defined]  # also younger
        return answer

    async def _watch(self, request: health_pb2.HealthCheckRequest, call: Call) -> None:
        if self._watches >= MOST_WATCHES:
            raise AdmissionRefused(
                f"{MOST_WATCHES} watch the health of this listener; use Check, or come back later",
                metadata={"limit": WATCHES_LIMIT, "most": str(MOST_WATCHES)},
                retry_after=WATCHES_RETRY,
            )
        # The `finally` frees the place when the client disconnects, which cancels this coroutine.
        self._watches += 1
        try:
            await self._tell(request, call)
        finally:
            self._watches -= 1

    async def _tell(self, request: health_pb2.HealthCheckRequest, call: Call) -> None:
        """Send the status now and after each change, until the client leaves."""
        last: Status | None = None
        while True:
            answer = self._answer(request.service)
            # A change and its opposite may both happen during one write; watchers are told only what differs.
            if answer != last:
                await call.write(answer)
                last = answer
            async with self._changed:
                # Compared again under the condition: a change between the write and this line has already notified.
                if self._answer(request.service) == last:
                    await self._changed.wait()

    def _answer(self, service: str) -> Status:
        if service not in self._services:
            # Only for Watch: the protocol demands this answer, because the service may appear later. Check has raised
            # before.
            return Status(status=Status.SERVICE_UNKNOWN)
        return Status(status=Status.SERVING if self._serving else Status.NOT_SERVING)
