"""What is told of a service without an answer: where it was looked for, why that failed, what to do."""

import socket

import pytest

from sidecar.core.faults import Fault
from sidecar.policy.protocols import EnricherRefused, RefusalKind
from tests.adapters.connector_rest.calling import call, connecting
from tests.adapters.connector_rest.raw_http import http_reply, raw_server


def free_port() -> int:
    """Return a port at which nothing listens."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


async def fault_at(endpoint: str) -> Fault:
    """Ask a service that gives no envelope."""
    async with connecting() as connector:
        reply = await connector.enrich(call(endpoint))
    assert isinstance(reply, EnricherRefused)
    assert reply.kind is RefusalKind.UNAVAILABLE
    assert reply.fault is not None
    return reply.fault


ELSEWHERE = "http://0.0.0.0:1/v1/enrich"
"""No loopback address, although Linux connects it to this machine."""


async def test_nothing_is_sent_unencrypted_to_another_machine() -> None:
    """Refused before a connection is made, with both remedies; behind a mesh it can be allowed."""
    async with connecting() as strict, connecting(allow_remote=True) as behind_a_mesh:
        refused = await strict.enrich(call(f"{ELSEWHERE}?key=secret"))
        tried = await behind_a_mesh.enrich(call(ELSEWHERE))

    assert isinstance(refused, EnricherRefused)
    assert isinstance(tried, EnricherRefused)
    assert (refused.kind, refused.sent) == (RefusalKind.UNAVAILABLE, False)
    assert refused.fault is not None
    assert tried.fault is not None
    assert (refused.fault.target, refused.fault.errno, tried.fault.errno) == (ELSEWHERE, "", "ECONNREFUSED")
    assert "use https://, or set `allow_remote`" in refused.fault.remedy


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_service_where_nothing_listens_is_named_with_errno_and_remedy(host: str) -> None:
    """The endpoint without its query, which may hold a key."""
    port = free_port()
    fault = await fault_at(f"http://{host}:{port}/v1/enrich?key=secret")

    assert (fault.target, fault.address) == (f"http://{host}:{port}/v1/enrich", f"{host}:{port}")
    assert fault.errno == "ECONNREFUSED"
    assert "start the process" in fault.remedy
    assert "`endpoint`" in fault.remedy
    assert "secret" not in str(fault)


async def test_a_service_that_answers_without_an_envelope_is_named_with_its_status() -> None:
    """503: it is there, so its log is the place to look."""
    async with raw_server(http_reply(b"user-ada has no offers", status="503 Service Unavailable")) as server:
        fault = await fault_at(server.address)

    assert fault.errno == "HTTP 503"
    assert "see its log" in fault.remedy
    assert "user-ada" not in str(fault)


async def test_only_a_request_that_found_no_connection_was_certainly_not_sent() -> None:
    """After an effect that may have been sent, nothing is repeated."""
    async with connecting() as connector, raw_server(b"") as server:
        nowhere = await connector.enrich(call(f"http://127.0.0.1:{free_port()}/v1/enrich"))
        broken = await connector.enrich(call(server.address))

    assert isinstance(nowhere, EnricherRefused)
    assert isinstance(broken, EnricherRefused)
    assert (nowhere.kind, nowhere.sent) == (RefusalKind.UNAVAILABLE, False)
    assert (broken.kind, broken.sent) == (RefusalKind.UNAVAILABLE, True)
