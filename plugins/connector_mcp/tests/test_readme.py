"""The server in the README is one whose envelopes are released."""

import json
import re
from pathlib import Path
from typing import Any

from examples.http_serving import serving
from plugins.connector_mcp.tests.asking import answered, asked
from sidecar.policy.protocols import EnricherAsks, QuestionKind
from sidecar_connector_mcp.pins import _definitions, pins_of
from sidecar_connector_mcp.plugin import mcp_connector
from sidecar_connector_mcp.settings import ServerSettings

PAGE = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def sample(number: int) -> dict[str, Any]:
    """Run one of the page's two Python samples, and return its names."""
    samples = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    assert len(samples) == 2
    names: dict[str, Any] = {"__name__": "readme"}
    exec(compile(samples[number], "README.md", "exec"), names)
    return names


async def test_the_server_of_the_readme_writes_envelopes() -> None:
    """It echoes what it was asked for, so that every check of the gateway can pass."""
    names = sample(0)
    async with names["server"].session_manager.run(), serving(names["app"], lambda: None, "critical") as address:
        url = f"{address}/mcp"
        (endpoint,) = pins_of("rewards", await _definitions(ServerSettings(url=url), 10))
        connector = mcp_connector({"servers": {"rewards": {"url": url}}})
        envelope = json.loads(await answered(connector, endpoint=endpoint, nonce="n-1"))
        await connector.close()

    assert envelope == {
        "principal": "ada",
        "domain_type": "orders",
        "enricher_id": "recent_orders",
        "nonce": "n-1",
        "version": "1.2.0",
        "status": "ok",
        "payload": {"balance": 1200},
    }


async def test_the_asking_tool_of_the_readme_asks_the_user_of_the_call() -> None:
    """The question says for whom it is, so that the gateway can pass it on."""
    server = sample(1)["server"]
    app = server.streamable_http_app()
    async with server.session_manager.run(), serving(app, lambda: None, "critical") as address:
        url = f"{address}/mcp"
        (endpoint,) = pins_of("shop", await _definitions(ServerSettings(url=url), 10))
        connector = mcp_connector({"servers": {"shop": {"url": url, "questions": True}}})
        reply = await asked(connector, endpoint=endpoint, arguments_json="{}", nonce="n-1")
        await connector.close()

    assert isinstance(reply, EnricherAsks)
    assert (reply.asked.kind, reply.asked.text) == (QuestionKind.NEEDS_APPROVAL, "Order two bags of coffee?")
    assert (reply.principal, reply.nonce) == ("ada", "n-1")
