"""A data service over gRPC gets a token for the user, too. What the exchange promises, the tests of `rest` show."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import grpc
import pytest

from sidecar.adapters.connector_grpc.connector import ENRICH, GrpcConnector
from sidecar.adapters.connector_grpc.settings import GrpcConnectorSettings
from sidecar.core.envelopes import EnvelopeEncoding
from sidecar.core.user_tokens import UserToken
from sidecar.policy.protocols import EnricherAnswer, EnricherRefused, EnricherReply, RefusalKind
from tests.adapters.connector_grpc.test_against_reference_ccs import call
from tests.support.token_endpoint import Services, services

ANSWER: Final = EnricherAnswer(b"an envelope", EnvelopeEncoding.PROTOBUF)


@dataclass
class Calls:
    """A token endpoint, and the connector of a data service over gRPC that wants its tokens.

    Attributes:
        seen: metadata of each call of the data service.
    """

    at: Services
    connector: GrpcConnector
    endpoint: str
    seen: list[dict[str, Any]] = field(default_factory=list)

    async def ask(self, user: str | None, **more: Any) -> EnricherReply:
        """Call the data service for a user with this token."""
        token = None if user is None else UserToken(user)
        return await self.connector.enrich(call(endpoint=self.endpoint, user_token=token, **more))


@asynccontextmanager
async def exchanging(folder: Path, **more: Any) -> AsyncIterator[Calls]:
    """Serve both."""
    async with AsyncExitStack() as opened:
        at = await opened.enter_async_context(services())
        connector = GrpcConnector(GrpcConnectorSettings(**{**at.configured(folder), **more}))
        opened.push_async_callback(connector.close)
        calls = Calls(at, connector, f"unix:{folder}/ccs.sock")

        async def enrich(_: bytes, context: Any) -> bytes:
            calls.seen.append(dict(context.invocation_metadata()))
            return ANSWER.body

        server = grpc.aio.server()
        service, _, method = ENRICH[1:].partition("/")
        handlers: Any = {method: grpc.unary_unary_rpc_method_handler(enrich)}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
        server.add_insecure_port(calls.endpoint)
        await server.start()
        opened.push_async_callback(server.stop, 0)
        yield calls


async def test_the_data_service_gets_the_exchanged_token_and_never_the_users(tmp_path: Path) -> None:
    """As metadata, beside what it got before; the same token serves two calls."""
    async with exchanging(tmp_path) as calls:
        assert calls.connector.needs_user_token
        assert [await calls.ask("ada"), await calls.ask("ada"), await calls.ask("bob")] == [ANSWER] * 3
    assert [each["authorization"] for each in calls.seen] == ["Bearer for-ada-1"] * 2 + ["Bearer for-bob-2"]
    assert [each["x-ccs-on-behalf-of"] for each in calls.seen] == ["user-ada"] * 3
    assert [form["subject_token"] for form in calls.at.forms] == ["ada", "bob"]


async def test_without_a_token_endpoint_a_users_token_is_not_needed_and_not_sent(tmp_path: Path) -> None:
    """As before."""
    async with exchanging(tmp_path, token_endpoint=None) as calls:
        assert not calls.connector.needs_user_token
        assert await calls.ask("ada") == ANSWER
    assert "authorization" not in calls.seen[0]


async def test_without_the_users_token_nothing_is_exchanged_or_sent(tmp_path: Path) -> None:
    """As after a restart or a takeover: the reason says so."""
    async with exchanging(tmp_path) as calls:
        got = await calls.ask(None)
    assert (got, calls.at.forms, calls.seen) == (EnricherRefused(RefusalKind.USER_TOKEN_GONE), [], [])


async def test_without_a_token_from_the_endpoint_the_data_service_is_not_called(tmp_path: Path) -> None:
    """The fault names the endpoint, and an effect may be sent again."""
    async with exchanging(tmp_path) as calls:
        calls.at.raw = "400 Bad Request", b"{}"
        got = await calls.ask("ada")
        assert isinstance(got, EnricherRefused)
        assert got.fault is not None
        assert (got.kind, got.sent, got.fault.address) == (RefusalKind.EXCHANGE_FAILED, False, calls.at.address)
        calls.at.raw = None
        assert await calls.ask("ada") == ANSWER
    assert len(calls.seen) == 1


async def test_the_exchange_takes_its_time_from_the_call(tmp_path: Path) -> None:
    """One that is not answered ends the call when its own time is over, although an exchange may take longer."""
    async with exchanging(tmp_path, token_seconds=60) as calls:
        calls.at.may_answer.clear()
        got = await calls.ask("ada", timeout=timedelta(milliseconds=50))
        calls.at.may_answer.set()
    assert isinstance(got, EnricherRefused)
    assert (got.kind, got.sent, calls.seen) == (RefusalKind.TIMEOUT, False, [])


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"token_endpoint": "http://login.example.com/token"}, "https"),
        ({"token_client_id": None}, "token_client_id"),
        ({"client_key_file": "key.pem"}, "ca_file"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(changes: dict[str, Any], problem: str, tmp_path: Path) -> None:
    """Those of the exchange, and those of certificates."""
    with pytest.raises(ValueError, match=problem):
        GrpcConnectorSettings(**{**Services(address="127.0.0.1:9").configured(tmp_path), **changes})
