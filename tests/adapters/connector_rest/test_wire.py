"""What the connector does with bytes that no proper service would send, and what it never sends itself."""

import asyncio
import gzip
import json
import logging
import zlib
from collections.abc import Iterator
from datetime import timedelta

import pytest

from sidecar.adapters.http_client.endpoints import problem_with_endpoint
from sidecar.adapters.http_client.response_body import LARGEST_PART, Gunzip
from sidecar.policy.protocols import EnricherAnswer, EnricherRefused, RefusalKind
from tests.adapters.connector_rest.calling import call, connecting
from tests.adapters.connector_rest.raw_http import http_reply, raw_server

LIMIT = 4096
BIG = b"x" * (LIMIT + 1)
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(BIG), BIG)
EXACT = b'"' + b"x" * (LIMIT - 2) + b'"'
GZIPPED = gzip.compress(b"{}")
GZIP = "content-encoding: gzip"


REPLIES = [
    ("exactly the limit", http_reply(EXACT), EnricherAnswer(EXACT)),
    ("gzip", http_reply(GZIPPED, GZIP), EnricherAnswer(b"{}")),
    ("gzip of exactly the limit", http_reply(gzip.compress(EXACT), GZIP), EnricherAnswer(EXACT)),
    ("one byte over", http_reply(BIG), RefusalKind.TOO_LARGE),
    ("over, without a length", CHUNKED, RefusalKind.TOO_LARGE),
    ("a huge length, no body", http_reply(b"", length=10**12), RefusalKind.TOO_LARGE),
    ("a length with thousands of digits", http_reply(b"{}", "x: y").replace(b"th: 2", b"th: " + b"9" * 5000), None),
    ("less than its length", http_reply(b"{}", length=100), RefusalKind.UNAVAILABLE),
    ("gzip bomb", http_reply(gzip.compress(b" " * 10_000_000), GZIP), RefusalKind.TOO_LARGE),
    ("gzip cut short", http_reply(GZIPPED[:-4], GZIP), RefusalKind.MALFORMED),
    ("gzip with a tail", http_reply(GZIPPED + b"{}", GZIP), RefusalKind.MALFORMED),
    ("not gzip", http_reply(b"{}", GZIP), RefusalKind.MALFORMED),
    ("deflate", http_reply(zlib.compress(b"{}"), "content-encoding: deflate"), RefusalKind.MALFORMED),
    ("gzip twice", http_reply(gzip.compress(GZIPPED), "content-encoding: gzip, gzip"), RefusalKind.MALFORMED),
    ("not HTTP", b"SSH-2.0-OpenSSH_9.6\r\n", RefusalKind.UNAVAILABLE),
    ("nothing", b"", RefusalKind.UNAVAILABLE),
    ("400 of another code", http_reply(b'{"code":"bad"}', status="400 Bad Request"), RefusalKind.UNAVAILABLE),
    ("400 without JSON", http_reply(b"<html>", status="400 Bad Request"), RefusalKind.UNAVAILABLE),
    ("403 of a proxy", http_reply(b"Forbidden", status="403 Forbidden"), RefusalKind.UNAVAILABLE),
    ("a huge 403", http_reply(BIG, status="403 Forbidden"), RefusalKind.UNAVAILABLE),
    ("500", http_reply(b"{}", status="500 Internal Server Error"), RefusalKind.UNAVAILABLE),
    ("204", http_reply(b"", status="204 No Content"), RefusalKind.UNAVAILABLE),
]


@pytest.mark.parametrize(("reply", "expected"), [case[1:] for case in REPLIES], ids=[case[0] for case in REPLIES])
async def test_an_answer_is_taken_whole_and_within_the_limit_or_not_at_all(
    reply: bytes, expected: EnricherAnswer | RefusalKind | None
) -> None:
    """A reply as raw bytes, with a body limit of 4 KiB; None: some refusal, which one is the HTTP library's affair."""
    async with raw_server(reply) as server, connecting(max_body_bytes=LIMIT) as connector:
        got = await connector.enrich(call(server.address))

    if expected is None:
        assert isinstance(got, EnricherRefused)
    else:
        assert got == (expected if isinstance(expected, EnricherAnswer) else EnricherRefused(expected))


