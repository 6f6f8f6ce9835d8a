"""A sub-agent of the real sidecar reads an MCP tool through the gateway: with a grant, and judged like any data."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp.server import ServerRequestContext
from mcp_types import CallToolRequestParams, CallToolResult

from plugins.connector_mcp.tests.service import DEFINITION, TOOL, ToolServer, endpoint_of, text_result
from sidecar_connector_mcp.definitions import digest_of
from sidecar_connector_mcp.questions import ON_BEHALF_META
from subagents_client.runner import DataUnavailable
from tests.support.requirement import requirement
from tests.support.whole_chain import Chain, asks, running_chain


class Offers:
    """A server whose envelopes a test may change."""

    def __init__(self) -> None:
        self.change: dict[str, Any] = {}
        self.hangs = False
        self.arguments: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.tools = ToolServer(self._answer)

    async def _answer(self, context: ServerRequestContext[Any, Any], params: CallToolRequestParams) -> CallToolResult:
        meta: Any = dict(params.meta or {})
        if self.hangs:
            await asyncio.Event().wait()
        asked = dict(meta[ON_BEHALF_META])
        self.keys.append(asked.pop("idempotency_key", None))
        self.arguments.append(params.arguments or {})
        payload = {"query": "coffee", "offers": []}
        envelope = {**asked, "version": "1.4.0", "status": "ok", "payload": payload, **self.change}
        return text_result(json.dumps(envelope))


@asynccontextmanager
async def chained(offers: Offers, timeout: str = "5s") -> AsyncIterator[Chain]:
    """Run the example with `search_offers` behind the MCP server."""
    edits = {
        "    endpoint: http": f"    connector: mcp\n    endpoint: {endpoint_of()} # instead of http",
        "    timeout: 5s": f"    timeout: {timeout}",
    }
    async with offers.tools.running() as url:
        more = {
            "plugins": {"enabled": ["sidecar-connector-mcp"]},
            "connectors": {"mcp": {"plugin": "mcp", "servers": {"tests": {"url": url}}}},
        }
        async with running_chain(edits, settings=more) as chain:
            chain.use("shop", asks("search_offers", query="coffee"))
            yield chain


def told(chain: Chain, event: str) -> list[str]:
    """Return the lines of an event, or of an anomaly of that kind."""
    found = [*chain.heard.of(event), *chain.heard.of("sidecar.anomaly")]
    return [each.getMessage() for each in found if each.__dict__["fields"].get("kind", event) == event]


@requirement("PC2-D-22", "PC2-FR-11b")
async def test_an_envelope_for_the_user_of_the_turn_is_released() -> None:
    """The principal comes from the gateway; the arguments are what the sub-agent asked."""
    offers = Offers()
    async with chained(offers) as chain:
        bound = await chain.bind(principal="user-ada")
        result = await chain.dispatch(bound, "ask_shop")

    (data,) = chain.received
    assert result.outcomes[0].narration == "Here it is."
    assert not isinstance(data, DataUnavailable)
    assert data.payload == {"query": "coffee", "offers": []}
    assert offers.arguments == [{"query": "coffee"}]
    assert offers.tools.on_behalf_of == ["user-ada"]


@pytest.mark.parametrize(
    ("change", "event"),
    [
        ({"principal": "user-bob"}, "security.incident"),
        ({"nonce": "another"}, "security.incident"),
        ({"status": "error"}, "data_withheld"),
        ({"payload": {"offers": "none"}}, "data_withheld"),
    ],
    ids=["another user", "another nonce", "error", "payload"],
)
@requirement("PC2-FR-12b")
async def test_an_envelope_that_is_not_in_order_is_withheld_and_reported(change: dict[str, Any], event: str) -> None:
    """As with any other connector: the gateway judges, the connector has not opened it."""
    offers = Offers()
    offers.change = change
    async with chained(offers) as chain:
        await chain.dispatch(await chain.bind(principal="user-ada"), "ask_shop")
        reported = told(chain, event)

    assert [isinstance(each, DataUnavailable) for each in chain.received] == [True]
    assert len(reported) == 1


async def test_a_changed_definition_is_on_the_log_with_both_digests() -> None:
    """An operator reads there what to do; the sub-agent learns "data unavailable" and no more."""
    offers = Offers()
    changed = {**DEFINITION, "description": "Something else."}
    offers.tools.definitions = [changed]
    async with chained(offers) as chain:
        await chain.dispatch(await chain.bind(), "ask_shop")
        (line,) = told(chain, "data_withheld")

    assert f"mcp:tests/{TOOL}" in line
    assert f"expected {digest_of(DEFINITION)}, found {digest_of(changed)}" in line
    assert "review it, then pin the new one" in line
    assert isinstance(chain.received[0], DataUnavailable)
    assert offers.tools.calls == 0


async def test_a_server_that_hangs_harms_its_own_tools_only() -> None:
    """Another vertical gets its data from another service in the same dispatch."""
    offers = Offers()
    offers.hangs = True
    async with chained(offers, timeout="200ms") as chain:
        chain.use("rewards", asks("points_balance"))
        result = await chain.dispatch(await chain.bind(), "ask_shop", "ask_rewards")

    assert [outcome.data_unavailable for outcome in result.outcomes] == [True, False]
    assert sorted(isinstance(each, DataUnavailable) for each in chain.received) == [False, True]
