"""The user's token is exchanged for one that the data service accepts (RFC 8693), at a real HTTP token endpoint."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from sidecar.adapters.connector_rest.connector import RestConnector
from sidecar.adapters.http_client.pools import http_pools
from sidecar.adapters.token_exchange.exchange import ACCESS_TOKEN, GRANT, JWT, TokenExchange
from sidecar.core.user_tokens import UserToken
from sidecar.policy.protocols import EnricherAnswer, EnricherRefused, RefusalKind
from tests.adapters.connector_rest.calling import call
from tests.support.token_endpoint import Services, services


@asynccontextmanager
async def exchanging(at: Services, folder: Path, **more: Any) -> AsyncIterator[RestConnector]:
    """Have a connector that exchanges tokens there."""
    connector = RestConnector(at.settings(folder, **more))
    try:
        yield connector
    finally:
        await connector.close()


async def asked(connector: RestConnector, at: Services, user: str | None) -> Any:
    """Call the data service for a user with this token."""
    token = None if user is None else UserToken(user)
    return await connector.enrich(call(f"http://{at.address}/v1/enrich", user_token=token))


async def test_the_data_service_gets_the_exchanged_token_and_never_the_users(tmp_path: Path) -> None:
    """The form is that of RFC 8693; the client proves itself with its secret, encoded as RFC 6749 says."""
    async with services() as at, exchanging(at, tmp_path, token_scope="offers.read") as connector:
        assert connector.needs_user_token
        assert await asked(connector, at, "ada") == EnricherAnswer(b'{"an":"envelope"}')
    assert at.seen == ["Bearer for-ada-1"]
    assert at.basic == ["Basic dGhlK3NpZGVjYXI6czMrY3JldA=="]  # the+sidecar:s3+cret
    assert at.forms == [
        {
            "grant_type": GRANT,
            "subject_token": "ada",
            "subject_token_type": ACCESS_TOKEN,
            "requested_token_type": ACCESS_TOKEN,
            "audience": "ccs",
            "scope": "offers.read",
        }
    ]


async def test_a_replaced_secret_is_used_at_the_next_exchange(tmp_path: Path) -> None:
    """Without a restart; while the file is away there is no token, and nothing is sent."""
    async with services() as at, exchanging(at, tmp_path) as connector:
        file = Path(at.settings(tmp_path).token_client_secret_file or "")
        await asyncio.to_thread(file.write_text, "new")
        assert isinstance(await asked(connector, at, "ada"), EnricherAnswer)
        await asyncio.to_thread(file.unlink)
        refused = await asked(connector, at, "bob")
    assert at.basic == ["Basic dGhlK3NpZGVjYXI6bmV3"]  # the+sidecar:new
    assert isinstance(refused, EnricherRefused)
    assert (refused.kind, refused.sent) == (RefusalKind.EXCHANGE_FAILED, False)
    assert "the client's secret cannot be read: FileNotFoundError" in str(refused.fault)


async def test_each_user_has_a_token_of_their_own_and_it_is_used_again(tmp_path: Path) -> None:
    """Two users in turns, four calls: two exchanges."""
    async with services() as at, exchanging(at, tmp_path) as connector:
        for user in ("ada", "bob", "ada", "bob"):
            assert isinstance(await asked(connector, at, user), EnricherAnswer)
    assert at.seen == ["Bearer for-ada-1", "Bearer for-bob-2"] * 2


async def test_calls_at_the_same_time_share_one_exchange_also_if_the_first_is_given_up(tmp_path: Path) -> None:
    """Ten calls of one user wait for it; the call that began it is cancelled, the nine others are answered."""
    async with services() as at, exchanging(at, tmp_path) as connector:
        at.may_answer.clear()
        calls = [asyncio.create_task(asked(connector, at, "ada")) for _ in range(10)]
        await at.news.wait()
        calls[0].cancel()
        at.may_answer.set()
        got = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(each) for each in got] == [asyncio.CancelledError] + [EnricherAnswer] * 9
    assert (len(at.forms), at.seen) == (1, ["Bearer for-ada-1"] * 9)


@pytest.mark.parametrize(
    ("lives", "at_seconds", "exchanges"), [(300, 269, 1), (300, 271, 2), (20, 17, 1), (20, 19, 2), (0, 0, 2)]
)
async def test_a_token_is_used_until_shortly_before_its_expiry(
    lives: float, at_seconds: float, exchanges: int, tmp_path: Path
) -> None:
    """By a clock of the test. One without a lifetime is used once."""
    clock = [1000.0]
    async with services() as at:
        at.answer = {"expires_in": lives}
        settings = at.settings(tmp_path)
        pools = http_pools(settings.tls)
        exchange = TokenExchange(settings, pools, lambda: clock[0])
        await exchange.token_for(UserToken("ada"))
        clock[0] += at_seconds
        await exchange.token_for(UserToken("ada"))
        await exchange.close()
    assert len(at.forms) == exchanges


async def test_only_so_many_tokens_are_kept(tmp_path: Path) -> None:
    """Room for two: the one that was used longest ago goes, and is exchanged again."""
    async with services() as at:
        settings = at.settings(tmp_path)
        pools = http_pools(settings.tls)
        exchange = TokenExchange(settings, pools, most=2)
        for user in ("ada", "bob", "ada", "eve", "ada", "bob"):
            await exchange.token_for(UserToken(user))
        await exchange.close()
    assert [form["subject_token"] for form in at.forms] == ["ada", "bob", "eve", "bob"]


@pytest.mark.parametrize(
    ("raw", "fields", "why"),
    [
        (("400 Bad Request", b'{"error":"invalid_request"}'), {}, "answers HTTP 400"),
        (("302 Found", b""), {}, "answers HTTP 302"),
        (("200 OK", b"<html>"), {}, "not one of RFC 8693"),
        (("200 OK", b'{"access_token":"x","token_type":"Bearer"}'), {}, "not one of RFC 8693"),
        (("200 OK", b'"' + b"x" * 70_000 + b'"'), {}, "not one of RFC 8693"),
        (None, {"token_type": "DPoP"}, "not an access token"),
        (None, {"issued_token_type": "urn:ietf:params:oauth:token-type:refresh_token"}, "not an access token"),
        (None, {"access_token": "a b"}, "not an access token"),
        (None, {"access_token": "a\r\nx-other: header"}, "not an access token"),
        (None, {"access_token": ""}, "not an access token"),
        (None, {"expires_in": -1}, "not an access token"),
    ],
)
async def test_without_a_token_from_the_endpoint_the_data_service_is_not_called(
    raw: tuple[str, bytes] | None, fields: dict[str, Any], why: str, tmp_path: Path
) -> None:
    """The reason is one of its own, says nothing that the endpoint wrote, and an effect may be sent again."""
    async with services() as at, exchanging(at, tmp_path) as connector:
        at.raw, at.answer = raw, fields
        got = await asked(connector, at, "ada")
        at.raw, at.answer = None, {"issued_token_type": JWT, "token_type": "bearer"}
        assert isinstance(await asked(connector, at, "ada"), EnricherAnswer)  # a failure is not kept
    assert (got, got.sent) == (EnricherRefused(RefusalKind.EXCHANGE_FAILED), False)
    assert why in got.fault.errno
    assert at.seen == ["Bearer for-ada-2"]


async def test_an_endpoint_that_is_away_or_silent_is_told_as_such(tmp_path: Path) -> None:
    """Nothing listens; then an exchange takes longer than it may."""
    async with services() as at, exchanging(at, tmp_path, token_seconds=0.05) as connector:
        at.may_answer.clear()
        silent = await asked(connector, at, "ada")
        at.may_answer.set()
        async with exchanging(at, tmp_path, token_endpoint="http://127.0.0.1:1/token") as lost:
            away = await asked(lost, at, "ada")
    assert "does not answer in time" in silent.fault.errno
    assert ("cannot be reached" in away.fault.errno, away.fault.address) == (True, "127.0.0.1:1")
    assert at.seen == []


async def test_a_call_ends_with_a_reason_if_its_connector_is_closed_during_the_exchange(tmp_path: Path) -> None:
    """The exchange is cancelled, the call is not: its caller waits for an answer."""
    async with services() as at, exchanging(at, tmp_path) as connector:
        at.may_answer.clear()
        running = asyncio.create_task(asked(connector, at, "ada"))
        await at.news.wait()
        await connector.close()
        got: Any = (await asyncio.gather(running, return_exceptions=True))[0]
    assert got == EnricherRefused(RefusalKind.EXCHANGE_FAILED)
    assert (got.sent, got.fault.errno) == (False, "the connector is closed")


async def test_without_the_users_token_nothing_is_exchanged_or_sent(tmp_path: Path) -> None:
    """As after a restart or a takeover: the reason says so."""
    async with services() as at, exchanging(at, tmp_path) as connector:
        assert await asked(connector, at, None) == EnricherRefused(RefusalKind.USER_TOKEN_GONE)
    assert (at.forms, at.seen) == ([], [])


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"token_endpoint": "http://login.example.com/token"}, "https"),
        ({"token_endpoint": "https://user:pass@login.example.com/"}, "password"),
        ({"token_audience": None}, "token_audience"),
        ({"token_client_secret_file": None}, "token_client_secret_file"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(changes: dict[str, Any], problem: str, tmp_path: Path) -> None:
    """A token endpoint in the clear on another machine, or one that is half described."""
    with pytest.raises(ValueError, match=problem):
        Services(address="127.0.0.1:9").settings(tmp_path, **changes)


def test_a_users_token_cannot_be_shown_or_written() -> None:
    """Not in a log line, not in a traceback's values, not by pickle or copy."""
    token = UserToken("secret-text")
    assert "secret-text" not in f"{token} {token!r}"
    with pytest.raises(TypeError):
        token.__reduce__()
