"""Calls the sidecars for the pages of the console, with the role token of the signed-in operator.

The console itself permits and forbids nothing: each sidecar decides what the token permits.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grpc
from google.protobuf.message import Message

from sidecar.cli.parameters.targets import NO_PROXY
from sidecar.cli.subagent.client import (
    READING,
    ROLE_TOKEN_KEY,
    CannotOperate,
    channel_credentials,
    check_target,
    problem_of,
)
from subagents.admin.v1 import admin_pb2
from subagents.admin.v1.admin_pb2_grpc import AdminServiceStub
from subagents.history.v1 import history_pb2
from subagents.history.v1.history_pb2_grpc import HistoryServiceStub
from subagents.lifecycle.v1 import reading_pb2
from subagents.lifecycle.v1.lifecycle_pb2_grpc import LifecycleServiceStub

MOST_AUDIT_ROWS: Final = 20_000
"""The most rows that one read of the audit keeps; older rows are dropped."""
GLANCE: Final = 3.0
"""Seconds for requests to all sidecars of a page: one sidecar that hangs must not hide the answers of the others."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer of one sidecar, or the reason why there is none."""

    target: str
    answer: Any = None
    problem: CannotOperate | None = None


class SidecarConnection:
    """The connection to one sidecar. Every method takes the role token with which the call is made."""

    def __init__(self, target: str, tls: Path | None) -> None:
        # Here and not at the first call: a wrong address must end the start of the console, and no token may be sent to
        # it.
        check_target(target, tls)
        self.target = target
        # A Unix socket needs no certificate: its directory decides who connects.
        self._tls = None if target.startswith("unix:") else tls
        if self._tls is not None:
            channel_credentials(self._tls)  # only checked: a folder without certificates must prevent the start
        self._opened: tuple[grpc.aio.Channel, tuple[Any, ...]] | None = None

    async def close(self) -> None:
        """Close the connection."""
        if self._opened is not None:
            await self._opened[0].close()

    async def ask(self, token: str, method: str, request: Message, name: str = "", seconds: float = READING) -> Any:
        """Return the answer to a request. `name` is the sub-agent that an error message mentions.

        Raises:
            CannotOperate: the sidecar refused the request, or did not answer.
        """
        try:
            # The token belongs to the call and not to the channel: operators with different roles share the connection.
            return await self._method(method)(request, timeout=seconds, metadata=((ROLE_TOKEN_KEY, token),))
        except grpc.aio.AioRpcError as error:
            raise problem_of(error, self.target, name) from None

    async def ask_all(self, token: str, method: str, request: Any, rows: str) -> Any:
        """Return the answer of a `List` method with the `rows` of all pages. Raises `CannotOperate`."""
        page = whole = await self.ask(token, method, request)
        # A copy: if this sidecar is lost between two pages, the next one needs the caller's request for the first page.
        next_request = type(request)()
        next_request.CopyFrom(request)
        while page.next_page_token:
            next_request.page_token = page.next_page_token
            page = await self.ask(token, method, next_request)
            getattr(whole, rows).MergeFrom(getattr(page, rows))
        return whole

    async def audit(self, token: str, slot: str = "", after: int = 0) -> list[Any]:
        """Return the present audit rows, oldest first, without waiting for new ones. Raises `CannotOperate`."""
        request = reading_pb2.WatchAuditRequest(slot=slot, after_sequence=after, no_follow=True)
        rows: list[Any] = []
        try:
            stream = self._method("WatchAudit")(request, timeout=READING, metadata=((ROLE_TOKEN_KEY, token),))
            async for message in stream:
                rows += message.rows
                # After each message, so that a long audit is never in memory as a whole.
                del rows[:-MOST_AUDIT_ROWS]
        except grpc.aio.AioRpcError as error:
            raise problem_of(error, self.target, slot) from None
        return rows

    async def watch(self, token: str, turn_id: str) -> AsyncGenerator[history_pb2.WatchEventsResponse, None]:
        """Yield what happens in a turn until it has ended. Raises `CannotOperate`."""
        request = history_pb2.WatchEventsRequest(turn_id=turn_id)
        # Without a deadline: a turn may stay open for an hour, and the browser ends the stream by leaving the page.
        stream = self._method("WatchEvents")(request, metadata=((ROLE_TOKEN_KEY, token),))
        try:
            async for message in stream:
                yield message
        except grpc.aio.AioRpcError as error:
            raise problem_of(error, self.target, turn_id) from None
        finally:
            # Also if the browser has gone: a sidecar serves only a limited number of watchers.
            stream.cancel()

    def _method(self, name: str) -> Any:
        """Return the stub of an RPC, by its name in any of the three services.

        The channel is created on first use, because it belongs to the event loop that runs then.
        """
        if self._opened is None:
            if self._tls is None:
                channel = grpc.aio.insecure_channel(self.target, NO_PROXY)
            else:
                channel = grpc.aio.secure_channel(self.target, channel_credentials(self._tls), NO_PROXY)
            self._opened = (
                channel,
                tuple(make(channel) for make in (LifecycleServiceStub, AdminServiceStub, HistoryServiceStub)),
            )
        return next(getattr(stub, name) for stub in self._opened[1] if hasattr(stub, name))


