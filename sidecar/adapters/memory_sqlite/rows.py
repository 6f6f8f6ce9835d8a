"""Reads and writes the tables of conversations inside a transaction of the engine's threads."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import apsw

from sidecar.core.history.compaction import tokens_of
from sidecar.core.history.message_layers import references_of
from sidecar.core.history.records import (
    EpisodeContents,
    EpisodeKey,
    EpisodeSize,
    OwnTurn,
    SubAgentAnswer,
    Summary,
    ToolMessage,
    TurnHistory,
)
from sidecar.core.identifiers import Principal, Slot


def text_of(at: datetime) -> str:
    """Return a time as text that sorts."""
    return at.astimezone(UTC).isoformat(timespec="microseconds")


def size_in(connection: apsw.Connection, key: EpisodeKey) -> EpisodeSize | None:
    """Return how much an episode is; None if it is not there."""
    found = _first(
        connection,
        "SELECT turns, tokens FROM history_episodes WHERE principal = ? AND episode_id = ?",
        (key.principal, key.episode_id),
    )
    return EpisodeSize(*found) if found else None


def summary_in(connection: apsw.Connection, key: EpisodeKey) -> Summary | None:
    """Return the summary; None if there is none."""
    found = _first(
        connection,
        "SELECT summary_revision, summary_text, summary_up_to, summary_at FROM history_episodes"
        " WHERE principal = ? AND episode_id = ? AND summary_revision > 0",
        (key.principal, key.episode_id),
    )
    return Summary(found[0], found[1], found[2], datetime.fromisoformat(found[3])) if found else None


def insert_turn(connection: apsw.Connection, turn: TurnHistory) -> None:
    """Keep a turn, unless the episode has one of that id."""
    key, ended_at, tokens = turn.episode, text_of(turn.ended_at), tokens_of(turn)
    connection.execute(
        "INSERT INTO history_episodes (principal, episode_id, kept, turns, tokens, last_at) VALUES (?, ?, 0, 0, 0, ?)"
        " ON CONFLICT DO NOTHING",
        (key.principal, key.episode_id, ended_at),
    )
    added = _first(
        connection,
        "INSERT INTO history_turns (episode_no, turn_id, ended_at, user_message, narration, tokens)"
        " SELECT episode_no, ?, ?, ?, ?, ? FROM history_episodes WHERE principal = ? AND episode_id = ?"
        " ON CONFLICT DO NOTHING RETURNING turn_no, episode_no",
        (turn.turn_id, ended_at, turn.user_message, turn.narration, tokens, key.principal, key.episode_id),
    )
    if added is None:
        return
    turn_no, episode_no = added
    connection.executemany(
        "INSERT INTO history_answers VALUES (?, ?, ?, ?, ?, ?, ?)",
        [
            (turn_no, place, episode_no, each.sub_agent_id, each.call_id, each.asked, each.narration)
            for place, each in enumerate(turn.answers)
        ],
    )
    connection.executemany(
        "INSERT INTO history_tool_messages VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [(turn_no, place, *_columns(each)) for place, each in enumerate(turn.tool_messages)],
    )
    connection.execute(
        "UPDATE history_episodes SET kept = kept + 1, turns = turns + 1, tokens = tokens + ?,"
        " last_at = max(last_at, ?) WHERE episode_no = ?",
        (tokens, ended_at, episode_no),
    )


def contents_in(connection: apsw.Connection, key: EpisodeKey, most: int) -> EpisodeContents:
    """Return the summary and the newest turns."""
    found = _first(
        connection,
        "SELECT episode_no, kept FROM history_episodes WHERE principal = ? AND episode_id = ?",
        (key.principal, key.episode_id),
    )
    if found is None:
        return EpisodeContents()
    episode_no, kept = found
    newest = connection.execute(
        "SELECT turn_no, turn_id, ended_at, user_message, narration FROM history_turns WHERE episode_no = ?"
        " ORDER BY turn_no DESC LIMIT ?",
        (episode_no, most),
    ).fetchall()
    turns = tuple(_turn(connection, key, row) for row in reversed(newest))
    return EpisodeContents(summary_in(connection, key), turns, kept)


def own_turns_in(connection: apsw.Connection, key: EpisodeKey, slot: Slot, most: int) -> tuple[OwnTurn, ...]:
    """Return one sub-agent's newest answers. No row of another sub-agent, session or user leaves the database."""
    newest = connection.execute(
        "SELECT a.turn_no, t.turn_id, t.ended_at, a.call_id, a.asked, a.narration"
        " FROM history_episodes e JOIN history_answers a ON a.episode_no = e.episode_no"
        " JOIN history_turns t ON t.turn_no = a.turn_no"
        " WHERE e.principal = ? AND e.episode_id = ? AND a.sub_agent_id = ?"
        " ORDER BY a.turn_no DESC, a.place DESC LIMIT ?",
        (key.principal, key.episode_id, slot, most),
    ).fetchall()
    return tuple(_own_turn(connection, slot, row) for row in reversed(newest))


