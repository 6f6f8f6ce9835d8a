"""`RecordedHistory`, the attribute `SidecarClient.history`: reads the record of turns and records scores of calls."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Final

import grpc

from subagents.history.v1 import history_pb2
from subagents_client import translate_history
from subagents_client.errors import error_and_origin
from subagents_client.history.episodes import EpisodePage
from subagents_client.history.scores import Score, ScoredCall
from subagents_client.outcomes import Outcome
from subagents_client.recorded_turns import EventBatch, RecordedTurn, TurnPage, TurnState
from subagents_client.retrying import backoff_before, is_retryable, retry_idempotent
from subagents_client.wire import Wire
from subagents_errors import CallFailure, InternalError, SubagentsError


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnFilter:
    """Selects the turns of a list: those that match all attributes. An attribute with its default matches every turn.

    Attributes:
        episode_id: matches the turns of this conversation.
        sub_agent_id: matches the turns that called this slot.
        state: matches the turns in this state.
        principal: matches the turns of this user.
        since: matches the turns that began at this time or later; with a time zone.
        until: matches the turns that began before this time; with a time zone.
        outcome: matches the turns in which a call has this outcome.
        definition_id: matches the turns with a child of this definition.
        reason: matches the turns in which a call has this reason in its status.
    """

    episode_id: str = ""
    sub_agent_id: str = ""
    state: TurnState = TurnState.UNSPECIFIED
    principal: str = ""
    since: datetime | None = None
    until: datetime | None = None
    outcome: Outcome | None = None
    definition_id: str = ""
    reason: CallFailure | None = None


EVERY_TURN: Final = TurnFilter()


class RecordedHistory:
    """Reads the record of turns and records scores of calls. All replicas of one record return the same results."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def list_turns(
        self,
        wanted: TurnFilter = EVERY_TURN,
        *,
        page_size: int = 0,
        page_token: str = "",
        timeout: timedelta | None = None,
    ) -> TurnPage:
        """Return a page of turns, newest first. Safe to repeat.

        Args:
            wanted: selects the turns.
            page_size: maximum number of turns on the page; 0: 50; values above 200 count as 200.
            page_token: `next_page_token` of the previous page, read with the same `wanted`; empty: the first page.
            timeout: maximum time for the request; None: `ClientTimeouts.unary`.

        Raises:
            InvalidRequest: an argument is invalid.
            DependencyUnavailable, DeadlineExceeded: the record cannot be read now.
        """
        request = _list_turns(wanted)
        request.page_size, request.page_token = page_size, page_token
        limit = timeout or self._wire.timeouts.unary
        return translate_history.turn_page(
            await self._wire.ask(self._wire.history.ListTurns, request, "ListTurns", limit)
        )

    async def get_turn(
        self, turn_id: str, *, child_ids: Sequence[str] = (), timeout: timedelta | None = None
    ) -> RecordedTurn:
        """Return the record of a turn. Safe to repeat.

        Args:
            turn_id: id of the turn.
            child_ids: return only these children, at most 64; unknown ids are ignored; empty: all children.
            timeout: maximum time for the request; None: `ClientTimeouts.unary`.

        Raises:
            UnknownTurn: the turn is not on record.
            InvalidRequest: an argument is invalid.
            DependencyUnavailable, DeadlineExceeded: the record cannot be read now.

        Source: SX-39, SX-40.
        """
        request = history_pb2.GetTurnRequest(turn_id=turn_id, child_ids=child_ids)
        limit = timeout or self._wire.timeouts.unary
        return translate_history.recorded_turn(
            await self._wire.ask(self._wire.history.GetTurn, request, "GetTurn", limit)
        )

    async def list_episodes(
        self, *, page_size: int = 0, page_token: str = "", timeout: timedelta | None = None
    ) -> EpisodePage:
        """Return a page of the recorded conversations, the most recently used first. Safe to repeat.

        Args:
            page_size: maximum number of conversations on the page; 0: 50; values above 200 count as 200.
            page_token: `next_page_token` of the previous page; empty: the first page.
            timeout: maximum time for the request; None: `ClientTimeouts.unary`.

        Raises:
            InvalidRequest: an argument is invalid.
            DependencyUnavailable, DeadlineExceeded: the record cannot be read now.
        """
        request = history_pb2.ListEpisodesRequest(page_size=page_size, page_token=page_token)
        limit = timeout or self._wire.timeouts.unary
        answer = await self._wire.ask(self._wire.history.ListEpisodes, request, "ListEpisodes", limit)
        return translate_history.episode_page(answer)

    async def record_score(self, score: Score, *, timeout: timedelta | None = None) -> ScoredCall:
        """Record a score of one call, given by a user or a rule, and return the scored call. Safe to repeat.

        The turn may have ended long ago.

        Raises:
            UnknownTurn, UnknownDispatch, UnknownCall: the record has no such call of this user.
            ScoreRefused: no sub-agent has served the call, or not yet, or the turn takes no more scores;
                `metadata["cause"]` says which.
            ScoreIdReused: another score of the turn has this `score_id`.
            InvalidRequest: the score is invalid, or only operators may record scores of its source.
            DependencyUnavailable, DeadlineExceeded: the score cannot be recorded now.
        """
        fields = asdict(score) | {"source": f"SCORE_SOURCE_{score.source.name}"}
        request = history_pb2.RecordScoreRequest(**fields)
        limit = timeout or self._wire.timeouts.unary
        answer = await self._wire.ask(self._wire.history.RecordScore, request, "RecordScore", limit)
        called = answer.sub_agent_id, answer.definition_id, answer.definition_digest
        return ScoredCall(*called, answer.arm, answer.recorded_before)

    async def export_replay(self, turn_id: str, *, timeout: timedelta | None = None) -> str:
        """Return everything that a replay of a turn needs, as JSON text. Safe to repeat.

        Write the text to a file to pass it to `sidecar replay --from`.

        Args:
            turn_id: id of the turn.
            timeout: maximum time for the request; None: `ClientTimeouts.unary`.

        Raises:
            UnknownTurn: the turn is not on record.
            InvalidRequest: `turn_id` is invalid.
            DependencyUnavailable, DeadlineExceeded: the record cannot be read now.

        Source: PC1-FR-10d.
        """
        wire = self._wire

        async def read(left: float) -> str:
            stream = wire.export(history_pb2.ExportReplayRequest(turn_id=turn_id), left)
            try:
                return "".join([piece.document_json async for piece in stream])
            finally:
                stream.cancel()

        limit = timeout or wire.timeouts.unary
        return await retry_idempotent(read, "ExportReplay", limit, wire.timeouts, wire.runtime)

    async def watch_events(
        self, turn_id: str, *, after: Mapping[str, int] | None = None
    ) -> AsyncGenerator[EventBatch, None]:
        """Yield the events of a turn's children: first the recorded events, then new ones until the turn ends.

        After a broken connection or a stop of the sidecar, the iteration continues without lost or repeated events. It
        takes as long as the turn; limit it with `asyncio.timeout`. Close the generator (`contextlib.aclosing`) if you
        leave the loop early.

        Args:
            turn_id: id of the turn.
            after: child id to the highest event sequence already seen of this child; None: yield all events.

        Raises:
            UnknownTurn: the turn is not on record.
            InvalidRequest: an argument is invalid.
            SubagentsError: the last of `ClientTimeouts.most_attempts` failures without a message in between, or a
                failure that a repeated request cannot remove.
        """
        seen, failures = dict(after or {}), 0
        while True:
            stream = self._wire.watch(_watch_request(turn_id, seen))
            try:
                async for message in stream:
                    failures = 0
                    seen.update({event.child_id: event.sequence for event in message.events})
                    yield translate_history.event_batch(message)
                    if message.ended:
                        return
                failures += 1
                error: SubagentsError = InternalError("the stream ended before the turn did")
            except grpc.aio.AioRpcError as failure:
                failures += 1
                error = error_and_origin(failure, "WatchEvents", self._wire.target)[0]
            finally:
                stream.cancel()
            if failures >= self._wire.timeouts.most_attempts or not (
                is_retryable(error) or isinstance(error, InternalError)
            ):
                raise error
            runtime = self._wire.runtime
            await runtime.sleep(backoff_before(failures + 1, error, self._wire.timeouts, runtime.chance))


def _watch_request(turn_id: str, seen: Mapping[str, int]) -> history_pb2.WatchEventsRequest:
    after = [history_pb2.SeenUpTo(child_id=child_id, sequence=sequence) for child_id, sequence in seen.items()]
    return history_pb2.WatchEventsRequest(turn_id=turn_id, after=after)


def _list_turns(wanted: TurnFilter) -> history_pb2.ListTurnsRequest:
    """Return the request for the first page of some turns."""
    request = history_pb2.ListTurnsRequest(
        episode_id=wanted.episode_id,
        sub_agent_id=wanted.sub_agent_id,
        state=f"TURN_STATE_{wanted.state.name}",
        principal=wanted.principal,
        outcome="OUTCOME_UNSPECIFIED" if wanted.outcome is None else f"OUTCOME_{wanted.outcome.name}",
        definition_id=wanted.definition_id,
        reason=f"ERROR_REASON_{'UNSPECIFIED' if wanted.reason is None else wanted.reason.name}",
    )
    if wanted.since is not None:
        request.since.FromDatetime(wanted.since)
    if wanted.until is not None:
        request.until.FromDatetime(wanted.until)
    return request