class Sidecars:
    """All sidecars. What replicas share (rollouts, turns) is asked of the first one that can be reached."""

    def __init__(self, targets: Sequence[str], tls: Path | None) -> None:
        # `fromkeys` keeps the order and removes repetitions: a sidecar that is named twice would have two rows on the
        # page.
        self.all = [SidecarConnection(target, tls) for target in dict.fromkeys(targets)]

    async def ask(self, token: str, method: str, request: Message, name: str = "", seconds: float = READING) -> Any:
        """Return the answer of the first sidecar that can be reached. Raises `CannotOperate`."""
        return await self._first(lambda sidecar: sidecar.ask(token, method, request, name, seconds))

    async def ask_all(self, token: str, method: str, request: Any, rows: str) -> Any:
        """Return the answer of the first sidecar that can be reached, with the `rows` of all pages.

        Raises `CannotOperate`.
        """
        return await self._first(lambda sidecar: sidecar.ask_all(token, method, request, rows))

    async def audit(self, token: str, slot: str = "", after: int = 0) -> list[Any]:
        """Return the audit rows from the first sidecar that can be reached, oldest first. Raises `CannotOperate`."""
        rows: list[Any] = await self._first(lambda sidecar: sidecar.audit(token, slot, after))
        return rows

    async def watch(self, token: str, turn_id: str) -> AsyncGenerator[history_pb2.WatchEventsResponse, None]:
        """Yield what happens in a turn, wherever it runs, until it has ended. Raises `CannotOperate`."""
        for number, sidecar in enumerate(self.all, 1):
            try:
                # Without `aclosing`, a visit that ends leaves the call open until the generator is collected.
                async with aclosing(sidecar.watch(token, turn_id)) as messages:
                    async for message in messages:
                        yield message
                return
            except CannotOperate as problem:
                # A refusal is an answer; only a sidecar that cannot be reached is replaced by the next one. After a
                # break in the middle, the watch begins anew at the next sidecar: the page only needs to know that
                # something has happened.
                if problem.reason or not problem.uncertain or number == len(self.all):
                    raise

    async def _first(self, ask: Callable[[SidecarConnection], Awaitable[Any]]) -> Any:
        """Return the answer of the first sidecar that can be reached.

        A step of a rollout may thus be sent twice; its request id makes sure that it is taken once.
        """
        for sidecar in self.all[:-1]:
            try:
                return await ask(sidecar)
            except CannotOperate as problem:
                # A reason means that a sidecar answered and refused.
                if problem.reason or not problem.uncertain:
                    raise
        # The last one outside the loop: its problem is raised, whatever it is.
        return await ask(self.all[-1])

    async def ask_each(self, token: str, method: str, request: Message, seconds: float = GLANCE) -> list[Reply]:
        """Ask all sidecars at the same time; return the answers in the order of the sidecars."""

        async def ask_one(sidecar: SidecarConnection) -> Reply:
            try:
                return Reply(sidecar.target, await sidecar.ask(token, method, request, seconds=seconds))
            except CannotOperate as problem:
                return Reply(sidecar.target, problem=problem)

        # `ask_one` returns a refusal or a failed connection as a value, so no sidecar hides the answers of the others.
        return list(await asyncio.gather(*map(ask_one, self.all)))

    async def caller(self, token: str) -> admin_pb2.GetStatusResponse:
        """Return the status, which names the operator and the role of the token.

        Raises:
            CannotOperate: no sidecar accepts the token.
        """
        replies = await self.ask_each(token, "GetStatus", admin_pb2.GetStatusRequest())
        # One acceptance is enough for a sign-in: each sidecar verifies the token again at every call.
        for reply in replies:
            if reply.problem is None:
                status: admin_pb2.GetStatusResponse = reply.answer
                return status
        # Every reply is a problem here, and there is at least one sidecar.
        raise next(reply.problem for reply in replies if reply.problem is not None)

    async def close(self) -> None:
        """Close all connections."""
        for sidecar in self.all:
            await sidecar.close()
