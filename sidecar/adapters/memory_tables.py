"""Stores conversations in tables. The episode memories in SQLite and PostgreSQL share these statements.

Every transaction that writes begins with the row of the episode (`BEGUN`). PostgreSQL locks this row until the end of
the transaction. The turns of an episode are therefore stored one after the other, and `turn_no` has their order.

The functions are generators (`Steps`): each yields a statement with its values, and receives the rows.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, TypeVar

from sidecar.adapters.idle_episodes import IdleEpisodes
from sidecar.adapters.statements import Steps, insert
from sidecar.core.definitions.prompt_size import estimated_tokens
from sidecar.core.history.compaction import outdated, tokens_of
from sidecar.core.history.message_layers import check_bodies, references_of
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

# `last_at` never decreases: otherwise an import of old turns could make an episode in use look idle.
BEGUN: Final = """
insert into history_episodes as kept (principal, episode_id, last_at) values ($1, $2, $3)
on conflict (principal, episode_id) do update
  set last_at = case when excluded.last_at > kept.last_at then excluded.last_at else kept.last_at end
returning episode_no, summary_revision
"""
TURN: Final = """
insert into history_turns (episode_no, turn_id, ended_at, user_message, narration, tokens)
values ($1, $2, $3, $4, $5, $6) on conflict do nothing returning turn_no
"""
ADDED: Final = """
update history_episodes set kept = kept + 1, turns = turns + 1, tokens = tokens + $1 where episode_no = $2
returning turns, tokens
"""
"""`kept` counts all stored turns. `turns` and `tokens` are what a model gets: the summary and the turns after it."""
SIZE: Final = "select turns, tokens from history_episodes where principal = $1 and episode_id = $2"
EPISODE: Final = """
select episode_no, kept, summary_revision, summary_text, summary_up_to, summary_at from history_episodes
where principal = $1 and episode_id = $2
"""
NEWEST: Final = """
select turn_no, turn_id, ended_at, user_message, narration from history_turns
where episode_no = $1 order by turn_no desc limit $2
"""
ANSWERS: Final = """
select a.turn_no, a.sub_agent_id, a.call_id, a.asked, a.narration
from history_turns t join history_answers a on a.turn_no = t.turn_no
where t.episode_no = $1 and t.turn_no >= $2 order by a.turn_no, a.place
"""
MESSAGES: Final = """
select m.turn_no, m.turn_id, m.sub_agent_id, m.call_id, m.position, m.name, m.tool_input, m.component_data
from history_turns t join history_tool_messages m on m.turn_no = t.turn_no
where t.episode_no = $1 and t.turn_no >= $2 order by m.turn_no, m.place
"""
OWN: Final = """
select e.episode_no, a.turn_no, t.turn_id, t.ended_at, a.call_id, a.asked, a.narration
from history_episodes e join history_answers a on a.episode_no = e.episode_no
  join history_turns t on t.turn_no = a.turn_no
where e.principal = $1 and e.episode_id = $2 and a.sub_agent_id = $3 order by a.turn_no desc, a.place desc limit $4
"""
"""The newest answers of one sub-agent in an episode, newest first."""
# An empty text in place of the component data, which can be large and which `references_of` does not read.
OWN_MESSAGES: Final = """
select m.turn_no, m.turn_id, m.sub_agent_id, m.call_id, m.position, m.name, m.tool_input, ''
from history_turns t join history_tool_messages m on m.turn_no = t.turn_no
where t.episode_no = $1 and t.turn_no >= $2 and m.sub_agent_id = $3 order by m.turn_no, m.place
"""
# The size counts only turns after the last one that the summary covers. If that turn is not stored, all turns count.
SUMMARY: Final = """
update history_episodes set summary_revision = $1, summary_text = $2, summary_up_to = $3, summary_at = $4,
  (turns, tokens) = (
    select count(*), cast($5 as bigint) + coalesce(sum(t.tokens), 0) from history_turns t
    where t.episode_no = $6 and t.turn_no > coalesce(
      (select c.turn_no from history_turns c where c.episode_no = $6 and c.turn_id = $3), 0))
