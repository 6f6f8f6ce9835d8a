"""Reads and writes the tables of conversations on one connection."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

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


def plain(text: str) -> str:
    """Return a text without the character NUL, which PostgreSQL cannot store."""
    return text.replace("\x00", "\ufffd")


async def lock_episode(connection: Any, key: EpisodeKey, at: datetime) -> Any:
    """Return an episode's row, created if absent, and locked until the end of the transaction."""
    return await connection.fetchrow(
        "insert into history_episodes as e (principal, episode_id, last_at) values ($1, $2, $3)"
        " on conflict (principal, episode_id) do update set last_at = greatest(e.last_at, excluded.last_at)"
        " returning episode_no, summary_revision",
        *(key.principal, key.episode_id, at),
    )


async def insert_turn(connection: Any, turn: TurnHistory) -> EpisodeSize:
    """Store a turn, unless the episode has one with that id; return the size of the episode."""
    episode_no, _ = await lock_episode(connection, turn.episode, turn.ended_at)
    tokens = tokens_of(turn)
    turn_no = await connection.fetchval(
        "insert into history_turns (episode_no, turn_id, ended_at, user_message, narration, tokens)"
        " values ($1, $2, $3, $4, $5, $6) on conflict do nothing returning turn_no",
        *(episode_no, turn.turn_id, turn.ended_at, plain(turn.user_message), plain(turn.narration), tokens),
    )
    if turn_no is None:
        return _size(
            await connection.fetchrow("select turns, tokens from history_episodes where episode_no = $1", episode_no)
        )
    await connection.executemany(
        "insert into history_answers values ($1, $2, $3, $4, $5, $6, $7)",
        [
            (turn_no, place, episode_no, each.sub_agent_id, each.call_id, plain(each.asked), plain(each.narration))
            for place, each in enumerate(turn.answers)
        ],
    )
    await connection.executemany(
        "insert into history_tool_messages values ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        [
            (
                *(turn_no, place, each.turn_id, each.sub_agent_id, each.call_id, each.position),
                *(plain(each.name), plain(each.tool_input_json), plain(each.component_data_json)),
            )
            for place, each in enumerate(turn.tool_messages)
        ],
    )
    return _size(
        await connection.fetchrow(
            "update history_episodes set kept = kept + 1, turns = turns + 1, tokens = tokens + $2"
            " where episode_no = $1 returning turns, tokens",
            *(episode_no, tokens),
        )
    )


async def size_of_episode(connection: Any, key: EpisodeKey) -> EpisodeSize:
    """Return the size of an episode."""
    return _size(
        await connection.fetchrow(
            "select turns, tokens from history_episodes where principal = $1 and episode_id = $2",
            *(key.principal, key.episode_id),
        )
    )


async def contents_of(connection: Any, key: EpisodeKey, most: int) -> EpisodeContents:
    """Return the summary and the newest turns."""
    episode = await connection.fetchrow(
        "select episode_no, kept, summary_revision, summary_text, summary_up_to, summary_at from history_episodes"
        " where principal = $1 and episode_id = $2",
        *(key.principal, key.episode_id),
    )
    if episode is None:
        return EpisodeContents()
    newest = await connection.fetch(
        "select turn_no, turn_id, ended_at, user_message, narration from history_turns where episode_no = $1"
        " order by turn_no desc limit $2",
        *(episode["episode_no"], most),
    )
    numbers = [row["turn_no"] for row in newest]
    answers = await _by_turn(
        connection,
        "select turn_no, sub_agent_id, call_id, asked, narration from history_answers"
        " where turn_no = any($1::bigint[]) order by turn_no, place",
        numbers,
    )
    messages = await _by_turn(
        connection,
        "select turn_no, turn_id, sub_agent_id, call_id, position, name, tool_input, component_data"
        " from history_tool_messages where turn_no = any($1::bigint[]) order by turn_no, place",
        numbers,
    )
    turns = tuple(
        TurnHistory(
            episode=key,
            turn_id=row["turn_id"],
            ended_at=row["ended_at"],
            user_message=row["user_message"],
            narration=row["narration"],
            answers=tuple(SubAgentAnswer(*each) for each in answers.get(row["turn_no"], ())),
            tool_messages=tuple(ToolMessage(*each) for each in messages.get(row["turn_no"], ())),
        )
        for row in reversed(newest)
    )
    summary = Summary(*list(episode)[2:]) if episode["summary_revision"] else None
    return EpisodeContents(summary, turns, episode["kept"])


