"""Messages of `subagents.history.v1` to the values of the SDK."""

from subagents.history.v1 import history_pb2
from subagents_client.record.conversations import (
    ComponentReference,
    Episode,
    EpisodeSize,
    EpisodeSummary,
    EpisodeTurn,
    SubAgentAnswer,
    ToolMessage,
)
from subagents_client.translate import moment


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
    return EpisodeSize(message.turns, message.tokens)


def _summary(message: history_pb2.EpisodeSummary) -> EpisodeSummary:
    return EpisodeSummary(message.revision, message.text, message.up_to_turn_id, moment(message.written_at))


def _turn(message: history_pb2.EpisodeTurn) -> EpisodeTurn:
    return EpisodeTurn(
        turn_id=message.turn_id,
        ended_at=moment(message.ended_at),
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
