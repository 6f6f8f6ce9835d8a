"""With `token_endpoint` a data service gets a token for the user; the user's own is kept no longer than the turn."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from sidecar.composition.running import running_sidecar
from sidecar.core.identifiers import TurnId
from sidecar.core.user_tokens import UserToken
from sidecar.operations.turn.state.open_turns import Turns
from sidecar.settings import SettingsProblem, read_settings
from subagents_client import ToolCall, TurnRequest
from subagents_client.runner import Run, RunnerHost
from tests.support.sidecar_process import place, settings_file
from tests.support.token_endpoint import Services, services
from tests.system.test_verified_principals import Verifying, all_of, verifying

EXCHANGE: Final = """
[connectors.{plugin}]
plugin = "{plugin}"
token_endpoint = "http://{address}/token"
token_audience = "ccs"
token_client_id = "sidecar"
token_client_secret_file = "{folder}/client-secret"

[keys]
files = {{ one = "{folder}/signing.key" }}
"""
SHOP: Final = [ToolCall("c-1", "ask_shop", '{"request":"two offers"}')]


@asynccontextmanager
async def a_shop(folder: Path) -> AsyncIterator[None]:
    """Serve a sub-agent that asks the data service."""
    host = RunnerHost()

    @host.sub_agent("shop")
    async def shop(run: Run) -> str:
        await run.call_tool("search_offers", {"query": "coffee"})
        return "an answer"

    async with host.serving(f"unix:{folder}/shop.sock"):
        yield


@asynccontextmanager
async def exchanging(folder: Path, at: Services) -> AsyncIterator[Verifying]:
    """Run a sidecar whose data service lies behind a token endpoint."""
    for name, text in (("client-secret", "s3cret"), ("signing.key", "k" * 64)):
        (folder / name).touch(0o600)
        (folder / name).write_text(text)
    for config in (folder / "config").rglob("*.yaml"):
        config.write_text(config.read_text().replace("127.0.0.1:8480", at.address))
    async with verifying(folder, EXCHANGE.format(plugin="rest", address=at.address, folder=folder)) as found:
        yield found


def held(turns: Turns) -> list[str]:
    """Return the turns whose user's token is in memory."""
    return [turn.turn_id for turn in turns if turns.user_token(turn.turn_id) is not None]


async def test_a_user_token_is_exchanged_and_kept_for_the_life_of_its_turn_only() -> None:
    """The data service sees the new token. The user's is in no file, and leaves memory with the turn."""
    with place() as folder:
        async with services() as at, a_shop(folder), exchanging(folder, at) as found, found.client() as client:
            turns, token = found.sidecar.operations.turns, found.token("user-7")
            turn = await client.bind_turn(TurnRequest(principal="", episode_id="e-1", turn_id="t-1", user_token=token))
            await turn.dispatch_and_wait(SHOP)
            assert held(turns) == ["t-0", "t-1"]
            assert token not in repr(list(turns))
            await turn.end("done")
            assert held(turns) == ["t-0"]
            turns.keep_user_token(TurnId("t-1"), UserToken(token))  # as a late repetition of the bind would
            assert held(turns) == ["t-0"]
        assert (at.seen, [form["subject_token"] for form in at.forms]) == ([f"Bearer for-{token}-1"], [token])
        kept = all_of(folder)
        assert not any(part.encode() in kept for part in token.split(".")[1:])  # claims and signature


async def test_after_a_restart_the_data_of_an_older_turn_is_withheld_and_the_reason_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The token is on no record, so nothing is sent; a repeated bind with the token brings it back."""
    with place() as folder:
        async with services() as at, a_shop(folder), AsyncExitStack() as opened:
            async with exchanging(folder, at) as found:
                client = await opened.enter_async_context(found.client())
                token = found.token("user-7")
                request = TurnRequest(principal="", episode_id="e-1", turn_id="t-1", user_token=token)
                turn = await client.bind_turn(request)
            async with exchanging(folder, at) as found:
                await turn.dispatch_and_wait(SHOP)
                assert "shop got no data of search_offers, user_token_gone" in caplog.text
                assert (at.seen, at.forms) == ([], [])
                again = found.token("user-7")
                await client.bind_turn(replace(request, user_token=again))
                await turn.dispatch_and_wait(SHOP)
                assert at.seen == [f"Bearer for-{again}-1"]
            assert not any(part in caplog.text for part in token.split(".")[1:])


async def test_tokens_are_not_kept_where_no_connector_exchanges_them() -> None:
    """With `[principals]` alone a token is forgotten at once."""
    with place() as folder:
        async with verifying(folder) as found:
            await found.bind(turn_id="t-1", principal="", user_token=found.token("user-7"))
            assert held(found.sidecar.operations.turns) == []


@pytest.mark.parametrize("plugin", ["rest", "grpc"])
async def test_an_exchange_without_principals_is_refused_at_the_start(plugin: str) -> None:
    """There would be no verified token to exchange."""
    with place() as folder:
        text = EXCHANGE.format(plugin=plugin, address="127.0.0.1:9", folder=folder).partition("[keys]")[0]
        with pytest.raises(SettingsProblem, match=rf"connectors\.{plugin}\.token_endpoint: needs \[principals\]"):
            async with running_sidecar(read_settings(settings_file(folder, text), {})):
                pass