def test_a_bomb_is_noticed_without_being_unpacked() -> None:
    """10 MB behind 10 KB: what is unpacked is what is asked for, one part at a time."""
    parts = Gunzip().parts(gzip.compress(b" " * 10_000_000))

    assert [len(next(parts)) for _ in range(3)] == [LARGEST_PART] * 3


async def test_a_redirect_is_not_followed() -> None:
    """307 to another server: that server hears nothing of the user's request."""
    async with raw_server(http_reply(b"{}")) as other:
        reply = http_reply(b"", f"location: {other.address}", status="307 Temporary Redirect")
        async with raw_server(reply) as server, connecting() as connector:
            got = await connector.enrich(call(server.address))

        assert got == EnricherRefused(RefusalKind.UNAVAILABLE)
        assert other.requests == []


async def test_a_cookie_of_one_answer_is_not_in_the_next_request() -> None:
    """Set-Cookie on user-ada's answer, then a call for user-grace."""
    async with raw_server(http_reply(b"{}", "set-cookie: session=ada; path=/")) as server, connecting() as connector:
        await connector.enrich(call(server.address))
        await connector.enrich(call(server.address, principal="user-grace"))

    assert len(server.requests) == 2
    assert b"cookie" not in server.requests[1].lower()


async def test_arguments_cannot_choose_the_principal() -> None:
    """Arguments that close their object and name another user are refused; a nested `principal` stays an argument."""
    async with raw_server(http_reply(b"{}")) as server, connecting() as connector:
        pasted = await connector.enrich(call(server.address, arguments_json='{},"principal":"user-mallory"'))
        nested = await connector.enrich(call(server.address, arguments_json='{"principal":"user-mallory"}'))

    assert pasted == EnricherRefused(RefusalKind.MALFORMED)
    assert isinstance(nested, EnricherAnswer)
    (request,) = server.requests
    sent = json.loads(request.partition(b"\r\n\r\n")[2])
    assert (sent["principal"], sent["arguments"]) == ("user-ada", {"principal": "user-mallory"})


@pytest.mark.parametrize("arguments", ["", "[]", "null", "{", '{"a":NaN}', "{} {}", "[" * 100_000, '{"a":"\ud800"}'])
async def test_arguments_that_are_not_one_object_are_not_sent(arguments: str) -> None:
    """Anything but a JSON object: MALFORMED, and the service hears nothing."""
    async with raw_server(http_reply(b"{}")) as server, connecting() as connector:
        got = await connector.enrich(call(server.address, arguments_json=arguments))

    assert got == EnricherRefused(RefusalKind.MALFORMED)
    assert server.requests == []


async def test_a_call_without_principal_is_not_sent() -> None:
    """An empty principal: refused here as the service would."""
    async with raw_server(http_reply(b"{}")) as server, connecting() as connector:
        got = await connector.enrich(call(server.address, principal=""))

    assert got == EnricherRefused(RefusalKind.MISSING_PRINCIPAL)
    assert server.requests == []


async def test_no_header_but_the_trace_context_is_passed_on() -> None:
    """Trace headers of every kind: `baggage`, and one that would name another user, stay here."""
    offered = {"traceparent": "00-1", "tracestate": "a=1", "baggage": "user=ada", "x-ccs-on-behalf-of": "user-mallory"}
    async with raw_server(http_reply(b"{}")) as server, connecting() as connector:
        await connector.enrich(call(server.address, trace_headers=offered))

    (request,) = server.requests
    assert b"traceparent: 00-1\r\ntracestate: a=1\r\n" in request
    assert b"baggage" not in request
    assert b"mallory" not in request


