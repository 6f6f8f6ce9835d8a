"""What peers send: envelopes, HTTP answers and requests, messages of clients and lanes, reports of sub-agents."""

import asyncio
import gzip
import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Final

import httpcore
from google.protobuf.message import DecodeError, Message

from sidecar.adapters.connector_rest.response_reader import reply_of
from sidecar.adapters.http_client.network import LARGEST_HEAD, BoundedStream
from sidecar.adapters.http_client.response_body import Gunzip, Unreadable
from sidecar.core.envelopes import Released, check_envelope
from sidecar.core.envelopes.forms import EnvelopeEncoding
from sidecar.core.errors import SubagentsError
from sidecar.core.identifiers import CallId, Slot
from sidecar.core.session.incoming import IncomingValidator
from sidecar.core.status_events.policy import EventRule, Handling, Vocabulary
from sidecar.core.status_events.relay import ChildReporter, StatusRelay
from sidecar.policy.protocols import EnricherAnswer, EnricherRefused
from sidecar.rpc.ops_wire import HttpConnection, NotHttp
from sidecar.rpc.translate import record, requests
from subagents.dispatch.v1 import dispatch_pb2 as pb
from subagents.envelope.v1 import envelope_pb2
from subagents.history.v1 import history_pb2 as record_pb
from tests.fuzz.target import Target, as_text, holds
from tests.support.requests import a_bind, some_calls
from tests.unit.envelopes.building import ADA, CANARY, body, expecting
from tests.unit.envelopes.wire_building import wire

