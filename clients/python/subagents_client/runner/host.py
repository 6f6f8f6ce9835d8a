"""`RunnerHost`, a server that runs sub-agents for the sidecar."""

import asyncio
import inspect
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, TypeVar, cast

import grpc
from google.protobuf.message import DecodeError

from subagents.runner.v1 import runner_pb2
from subagents_client.runner.addresses import start_errors_in_one_line
from subagents_client.runner.attempts import (
    AttemptFailed,
    RunContext,
    SubAgentFunction,
    UncancelledTask,
    reason_of,
    reject_run,
    run_attempt,
)
from subagents_client.runner.cards import Card, CardCache, card_of
from subagents_client.runner.gateway import Gateways
from subagents_client.runner.run import Run
from subagents_client.runner.server import listening, stop_signal
from subagents_client.runner.tls import HostTls
from subagents_errors import (
    DefinitionNotHeld,
    Draining,
    InternalError,
    MalformedMessage,
    NotFound,
    Overloaded,
    SubagentsError,
)

LOG: Final = logging.getLogger("subagents_client.runner")
SERVICE: Final = "subagents.runner.v1.SubAgentRunnerService"
COME_BACK: Final = timedelta(milliseconds=200)
"""`retry_after` of a refused attempt."""

Decorated = TypeVar("Decorated", bound=SubAgentFunction)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLimits:
    """The limits of a host.

    Attributes:
        most_runs: maximum number of concurrent attempts; further attempts are refused with `OVERLOADED`.
        most_cards: maximum number of cards in memory; the least recently used card is dropped.
        longest_run: maximum duration of every attempt; a shorter limit of the caller takes precedence.
        grace: maximum time that running attempts continue after a stop signal.
        allow_remote: whether the host may serve, and call tool gateways, at addresses on other machines without TLS.
            Such connections are neither encrypted nor authenticated: use it only behind a mesh that does both.
    """

    most_runs: int = 64
    most_cards: int = 128
    longest_run: timedelta = timedelta(minutes=5)
    grace: timedelta = timedelta(seconds=110)
    allow_remote: bool = False


@dataclass(frozen=True, slots=True)
class _Hosted:
    function: SubAgentFunction
    needs_card: bool