async def own_turns_of_one(connection: Any, key: EpisodeKey, slot: Slot, most: int) -> tuple[OwnTurn, ...]:
    """Return one sub-agent's newest answers. No row of another sub-agent, session or user leaves the database."""
    newest = await connection.fetch(
        "select a.turn_no, t.turn_id, t.ended_at, a.call_id, a.asked, a.narration from history_episodes e"
        " join history_answers a on a.episode_no = e.episode_no join history_turns t on t.turn_no = a.turn_no"
        " where e.principal = $1 and e.episode_id = $2 and a.sub_agent_id = $3"
        " order by a.turn_no desc, a.place desc limit $4",
        *(key.principal, key.episode_id, slot, most),
    )
    messages = await _by_turn(
        connection,
        "select turn_no, turn_id, sub_agent_id, call_id, position, name, tool_input, '' from history_tool_messages"
        " where turn_no = any($1::bigint[]) and sub_agent_id = $2 order by turn_no, place",
        [row["turn_no"] for row in newest],
        slot,
    )
    found = []
    for row in reversed(newest):
        made = [ToolMessage(*each) for each in messages.get(row["turn_no"], ())]
        references = references_of([each for each in made if each.call_id == row["call_id"]])
        found.append(OwnTurn(row["turn_id"], slot, row["ended_at"], row["asked"], row["narration"], references))
    return tuple(found)


async def replace_summary(connection: Any, key: EpisodeKey, summary: Summary, tokens: int) -> EpisodeSize | int:
    """Write the next summary and return the size; if this is not the next one, the present one's revision."""
    episode_no, present = await lock_episode(connection, key, summary.written_at)
    if summary.revision != present + 1:
        return int(present)
    return _size(
        await connection.fetchrow(
            "update history_episodes e set summary_revision = $2, summary_text = $3, summary_up_to = $4,"
            " summary_at = $5, (turns, tokens) = (select count(*), $6::bigint + coalesce(sum(t.tokens), 0)"
            " from history_turns t where t.episode_no = $1 and t.turn_no > coalesce((select c.turn_no"
            " from history_turns c where c.episode_no = $1 and c.turn_id = $4), 0))"
            " where e.episode_no = $1 returning turns, tokens",
            *(episode_no, summary.revision, plain(summary.text), summary.up_to_turn_id, summary.written_at, tokens),
        )
    )


async def forget_idle(connection: Any, before: datetime, most: int) -> int:
    """Remove whole episodes that nothing was added to since `before`; returns how many, at most `most`."""
    gone = await connection.fetch(
        "delete from history_episodes where episode_no in (select episode_no from history_episodes"
        " where last_at < $1 order by last_at limit $2 for update skip locked) returning episode_no",
        *(before, most),
    )
    return len(gone)


async def forget_user(connection: Any, principal: Principal) -> int:
    """Remove every episode of a user; returns how many."""
    gone = await connection.fetch("delete from history_episodes where principal = $1 returning episode_no", principal)
    return len(gone)


async def _by_turn(connection: Any, statement: str, numbers: Sequence[int], *values: Any) -> dict[int, list[list[Any]]]:
    found: dict[int, list[list[Any]]] = {}
    for row in await connection.fetch(statement, numbers, *values):
        turn_no, *rest = row
        found.setdefault(turn_no, []).append(rest)
    return found


def _size(row: Any) -> EpisodeSize:
    return EpisodeSize(row["turns"], int(row["tokens"])) if row else EpisodeSize()