LARGEST: Final = 64 * 1024
NAMED: Final = b"user-ada"
JSON_WORDS: Final = (
    b'"principal":"user-ada",',
    b'"principal":',
    b'"\\u0070rincipal"',
    b"null",
    b"[[",
    b"\xff",
    b"\\u0000",
)
PROTO_WORDS: Final = (
    b"\x0a",
    b"\x12\x05",
    b"\xff\xff\xff\xff\x0f",
    b"\x80" * 10 + b"\x01",
    b"\x00",
    b"\x0b\x0c",
    b"user-ada",
)
HTTP_WORDS: Final = (
    *(b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 102 P\r\n\r\n", b"content-encoding: gzip\r\n", b"content-length: 9\r\n"),
    *(
        b"transfer-encoding: chunked\r\n",
        b"\r\n\r\n",
        b"ffffffff\r\n",
        b"0\r\n\r\n",
        b"1;e=e\r\n",
        b"\n",
        b"\x00",
        b": ",
    ),
)


def _envelope(data: bytes) -> None:
    """Only an envelope that names the user, as an independent parser reads it, releases its payload."""
    judged = check_envelope(data, expecting())
    if isinstance(judged, Released):
        said = json.loads(data)
        holds(said["principal"] == ADA and said["nonce"] == "nonce-1", "released for another user or request")
        holds(json.loads(judged.payload_json) == said["payload"], "another payload than was sent")
    else:
        holds(CANARY not in repr(judged), "data of a withheld answer in the verdict")


def _envelope_message(data: bytes) -> None:
    """The same for the protobuf form; protobuf's own parser is the independent one.

    That one refuses a whole message for broken cache metadata, which are for traces only and decide nothing here.
    """
    judged = check_envelope(data, expecting(), form=EnvelopeEncoding.PROTOBUF)
    if isinstance(judged, Released):
        try:
            said = envelope_pb2.EnricherResponse.FromString(data)
        except DecodeError:
            holds(NAMED in data, "released for another user")
            return
        holds(said.principal == ADA and said.nonce == "nonce-1", "released for another user or request")


def _gunzip(data: bytes) -> None:
    """As much as `zlib` itself unpacks, in parts of bounded size; nothing behind the stream."""
    unpack, out = Gunzip(), bytearray()
    try:
        for at in range(0, len(data), 7):
            for part in unpack.parts(data[at : at + 7]):
                out += part
                if len(out) > LARGEST:
                    return
    except Unreadable:
        return
    if unpack.complete:
        holds(bytes(out) == zlib.decompress(data, wbits=31), "another content than zlib unpacks")


class _Arrived(httpcore.AsyncNetworkStream):
    """A connection on which an answer has arrived, then the end."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Return what is there."""
        given, self._data = self._data[:max_bytes], self._data[max_bytes:]
        return given

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Take a request."""

    async def aclose(self) -> None:
        """End."""

    def get_extra_info(self, info: str) -> Any:
        """Know nothing."""
        return None


async def _answer_over(data: bytes) -> Any:
    stream = BoundedStream(_Arrived(data))
    connection = httpcore.AsyncHTTP11Connection(origin=httpcore.Origin(b"http", b"h", 80), stream=stream)
    request = httpcore.Request("POST", "http://h/x", headers={"host": "h"}, extensions={"timeout": {}})
    try:
        response = await connection.handle_async_request(request)
        response.extensions["network_stream"] = stream
        return await reply_of(response, LARGEST)
    except (httpcore.RemoteProtocolError, httpcore.ReadError):
        return None
    finally:
        await connection.aclose()


def _http_answer(data: bytes) -> None:
    """An answer within its limit, a refusal, or the exception that counts as a service that is away."""
    reply = _loop().run_until_complete(_answer_over(data))
    if isinstance(reply, EnricherAnswer):
        holds(len(reply.body) <= LARGEST, "a body over the limit")
        holds(len(data) <= LARGEST_HEAD + 2 * LARGEST, "more was read than there is room for")
    else:
        holds(reply is None or isinstance(reply, EnricherRefused), "neither an answer nor a refusal")


async def _asked_of_ops(data: bytes) -> Any:
    reader, connection = asyncio.StreamReader(), HttpConnection(8192)
    reader.feed_data(data)
    reader.feed_eof()
    try:
        request = await connection.request(reader)
    except NotHttp:
        return None
    return request and (request, connection.answer(200, "text/plain", b"hello"))


def _ops_request(data: bytes) -> None:
    """The head of one request, which can be answered; nothing; or `NotHttp`."""
    found = _loop().run_until_complete(_asked_of_ops(data))
    if found:
        request, answer = found
        holds(answer.startswith(b"HTTP/1.1 200"), "an answer that is none")
        holds(answer.endswith(b"hello") == (request.method != b"HEAD"), "a body where none belongs, or none")


@cache
def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


MESSAGES: Final[Mapping[type[Message], Callable[[Any], Any]]] = {
    pb.BindTurnRequest: requests.bind_turn,
    pb.DispatchRequest: requests.dispatch,
    pb.ResumeDispatchRequest: requests.resume,
    pb.CancelCallRequest: requests.cancel,
    pb.CloseChildRequest: requests.close_child,
    pb.EndTurnRequest: requests.end_turn,
    record_pb.ListTurnsRequest: record.list_turns,
    record_pb.GetTurnRequest: record.get_turn,
    record_pb.WatchEventsRequest: record.watch_events,
    record_pb.ListEpisodesRequest: record.list_episodes,
}


def _translated(message: Message) -> None:
    try:
        MESSAGES[type(message)](message)
    except SubagentsError as refused:
        holds(bool(refused.message) and refused.message.isprintable(), "a refusal that is no line")


def _request(data: bytes) -> None:
    """Bytes of every request: a request of the operations, or an error of the tree that says what is wrong."""
    for kind in MESSAGES:
        try:
            message = kind.FromString(data)
        except DecodeError:
            continue
        _translated(message)


def _lane_message(data: bytes) -> None:
    """A message of a lane, as far as the first field that ends the lane; each operation is translated like its RPC."""
    try:
        message = pb.SessionRequest.FromString(data)
    except DecodeError:
        return
    incoming, newest = IncomingValidator(256), 0
    try:
        if message.HasField("hello"):
            incoming.hello(message.hello.contract_version, message.hello.credit_bytes)
        incoming.check_open(len(message.operations) + len(message.credits) + len(message.abandons))
        for credit in message.credits:
            incoming.granted(credit.bytes)
        for operation in message.operations:
            incoming.begin(operation.correlation_id, operation.credit_bytes)
            holds(operation.correlation_id > newest, "an id that does not rise")
            newest = operation.correlation_id
            kind = operation.WhichOneof("request")
            if kind is not None:
                _translated(getattr(operation, kind))
    except SubagentsError as refused:
        holds(bool(refused.message), "a refusal without a reason")


@cache
def _requests() -> tuple[bytes, ...]:
    dispatch = pb.DispatchRequest(surface_token="t", binding_digest="d", dispatch_id="i", calls=some_calls("ask_shop"))
    lane = pb.SessionRequest(hello=pb.SessionClientHello(contract_version=1))
    lane.operations.add(correlation_id=1, bind_turn=a_bind(turn_id="t"))
    lane.operations.add(correlation_id=2, dispatch=dispatch)
    lane.credits.add(correlation_id=2, bytes=9)
    lane.abandons.append(1)
    end = pb.EndTurnRequest(surface_token="t", narration="n")
    return tuple(each.SerializeToString() for each in (a_bind(turn_id="t"), dispatch, end, lane))


def _status_types(data: bytes) -> None:
    """Types, attributes and times of reports: only known types go on, at most as often as the bucket allows."""
    relay, now, passed = StatusRelay(VOCABULARY), 0.0, 0
    for line in data.split(b"\n"):
        name, _, value = as_text(line).partition("=")
        now += len(value) / 100
        decision, update = relay.offer(ChildReporter(0, CallId("c"), Slot("shop")), name, {name: value}, now)
        holds((decision == "unknown") == (name not in VOCABULARY.rules), f"{name!r} was {decision}")
        passed += update is not None
        if update is not None:
            holds(update.type in TOLD, f"{update.type!r} was passed on")
            holds(all(len(each) <= 256 for each in update.attributes.values()), "an attribute over its limit")
    holds(passed <= VOCABULARY.burst + VOCABULARY.per_second * now + 1, "more reports than the bucket allows")


VOCABULARY: Final = Vocabulary(
    {
        "searching": EventRule(),
        "thinking": EventRule(Handling.TRANSFORM, becomes="working"),
        "aloud": EventRule(Handling.SUPPRESS),
        "loading": EventRule(Handling.BATCH),
    },
    per_second=2.0,
    burst=3,
)
TOLD: Final = frozenset({"searching", "working"})


def targets() -> Iterator[Target]:
    """Yield the targets."""
    right = body()
    yield Target("envelope", _envelope, [right, body(partial=None, status="partial")], JSON_WORDS)
    yield Target("envelope_message", _envelope_message, [wire()], PROTO_WORDS)
    packed = gzip.compress(right, mtime=0)
    yield Target("gunzip", _gunzip, [packed, gzip.compress(bytes(70_000), mtime=0)], (b"\x1f\x8b\x08\x00", b"\x00" * 8))
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
    answers = [
        head + b"content-length: %d\r\n\r\n" % len(right) + right,
        head + b"content-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(packed) + packed,
        head + b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        b'HTTP/1.1 102 P\r\n\r\nHTTP/1.1 403 Forbidden\r\ncontent-length: 29\r\n\r\n{"code":"principal_mismatch"}\n',
    ]
    yield Target("connector_http", _http_answer, answers, HTTP_WORDS)
    ops = b"GET /metrics HTTP/1.1\r\nhost: x\r\naccept: text/plain\r\n\r\n"
    yield Target(
        "ops_http", _ops_request, [ops, ops.replace(b"GET", b"HEAD")], (*HTTP_WORDS, b"HEAD ", b" HTTP/1.1\r\n")
    )
    yield Target("rpc_request", _request, list(_requests()), PROTO_WORDS)
    yield Target("lane_message", _lane_message, [_requests()[-1]], PROTO_WORDS)
    yield Target(
        "status_types", _status_types, [b"searching=a\nthinking=b\naloud=c\nloading=d\nno=e"], (b"\n", b"=", b"\xff")
    )
