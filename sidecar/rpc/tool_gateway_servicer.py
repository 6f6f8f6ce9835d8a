"""Serves `ToolGatewayService`: sub-agents in runner hosts call data services, their own turns, and each other.

Each call carries the grant of a running attempt, i.e. its random key.
"""

from collections.abc import Callable, Sequence
from typing import Final

from sidecar.core.dispatching.outcomes import Answer
from sidecar.core.errors import CallerNotAllowed
from sidecar.operations.history.read_history import ReadOwnTurns
from sidecar.operations.turn.child.call_tool import CallTool
from sidecar.operations.turn.delegate import Delegate
from sidecar.operations.turn.state.grants import GrantTable
from sidecar.rpc.methods import Call, Method, MethodShape
from sidecar.rpc.translate.enums import OUTCOME
from sidecar.rpc.translate.fields import Fields
from sidecar.rpc.translate.history import MOST_TURNS, own_turns_message
from subagents.dispatch.v1.outcome_pb2 import Component
from subagents.tools.v1 import tools_pb2 as pb

SERVICE: Final = "subagents.tools.v1.ToolGatewayService"


class ToolGatewayServicer:
    """The service of runner hosts.

    Args:
        call_tool, read_own_turns, delegate: the operations behind the service.
        grants: the running attempts by their grants.
        anomaly: logs and counts the use of a grant by a host that may not use it.
    """

    def __init__(
        self,
        call_tool: CallTool,
        read_own_turns: ReadOwnTurns,
        delegate: Delegate,
        grants: GrantTable,
        anomaly: Callable[[str, str], None],
    ) -> None:
        self._anomaly = anomaly
        self._call = call_tool
        self._read = read_own_turns
        self._delegate = delegate
        self._grants = grants

    def methods(self) -> Sequence[Method]:
        """Return the RPCs."""
        one = MethodShape.ONE_TO_ONE
        return (
            Method(f"/{SERVICE}/CallTool", one, pb.CallToolRequest.FromString, self._call_tool),
            Method(f"/{SERVICE}/ReadOwnTurns", one, pb.ReadOwnTurnsRequest.FromString, self._read_own_turns),
            Method(f"/{SERVICE}/Delegate", one, pb.DelegateRequest.FromString, self._delegate_call),
        )

    def _grant(self, call: Call) -> str:
        """Return the grant, if the peer may use it. Raises `CallerNotAllowed`."""
        holder = None if call.peer is None else self._grants.holder(call.grant)
        # A grant of no running attempt is refused later, by the operation, with the same error on every listener.
        if call.peer is not None and holder is not None:
            definition = holder.tool.card.definition
            try:
                call.peer.check_grant_of(definition.slot, definition.vertical)
            except CallerNotAllowed as refused:
                # Logged besides the refusal: a host that has another host's grant is a leak or an attack, not a
                # client's mistake.
                self._anomaly("grant_of_another_host", refused.message)
                raise
        return call.grant

    async def _call_tool(self, message: pb.CallToolRequest, call: Call) -> pb.CallToolResponse:
        fields = Fields("CallToolRequest")
        tool_id = fields.required("tool_id", message.tool_id, 256, "the id of one of the contract's tools")
        fields.check()
        result = await self._call(self._grant(call), tool_id, message.arguments_json, call.time_left)
        # The cause is not told to the sub-agent: e.g. that the data belonged to another user.
        if result.payload_json is None:
            return pb.CallToolResponse(data_unavailable=pb.DataUnavailable())
        return pb.CallToolResponse(payload_json=result.payload_json, partial=result.partial)

    async def _read_own_turns(self, message: pb.ReadOwnTurnsRequest, call: Call) -> pb.ReadOwnTurnsResponse:
        fields = Fields("ReadOwnTurnsRequest")
        max_turns = fields.count("max_turns", message.max_turns, MOST_TURNS)
        fields.check()
        return own_turns_message(await self._read(self._grant(call), max_turns))

    async def _delegate_call(self, message: pb.DelegateRequest, call: Call) -> pb.DelegateResponse:
        fields = Fields("DelegateRequest")
        tool_name = fields.required("tool_name", message.tool_name, 256, "a tool of the turn, such as ask_rewards")
        fields.check()
        outcome = await self._delegate(self._grant(call), tool_name, message.arguments_json, call.time_left)
        # What a failed sub-agent had sent before it failed is not an answer, so it is not passed on.
        answer = outcome.answer if outcome.answered else Answer()
        return pb.DelegateResponse(
            outcome=OUTCOME[outcome.outcome],
            narration=answer.narration,
            components=[
                Component(
                    name=each.name,
                    tool_input_json=each.tool_input_json,
                    component_data_json=each.component_data_json,
                )
                for each in answer.components
            ],
            data_unavailable=answer.data_unavailable,
            message=outcome.message,
        )
