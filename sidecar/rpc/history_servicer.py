"""`HistoryService`: translate, call the operation, translate back."""

from collections.abc import Sequence
from typing import Final

from sidecar.operations.assembly import HistoryOperations
from sidecar.rpc.methods import Call, Method, Shape
from sidecar.rpc.translate import history
from subagents.history.v1 import history_pb2 as pb

SERVICE: Final = "subagents.history.v1.HistoryService"


class HistoryServicer:
    """The service of the consumer-agent."""

    def __init__(self, operations: HistoryOperations) -> None:
        """Join the parts."""
        self._operations = operations

    def methods(self) -> Sequence[Method]:
        """Return the RPCs."""
        one = Shape.ONE_TO_ONE
        return (
            Method(f"/{SERVICE}/ReadEpisode", one, pb.ReadEpisodeRequest.FromString, self._read_episode),
            Method(f"/{SERVICE}/WriteSummary", one, pb.WriteSummaryRequest.FromString, self._write_summary),
        )

    async def _read_episode(self, message: pb.ReadEpisodeRequest, call: Call) -> pb.ReadEpisodeResponse:
        return history.episode_message(await self._operations.read_episode(history.read_episode(message)))

    async def _write_summary(self, message: pb.WriteSummaryRequest, call: Call) -> pb.WriteSummaryResponse:
        revision, size = await self._operations.write_summary(history.write_summary(message))
        return pb.WriteSummaryResponse(revision=revision, size=history.size_message(size))
