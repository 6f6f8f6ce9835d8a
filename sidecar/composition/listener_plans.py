"""Which services each listener offers, and to whom."""

from collections.abc import Sequence

from sidecar.operations.process.turn_assembly import Operations
from sidecar.rpc.authorisation import CallerKind, Entrance
from sidecar.rpc.dispatch_servicer import SERVICE as DISPATCH_SERVICE
from sidecar.rpc.dispatch_servicer import DispatchServicer
from sidecar.rpc.history_servicer import SERVICE as HISTORY_SERVICE
from sidecar.rpc.history_servicer import HistoryServicer
from sidecar.rpc.listeners import ListenerPlan
from sidecar.rpc.outermost import ServingRules
from sidecar.rpc.tool_gateway_servicer import SERVICE as TOOLS_SERVICE
from sidecar.rpc.tool_gateway_servicer import ToolGatewayServicer
from sidecar.settings import Settings


def listener_plans(settings: Settings, operations: Operations, boot_secret: str) -> Sequence[ListenerPlan]:
    """Return the listener of the consumer-agent and that of runner hosts."""
    server, limits = settings.server, settings.server.limits
    dispatch = DispatchServicer(operations, ServingRules().write_timeout)
    return (
        ListenerPlan(
            server.dispatch_socket,
            Entrance(CallerKind.CONSUMER_AGENT, boot_secret),
            (DISPATCH_SERVICE, HISTORY_SERVICE),
            (*dispatch.methods(), *HistoryServicer(operations.history).methods()),
            limits.dispatch_streams,
            server.reflection,
        ),
        ListenerPlan(
            server.agents_socket,
            Entrance(CallerKind.RUNNER_HOST),
            (TOOLS_SERVICE,),
            ToolGatewayServicer(operations.call_tool, operations.history.read_own_turns, operations.delegate).methods(),
            limits.agent_streams,
            server.reflection,
        ),
    )
