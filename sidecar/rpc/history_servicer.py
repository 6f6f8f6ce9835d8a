"""Serves `HistoryService`: conversations and recorded turns, for the consumer-agent and in part for operators."""

import asyncio
from collections.abc import Collection, Sequence
from contextlib import aclosing
from datetime import timedelta
from typing import Final

from grpc.aio import BaseError

from sidecar.core.errors import InternalError, Overloaded
from sidecar.core.evaluation.scores import ScoreSource
from sidecar.operations.process.turn_assembly import HistoryOperations
from sidecar.rpc.handler_guard import ServingRules
from sidecar.rpc.methods import Call, Method, MethodShape
from sidecar.rpc.translate import history, record, scores
from subagents.history.v1 import history_pb2 as pb

SERVICE: Final = "subagents.history.v1.HistoryService"
WRITE_TIMEOUT: Final = ServingRules().write_timeout
BY_AGENTS: Final = (ScoreSource.USER, ScoreSource.RULE)
BY_OPERATORS: Final = (ScoreSource.JUDGE, ScoreSource.RULE)
"""The sources of scores that each listener accepts: neither side can record a score in the name of the other."""
PIECE: Final = 256 * 1024
"""The most characters of an exported turn in one message. A turn can exceed the size limit of messages."""


class HistoryServicer:
    """The service of the consumer-agent, and the methods of it that operators may call.

    Args:
        operations: the operations behind the service.
        write_timeout: a watcher that accepts no message for this long is disconnected.
    """

    def __init__(self, operations: HistoryOperations, write_timeout: timedelta = WRITE_TIMEOUT) -> None:
        self._operations = operations
        self._write_timeout = write_timeout

    def methods(self) -> Sequence[Method]:
        """Return the RPCs."""
        # None is urgent, unlike those of operators: the limit of concurrent calls applies to them.
        one, many = MethodShape.ONE_TO_ONE, MethodShape.ONE_TO_MANY
        return (
            Method(f"/{SERVICE}/ReadEpisode", one, pb.ReadEpisodeRequest.FromString, self._read_episode),
            Method(f"/{SERVICE}/WriteSummary", one, pb.WriteSummaryRequest.FromString, self._write_summary),
            Method(f"/{SERVICE}/ListTurns", one, pb.ListTurnsRequest.FromString, self._list_turns),
            Method(f"/{SERVICE}/GetTurn", one, pb.GetTurnRequest.FromString, self._get_turn),
            self._watch_method(),
            Method(f"/{SERVICE}/ListEpisodes", one, pb.ListEpisodesRequest.FromString, self._list_episodes),
            Method(f"/{SERVICE}/ExportReplay", many, pb.ExportReplayRequest.FromString, self._export_replay),
            self._score_method(BY_AGENTS),
        )

    def methods_for_operators(self) -> Sequence[Method]:
        """Return the RPCs about recorded turns; `rpc/operators.py` decides which role may read contents."""
        one = MethodShape.ONE_TO_ONE
        return (
            Method(f"/{SERVICE}/ListTurns", one, pb.ListTurnsRequest.FromString, self._list_turns, urgent=True),
            Method(f"/{SERVICE}/GetTurn", one, pb.GetTurnRequest.FromString, self._get_turn, urgent=True),
            self._watch_method(),
            self._score_method(BY_OPERATORS),
        )

    def _score_method(self, sources: Collection[ScoreSource]) -> Method:
        """Return `RecordScore` for a listener whose callers may record scores of these sources."""

        async def record_score(message: pb.RecordScoreRequest, call: Call) -> pb.RecordScoreResponse:
            request = scores.record_score(message, sources)
            return scores.answer(await self._operations.record_score(request, call.subject))

        return Method(f"/{SERVICE}/RecordScore", MethodShape.ONE_TO_ONE, pb.RecordScoreRequest.FromString, record_score)

    def _watch_method(self) -> Method:
        return Method(
            f"/{SERVICE}/WatchEvents",
            MethodShape.ONE_TO_MANY,
            pb.WatchEventsRequest.FromString,
            self._watch_events,
            reserved=True,  # a turn may stay open for long, and a drain must not wait for its watchers
        )

    async def _read_episode(self, message: pb.ReadEpisodeRequest, call: Call) -> pb.ReadEpisodeResponse:
        return history.episode_message(await self._operations.read_episode(history.read_episode(message)))

    async def _write_summary(self, message: pb.WriteSummaryRequest, call: Call) -> pb.WriteSummaryResponse:
        revision, size = await self._operations.write_summary(history.write_summary(message))
        return pb.WriteSummaryResponse(revision=revision, size=history.size_message(size))

    async def _list_turns(self, message: pb.ListTurnsRequest, call: Call) -> pb.ListTurnsResponse:
        query, page = record.list_turns(message)
        return record.page_message(await self._operations.record.list_turns(query), page)

    async def _get_turn(self, message: pb.GetTurnRequest, call: Call) -> pb.GetTurnResponse:
        return record.turn_message(await self._operations.record.get_turn(*record.get_turn(message)))

    async def _list_episodes(self, message: pb.ListEpisodesRequest, call: Call) -> pb.ListEpisodesResponse:
        before, page = record.list_episodes(message)
        return record.episodes_message(await self._operations.record.list_episodes(page.size, before), page)

    async def _watch_events(self, message: pb.WatchEventsRequest, call: Call) -> None:
        turn_id, after = record.watch_events(message)
        # Closed at once when the watcher leaves, because the number of watchers is limited.
        async with aclosing(self._operations.record.watch(turn_id, after)) as batches:
            async for batch in batches:
                await self._send(call, record.batch_message(batch))

    async def _export_replay(self, message: pb.ExportReplayRequest, call: Call) -> None:
        # Exported completely before the first piece is sent, so that an error is a status and not a cut document.
        text = await self._operations.export_replay(record.export_replay(message))
        # By characters: a piece of bytes could end within a character, which a protobuf string cannot.
        for at in range(0, len(text), PIECE):
            await self._send(call, pb.ExportReplayResponse(document_json=text[at : at + PIECE]))

    async def _send(self, call: Call, message: pb.WatchEventsResponse | pb.ExportReplayResponse) -> None:
        """Send one message of a stream.

        Raises:
            Overloaded: the client has read nothing for the time limit.
            InternalError: the stream is broken.
        """
        try:
            # A watcher that reads nothing holds one of few places, and its queue would grow with each event.
            async with asyncio.timeout(self._write_timeout.total_seconds()):
                await call.write(message)
        except TimeoutError:
            raise Overloaded(
                f"nothing was read from the stream for {self._write_timeout.total_seconds():g} s; read faster, and "
                "watch again after what was seen",
                retry_after=timedelta(0),
            ) from None
        except BaseError:
            raise InternalError("the stream broke; watch again after what was seen") from None
