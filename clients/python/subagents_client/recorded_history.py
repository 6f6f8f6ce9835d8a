"""Look at what is on record of turns, and score calls: `SidecarClient.history`."""

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
    """Which turns a list shows; what is left out does not matter.

    Attributes:
        episode_id: of this conversation.
        sub_agent_id: that called this slot.
        state: in this state.
        principal: of this user.
        since: that began at this time or later; aware.
        until: that began before; aware.
        outcome: in which a call came to it.
        definition_id: in which a child runs it.
        reason: in which a call ended for it.
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
    """Reads of the record, and scores of its calls. Every replica on the same store answers the same."""

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
            wanted: which turns.
            page_size: most turns on it; 0: the usual number; more than 200 counts as 200.
            page_token: `next_page_token` of the page before, with the same `wanted`.
            timeout: None: `ClientTimeouts.unary`.

        Raises:
            InvalidRequest: the request is wrong.
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
        """Return all that is on record of a turn, or of some of its children. Safe to repeat.

        Raises:
            UnknownTurn: nothing is on record of it.
            InvalidRequest: the request is wrong.
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
        """Return a page of the conversations on record, those used last first. Safe to repeat.

        Args:
            page_size: most conversations on it; 0: the usual number; more than 200 counts as 200.
            page_token: `next_page_token` of the page before.
            timeout: None: `ClientTimeouts.unary`.

        Raises:
            InvalidRequest: the request is wrong.
            DependencyUnavailable, DeadlineExceeded: the record cannot be read now.
        """
        request = history_pb2.ListEpisodesRequest(page_size=page_size, page_token=page_token)
        limit = timeout or self._wire.timeouts.unary
        answer = await self._wire.ask(self._wire.history.ListEpisodes, request, "ListEpisodes", limit)
        return translate_history.episode_page(answer)

    async def record_score(self, score: Score, *, timeout: timedelta | None = None) -> ScoredCall:
        """Record what a user or a rule says of one call, also long after the turn has ended. Safe to repeat.

        Raises:
            UnknownTurn, UnknownDispatch, UnknownCall: the record has no such call of this user.
            ScoreRefused: no sub-agent has served the call, or not yet; `metadata["cause"]` says why.
            ScoreIdReused: another score of the turn has the id.
            InvalidRequest: the request is wrong, or the source is one that only operators may record.
            DependencyUnavailable, DeadlineExceeded: it cannot be recorded now.
        """
        fields = asdict(score) | {"source": f"SCORE_SOURCE_{score.source.name}"}
        request = history_pb2.RecordScoreRequest(**fields)
        limit = timeout or self._wire.timeouts.unary
        answer = await self._wire.ask(self._wire.history.RecordScore, request, "RecordScore", limit)
        called = answer.sub_agent_id, answer.definition_id, answer.definition_digest
        return ScoredCall(*called, answer.arm, answer.recorded_before)

    async def export_replay(self, turn_id: str, *, timeout: timedelta | None = None) -> str:
        """Return everything that a replay of a turn needs, as JSON: write it to a file for `sidecar replay --from`.

        Safe to repeat.

        Args:
            turn_id: which turn.
            timeout: None: `ClientTimeouts.unary`.

        Raises:
            UnknownTurn: nothing is on record of it.
            InvalidRequest: the request is wrong.
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
        """Yield what happens to the children of a turn: what is on record first, then live until the turn has ended.

        Goes on where it was when the connection breaks or the sidecar stops; nothing is lost and nothing comes twice.
        Waits as long as the turn takes: put it into `asyncio.timeout` for less, and close it (`contextlib.aclosing`)
        when you leave early.

        Args:
            turn_id: which turn.
            after: by child, the newest sequence that was seen before.

        Raises:
            UnknownTurn: nothing is on record of it.
            InvalidRequest: the request is wrong.
            SubagentsError: the last failure of several in a row.
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
