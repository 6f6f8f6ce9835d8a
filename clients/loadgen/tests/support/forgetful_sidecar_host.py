"""A server whose answers are lost, or which fails for the moment."""

from typing import Any

import grpc

from clients.loadgen.tests.support.lying_sidecar_host import LyingSidecar
from subagents.dispatch.v1 import dispatch_pb2 as pb


class Forgetful(LyingSidecar):
    """Binds, but its first answers come to nobody, and its first ends fail for the moment.

    Attributes:
        ended: turns that were ended.
    """

    def __init__(self, lost_binds: int, failed_ends: int) -> None:
        super().__init__()
        self.ended: set[str] = set()
        self._lost_binds, self._failed_ends = lost_binds, failed_ends
        self._bound: set[str] = set()

    async def BindTurn(self, request: pb.BindTurnRequest, context: Any) -> pb.BindTurnResponse:
        """Bind the turn; the answer may be lost."""
        bound = await super().BindTurn(request, context)
        if "probe" not in request.turn_id and len(self._bound) < self._lost_binds:
            self._bound.add(request.turn_id)
            await context.abort(grpc.StatusCode.UNAVAILABLE, "connection lost")
        return bound

    async def EndTurn(self, request: pb.EndTurnRequest, context: Any) -> pb.EndTurnResponse:
        """End the turn, or fail."""
        if "probe" not in request.surface_token and self._failed_ends:
            self._failed_ends -= 1
            await context.abort(grpc.StatusCode.UNAVAILABLE, "not now")
        self.ended.add(request.surface_token)
        return await super().EndTurn(request, context)
