"""What is read back: lists, and what retention and verifying go through."""

import pytest

from sidecar.core.errors import RecordConflict
from sidecar.core.executing.chain import NOTHING
from sidecar.core.executing.stored_record import ClosedState, RetentionMarker, TurnQuery, TurnState
from sidecar.core.identifiers import ChildId, EpisodeId, Slot, TurnId
from sidecar.operations.record.ports import Database
from tests.adapters.records.bench import RecordBench
from tests.support.record_builders import (
    a_child,
    a_dispatch,
    a_life,
    a_routing,
    a_turn_end,
    a_whole_turn,
    moment,
)


def a_marker(state: ClosedState) -> RetentionMarker:
    """Return the marker that covers everything up to `state`."""
    return RetentionMarker(state.instance, state.number, state.root, moment(50), moment(60), "key", "signature")


class ReadingRules:
    """Subclass it with a fixture `bench`."""

    async def test_what_is_not_there_is_not_there(self, bench: RecordBench) -> None:
        """Every read of an empty record."""
        async with bench:
            database = await bench.open("one")
            assert await database.turn(TurnId("x")) is None
            assert await database.routing_record(TurnId("x")) is None
            assert list(await database.child_events(ChildId("x"))) == []
            assert await database.last_dispatching_turn(EpisodeId("x")) == ()
            assert list(await database.turns(TurnQuery())) == []
            assert list(await database.episodes(10)) == []
            assert list(await database.closed_states()) == []
            assert list(await database.markers()) == []
            assert [child async for child in database.children()] == []

    async def test_the_last_turn_that_called_any_is_known(self, bench: RecordBench) -> None:
        """The newest of the episode, without those that called nobody."""
        async with bench:
            database = await bench.open("one")
            episode = EpisodeId("episode-1")
            await database.commit([a_turn_end("a", 1), a_routing("a", ("shop", "rewards", "shop"), 1)])
            await database.commit([a_turn_end("b", 2), a_routing("b", (), 2)])
            assert await database.last_dispatching_turn(episode) == ("shop", "rewards")
            await database.commit([a_turn_end("c", 3), a_routing("c", ("support",), 3)])
            await database.commit([a_routing("a", ("shop", "rewards", "shop"), 1)])
            assert await database.last_dispatching_turn(episode) == ("support",)
            assert await database.last_dispatching_turn(EpisodeId("another")) == ()
            assert await database.routing_record(TurnId("c")) == a_routing("c", ("support",), 3)

    async def test_turns_are_listed_page_by_page(self, bench: RecordBench) -> None:
        """Newest first; those that began at one time by id; the pages make up the whole."""
        async with bench:
            database = await bench.open("one")
            for turn, at in (("a", 0), ("b", 1), ("c", 1), ("d", 1), ("e", 2)):
                await database.commit(a_whole_turn(turn, at=at))
            pages, query = [], TurnQuery(limit=2)
            while rows := await database.turns(query):
                pages.append([row.turn_id for row in rows])
                query = TurnQuery(limit=2, before=(rows[-1].began_at, rows[-1].turn_id))
            assert pages == [["e", "d"], ["c", "b"], ["a"]]

    async def test_a_row_says_how_the_turn_stands(self, bench: RecordBench) -> None:
        """Slots in order of opening, each once; failed children; when it began and ended."""
        async with bench:
            database = await bench.open("one")
            opened = a_dispatch(calls=3)
            children = [a_child(opened, 0, "shop"), a_child(opened, 1, "rewards"), a_child(opened, 2, "shop")]
            await database.commit([opened, *children, *a_life(children[0], failed=True), *a_life(children[2])])
            (row,) = await database.turns(TurnQuery())
            assert (row.turn_id, row.episode_id, row.principal) == ("turn-1", "episode-1", "user-1")
            assert (row.state, row.began_at, row.ended_at) == (TurnState.OPEN, moment(0), None)
            assert (row.slots, row.children, row.failed) == (("shop", "rewards"), 3, 1)
            await database.commit([*a_life(children[1]), a_turn_end(at=9, close_reason="parent_lost")])
            (row,) = await database.turns(TurnQuery())
            assert (row.state, row.ended_at) == (TurnState.LOST, moment(9))

    async def test_a_turn_begins_with_its_first_dispatch(self, bench: RecordBench) -> None:
        """Whichever is appended first; without any it begins with its end."""
        async with bench:
            database = await bench.open("one")
            await database.commit([a_dispatch(at=5), a_dispatch(dispatch="before", at=4), a_turn_end("none", 6)])
            rows = {row.turn_id: row for row in await database.turns(TurnQuery())}
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
            (TurnQuery(episode_id=EpisodeId("nobody's")), []),
            (TurnQuery(limit=0), []),
        ],
    )
    async def test_turns_are_looked_for(self, bench: RecordBench, query: TurnQuery, found: list[str]) -> None:
        """By episode, slot, state and time, alone and together."""
        async with bench:
            database = await bench.open("one")
            await database.commit(a_whole_turn("a", at=0))
            await database.commit(a_whole_turn("b", ("rewards",), 1, episode_id=EpisodeId("episode-2")))
            await database.commit(a_whole_turn("c", ("shop", "rewards"), 2))
            opened = a_dispatch("d", at=3)
            await database.commit([opened, a_child(opened, slot="support")])
            assert [row.turn_id for row in await database.turns(query)] == found

    async def test_episodes_are_listed_by_last_use(self, bench: RecordBench) -> None:
        """With how many turns, from when to when, and whom they called; the same id of two users is two episodes."""
        async with bench:
            database = await bench.open("one")
            two = EpisodeId("episode-2")
            await database.commit(a_whole_turn("a", ("shop",), 0))
            await database.commit(a_whole_turn("b", ("shop",), 1, episode_id=two))
            await database.commit(a_whole_turn("c", ("rewards", "shop"), 2))
            await database.commit(a_whole_turn("d", ("support",), 3, episode_id=two, principal="user-2"))
            rows = await database.episodes(10)
            assert [(row.episode_id, row.principal, row.turns) for row in rows] == [
                ("episode-2", "user-2", 1), ("episode-1", "user-1", 2), ("episode-2", "user-1", 1),
            ]  # fmt: skip
            assert (rows[1].first_at, rows[1].last_at) == (moment(0), moment(2))
            assert rows[1].slots == ("shop", "rewards")
            assert [row.episode_id for row in await database.episodes(1)] == ["episode-2"]

    async def test_a_turn_that_began_earlier_than_thought_makes_its_episode_older(self, bench: RecordBench) -> None:
        """The second dispatch on record is the first one that was opened: another episode was used later then."""
        async with bench:
            database = await bench.open("one")
            await database.commit([a_dispatch("turn-1", at=10), a_dispatch("turn-2", at=5, episode_id="episode-2")])
            assert [row.episode_id for row in await database.episodes(10)] == ["episode-1", "episode-2"]

            await database.commit([a_dispatch("turn-1", "dispatch-2", at=1)])

            assert [row.episode_id for row in await database.episodes(10)] == ["episode-2", "episode-1"]

    async def test_all_children_can_be_gone_through(self, bench: RecordBench) -> None:
        """More than one page of them, each with its events, and the links of the running root."""
        async with bench:
            database = await bench.open("one")
            opened = a_dispatch(calls=1100)
            children = [a_child(opened, step) for step in range(1100)]
            await database.commit([opened, *children])
            for at in range(0, 1100, 100):
                await database.commit([event for child in children[at : at + 100] for event in a_life(child)])
            found = [(child.opened, len(child.events)) async for child in database.children()]
            assert sorted(found, key=lambda each: each[0].step_idx) == [(child, 6) for child in children]
            numbers = [link.number async for link in database.closed_children(database.instance)]
            assert numbers == list(range(1, 1101))