def replace_summary(connection: apsw.Connection, key: EpisodeKey, summary: Summary, tokens: int) -> int | None:
    """Write the next summary; if this is not the next one, return the present one's revision and write nothing."""
    owner = (key.principal, key.episode_id)
    if summary.revision == 1:
        connection.execute(
            "INSERT INTO history_episodes (principal, episode_id, kept, turns, tokens, last_at)"
            " VALUES (?, ?, 0, 0, 0, ?) ON CONFLICT DO NOTHING",
            (*owner, text_of(summary.written_at)),
        )
    written = _first(
        connection,
        "UPDATE history_episodes SET summary_revision = ?, summary_text = ?, summary_up_to = ?, summary_at = ?,"
        " last_at = max(last_at, ?) WHERE principal = ? AND episode_id = ? AND summary_revision = ?"
        " RETURNING episode_no",
        (
            *(summary.revision, summary.text, summary.up_to_turn_id),
            *(text_of(summary.written_at), text_of(summary.written_at)),
            *(*owner, summary.revision - 1),
        ),
    )
    if written is None:
        present = summary_in(connection, key)
        return present.revision if present else 0
    connection.execute(
        "UPDATE history_episodes SET (turns, tokens) = (SELECT count(*), ? + coalesce(sum(t.tokens), 0)"
        " FROM history_turns t WHERE t.episode_no = history_episodes.episode_no AND t.turn_no > coalesce("
        "(SELECT c.turn_no FROM history_turns c WHERE c.episode_no = t.episode_no AND c.turn_id = ?), 0))"
        " WHERE episode_no = ?",
        (tokens, summary.up_to_turn_id, written[0]),
    )
    return None


def forget_idle(connection: apsw.Connection, before: datetime, most: int) -> int:
    """Remove whole episodes that nothing was added to since `before`; returns how many, at most `most`."""
    gone = connection.execute(
        "DELETE FROM history_episodes WHERE episode_no IN"
        " (SELECT episode_no FROM history_episodes WHERE last_at < ? ORDER BY last_at LIMIT ?) RETURNING episode_no",
        (text_of(before), most),
    ).fetchall()
    return len(gone)


def forget_user(connection: apsw.Connection, principal: Principal) -> int:
    """Remove every episode of a user; returns how many."""
    gone = connection.execute("DELETE FROM history_episodes WHERE principal = ? RETURNING episode_no", (principal,))
    return len(gone.fetchall())


def _turn(connection: apsw.Connection, key: EpisodeKey, row: Sequence[Any]) -> TurnHistory:
    turn_no, turn_id, ended_at, user_message, narration = row
    answers = connection.execute(
        "SELECT sub_agent_id, call_id, asked, narration FROM history_answers WHERE turn_no = ? ORDER BY place",
        (turn_no,),
    )
    return TurnHistory(
        episode=key,
        turn_id=turn_id,
        ended_at=datetime.fromisoformat(ended_at),
        user_message=user_message,
        narration=narration,
        answers=tuple(SubAgentAnswer(*each) for each in answers),
        tool_messages=tuple(
            ToolMessage(*each)
            for each in connection.execute(
                "SELECT turn_id, sub_agent_id, call_id, position, name, tool_input, component_data"
                " FROM history_tool_messages WHERE turn_no = ? ORDER BY place",
                (turn_no,),
            )
        ),
    )


def _own_turn(connection: apsw.Connection, slot: Slot, row: Sequence[Any]) -> OwnTurn:
    turn_no, turn_id, ended_at, call_id, asked, narration = row
    return OwnTurn(
        turn_id=turn_id,
        sub_agent_id=slot,
        ended_at=datetime.fromisoformat(ended_at),
        asked=asked,
        narration=narration,
        references=references_of(list(_without_data(connection, turn_no, slot, call_id))),
    )


def _without_data(connection: apsw.Connection, turn_no: int, slot: Slot, call_id: str) -> Iterator[ToolMessage]:
    """Go through one answer's tool messages; their contents stay in the database."""
    for row in connection.execute(
        "SELECT turn_id, sub_agent_id, call_id, position, name, tool_input, '' FROM history_tool_messages"
        " WHERE turn_no = ? AND sub_agent_id = ? AND call_id = ? ORDER BY place",
        (turn_no, slot, call_id),
    ):
        yield ToolMessage(*row)


def _columns(message: ToolMessage) -> tuple[Any, ...]:
    return (
        *(message.turn_id, message.sub_agent_id, message.call_id, message.position, message.name),
        *(message.tool_input_json, message.component_data_json),
    )


def _first(connection: apsw.Connection, statement: str, values: Sequence[Any]) -> Sequence[Any] | None:
    found = connection.execute(statement, tuple(values)).fetchall()
    return found[0] if found else None
