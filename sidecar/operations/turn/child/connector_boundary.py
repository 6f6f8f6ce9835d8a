"""The boundary to connectors: a call is answered within the tool's limit, whatever the connector does.

The number of abandoned calls is limited per tool, so a hanging connector affects only its own tool.
"""

from typing import Final

from msgspec.structs import replace

from sidecar.core.definitions.cards.card import Card
from sidecar.core.executing.tool_questions import problem_with
from sidecar.core.faults import Fault
from sidecar.operations.plugin_calls import PluginCalls, PluginFailed, PluginHung, PluginLate
from sidecar.operations.ports import Connectors, Recorder, Spawner
from sidecar.policy.protocols import (
    Asked,
    EnricherAnswer,
    EnricherAsks,
    EnricherCall,
    EnricherRefused,
    EnricherReply,
    RefusalKind,
)

HUNG: Final = "restart the sidecar, and have the connector end when it is cancelled"
"""The remedy in reports about connectors that hang."""


class ConnectorBoundary:
    """Calls connectors so that each call is answered in time and with the right types.

    Args:
        connectors: objects of plugins. They may raise and return anything, hang, and ignore cancellation.
        spawner: owns the tasks of the calls.
        recorder: receives violations of the connector contract.
        report_after: seconds after which a stopped call that still runs is reported.
    """

    def __init__(self, connectors: Connectors, *, spawner: Spawner, recorder: Recorder, report_after: float) -> None:
        self._connectors = connectors
        self._recorder = recorder
        self._calls = PluginCalls(spawner, self._report, report_after)

    async def ask(self, card: Card, call: EnricherCall) -> EnricherReply:
        """Send one request. Returns within `call.timeout`, and never raises an exception of a connector."""

        async def enrich() -> object:
            connector = self._connectors.connector_for(card, call.tool_id)
            # The user's token reaches only connectors that declare that they need it.
            if call.user_token is not None and not getattr(connector, "needs_user_token", False):
                return await connector.enrich(replace(call, user_token=None))
            return await connector.enrich(call)

        try:
            return self._checked(await self._calls.ask(call.tool_id, call.timeout.total_seconds(), enrich))
        except PluginLate:
            return EnricherRefused(RefusalKind.TIMEOUT)
        except PluginHung:
            # `sent=False`: the connector was not called at all, so an effect of this call cannot have happened.
            return EnricherRefused(RefusalKind.UNAVAILABLE, Fault(_shown(call), errno="hung", remedy=HUNG), sent=False)
        except PluginFailed as failed:
            return self._broken(str(failed))

    def _checked(self, reply: object) -> EnricherReply:
        # The patterns compare the types of all fields, too: a plugin without type checks may return anything, and the
        # checks of envelopes rely on the types.
        match reply:
            case EnricherAsks(Asked() as asked, None | str(), None | str()) if not problem_with(asked):
                return reply
            case EnricherAnswer(bytes()) | EnricherRefused(RefusalKind(), None | Fault(), bool()):
                return reply
            case _:
                return self._broken(f"returned a wrong {type(reply).__name__}")

    def _broken(self, how: str) -> EnricherRefused:
        """Report a violation of the connector contract; return a refusal for the caller."""
        self._recorder.anomaly("connector_broken", how)
        return EnricherRefused(RefusalKind.UNAVAILABLE)

    def _report(self, tool_id: str, count: int) -> None:
        message = f"a call of {tool_id} still runs although it was cancelled ({count} such calls now): {HUNG}"
        self._recorder.anomaly("connector_hung", message, {"tool_id": tool_id})


def _shown(call: EnricherCall) -> str:
    """Return the endpoint for operators, without its query string, which may contain an API key."""
    return call.endpoint.partition("?")[0]
