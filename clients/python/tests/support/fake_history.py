"""A history that answers what a test tells it."""

from collections import deque
from collections.abc import AsyncIterator, Sequence
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
        exported: the pieces of an exported turn.
        page, turn, rows: what lists and reads of the record bring.
        streams: what each watch brings, one after the other; an error at the end of one breaks it off.
    """

    episode: history_pb2.ReadEpisodeResponse = field(default_factory=history_pb2.ReadEpisodeResponse)
    refusals: deque[SubagentsError] = field(default_factory=deque)
    exported: Sequence[str] = ()
    received: list[Any] = field(default_factory=list)
    secrets: list[Any] = field(default_factory=list)
    page: history_pb2.ListTurnsResponse = field(default_factory=history_pb2.ListTurnsResponse)
    turn: history_pb2.GetTurnResponse = field(default_factory=history_pb2.GetTurnResponse)
    rows: history_pb2.ListEpisodesResponse = field(default_factory=history_pb2.ListEpisodesResponse)
    streams: deque[Sequence[history_pb2.WatchEventsResponse | SubagentsError]] = field(default_factory=deque)

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
            revision=request.expected_revision + 1, size=history_pb2.EpisodeSize(turn_count=1)
        )

    @override
    async def RecordScore(self, request: Any, context: Any) -> history_pb2.RecordScoreResponse:
        """Record."""
        await self._admit(request, context)
        return history_pb2.RecordScoreResponse(sub_agent_id="shop", definition_id="shop", arm="active")

    @override
    async def ListTurns(self, request: Any, context: Any) -> history_pb2.ListTurnsResponse:
        """List."""
        await self._admit(request, context)
        return self.page

    @override
    async def GetTurn(self, request: Any, context: Any) -> history_pb2.GetTurnResponse:
        """Read."""
        await self._admit(request, context)
        return self.turn

    @override
    async def ListEpisodes(self, request: Any, context: Any) -> history_pb2.ListEpisodesResponse:
        """List."""
        await self._admit(request, context)
        return self.rows

    @override
    async def WatchEvents(self, request: Any, context: Any) -> AsyncIterator[history_pb2.WatchEventsResponse]:
        """Bring the next stream."""
        await self._admit(request, context)
        for each in self.streams.popleft():
            if isinstance(each, SubagentsError):
                await _end(context, each)
            else:
                yield each

    @override
    async def ExportReplay(self, request: Any, context: Any) -> AsyncIterator[history_pb2.ExportReplayResponse]:
        """Export."""
        await self._admit(request, context)
        for piece in self.exported:
            yield history_pb2.ExportReplayResponse(document_json=piece)

    async def _admit(self, request: Any, context: Any) -> None:
        self.received.append(request)
        self.secrets += [value for key, value in context.invocation_metadata() if key == "x-subagents-boot-secret"]
        if self.refusals:
            await _end(context, self.refusals.popleft())


async def _end(context: Any, error: SubagentsError) -> None:
    await context.abort(status_of(type(error)), error.message, trailing_metadata=tuple(trailer_of(error)))