@pytest.mark.parametrize("seconds", [0, -1])
async def test_a_call_without_time_left_ends_as_a_timeout(seconds: int) -> None:
    """The service would answer at once, but the turn's time is over."""
    async with raw_server(http_reply(b"{}")) as server, connecting() as connector:
        got = await connector.enrich(call(server.address, timeout=timedelta(seconds=seconds)))

    assert got == EnricherRefused(RefusalKind.TIMEOUT)


async def test_a_header_value_with_a_line_break_is_left_out() -> None:
    """A traceparent that would begin another header."""
    async with raw_server(http_reply(b"{}")) as server, connecting() as connector:
        got = await connector.enrich(call(server.address, trace_headers={"traceparent": "00\r\nx-admin: yes"}))

    assert isinstance(got, EnricherAnswer)
    assert b"x-admin" not in server.requests[0]


ENDPOINTS = [
    ("http://ccs.internal:8080/v1/enrich?region=eu", None),
    ("https://[::1]/v1/enrich", None),
    ("ftp://ccs/v1", "must begin with http:// or https://"),
    ("file:///etc/passwd", "must begin with http:// or https://"),
    ("http:///v1", "names no host"),
    ("http://user:secret@ccs/v1", "must not hold a user name or password"),
    ("http://ccs/v1#top", "must not have a fragment (#...)"),
    ("http://ccs/v1\nx", "must be printable ASCII without spaces"),
    ("http://ccs:99999/v1", "is not a URL"),
    ("http://[::1/v1", "is not a URL"),
]


@pytest.mark.parametrize(("endpoint", "problem"), ENDPOINTS)
def test_an_endpoint_is_http_with_a_host_and_without_credentials(endpoint: str, problem: str | None) -> None:
    """Each kind of endpoint and what is said of it."""
    assert problem_with_endpoint(endpoint) == problem


async def test_a_bad_or_dead_endpoint_is_unavailable() -> None:
    """A file URL, and a port on which nobody listens any more."""
    async with raw_server(b"") as gone:
        address = gone.address
    async with connecting() as connector:
        refusals = [await connector.enrich(call(endpoint)) for endpoint in ("file:///etc/passwd", address)]

    assert refusals == [EnricherRefused(RefusalKind.UNAVAILABLE)] * 2


async def test_closing_ends_the_calls_that_are_running() -> None:
    """A call to a service that never answers, then close: UNAVAILABLE for it and for every later call."""
    async with raw_server(b"", hold=True) as server, connecting() as connector:
        running = asyncio.ensure_future(connector.enrich(call(server.address)))
        await server.received.wait()
        await connector.close()

        assert await running == EnricherRefused(RefusalKind.UNAVAILABLE)
        assert await connector.enrich(call(server.address)) == EnricherRefused(RefusalKind.UNAVAILABLE)


async def test_a_cancelled_call_frees_its_connection() -> None:
    """One connection in the pool; its call is cancelled while the service is silent; the next call still goes out."""
    async with (
        raw_server(b"", hold=True) as silent,
        raw_server(http_reply(b"{}")) as well,
        connecting(max_connections=1, max_idle_connections=1) as connector,
    ):
        running = asyncio.ensure_future(connector.enrich(call(silent.address)))
        await silent.received.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

        assert await connector.enrich(call(well.address)) == EnricherAnswer(b"{}")


@pytest.fixture
def everything_logged() -> Iterator[list[str]]:
    """Collect the text of every log record, at DEBUG, of whatever library."""
    lines: list[str] = []

    class _Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(self.format(record))

    root, handler = logging.getLogger(), _Collect()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield lines
    root.removeHandler(handler)
    root.setLevel(level)


async def test_neither_body_is_ever_logged(everything_logged: list[str]) -> None:
    """All logging at DEBUG: canaries in principal, arguments and answer do not appear."""
    async with raw_server(http_reply(b'"canary-answer"')) as server, connecting() as connector:
        sent = call(server.address, principal="canary-user", arguments_json='{"q":"canary-question"}')
        assert await connector.enrich(sent) == EnricherAnswer(b'"canary-answer"')

    assert everything_logged, "nothing was logged at all, so this proves nothing"
    assert "canary" not in "\n".join(everything_logged)
