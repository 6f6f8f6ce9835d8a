"""Lists: the same whether what they show is projected, or changed so lately that it is not."""

from typing import Any

import pytest
from msgspec.structs import replace

from sidecar.core.dispatching.outcomes import Outcome
from sidecar.core.executing.stored_record import TurnQuery, TurnState
from sidecar.core.identifiers import DefinitionId, EpisodeId, Principal, Slot, TurnId
from sidecar.core.listing.changes import Watermarks
from sidecar.core.listing.turn_rows import mark_of, turn_line
from sidecar.operations.record.lists import MOST_CHANGES
from sidecar.operations.record.ports import NotThisJournal
from subagents_errors import CallFailure
from tests.adapters.records.bench import OpenedRecord, RecordBench
from tests.support.record_builders import (
    a_child,
    a_dispatch,
    a_life,
    a_settling,
    a_whole_turn,
    an_end,
    an_outcome,
    moment,
    the_claims,
)

EVERYTHING = 10_000


class ListRules:
    """What lists show. Subclass it with a fixture `bench`."""

    @pytest.fixture(params=[False, True], ids=["from the tail", "projected"])
    def at_once(self, request: pytest.FixtureRequest) -> bool:
        """Whether everything is projected before a list is read; else nothing is."""
        return bool(request.param)

    async def test_turns_are_listed_page_by_page(self, bench: RecordBench, at_once: bool) -> None:
        """Newest first; those that began at one time by id; the pages make up the whole."""
        async with bench:
            record = await bench.open("one", at_once=at_once)
            for turn, at in (("a", 0), ("b", 1), ("c", 1), ("d", 1), ("e", 2)):
                await record.append(a_whole_turn(turn, at=at))
            pages, query = [], TurnQuery(limit=2)
            while rows := (await record.turns(query)).rows:
                pages.append([row.turn_id for row in rows])
                query = TurnQuery(limit=2, before=(rows[-1].began_at, rows[-1].turn_id))
            assert pages == [["e", "d"], ["c", "b"], ["a"]]

    async def test_a_row_says_how_the_turn_stands(self, bench: RecordBench, at_once: bool) -> None:
        """Slots in order of opening, each once; failed children; when it began and ended."""
        async with bench:
            record = await bench.open("one", at_once=at_once)
            opened = a_dispatch(slots=("shop", "rewards", "shop"))
            children = [a_child(opened, step, slot) for step, slot in enumerate(("shop", "rewards", "shop"))]
            lives = [a_life(child, failed=child.step_idx == 0) for child in children]
            outcomes = [an_outcome(step=child.step_idx, slot=child.slot) for child in children]
            before: list[Any] = [opened, *children, *(event for life in lives for event in life[:4])]
            before += [a_settling(opened, outcome) for outcome in outcomes]
            await record.append(before)
            await record.append([*lives[0][4:], *lives[2][4:]])
            (row,) = (await record.turns(TurnQuery())).rows
            assert (row.turn_id, row.episode_id, row.principal) == ("turn-1", "episode-1", "user-1")
            assert (row.state, row.began_at, row.ended_at) == (TurnState.OPEN, moment(0), None)
            assert (row.slots, row.calls, row.children, row.failed) == (("shop", "rewards"), (2, 1), 3, 1)
            before += [*lives[0][4:], *lives[2][4:], *lives[1][4:]]
            await record.append([*lives[1][4:], *an_end(before, at=9, close_reason="parent_lost")])
            (row,) = (await record.turns(TurnQuery())).rows
            assert (row.state, row.ended_at) == (TurnState.LOST, moment(9))

    async def test_a_turn_begins_with_its_first_dispatch(self, bench: RecordBench, at_once: bool) -> None:
        """Whichever is appended first; without any it begins with its end."""
        async with bench:
            record = await bench.open("one", at_once=at_once)
            await record.append([a_dispatch(at=5)])
            await record.append([a_dispatch(dispatch="before", at=4, first_step=1)])
            await record.append(an_end(turn="none", at=6))
            rows = {row.turn_id: row for row in (await record.turns(TurnQuery())).rows}
            assert rows[TurnId("turn-1")].began_at == moment(4)
            assert (rows[TurnId("none")].began_at, rows[TurnId("none")].state) == (moment(6), TurnState.ENDED)

    @pytest.mark.parametrize(
        ("query", "found"),
        [
            (TurnQuery(episode_id=EpisodeId("episode-2")), ["b"]),
            (TurnQuery(slot=Slot("rewards")), ["c", "b"]),
            (TurnQuery(state=TurnState.OPEN), ["d"]),
            (TurnQuery(state=TurnState.ENDED, slot=Slot("shop")), ["c", "a"]),
            (TurnQuery(before=(moment(2), TurnId("c"))), ["b", "a"]),
            (TurnQuery(principal=Principal("user-2")), ["c"]),
            (TurnQuery(outcome=Outcome.SUCCEEDED), ["c", "b", "a"]),
            (TurnQuery(outcome=Outcome.FAILED), ["d"]),
            (TurnQuery(outcome=Outcome.DEGRADED), []),
            (TurnQuery(reason=CallFailure.RUNNER_FAILED), ["d"]),
            (TurnQuery(reason=CallFailure.RUNNER_FAILED, slot=Slot("shop")), []),
            (TurnQuery(reason=CallFailure.RUNNER_IDLE), []),
            (TurnQuery(definition=DefinitionId("rewards"), slot=Slot("shop"), outcome=Outcome.SUCCEEDED), ["c"]),
            (TurnQuery(definition=DefinitionId("support")), ["d"]),
            (TurnQuery(since=moment(1), until=moment(3)), ["c", "b"]),
            (TurnQuery(since=moment(2), slot=Slot("rewards"), until=moment(2)), []),
            (TurnQuery(episode_id=EpisodeId("unknown")), []),
            (TurnQuery(limit=0), []),
        ],
    )
    async def test_turns_are_looked_for(
        self, bench: RecordBench, at_once: bool, query: TurnQuery, found: list[str]
    ) -> None:
        """By episode, user, slot, definition, outcome, reason, state and time, alone and together."""
        async with bench:
            record = await bench.open("one", at_once=at_once)
            await record.append(a_whole_turn("a", at=0))
            await record.append(a_whole_turn("b", ("rewards",), 1, episode_id=EpisodeId("episode-2")))
            await record.append(a_whole_turn("c", ("shop", "rewards"), 2, principal="user-2"))
            opened = a_dispatch("d", at=3, slots=("support",))
            child = a_child(opened, slot="support")
            failed = an_outcome("d", slot="support", outcome=Outcome.FAILED, reason=CallFailure.RUNNER_FAILED)
            await record.append([opened, child, *a_life(child, 4, failed=True)[:4], a_settling(opened, failed, 5)])
            assert [row.turn_id for row in (await record.turns(query)).rows] == found

    async def test_episodes_are_listed_by_last_use(self, bench: RecordBench, at_once: bool) -> None:
        """With how many turns, from when to when, and whom they called; the same id of two users is two episodes."""
        async with bench:
            record = await bench.open("one", at_once=at_once)
            two = EpisodeId("episode-2")
            await record.append(a_whole_turn("a", ("shop",), 0))
            await record.append(a_whole_turn("b", ("shop",), 1, episode_id=two))
            await record.append(a_whole_turn("c", ("rewards", "shop"), 2))
            await record.append(a_whole_turn("d", ("support",), 3, episode_id=two, principal="user-2"))
            rows = (await record.episodes(10)).rows
            assert [(row.episode_id, row.principal, row.turns) for row in rows] == [
                ("episode-2", "user-2", 1), ("episode-1", "user-1", 2), ("episode-2", "user-1", 1),
            ]  # fmt: skip
            assert (rows[1].first_at, rows[1].last_at) == (moment(0), moment(2))
            assert rows[1].slots == ("shop", "rewards")
            assert [row.episode_id for row in (await record.episodes(1)).rows] == ["episode-2"]
            assert (await record.episodes(10, mark_of(rows[0]))).rows == rows[1:]
            assert (await record.episodes(1, mark_of(rows[1]))).rows == rows[2:]

    async def test_a_turn_that_began_earlier_makes_its_episode_older(self, bench: RecordBench, at_once: bool) -> None:
        """The second dispatch on record is the first one that was opened: another episode was used later then."""
        async with bench:
            record = await bench.open("one", at_once=at_once)
            other = the_claims("turn-2", episode_id=EpisodeId("episode-2"))
            await record.append([a_dispatch("turn-1", at=10)])
            await record.append([a_dispatch("turn-2", at=5, claims=other)])
            assert [row.episode_id for row in (await record.episodes(10)).rows] == ["episode-1", "episode-2"]

            await record.append([a_dispatch("turn-1", "dispatch-2", at=1, first_step=1)])

            assert [row.episode_id for row in (await record.episodes(10)).rows] == ["episode-2", "episode-1"]

    async def test_open_turns_are_found_newest_first(self, bench: RecordBench, at_once: bool) -> None:
        """By their beginning, a page after the other, and without those that have ended."""
        async with bench:
            record = await bench.open("one", at_once=at_once)
            for number, turn in enumerate(("c", "a", "b")):
                await record.append([a_dispatch(turn, at=number)])
            await record.append(a_whole_turn("ended"))
            assert list(await record.open_turns(2)) == ["b", "a"]
            assert list(await record.open_turns(2, TurnId("a"))) == ["c"]
            assert list(await record.open_turns(2, TurnId("c"))) == []