where episode_no = $6 returning turns, tokens
"""
# Foreign keys (`on delete cascade`) remove the turns, answers and messages of these episodes.
FORGET_IDLE: Final = """
delete from history_episodes where episode_no in
  (select episode_no from history_episodes where last_at < $1 order by last_at limit $2 {})
returning episode_no
"""
FORGET_USER: Final = "delete from history_episodes where principal = $1 returning episode_no"

Result = TypeVar("Result")
Time = Callable[[Any], datetime]
"""Converts a time as the database returns it."""


def insert_turn(turn: TurnHistory) -> Steps[EpisodeSize]:
    """Store a turn, unless the episode already has a turn with this id. Return the size of the episode."""
    key, tokens = turn.episode, tokens_of(turn)
    ((episode_no, _),) = yield (BEGUN, key.principal, key.episode_id, turn.ended_at)
    of_turn = (episode_no, turn.turn_id, turn.ended_at, turn.user_message, turn.narration, tokens)
    # TURN returns no row if the turn is stored already, because the append was repeated after a lost reply. Its answers
    # must not be inserted twice, and the size of the episode must not grow.
    for (turn_no,) in (yield (TURN, *of_turn)):
        answers = [
            (turn_no, place, episode_no, each.sub_agent_id, each.call_id, each.asked, each.narration)
            for place, each in enumerate(turn.answers)
        ]
        yield from insert("history_answers", answers)
        messages = [
            (
                *(turn_no, place, each.turn_id, each.sub_agent_id, each.call_id, each.position, each.name),
                *(each.tool_input_json, each.component_data_json),
            )
            for place, each in enumerate(turn.tool_messages)
        ]
        yield from insert("history_tool_messages", messages)
        # The size is updated in the same transaction, so that it always agrees with the stored turns.
        ((turns, episode_tokens),) = yield (ADDED, tokens, episode_no)
        return EpisodeSize(turns, episode_tokens)
    return (yield from size_of_episode(key))


def size_of_episode(key: EpisodeKey) -> Steps[EpisodeSize]:
    """Return the size of an episode."""
    rows = yield (SIZE, key.principal, key.episode_id)
    return EpisodeSize(*rows[0]) if rows else EpisodeSize()


def contents(key: EpisodeKey, most: int, time: Time) -> Steps[EpisodeContents]:
    """Return the summary and the newest turns, oldest first."""
    episode = yield (EPISODE, key.principal, key.episode_id)
    if not episode:
        return EpisodeContents()
    episode_no, kept, revision, text, up_to, written_at = episode[0]
    summary = Summary(revision, text, up_to, time(written_at)) if revision else None
    newest = yield (NEWEST, episode_no, most)
    # Answers and messages of turns that are older than the returned ones are not read.
    oldest_no = newest[-1][0] if newest else 0
    answers = _by_turn((yield (ANSWERS, episode_no, oldest_no)))
    messages = _by_turn((yield (MESSAGES, episode_no, oldest_no)))
    turns = tuple(
        TurnHistory(
            episode=key,
            turn_id=turn_id,
            ended_at=time(ended_at),
            user_message=user_message,
            narration=narration,
            answers=tuple(SubAgentAnswer(*each) for each in answers.get(turn_no, ())),
            tool_messages=tuple(ToolMessage(*each) for each in messages.get(turn_no, ())),
        )
        for turn_no, turn_id, ended_at, user_message, narration in reversed(newest)
    )
    return EpisodeContents(summary, turns, kept)


def own_turns(key: EpisodeKey, slot: Slot, most: int, time: Time) -> Steps[tuple[OwnTurn, ...]]:
    """Return the newest answers of one sub-agent in one episode, oldest first.

    The statements select only rows of this sub-agent, episode and user: the sidecar never even reads those of others.
    """
    newest = yield (OWN, key.principal, key.episode_id, slot, most)
    messages = _by_turn((yield (OWN_MESSAGES, *newest[-1][:2], slot))) if newest else {}
    turns = []
    for _, turn_no, turn_id, ended_at, call_id, asked, narration in reversed(newest):
        turn_messages = [ToolMessage(*each) for each in messages.get(turn_no, ())]
        references = references_of([each for each in turn_messages if each.call_id == call_id])
        turns.append(OwnTurn(turn_id, slot, time(ended_at), asked, narration, references))
    return tuple(turns)


def replace_summary(key: EpisodeKey, summary: Summary) -> Steps[EpisodeSize]:
    """Replace the summary, and return the size of the episode.

    Raises:
        SummaryOutdated: the summary does not have the next revision, because another one was written before.
    """
    ((episode_no, present_revision),) = yield (BEGUN, key.principal, key.episode_id, summary.written_at)
    # BEGUN has locked the row, so no other writer can change the revision before this transaction ends.
    if summary.revision != present_revision + 1:
        raise outdated(present_revision)
    written = (summary.revision, summary.text, summary.up_to_turn_id, summary.written_at)
    rows = yield (SUMMARY, *written, estimated_tokens(summary.text), episode_no)
    return EpisodeSize(*rows[0])


def _count_of_removed(sql: str, *values: Any) -> Steps[int]:
    rows = yield (sql, *values)
    return len(rows)


def _by_turn(rows: Sequence[Sequence[Any]]) -> dict[int, list[Sequence[Any]]]:
    """Return the rows, without their first column, by this column, the number of the turn."""
    by_turn: dict[int, list[Sequence[Any]]] = {}
    # The statements order the rows, so each list is in order, too.
    for turn_no, *rest in rows:
        by_turn.setdefault(turn_no, []).append(rest)
    return by_turn


class TabledMemory(ABC):
    """An episode memory in tables. A subclass for each database runs the statements.

    Args:
        now: the wall clock.
        report: receives what failed and the name of the exception, for a log.
        failures: exceptions of a database that is temporarily unavailable.

    Attributes:
        skip_locked: the clause with which a removal of idle episodes skips rows that another transaction has locked.
            Two sidecars that remove at the same time then do not wait for each other.
    """

    skip_locked = ""

    def __init__(
        self,
        now: Callable[[], datetime],
        report: Callable[[str, str], None],
        failures: tuple[type[Exception], ...],
    ) -> None:
        self._idle_remover = IdleEpisodes(self._forget, now, report, failures)

    async def append(self, turn: TurnHistory) -> EpisodeSize:
        """Store a turn. A turn with an id that is stored already is ignored."""
        check_bodies(turn)
        return await self._write(partial(insert_turn, turn))

    async def read(self, episode: EpisodeKey, most_turns: int) -> EpisodeContents:
        """Return the summary and the newest turns, oldest first."""
        return await self._read(partial(contents, episode, most_turns, self._time))

    async def own_turns(self, episode: EpisodeKey, slot: Slot, most: int) -> Sequence[OwnTurn]:
        """Return the newest answers of one sub-agent, oldest first."""
        return await self._read(partial(own_turns, episode, slot, most, self._time))

    async def size(self, episode: EpisodeKey) -> EpisodeSize:
        """Return the size of the episode."""
        return await self._read(partial(size_of_episode, episode))

    async def write_summary(self, episode: EpisodeKey, summary: Summary) -> EpisodeSize:
        """Replace the summary if the new one has the next revision."""
        return await self._write(partial(replace_summary, episode, summary))

    async def forget_idle(self, idle: timedelta) -> int:
        """Remove all episodes without a turn for this time. Return how many were removed."""
        return await self._idle_remover.forget(idle)

    async def erase(self, principal: Principal) -> int:
        """Remove every episode of a user. Return how many were removed."""
        return await self._write(partial(_count_of_removed, FORGET_USER, principal))

    async def _forget(self, before: datetime, most: int) -> int:
        return await self._write(partial(_count_of_removed, FORGET_IDLE.format(self.skip_locked), before, most))

    @abstractmethod
    async def _read(self, work: Callable[[], Steps[Result]]) -> Result:
        """Run the statements of `work`, which only read, and return its result."""

    @abstractmethod
    async def _write(self, work: Callable[[], Steps[Result]]) -> Result:
        """Run the statements of `work` in one transaction, and return its result."""

    @abstractmethod
    def _time(self, value: Any) -> datetime:
        """Convert a time of the database."""