class RunnerHost:
    """A server that runs sub-agents for the sidecar. Register a function for each slot, then `serve`.

    Args:
        software: name and version of the host's software, for operators.
        limits: limits of the host; None: the defaults.
        tls: certificates and allowed callers of a host at a TCP address; None: only Unix sockets and loopback, unless
            `limits.allow_remote`.

    Attributes:
        limits: the limits of the host.
        draining: whether the host refuses new attempts because it is shutting down.

    Source: PC2-FR-5, PC2-FR-8.
    """

    def __init__(
        self, *, software: str = "subagents-client", limits: HostLimits | None = None, tls: HostTls | None = None
    ) -> None:
        self.limits = limits or HostLimits()
        self.draining = False
        self._software = software
        self._hosted: dict[str, _Hosted] = {}
        self._any: _Hosted | None = None
        self._cards = CardCache(self.limits.most_cards)
        self._tls = tls
        self._gateways = Gateways(allow_remote=self.limits.allow_remote, tls=None if tls is None else tls.files)
        self._lingering = UncancelledTask()
        self._running = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def sub_agent(self, sub_agent_id: str, *, needs_card: bool = False) -> Callable[[Decorated], Decorated]:
        """Return a decorator that registers an async function for a slot.

        Args:
            sub_agent_id: the slot.
            needs_card: whether the function uses `Run.card`. The sidecar then sends each card when the host lacks it.

        Raises:
            TypeError: the decorated object is not an async function.
            ValueError: the slot already has a function.
        """
        if sub_agent_id in self._hosted:
            raise ValueError(f"two functions for the slot {sub_agent_id!r}")

        def register(function: Decorated) -> Decorated:
            self._hosted[sub_agent_id] = _Hosted(_async_only(function), needs_card)
            return function

        return register

    def any_sub_agent(self, *, needs_card: bool = True) -> Callable[[Decorated], Decorated]:
        """Return a decorator that registers an async function for every slot without a function of its own.

        Such a function typically runs any sub-agent from its card.
        """

        def register(function: Decorated) -> Decorated:
            self._any = _Hosted(_async_only(function), needs_card)
            return function

        return register

    @property
    def running(self) -> int:
        """Number of attempts that run now."""
        return self._running

    @property
    def abandoned(self) -> int:
        """Number of functions that were cancelled and have not ended."""
        return len(self._lingering)

    async def serve(self, target: str) -> None:
        """Serve until SIGTERM or SIGINT, then wait for running attempts, at most for `HostLimits.grace`.

        Args:
            target: `unix:/run/shop/shop.sock` in a directory that only the sidecar can enter, a loopback address, or
                with `tls` any TCP address such as `0.0.0.0:7500`.

        Raises:
            SystemExit: the address cannot be served. One line on standard error says why. The exit code is 69 if
                another process serves the address, else 78: `target` is on another machine and there is no `tls`, the
                certificates are unusable, or the directory is missing or not permitted. `serving` raises `OSError` and
                `ValueError` instead.
        """
        async with AsyncExitStack() as stack:
            with start_errors_in_one_line():
                await stack.enter_async_context(self.serving(target))
            stopped = await stack.enter_async_context(stop_signal())
            LOG.info("serving %s on %s", ", ".join(sorted(self._hosted)) or "any sub-agent", target)
            await stopped.wait()

    @asynccontextmanager
    async def serving(self, target: str) -> AsyncIterator[str]:
        """Serve while the `async with` block runs; yield the bound address. Drains when the block ends.

        Raises:
            ValueError: `target` is on another machine and there is no `tls`, or the certificates are unusable.
            OSError: the address cannot be served, or another process serves it.
        """
        handlers = {
            "Run": grpc.unary_stream_rpc_method_handler(
                self._run, response_serializer=runner_pb2.RunResponse.SerializeToString
            ),
            "Describe": grpc.unary_unary_rpc_method_handler(
                self._describe,
                request_deserializer=runner_pb2.DescribeRequest.FromString,
                response_serializer=runner_pb2.DescribeResponse.SerializeToString,
            ),
        }
        async with listening(
            target, SERVICE, handlers, allow_remote=self.limits.allow_remote, tls=self._tls
        ) as listener:
            try:
                yield listener.address
            finally:
                self.draining = True
                await listener.refuse_new()
                await self._drained()
        await self._lingering.ended(within=1.0)
        await self._gateways.close()

    async def _drained(self) -> None:
        try:
            async with asyncio.timeout(self.limits.grace.total_seconds()):
                await self._idle.wait()
        except TimeoutError:
            LOG.warning("%d attempts are still running after the grace and are cut off", self._running)

    async def _describe(self, request: runner_pb2.DescribeRequest, context: Any) -> runner_pb2.DescribeResponse:
        try:
            self._check_caller(context)
        except SubagentsError as error:
            await reject_run(context, error)
        return runner_pb2.DescribeResponse(
            sub_agent_ids=[] if self._any else sorted(self._hosted),
            max_concurrent_runs=self.limits.most_runs,
            software=self._software,
        )

    async def _run(self, raw: bytes, context: RunContext) -> None:
        """Serve one attempt; translate every exception into a status whose message contains no user data."""
        try:
            await self._admitted(raw, context)
        except AttemptFailed as failed:
            await reject_run(context, failed.error, reason_of(failed))
        except SubagentsError as error:
            await reject_run(context, error)
        except asyncio.CancelledError:
            if context.cancelled():
                raise
            # Without a status, a sidecar that did not cancel the attempt would wait for it until the deadline.
            await reject_run(context, InternalError("the host stopped the attempt"))
        except grpc.aio.AbortError:
            raise
        except Exception:
            LOG.exception("a defect of the runner host")
            await reject_run(context, InternalError("the host failed"))

    def _check_caller(self, context: Any) -> None:
        if self._tls is not None:
            self._tls.check(context)

    async def _admitted(self, raw: bytes, context: RunContext) -> None:
        self._check_caller(context)
        if self.draining:
            raise Draining("this host is shutting down; ask another", retry_after=COME_BACK)
        if self._running >= self.limits.most_runs:
            raise Overloaded(f"this host runs {self.limits.most_runs} attempts at most", retry_after=COME_BACK)
        self._running += 1
        self._idle.clear()
        try:
            await self._attempt(raw, context)
        finally:
            self._running -= 1
            if self._running == 0:
                self._idle.set()

    async def _attempt(self, raw: bytes, context: RunContext) -> None:
        try:
            message = runner_pb2.RunRequest.FromString(raw)
        except DecodeError:
            raise MalformedMessage("the bytes are not a RunRequest") from None
        hosted = self._hosted.get(message.sub_agent_id, self._any)
        if hosted is None:
            raise NotFound(f"no sub-agent {message.sub_agent_id!r} here")
        ends_at = time.monotonic() + self._seconds(message, context)
        run = Run(message, self._card(message, hosted), self._gateways, lambda: ends_at - time.monotonic())
        await run_attempt(run, hosted.function, context, self._lingering)

    def _card(self, message: runner_pb2.RunRequest, hosted: _Hosted) -> Card | None:
        # `digest` does not identify a card: the prompt blocks of one definition depend on the flags of the turn.
        digest = message.card_digest or message.digest
        if message.HasField("card"):
            self._cards.hold(digest, card_of(message.card))
        held = self._cards.take(digest)
        if held is None and hosted.needs_card:
            raise DefinitionNotHeld("send the card of this digest", metadata={"digest": digest})
        return held

    def _seconds(self, message: runner_pb2.RunRequest, context: RunContext) -> float:
        limits = [self.limits.longest_run.total_seconds()]
        if message.HasField("timeout"):
            limits.append(message.timeout.ToTimedelta().total_seconds())
        left = cast("float | None", context.time_remaining())  # None without a deadline, whatever the stub says
        return min(limits if left is None else [*limits, left])


def _async_only(function: Decorated) -> Decorated:
    if not inspect.iscoroutinefunction(function) and not inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - an object with an async __call__ is as good
    ):
        raise TypeError(f"{function!r} is not an async function")
    return function
