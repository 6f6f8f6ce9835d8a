"""Runner `grpc` against a host whose connection breaks at each moment of an answer (reliability row 32).

The host writes its frames by hand, because no library sends half a message or falls silent.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from sidecar.adapters.runner_grpc.runner import GrpcRunner
from sidecar.adapters.runner_grpc.settings import GrpcRunnerSettings
from sidecar.policy.protocols import NarrationPart, RunFinished
from subagents.runner.v1 import runner_pb2
from tests.adapters.runner_grpc.wild_host import a_run, events_and_error
from tests.support import http2_frames as h2

BEGIN = h2.field(":status", "200") + h2.field("content-type", "application/grpc")
GOOD = h2.field("grpc-status", "0")
SO_FAR = h2.message(runner_pb2.RunResponse(narration="so far").SerializeToString())
FINISHED = h2.message(runner_pb2.RunResponse(finished=runner_pb2.RunFinished()).SerializeToString())
HALF = FINISHED[:2]
Answer = Callable[[int], bytes]
"""Returns what is written for a stream."""


def whole(stream: int) -> bytes:
    """Answer as a host should."""
    return h2.headers(stream, BEGIN) + h2.data(stream, SO_FAR + FINISHED) + h2.headers(stream, GOOD, last=True)


def nothing(_: int) -> bytes:
    """Answer nothing."""
    return b""


@dataclass
class ScriptedHost:
    """A host that answers its first request by the first of some answers, and so on; the last one stays.

    Attributes:
        closing: whether the connection is closed behind the first answer.
        falls_silent: whether nothing is read or answered behind the first one, although the connection stays.
        connections, requests: how many there were.
    """

    answers: Sequence[Answer]
    closing: bool = False
    falls_silent: bool = False
    connections: int = 0
    requests: int = 0
    serving: list["asyncio.Task[None]"] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self.serving.append(task)
        try:
            with suppress(asyncio.IncompleteReadError, ConnectionError):
                await self._converse(reader, writer)
        except asyncio.CancelledError:  # the test is over; asyncio would log it as an error of the connection
            pass
        finally:
            writer.transport.abort()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(len(h2.PREFACE))
        writer.write(h2.settings())
        while True:
            each = await h2.read_frame(reader)
            if each.kind == h2.Kind.SETTINGS and not each.flags & h2.ACK:
                writer.write(h2.settings(ack=True))
            elif each.kind == h2.Kind.PING and not each.flags & h2.ACK:
                writer.write(h2.ping(each.payload, ack=True))
            elif each.kind == h2.Kind.DATA and each.flags & h2.END_STREAM:
                first = not self.requests
                self.requests += 1
                writer.write(self.answers[min(self.requests, len(self.answers)) - 1](each.stream))
                if first and self.closing:
                    await writer.drain()
                    writer.close()
                    return await writer.wait_closed()
                if first and self.falls_silent:
                    await asyncio.Event().wait()


@asynccontextmanager
async def scripted(folder: Path, host: ScriptedHost, **settings: float) -> AsyncIterator[GrpcRunner]:
    """Serve, and have a runner for it."""
    target = folder / "scripted.sock"
    server = await asyncio.start_unix_server(host.serve, target)
    runner = GrpcRunner(f"unix:{target}", "unix:/gateway.sock", GrpcRunnerSettings(**settings))
    try:
        yield runner
    finally:
        await runner.close()
        server.close()
        for each in host.serving:
            each.cancel()
        await asyncio.gather(*host.serving, return_exceptions=True)
        await server.wait_closed()


WITHOUT_ERROR = "a good status in a message"
"""For gRPC the stream has ended well. There is no finish, and an attempt without one fails."""
BREAKS: dict[str, tuple[Answer, bool, bool]] = {
    "reset before the headers": (lambda s: h2.reset(s, h2.INTERNAL_ERROR), False, False),
    "reset after the headers": (lambda s: h2.headers(s, BEGIN) + h2.reset(s, h2.INTERNAL_ERROR), False, False),
    "reset in a message": (
        lambda s: h2.headers(s, BEGIN) + h2.data(s, SO_FAR + HALF) + h2.reset(s, h2.INTERNAL_ERROR),
        False,
        True,
    ),
    "reset after a message": (
        lambda s: h2.headers(s, BEGIN) + h2.data(s, SO_FAR) + h2.reset(s, h2.INTERNAL_ERROR),
        False,
        True,
    ),
    "end in a message": (lambda s: h2.headers(s, BEGIN) + h2.data(s, SO_FAR + HALF, last=True), False, True),
    "end without a status": (lambda s: h2.headers(s, BEGIN) + h2.data(s, SO_FAR, last=True), False, True),
    WITHOUT_ERROR: (
        lambda s: h2.headers(s, BEGIN) + h2.data(s, SO_FAR + HALF) + h2.headers(s, GOOD, last=True),
        False,
        True,
    ),
    "closed before the headers": (nothing, True, False),
    "closed after the headers": (lambda s: h2.headers(s, BEGIN), True, False),
    "closed in a message": (lambda s: h2.headers(s, BEGIN) + h2.data(s, SO_FAR + HALF), True, True),
    "GOAWAY in a message, then closed": (
        lambda s: h2.headers(s, BEGIN) + h2.data(s, SO_FAR + HALF) + h2.goaway(s),
        True,
        True,
    ),
}
"""Answer, whether the connection is closed behind it, and whether a whole message came before."""


@pytest.mark.parametrize("kind", BREAKS)
async def test_a_partial_answer_is_never_taken_for_a_whole_one(kind: str, tmp_path: Path) -> None:
    """The attempt fails; what came whole is passed on, and no finish. The next one has a whole answer."""
    answer, closing, heard = BREAKS[kind]
    async with scripted(tmp_path, ScriptedHost([answer, whole], closing)) as runner:
        events, error = await events_and_error(runner, a_run())
        assert (error is None) == (kind == WITHOUT_ERROR)
        assert events in ([], [NarrationPart("so far")][: int(heard)])  # gRPC may drop what came with the break
        assert await _answered(runner) == [NarrationPart("so far"), RunFinished()]


async def _answered(runner: GrpcRunner) -> Sequence[object]:
    """Ask until there is a connection again: after one that broke, gRPC pauses for a moment."""
    while True:
        events, error = await events_and_error(runner, a_run())
        if error is None:
            return events
        assert error.transient


async def test_a_goaway_that_refuses_the_stream_leaves_the_next_attempt_a_new_connection(tmp_path: Path) -> None:
    """GOAWAY says that the stream was not looked at: nothing has run, and another attempt may succeed."""
    host = ScriptedHost([lambda _: h2.goaway(0), whole])
    async with scripted(tmp_path, host) as runner:
        events, error = await events_and_error(runner, a_run())
        assert error is not None
        assert (events, error.transient, error.unreachable) == ([], True, True)
        assert await _answered(runner) == [NarrationPart("so far"), RunFinished()]
    assert host.connections == 2


async def test_a_goaway_that_lets_the_stream_go_on_costs_no_answer(tmp_path: Path) -> None:
    """The answer arrives whole; the next attempt goes over a new connection."""
    host = ScriptedHost([lambda s: h2.goaway(s) + whole(s), whole])
    async with scripted(tmp_path, host) as runner:
        for _ in range(2):
            assert await events_and_error(runner, a_run()) == ([NarrationPart("so far"), RunFinished()], None)
    assert host.connections == 2


@pytest.mark.parametrize("answer", [nothing, lambda s: h2.headers(s, BEGIN) + h2.data(s, SO_FAR + HALF)])
async def test_a_connection_that_falls_silent_is_given_up_long_before_the_deadline(
    answer: Answer, tmp_path: Path
) -> None:
    """As when a network drops packets: no reset, and no answer to a probe. The attempt may take ten minutes."""
    host = ScriptedHost([answer], falls_silent=True)
    async with scripted(tmp_path, host, keepalive_seconds=1.0, keepalive_timeout_seconds=0.2) as runner:
        async with asyncio.timeout(30):
            events, error = await events_and_error(runner, a_run(seconds=600.0))
    assert error is not None
    assert error.transient
    assert RunFinished() not in events
