"""Connectors are made before a call needs them, and what takes long about that happens beside the event loop."""

import subprocess
import sys
import threading
from collections.abc import Mapping
from typing import Any, Final

import msgspec
import pytest

from sidecar.adapters.connector_rest.plugin import sidecar_connectors
from sidecar.adapters.runners import ChosenConnectors
from sidecar.core.definitions.cards.card import Card, ToolEntry
from sidecar.core.identifiers import ToolId
from sidecar.policy.loading import BUILT_IN, PluginHost, Registered
from sidecar.policy.protocols import EnricherCall, EnricherRefused, EnricherReply, RefusalKind
from sidecar.policy.specs import ConnectorSpec
from tests.support.builders import a_card

IMPORTED: Final = """
import sys
from sidecar.adapters.connector_rest.plugin import sidecar_connectors
(spec,) = sidecar_connectors()
assert "httpcore" not in sys.modules
spec.warm_up({})
before = set(sys.modules)
spec.factory({})
print(sorted(set(sys.modules) - before))
"""


class Idle:
    """A connector that is never asked."""

    async def enrich(self, call: EnricherCall) -> EnricherReply:
        """Refuse."""
        return EnricherRefused(RefusalKind.TIMEOUT)

    async def close(self) -> None:
        """Do nothing."""


class Offered:
    """One connector, `slow`, and where its parts ran."""

    def __init__(self, raises: Exception | None = None) -> None:
        self.settings: list[Mapping[str, Any]] = []
        self.warmed: list[str] = []
        self.made: list[str] = []
        self._raises = raises
        self.spec = ConnectorSpec(
            name="slow",
            contract="connector/1",
            summary="takes long",
            config_schema={"type": "object"},
            factory=self._make,
            warm_up=self._warm_up,
        )
        self.host = PluginHost({(self.spec.kind, self.spec.name): Registered(self.spec, BUILT_IN, "", "here")})

    def connector(self, vertical: object, named: str | None, where: str) -> ConnectorSpec:
        """Choose it, as the policy does."""
        return self.spec

    def _warm_up(self, settings: Mapping[str, Any]) -> None:
        self.settings.append(settings)
        self.warmed.append(threading.current_thread().name)
        if self._raises is not None:
            raise self._raises

    def _make(self, settings: Mapping[str, Any]) -> Idle:
        self.made.append(threading.current_thread().name)
        return Idle()


def with_tools(*tools: ToolEntry) -> Card:
    """Return a sub-agent's card with tools."""
    return msgspec.structs.replace(a_card("shop"), tools=tools)


DATA: Final = ToolEntry(ToolId("offers"), "offers", domain_type="shop", enricher_id="offers")
LOCAL: Final = ToolEntry(ToolId("sum"), "sums up")


async def prepared(offered: Offered, *tools: ToolEntry, times: int = 1) -> ChosenConnectors:
    """Prepare the connectors of a card."""
    policy: Any = offered
    chosen = ChosenConnectors(policy, {"slow": {"seconds": 1}})
    for _ in range(times):
        await chosen.prepare([with_tools(*tools)])
    return chosen


@pytest.mark.parametrize("raises", [None, OSError("no such file")])
async def test_a_connector_is_warmed_up_beside_the_loop_and_made_on_it(raises: Exception | None) -> None:
    """Once, with its settings, whatever the warming up raises; the call finds it made."""
    offered = Offered(raises)
    here = threading.current_thread().name

    chosen = await prepared(offered, DATA, times=2)

    assert (offered.settings, offered.made) == ([{"seconds": 1}], [here])
    assert here not in offered.warmed
    connector = chosen.connector_for(with_tools(DATA), "offers")
    assert isinstance(connector, Idle)
    assert offered.made == [here]


async def test_no_connector_is_made_for_a_tool_that_needs_none() -> None:
    """A tool that the agent runs itself: the libraries of a connector would be loaded for nothing."""
    offered = Offered()
    await prepared(offered, LOCAL)
    assert (offered.warmed, offered.made) == ([], [])


def test_warming_up_rest_leaves_nothing_to_be_imported() -> None:
    """The HTTP client's 60 modules, in a process that has not loaded them."""
    assert [spec.name for spec in sidecar_connectors()] == ["rest"]
    ended = subprocess.run([sys.executable, "-c", IMPORTED], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"
