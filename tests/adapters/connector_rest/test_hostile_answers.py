"""One answer of a data service never holds up the other users: it is taken in slices, and in bounds."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Iterator

import httpcore
import pytest

from sidecar.adapters.connector_rest.response_reader import reply_of
from sidecar.adapters.http_client.network import HEAD_SLICE, LARGEST_HEAD, BoundedStream
from sidecar.adapters.http_client.response_body import FEW_PIECES, PIECES_AT_ONCE
from sidecar.policy.protocols import EnricherAnswer, EnricherRefused, RefusalKind
from tests.adapters.connector_rest.calling import call, connecting
from tests.adapters.connector_rest.raw_http import http_reply, raw_server

INTERIM = b"HTTP/1.1 102 P\r\n\r\n"
MALFORMED = EnricherRefused(RefusalKind.MALFORMED)
PIECE = b"x" * 1000


class Pieces:
    """A response's body in pieces that are all there already, as after one read from the network.

    Attributes:
        taken: how many pieces were asked for.
    """

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self.taken = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield them without ever waiting."""
        for piece in self._pieces:
            self.taken += 1
            yield piece

    def response(self, *headers: tuple[bytes, bytes]) -> httpcore.Response:
        """Return the response whose body they are."""
        stream = BoundedStream(Wire(b""))
        return httpcore.Response(200, headers=headers, content=self, extensions={"network_stream": stream})


class Wire(httpcore.AsyncNetworkStream):
    """A connection on which bytes have arrived; more than is asked for is never given.

    Attributes:
        reads: how much was asked for, each time.
    """

    def __init__(self, arrived: bytes) -> None:
        self._arrived = arrived
        self.reads: list[int] = []

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Return what is there at once."""
        self.reads.append(max_bytes)
        given, self._arrived = self._arrived[:max_bytes], self._arrived[max_bytes:]
        return given

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Take a request."""


class TurnsOfTheLoop:
    """Counts how often the event loop ran something else while the context is open."""

    async def __aenter__(self) -> "TurnsOfTheLoop":
        self.number = 0
        self._task = asyncio.ensure_future(self._count())
        return self

    async def _count(self) -> None:
        while True:
            self.number += 1
            await asyncio.sleep(0)

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()


async def test_a_body_of_tiny_chunks_is_refused_after_a_few_of_them() -> None:
    """A million chunks of one byte: little more than the allowed number is taken, with turns of the loop in between."""
    body = Pieces(b"x" for _ in range(1_000_000))
    async with TurnsOfTheLoop() as turns:
        assert await reply_of(body.response(), 1024 * 1024) == MALFORMED

    assert body.taken <= FEW_PIECES + 8
    assert turns.number >= FEW_PIECES // PIECES_AT_ONCE


async def test_a_body_in_chunks_of_a_usual_size_is_taken_whole() -> None:
    """A mebibyte in pieces of 1,000 bytes: it is taken, with turns of the loop in between."""
    body = Pieces(PIECE for _ in range(1048))
    async with TurnsOfTheLoop() as turns:
        assert await reply_of(body.response(), 1024 * 1024) == EnricherAnswer(PIECE * 1048)

    assert turns.number >= 1048 // PIECES_AT_ONCE


async def test_nothing_behind_a_gzip_stream_is_kept() -> None:
    """A whole stream, then pieces without end: the first of them is already refused."""
    body = Pieces(iter([gzip.compress(b"{}"), *[b"x" * 65536] * 1000]))

    assert await reply_of(body.response((b"Content-Encoding", b"gzip")), 1024 * 1024) == MALFORMED
    assert body.taken == 2


async def test_interim_responses_without_end_are_refused() -> None:
    """More 1xx responses than a head may hold, then a sound answer: UNAVAILABLE. Ten of them do no harm."""
    sound = http_reply(b"{}")
    many = LARGEST_HEAD // len(INTERIM) + 1
    for number, expected in ((10, EnricherAnswer(b"{}")), (many, EnricherRefused(RefusalKind.UNAVAILABLE))):
        async with raw_server(INTERIM * number + sound) as server, connecting() as connector:
            assert await connector.enrich(call(server.address)) == expected


async def test_a_head_arrives_in_small_slices_with_a_turn_of_the_loop_before_each() -> None:
    """Bytes without end before any response: as many as a head may have, in slices, then an error; no read after it."""
    wire = Wire(b"x" * 1_000_000)
    stream, taken = BoundedStream(wire), 0
    async with TurnsOfTheLoop() as turns:
        while taken < LARGEST_HEAD:
            taken += len(await stream.read(65536))
        with pytest.raises(httpcore.RemoteProtocolError):
            await stream.read(65536)

    assert taken == LARGEST_HEAD
    assert wire.reads == [HEAD_SLICE] * (LARGEST_HEAD // HEAD_SLICE)
    assert turns.number >= len(wire.reads)


async def test_each_request_on_a_connection_has_room_for_a_head_and_for_its_own_body() -> None:
    """A head and a body use up their room; the next request on the same connection has all of it again."""
    stream = BoundedStream(Wire(b"x" * 1_000_000))
    for _ in range(2):
        await stream.write(b"POST / HTTP/1.1")
        assert len(await stream.read(65536)) == HEAD_SLICE
        stream.expect_body(50_000)
        room = LARGEST_HEAD - HEAD_SLICE + 50_000
        assert len(await stream.read(1_000_000)) == room
        with pytest.raises(httpcore.RemoteProtocolError):
            await stream.read(1)


async def test_chunk_extensions_do_not_make_an_answer_longer_than_allowed() -> None:
    """A small body whose chunks carry ten kilobytes of extensions each: UNAVAILABLE."""
    chunks = b"".join(b"1;" + b"e" * 10_000 + b"\r\nx\r\n" for _ in range(20))
    reply = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"
    async with raw_server(reply) as server, connecting(max_body_bytes=4096) as connector:
        assert await connector.enrich(call(server.address)) == EnricherRefused(RefusalKind.UNAVAILABLE)


async def test_the_request_says_where_it_goes_as_the_endpoint_does() -> None:
    """A path with parameters and a query: sent as they are, with the host and the port of the endpoint."""
    async with raw_server(http_reply(b"{}")) as server, connecting() as connector:
        address = server.address.removeprefix("http://").partition("/")[0]
        await connector.enrich(call(f"http://{address}/v1;region=eu/enrich;x?a=1;2"))

    head = server.requests[0].partition(b"\r\n\r\n")[0].lower()
    assert head.startswith(b"post /v1;region=eu/enrich;x?a=1;2 http/1.1\r\n")
    assert f"host: {address}".encode() in head.split(b"\r\n")
