"""Messages of `subagents.history.v1` to the values of the SDK."""

from subagents.history.v1 import history_pb2, record_pb2
from subagents_client.history.episodes import (
    ComponentReference,
    Episode,
    EpisodePage,
    EpisodeRow,
    EpisodeSize,
    EpisodeSummary,
    EpisodeTurn,
    SubAgentAnswer,
    ToolMessage,
)
from subagents_client.history.scores import RecordedScore, ScoreSource
from subagents_client.recorded_turns import (
    ChildEvent,
    EventActor,
    EventBatch,
    RecordedChild,
    RecordedDispatch,
    RecordedTurn,
    TurnPage,
    TurnRow,
    TurnState,
)
from subagents_client.translate import call_outcome, timestamp
from subagents_client.translate_ending import routing_decision, turn_close_reason

STATES = {record_pb2.TurnState.Value(f"TURN_STATE_{state.name}"): state for state in TurnState}
SOURCES = {record_pb2.ScoreSource.Value(f"SCORE_SOURCE_{source.name}"): source for source in ScoreSource}
ACTORS = {record_pb2.EventActor.Value(f"EVENT_ACTOR_{actor.name}"): actor for actor in EventActor}
"""Numbers of the wire to our members; one that is newer than this version is none of them."""


def turn_page(message: history_pb2.ListTurnsResponse) -> TurnPage:
    """Return a page of turns."""
    as_of = timestamp(message.as_of) if message.HasField("as_of") else None
    return TurnPage([_row(row) for row in message.turns], message.next_page_token, as_of)


def episode_page(message: history_pb2.ListEpisodesResponse) -> EpisodePage:
    """Return a page of conversations."""
    as_of = timestamp(message.as_of) if message.HasField("as_of") else None
    return EpisodePage([episode_row(row) for row in message.episodes], message.next_page_token, as_of)


def recorded_turn(message: history_pb2.GetTurnResponse) -> RecordedTurn:
    """Return all of a turn."""
    return RecordedTurn(
        turn=_row(message.turn),
        dispatches=[_dispatch(one) for one in message.dispatches],
        children=[_child(one) for one in message.children],
        routing_decision=routing_decision(message.routing_decision) if message.HasField("routing_decision") else None,
        narration=message.narration,
        close_reason=turn_close_reason(message.close_reason),
        texts_left_out=message.texts_left_out,
        events_left_out=message.events_left_out,
        scores=[_score(one) for one in message.scores],
    )


def event_batch(message: history_pb2.WatchEventsResponse) -> EventBatch:
    """Return some of what happened."""
    return EventBatch([_child(one) for one in message.children], [_event(one) for one in message.events], message.ended)


def episode_row(message: record_pb2.EpisodeRow) -> EpisodeRow:
    """Return a conversation in a list."""
    return EpisodeRow(
        message.episode_id,
        message.principal,
        message.turn_count,
        timestamp(message.first_turn_at),
        timestamp(message.last_turn_at),
        list(message.sub_agent_ids),
    )


def _row(message: record_pb2.TurnRow) -> TurnRow:
    return TurnRow(
        turn_id=message.turn_id,
        episode_id=message.episode_id,
        principal=message.principal,
        state=STATES.get(message.state, TurnState.UNSPECIFIED),
        started_at=timestamp(message.started_at),
        ended_at=timestamp(message.ended_at) if message.HasField("ended_at") else None,
        sub_agent_ids=list(message.sub_agent_ids),
        child_count=message.child_count,
        failed_child_count=message.failed_child_count,
    )


def _dispatch(message: record_pb2.RecordedDispatch) -> RecordedDispatch:
    return RecordedDispatch(
        dispatch_id=message.dispatch_id,
        opened_at=timestamp(message.opened_at),
        settle_by=timestamp(message.settle_by),
        call_count=message.call_count,
        owner_instance_id=message.owner_instance_id,
        takeover_count=message.takeover_count,
        owner_alive=message.owner_alive,
        outcomes=[call_outcome(one) for one in message.outcomes],
    )


def _child(message: record_pb2.RecordedChild) -> RecordedChild:
    return RecordedChild(
        child_id=message.child_id,
        dispatch_id=message.dispatch_id,
        call_id=message.call_id,
        sub_agent_id=message.sub_agent_id,
        emission_index=message.emission_index,
        parent_child_id=message.parent_child_id,
        opened_at=timestamp(message.opened_at),
        contract_json=message.contract_json,
        events=[_event(one) for one in message.events],
        answered_in_turn_id=message.answered_in_turn_id,
    )


def _event(message: record_pb2.ChildEvent) -> ChildEvent:
    return ChildEvent(
        event_id=message.event_id,
        child_id=message.child_id,
        sequence=message.sequence,
        name=message.name,
        occurred_at=timestamp(message.occurred_at),
        actor=ACTORS.get(message.actor, EventActor.UNSPECIFIED),
        summary=message.summary,
        details_json=message.details_json,
        previous_link=message.previous_link,
        link=message.link,
    )


def _score(message: record_pb2.RecordedScore) -> RecordedScore:
    return RecordedScore(
        score_id=message.score_id,
        dispatch_id=message.dispatch_id,
        call_id=message.call_id,
        name=message.name,
        value=message.value,
        label=message.label,
        source=SOURCES.get(message.source, ScoreSource.UNSPECIFIED),
        explanation=message.explanation,
        recorded_by=message.recorded_by,
        recorded_at=timestamp(message.recorded_at),
    )


def episode(message: history_pb2.ReadEpisodeResponse) -> Episode:
    """Return an episode."""
    return Episode(
        summary=_summary(message.summary) if message.HasField("summary") else None,
        turns=[_turn(one) for one in message.turns],
        turns_left_out=message.turns_left_out,
        size=size(message.size),
    )


def size(message: history_pb2.EpisodeSize) -> EpisodeSize:
    """Return how large an episode is."""
    return EpisodeSize(message.turn_count, message.token_count)


def _summary(message: history_pb2.EpisodeSummary) -> EpisodeSummary:
    return EpisodeSummary(message.revision, message.text, message.up_to_turn_id, timestamp(message.written_at))


def _turn(message: history_pb2.EpisodeTurn) -> EpisodeTurn:
    return EpisodeTurn(
        turn_id=message.turn_id,
        ended_at=timestamp(message.ended_at),
        user_message=message.user_message,
        narration=message.narration,
        answers=[SubAgentAnswer(one.sub_agent_id, one.call_id, one.asked, one.narration) for one in message.answers],
        references=[
            ComponentReference(one.sub_agent_id, one.name, one.position, list(one.component_ids))
            for one in message.references
        ],
        tool_messages=[_tool_message(one) for one in message.tool_messages],
    )


def _tool_message(message: history_pb2.ToolMessage) -> ToolMessage:
    return ToolMessage(
        message.turn_id,
        message.sub_agent_id,
        message.call_id,
        message.position,
        message.name,
        message.tool_input_json,
        message.component_data_json,
    )
