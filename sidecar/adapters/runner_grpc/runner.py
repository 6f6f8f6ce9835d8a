"""The runner `grpc`: runs attempts of sub-agents in a runner host, over a gRPC stream."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any, Final

import grpc

from sidecar.adapters.runner_grpc.failures import error_of, lacks_definition
from sidecar.adapters.runner_grpc.messages import card_message, event_of, run_message
from sidecar.adapters.runner_grpc.settings import GrpcRunnerSettings
from sidecar.policy.protocols import RunFinished, RunnerError, RunnerEvent, RunRequest
from sidecar.policy.targets import UNIX_SCHEMES, is_local
from subagents.runner.v1 import runner_pb2
from subagents_tls.channels import RotatingChannel
from subagents_tls.files import WatchedFiles

RUN: Final = "/subagents.runner.v1.SubAgentRunnerService/Run"
Metadata = tuple[tuple[str, str], ...]
MOST_UNKNOWN: Final = 1000
"""The most events of unknown kinds in one attempt. A newer host may send some; more end the attempt."""


class DefinitionRequested(Exception):
    """The host lacks the definition, and has not begun the attempt."""


class GrpcRunner:
    """Runs attempts on one host. It never retries by itself: the contract decides what may be repeated.

    Args:
        target: the address of the host. It is also the key of the circuit breaker.
        gateway_target: the address of the tool gateway for the host.
        settings: of the network.

    Raises:
        ValueError: `target` is empty, or not on this machine without TLS and `allow_remote`; or certificates are
            unusable.
    """

    def __init__(self, target: str, gateway_target: str, settings: GrpcRunnerSettings | None = None) -> None:
        self._settings = settings or GrpcRunnerSettings()
        if not target:
            raise ValueError("a runner of kind `grpc` needs a target, e.g. unix:/run/shop/shop.sock")
        tls = None if target.startswith(UNIX_SCHEMES) else self._settings.tls
        if tls is None and not self._settings.allow_remote and not is_local(target):
            raise ValueError(
                f"{target} is beyond this machine, and nothing would be encrypted: set ca_file and the client "
                "certificate, use a Unix socket or loopback, or set allow_remote behind a mesh"
            )
        self._tls = None if tls is None else WatchedFiles(tls)
        self._target = target
        self._gateway_target = gateway_target
        self._channel: grpc.aio.Channel | None = None
        self._closed = False

    @property
    def target(self) -> str:
        """The key of the circuit breaker: attempts at one target fail together."""
        return self._target

    async def run(self, request: RunRequest) -> AsyncIterator[RunnerEvent]:
        """Execute one attempt; send the definition only to a host that reports that it lacks it.

        Raises:
            RunnerError: the attempt failed.
        """
        loop = asyncio.get_running_loop()
        # One deadline for both requests: the second gets what the first has left.
        until = loop.time() + request.timeout.total_seconds()
        message = run_message(request, self._gateway_target)
        trace = tuple(request.trace_headers.items())
        # `aclosing` ends the stream as soon as the reader stops. Otherwise it would stay open until the generator is
        # garbage-collected.
        try:
            async with aclosing(self._events(message, until - loop.time(), trace)) as events:
                async for event in events:
                    yield event
            return
        except DefinitionRequested:
            # The host has not begun, so sending the request again with the definition is not a second attempt.
            message.card.CopyFrom(card_message(request.card, request.prompt_prefix))
        try:
            async with aclosing(self._events(message, until - loop.time(), trace)) as events:
                async for event in events:
                    yield event
        except DefinitionRequested:
            raise RunnerError("the host asks for the definition although it came with the request") from None

    async def close(self) -> None:
        """Close the connection; attempts that are running end with `RunnerError`."""
        self._closed = True
        if self._channel is not None:
            channel, self._channel = self._channel, None
            await channel.close()

    async def _events(
        self, message: runner_pb2.RunRequest, seconds: float, metadata: Metadata
    ) -> AsyncGenerator[RunnerEvent, None]:
        """Yield the host's events until it has finished."""
        call = self._call(message, seconds, metadata)
        heard, unknown = False, 0
        try:
            async for raw in call:
                event = event_of(raw)
                # Also for an event of an unknown kind: it proves that the host has begun the attempt.
                heard = True
                if event is not None:
                    yield event
                    # Returns without waiting for the status: the result is complete, and a host may be slow to end its
                    # stream.
                    if isinstance(event, RunFinished):
                        return
                    continue
                unknown += 1
                if unknown > MOST_UNKNOWN:
                    raise RunnerError(f"the host sent more than {MOST_UNKNOWN} events of unknown kinds")
        except grpc.aio.AioRpcError as failure:
            if not heard and lacks_definition(failure):
                raise DefinitionRequested from None
            raise error_of(failure, self._target, heard=heard) from None
        except grpc.aio.BaseError:
            text = "the connection to the host was closed"
            raise RunnerError(text, transient=True, unreachable=not heard, connection_lost=heard) from None
        except asyncio.CancelledError:
            # gRPC ends the calls of a closed channel with `CancelledError`, which must not look like a cancellation of
            # this task.
            if self._closed and not _being_cancelled():
                raise RunnerError("the connection to the host was closed", transient=True) from None
            raise
        finally:
            # In every case: otherwise a reader that stops early would leave the stream open, and the host would
            # continue to work.
            call.cancel()

    def _call(self, message: runner_pb2.RunRequest, seconds: float, metadata: Metadata) -> Any:
        if self._closed:
            raise RunnerError("the runner is closed", transient=True, unreachable=True)
        if self._channel is None:  # created lazily, because a gRPC channel belongs to the running event loop
            self._channel = self._open_channel()
        start: Any = self._channel.unary_stream(RUN, request_serializer=runner_pb2.RunRequest.SerializeToString)
        return start(message, timeout=max(0.0, seconds), metadata=metadata or None)

    def _open_channel(self) -> grpc.aio.Channel:
        options = _options(self._settings)
        if self._tls is None:
            return grpc.aio.insecure_channel(self._target, options=options)
        return RotatingChannel(self._target, self._tls, options)


def _being_cancelled() -> bool:
    # `cancelling` counts the requests to cancel this task. An exception that gRPC raises by itself leaves it at 0.
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _options(settings: GrpcRunnerSettings) -> Sequence[tuple[str, int]]:
    return (
        # A repeated `Run` would be another attempt, which only the contract may allow.
        ("grpc.enable_retries", 0),
        ("grpc.keepalive_time_ms", round(settings.keepalive_seconds * 1000)),
        ("grpc.keepalive_timeout_ms", round(settings.keepalive_timeout_seconds * 1000)),
        # Without this option gRPC waits a minute for the answer to a probe, despite the line above.
        ("grpc.http2.ping_timeout_ms", round(settings.keepalive_timeout_seconds * 1000)),
        # gRPC's own pauses grow to 2 min: a restarted host would stay unreachable for that long.
        ("grpc.initial_reconnect_backoff_ms", 200),
        ("grpc.min_reconnect_backoff_ms", 200),
        ("grpc.max_reconnect_backoff_ms", 2_000),
        ("grpc.max_receive_message_length", settings.max_message_bytes),
        ("grpc.max_send_message_length", settings.max_message_bytes),
    )
