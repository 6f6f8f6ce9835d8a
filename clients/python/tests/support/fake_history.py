"""A history that answers what a test tells it."""

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from typing_extensions import override

from subagents.history.v1 import history_pb2, history_pb2_grpc
from subagents_client.errors import status_of, trailer_of
from subagents_errors import SubagentsError


@dataclass
class FakeHistory(history_pb2_grpc.HistoryServiceServicer):
    """Answers every request.

    Attributes:
        episode: what is read.
        refusals: what it fails with, once each, before it answers.
        received: every request.
        secrets: the boot secret of each.
    """

    episode: history_pb2.ReadEpisodeResponse = field(default_factory=history_pb2.ReadEpisodeResponse)
    refusals: deque[SubagentsError] = field(default_factory=deque)
    received: list[Any] = field(default_factory=list)
    secrets: list[Any] = field(default_factory=list)

    @override
    async def ReadEpisode(self, request: Any, context: Any) -> history_pb2.ReadEpisodeResponse:
        """Read."""
        await self._admit(request, context)
        return self.episode

    @override
    async def WriteSummary(self, request: Any, context: Any) -> history_pb2.WriteSummaryResponse:
        """Write."""
        await self._admit(request, context)
        return history_pb2.WriteSummaryResponse(
            revision=request.expected_revision + 1, size=history_pb2.EpisodeSize(turns=1)
        )

    async def _admit(self, request: Any, context: Any) -> None:
        self.received.append(request)
        self.secrets += [value for key, value in context.invocation_metadata() if key == "x-subagents-boot-secret"]
        if self.refusals:
            error = self.refusals.popleft()
            await context.abort(status_of(type(error)), error.message, trailing_metadata=tuple(trailer_of(error)))
