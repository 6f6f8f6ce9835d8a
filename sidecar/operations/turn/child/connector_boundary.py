"""The boundary to connectors: a call is answered within the tool's limit, whatever the connector does.

A connector that ignores its cancellation is abandoned, and its later response is discarded. The number of abandoned
calls per tool is limited, and further calls of that tool are refused. A hanging connector therefore affects only its
own tool, never the process.
"""

import asyncio
from typing import Final

from msgspec import Struct, field

from sidecar.core.definitions.cards.card import Card
from sidecar.core.executing.tool_questions import problem_with
from sidecar.core.faults import Fault
from sidecar.core.identifiers import ToolId
from sidecar.operations.first_result import FirstResult
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

MOST_LEFT_BEHIND: Final = 16
"""Of one tool."""
HUNG: Final = "restart the sidecar, and have the connector end when it is cancelled"


class _Exchange(Struct):
    """One call of a connector.

    Attributes:
        runs: its task has begun and has not ended.
        ending: settled with the reply that counts, which may be the limit's.
    """

    tool_id: ToolId
    runs: bool = False
    left_behind: bool = False
    ending: FirstResult[EnricherReply] = field(default_factory=FirstResult)


class ConnectorBoundary:
    """Connectors that answer in time, with the right types.

    Args:
        connectors: a plugin's objects; may raise and return anything, hang, and ignore that they are cancelled.
        spawner: owns the calls' tasks.
        recorder: is told of connectors that break their contract.
        report_after: seconds after which a call that runs on although it was told to stop is reported.
    """

    def __init__(self, connectors: Connectors, *, spawner: Spawner, recorder: Recorder, report_after: float) -> None:
        self._connectors = connectors
        self._spawner, self._recorder = spawner, recorder
        self._report_after = report_after
        self._left_behind: dict[ToolId, int] = {}

    async def ask(self, card: Card, call: EnricherCall) -> EnricherReply:
        """Have one request carried out; returns within `call.timeout`, and never raises anything of a connector's."""
        if self._left_behind.get(call.tool_id, 0) >= MOST_LEFT_BEHIND:
            return EnricherRefused(RefusalKind.UNAVAILABLE, Fault(_shown(call), errno="hung", remedy=HUNG), sent=False)
        exchange, loop = _Exchange(call.tool_id), asyncio.get_running_loop()
        until, too_late = loop.time() + call.timeout.total_seconds(), EnricherRefused(RefusalKind.TIMEOUT)
        limit = loop.call_at(until, exchange.ending.settle, too_late)
        task = self._spawner.spawn(self._carry_out(card, call, exchange), f"data call {call.tool_id}")
        try:
            return await exchange.ending.wait()
        finally:
            limit.cancel()
            exchange.ending.settle(too_late)  # no effect if its caller no longer waits
            if exchange.runs:
                task.cancel()
                self._leave_behind(exchange)

    async def _carry_out(self, card: Card, call: EnricherCall, exchange: _Exchange) -> None:
        if exchange.ending.settled:
            return  # the caller was gone before this began
        exchange.runs = True
        try:
            reply: object = await self._connectors.connector_for(card, call.tool_id).enrich(call)
            exchange.ending.settle(self._checked(reply))
        except BaseException as error:  # not even a connector's KeyboardInterrupt may end the process
            if not exchange.ending.settled:
                exchange.ending.settle(self._broken(type(error).__name__))
            if isinstance(error, asyncio.CancelledError):
                raise
        finally:
            exchange.runs = False
            if exchange.left_behind:
                self._count(call.tool_id, -1)

    def _checked(self, reply: object) -> EnricherReply:
        match reply:
            case EnricherAsks(Asked() as asked) if not problem_with(asked):
                return reply
            case EnricherAnswer(bytes()) | EnricherRefused(RefusalKind(), None | Fault(), bool()):
                return reply
            case _:
                return self._broken(f"returned a wrong {type(reply).__name__}")

    def _broken(self, how: str) -> EnricherRefused:
        self._recorder.anomaly("connector_broken", how)
        return EnricherRefused(RefusalKind.UNAVAILABLE)

    def _leave_behind(self, exchange: _Exchange) -> None:
        exchange.left_behind = True
        self._count(exchange.tool_id, 1)
        asyncio.get_running_loop().call_later(self._report_after, self._report, exchange)

    def _count(self, tool_id: ToolId, change: int) -> None:
        self._left_behind[tool_id] = self._left_behind.get(tool_id, 0) + change
        if not self._left_behind[tool_id]:
            del self._left_behind[tool_id]

    def _report(self, exchange: _Exchange) -> None:
        if exchange.runs:
            count = self._left_behind[exchange.tool_id]
            told = f"a call of {exchange.tool_id} runs on although it was told to stop ({count} now): {HUNG}"
            self._recorder.anomaly("connector_hung", told, {"tool_id": exchange.tool_id})


def _shown(call: EnricherCall) -> str:
    return call.endpoint.partition("?")[0]