class RetentionRules:
    """Rule 5. Subclass it with a fixture `bench`."""

    async def test_what_is_old_enough_can_be_purged(self, bench: RecordBench) -> None:
        """Up to the first child whose turn has not ended, or ended too late; each instance on its own."""
        async with bench:
            database = await _three_turns(bench)
            assert list(await database.purgeable(moment(2))) == []
            (state,) = await database.purgeable(moment(50))
            assert (state.instance, state.number) == ("one", 3)
            (everything,) = await database.purgeable(moment(500))
            links = [link async for link in database.closed_children(database.instance)]
            assert everything == ClosedState(database.instance, 4, links[-1].root)

    async def test_a_child_of_a_turn_that_goes_on_stays(self, bench: RecordBench) -> None:
        """Closed long ago; everything behind it stays, too."""
        async with bench:
            database = await bench.open("one")
            opened = a_dispatch("open")
            await database.commit([opened, a_child(opened), *a_life(a_child(opened))])
            await database.commit(a_whole_turn("ended"))
            assert list(await database.purgeable(moment(500))) == []

    async def test_what_a_marker_covers_is_gone(self, bench: RecordBench) -> None:
        """Children, events, frames, and the turns with all they had; nothing else. The roots stand where they stood."""
        async with bench:
            database = await _three_turns(bench)
            states = await database.closed_states()
            kept = await database.turn(TurnId("c"))
            (state,) = await database.purgeable(moment(50))

            assert await database.purge([a_marker(state)]) == 3

            assert [row.turn_id for row in await database.turns(TurnQuery())] == ["c"]
            assert await database.turn(TurnId("a")) is None
            assert list(await database.attempts(TurnId("b"))) == []
            assert [child.opened.turn_id async for child in database.children()] == ["c"]
            assert await database.turn(TurnId("c")) == kept
            assert list(await database.markers()) == [a_marker(state)]
            assert await database.closed_states() == states
            assert [link.number async for link in database.closed_children(database.instance)] == [4]
            assert [row.turns for row in await database.episodes(10)] == [1]
            assert list(await database.purgeable(moment(50))) == []

    async def test_the_running_root_goes_on_after_a_purge(self, bench: RecordBench) -> None:
        """Its next link has the next number; what was purged once is covered by the next marker, too."""
        async with bench:
            database = await _three_turns(bench)
            (state,) = await database.purgeable(moment(50))
            await database.purge([a_marker(state)])
            await database.commit(a_whole_turn("d", at=200))
            (state,) = await database.purgeable(moment(500))
            assert state.number == 5
            assert await database.purge([a_marker(state)]) == 2
            assert [marker.number for marker in await database.markers()] == [3, 5]

    @pytest.mark.parametrize(
        "wrong",
        [
            {"number": 2},
            {"number": 5},
            {"number": 0, "root": NOTHING},
            {"root": "0" * 64},
            {"instance": "nobody"},
        ],
        ids=str,
    )
    async def test_a_marker_that_does_not_fit_removes_nothing(
        self, bench: RecordBench, wrong: dict[str, object]
    ) -> None:
        """Another number, another root, an instance that is not known."""
        async with bench:
            database = await _three_turns(bench)
            (state,) = await database.purgeable(moment(50))
            given = {"instance": state.instance, "number": state.number, "root": state.root} | wrong
            marker = a_marker(ClosedState(**given))  # type: ignore[arg-type]  # the table is of mixed types
            with pytest.raises(RecordConflict):
                await database.purge([marker])
            assert len(await database.turns(TurnQuery())) == 3
            assert list(await database.markers()) == []

    async def test_a_turn_without_children_goes_when_it_is_old(self, bench: RecordBench) -> None:
        """With its end and its routing decision; one that is open, younger, or has a child stays."""
        async with bench:
            database = await _three_turns(bench)
            await database.commit([a_turn_end("none", at=10), a_routing("none", (), at=10)])
            await database.commit([a_turn_end("later", at=60)])
            await database.commit([a_dispatch("open")])

            assert await database.purge_childless(moment(10)) == 0
            assert await database.purge_childless(moment(50)) == 1
            assert await database.purge_childless(moment(50)) == 0

            assert await database.turn(TurnId("none")) is None
            assert {row.turn_id for row in await database.turns(TurnQuery())} == {"a", "b", "c", "later", "open"}

    async def test_frames_go_before_the_rest(self, bench: RecordBench) -> None:
        """Of turns that ended before; of turns that ended later, or not yet, they stay."""
        async with bench:
            database = await _three_turns(bench)
            assert await database.purge_frames(moment(50)) == 3
            assert await database.purge_frames(moment(50)) == 0
            assert list(await database.attempts(TurnId("a"))) == []
            assert len(await database.attempts(TurnId("c"))) == 1
            assert await database.turn(TurnId("a")) is not None


async def _three_turns(bench: RecordBench) -> Database:
    """Return a record with turn `a` of two children, `b` of one, and `c` of one that ended a hundred seconds later."""
    database = await bench.open("one")
    await database.commit(a_whole_turn("a", ("shop", "rewards"), 0))
    await database.commit(a_whole_turn("b", at=5))
    await database.commit(a_whole_turn("c", at=100))
    return database