class ProjectingRules:
    """What the projector reads, and what it keeps. Subclass it with a fixture `bench`."""

    async def test_all_that_changed_is_read_page_by_page(self, bench: RecordBench) -> None:
        """Every turn comes, with its facts of that page at least; nothing comes after the last page."""
        async with bench:
            record = await bench.open("one")
            for number in range(7):
                await record.append([a_dispatch(f"t{number}", at=number)])
            await record.append(an_end([a_dispatch("t0")], turn="t0", at=9))
            seen: dict[TurnId, int] = {}
            marks, behind = Watermarks(), 1
            while behind:
                changes = await record.journal.changed(marks, 3)
                assert len(changes.turns) <= 3
                seen |= {turn.turn_id: turn.version for turn in changes.turns}
                marks, behind = changes.reached, changes.behind
            assert seen == {TurnId("t0"): 2} | {TurnId(f"t{number}"): 1 for number in range(1, 7)}
            after = await record.journal.changed(marks, 3)
            assert (after.turns, after.reached, after.behind) == ((), marks, 0)

    async def test_an_older_version_never_takes_the_place_of_a_newer_one(self, bench: RecordBench) -> None:
        """A projector that was slow comes with what it read long ago."""
        async with bench:
            record = await bench.open("one")
            opened = a_dispatch("t")
            await record.append([opened])
            old = await record.journal.changed(Watermarks(), EVERYTHING)
            await record.append(an_end([opened], turn="t", at=9))
            await record.projector.catch_up()

            projection = record.projector.projection
            lines = [turn_line(turn.turn_id, turn.facts) for turn in old.turns]
            await projection.apply(lines, await projection.watermarks())

            assert [row.state for row in await projection.turns(TurnQuery(), {})] == [TurnState.ENDED]

    async def test_rows_of_another_start_are_gone_on_with(self, bench: RecordBench) -> None:
        """What was projected is not read again."""
        async with bench:
            first = await bench.open("one")
            await first.append(a_whole_turn("a"))
            await first.projector.catch_up()
            second = await bench.open("two")
            await second.append(a_whole_turn("b", at=1))
            assert [row.turn_id for row in (await second.turns(TurnQuery())).rows] == ["b", "a"]
            await second.projector.catch_up()
            assert second.projector.projected == first.projector.projected
            assert [row.turn_id for row in (await second.turns(TurnQuery())).rows] == ["b", "a"]

    async def test_a_list_says_as_of_when_it_is_if_too_much_has_changed(self, bench: RecordBench) -> None:
        """The oldest changes are in it; once they are projected, all of it is, and nothing is said."""
        async with bench:
            record = await bench.open("one")
            turns = MOST_CHANGES + 5
            for number in range(turns):
                await record.append([a_dispatch(f"t{number:04}", at=number)])
            found = await record.turns(TurnQuery(limit=EVERYTHING))
            assert found.as_of in {moment(MOST_CHANGES - 1), moment(MOST_CHANGES)}
            assert [row.began_at for row in found.rows] == [moment(at) for at in reversed(range(MOST_CHANGES))]
            assert (await record.episodes(1)).as_of == found.as_of

            await record.projector.step()

            found = await record.turns(TurnQuery(limit=EVERYTHING))
            assert (len(found.rows), found.as_of) == (turns, None)

    async def test_rows_of_another_journal_are_made_again(self, bench: RecordBench) -> None:
        """The newest fact that was projected is not there: nothing that was projected is trusted."""
        async with bench:
            record = await bench.open("one")
            await record.append(a_whole_turn("a"))
            await record.projector.catch_up()
            projection = record.projector.projection
            marks = await projection.watermarks()
            ((sequence, reached),) = marks.reached.items()
            others = [replace(reached, number=10**9)]
            if sequence == "journal":  # numbered in one: it may be another file; else the rows are where the facts are
                others.append(replace(reached, link=bytes(32)))
            for other in others:
                wrong = replace(marks, reached={sequence: other})
                with pytest.raises(NotThisJournal):
                    await record.journal.changed(wrong, 1)
                (turn,) = (await record.journal.changed(Watermarks(), 9)).turns
                await projection.apply([turn_line(TurnId("of another"), turn.facts)], wrong)

                found = await _listed(record)

                assert found == ["a"]


async def _listed(record: OpenedRecord) -> list[str]:
    await record.projector.catch_up()
    return [row.turn_id for row in (await record.turns(TurnQuery())).rows]
