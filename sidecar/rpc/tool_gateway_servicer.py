"""`ToolGatewayService`: the way of sub-agents in other processes to `CallTool`."""

from collections.abc import Sequence
from typing import Final

from sidecar.operations.call_tool import CallTool
from sidecar.rpc.methods import Call, Method, Shape
from sidecar.rpc.translate.fields import Fields
from subagents.tools.v1 import tools_pb2 as pb

SERVICE: Final = "subagents.tools.v1.ToolGatewayService"


class ToolGatewayServicer:
    """The service of runner hosts."""

    def __init__(self, call_tool: CallTool) -> None:
        """Join the parts."""
        self._call = call_tool

    def methods(self) -> Sequence[Method]:
        """Return the RPCs."""
        return (Method(f"/{SERVICE}/CallTool", Shape.ONE_TO_ONE, pb.CallToolRequest.FromString, self._call_tool),)

    async def _call_tool(self, message: pb.CallToolRequest, call: Call) -> pb.CallToolResponse:
        fields = Fields("CallToolRequest")
        tool_id = fields.required("tool_id", message.tool_id, 256, "the id of one of the contract's tools")
        fields.check()
        result = await self._call(call.grant, tool_id, message.arguments_json, call.time_left)
        if result.payload_json is None:
            return pb.CallToolResponse(data_unavailable=pb.DataUnavailable())
        return pb.CallToolResponse(payload_json=result.payload_json, partial=result.partial)
