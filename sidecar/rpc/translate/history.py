"""Translates requests about conversations (`HistoryService`) to plain values, and stored conversations to messages."""

from collections.abc import Sequence
from typing import Final

from sidecar.core.history.compaction import NewSummary
from sidecar.core.history.message_layers import references_of
from sidecar.core.history.records import EpisodeKey, EpisodeSize, OwnTurn, Summary, ToolMessage, TurnHistory
from sidecar.core.identifiers import EpisodeId, TurnId
from sidecar.operations.history.read_history import EpisodeRead, EpisodeView, ReadEpisodeRequest
from sidecar.operations.history.write_summary import WriteSummaryRequest
from sidecar.rpc.translate import enums
from sidecar.rpc.translate.fields import Fields, timestamp
from subagents.history.v1 import history_pb2 as pb
from subagents.tools.v1 import tools_pb2

MOST_TURNS: Final = 1000
MOST_REVISION: Final = 2**53
"""The largest revision: JSON clients read numbers as floats, which are exact up to this value."""
VIEW_NAMES: Final = enums.names_of(pb.EpisodeView)


def read_episode(message: pb.ReadEpisodeRequest) -> ReadEpisodeRequest:
    """Return what to read. Raises `InvalidRequest`."""
    fields = Fields("ReadEpisodeRequest")
    request = ReadEpisodeRequest(
        episode=_episode(fields, message),
        view=fields.member("view", message.view, enums.EPISODE_VIEWS, VIEW_NAMES),
        max_turns=fields.count("max_turns", message.max_turns, MOST_TURNS),
    )
    fields.check()
    return request


def write_summary(message: pb.WriteSummaryRequest) -> WriteSummaryRequest:
    """Return what to write. Raises `InvalidRequest`."""
    fields = Fields("WriteSummaryRequest")
    text = fields.text("text", message.text, 64)
    # An empty summary would replace the turns that it covers by nothing.
    if not text.strip():
        fields.refuse("text", "is empty; say what the turns that it covers were about")
    summary = NewSummary(
        text=text,
        up_to_turn_id=TurnId(fields.run_side_id("up_to_turn_id", message.up_to_turn_id)),
        expected_revision=fields.count("expected_revision", message.expected_revision, MOST_REVISION),
    )
    request = WriteSummaryRequest(_episode(fields, message), summary)
    fields.check()
    return request


def episode_message(read: EpisodeRead) -> pb.ReadEpisodeResponse:
    """Return the answer to ReadEpisode."""
    return pb.ReadEpisodeResponse(
        summary=None if read.summary is None else _summary(read.summary),
        turns=[_turn(turn, payloads=read.view is EpisodeView.FULL) for turn in read.turns],
        turns_left_out=read.left_out,
        size=size_message(read.size),
    )


def size_message(size: EpisodeSize) -> pb.EpisodeSize:
    """Return the size of an episode as a message."""
    return pb.EpisodeSize(turn_count=size.turns, token_count=size.tokens)


def own_turns_message(turns: Sequence[OwnTurn]) -> tools_pb2.ReadOwnTurnsResponse:
    """Return the answer to ReadOwnTurns."""
    return tools_pb2.ReadOwnTurnsResponse(
        turns=[
            tools_pb2.OwnTurn(
                turn_id=turn.turn_id,
                ended_at=timestamp(turn.ended_at),
                asked=turn.asked,
                narration=turn.narration,
                components=[
                    tools_pb2.OwnComponent(name=each.name, position=each.position, component_ids=each.component_ids)
                    for each in turn.references
                ],
            )
            for turn in turns
        ]
    )


def _episode(fields: Fields, message: pb.ReadEpisodeRequest | pb.WriteSummaryRequest) -> EpisodeKey:
    episode_id = EpisodeId(fields.run_side_id("episode_id", message.episode_id))
    return EpisodeKey(episode_id, fields.principal("principal", message.principal))


def _summary(summary: Summary) -> pb.EpisodeSummary:
    return pb.EpisodeSummary(
        revision=summary.revision,
        text=summary.text,
        up_to_turn_id=summary.up_to_turn_id,
        written_at=timestamp(summary.written_at),
    )


def _turn(turn: TurnHistory, *, payloads: bool) -> pb.EpisodeTurn:
    return pb.EpisodeTurn(
        turn_id=turn.turn_id,
        ended_at=timestamp(turn.ended_at),
        user_message=turn.user_message,
        narration=turn.narration,
        answers=[
            pb.SubAgentAnswer(
                sub_agent_id=each.sub_agent_id, call_id=each.call_id, asked=each.asked, narration=each.narration
            )
            for each in turn.answers
        ],
        references=[
            pb.ComponentReference(
                sub_agent_id=each.sub_agent_id,
                name=each.name,
                position=each.position,
                component_ids=each.component_ids,
            )
            for each in references_of(turn.tool_messages)
        ],
        # Only in the view that asks for them: payloads are the largest part of a conversation.
        tool_messages=[_tool_message(each) for each in turn.tool_messages] if payloads else (),
    )


def _tool_message(message: ToolMessage) -> pb.ToolMessage:
    return pb.ToolMessage(
        turn_id=message.turn_id,
        sub_agent_id=message.sub_agent_id,
        call_id=message.call_id,
        position=message.position,
        name=message.name,
        tool_input_json=message.tool_input_json,
        component_data_json=message.component_data_json,
    )
