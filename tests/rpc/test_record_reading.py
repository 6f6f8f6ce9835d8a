"""What is on record can be seen by a human: lists, one turn with everything, events as they happen."""

import asyncio
import json
from collections.abc import Sequence
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from grpc import StatusCode
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.adapters.record_memory import JournalContents, MemoryStore
from sidecar.core.identifiers import InstanceId
from sidecar.operations.rules import RecordRules
from subagents.history.v1 import record_pb2
from tests.support.builders import a_card, with_limits
from tests.support.enum_words import word
from tests.support.fake_runner import answers, calls_tool, hangs, raises
from tests.support.harness import SLOTS, SidecarForTests, running_sidecar_for_tests
from tests.support.records import StoreThatCanBeAway, events_of
from tests.support.requests import failure_of, stream_failure_of
from tests.support.requirement import requirement
from tests.support.seen_turns import episodes, listed, names, positions, seen, watched, watching

QUICK = {"record": RecordRules(poll=timedelta(milliseconds=10), gather=timedelta(0))}


async def a_turn(sidecar: SidecarForTests, *tools: str, end: bool = True, **fields: Any) -> str:
    """Have a turn and return its id."""
    bound = await sidecar.bind(**fields)
    if tools:
        await sidecar.dispatch(bound, *tools)
    if end:
        await sidecar.end(bound, narration="Here you are.")
    claims: str = fields["turn_id"]
    return claims


async def until(stream: Any, name: str) -> list[Any]:
    """Return the messages up to the one with an event of that name."""
    messages = []
    async for message in stream:
        messages.append(message)
        if name in names(message.events):
            return messages
    raise AssertionError(f"the stream ended without {name}")


@requirement("SX-39", "SX-40")
async def test_every_delegated_action_leaves_a_trace_with_summary_and_details() -> None:
    """One answers, one fails twice, one reaches for a tool it may not use; everything is there, in order, linked."""
    cards = [with_limits(a_card(slot), max_retries=1) for slot in SLOTS]
    async with running_sidecar_for_tests(cards=cards) as sidecar:
        sidecar.runner.use("shop", answers("Two offers."))
        sidecar.runner.use("rewards", raises(ValueError("x")))
        sidecar.runner.use("support", calls_tool("get_balance"))
        turn_id = await a_turn(sidecar, "ask_shop", "ask_rewards", "ask_support", turn_id="t-1")
        turn = await seen(sidecar, turn_id)

    assert [child.sub_agent_id for child in turn.children] == ["shop", "rewards", "support"]
    assert [child.emission_index for child in turn.children] == [0, 1, 2]
    for child in turn.children:
        assert json.loads(child.contract_json)["parent"]["run_id"] == turn_id
        assert names(child.events)[:2] == ["created", "started"]
        assert names(child.events)[-1] == "closed"
        assert "attempt" in names(child.events)
        assert [event.sequence for event in child.events] == list(range(1, len(child.events) + 1))
        assert all(before.link == after.previous_link for before, after in pairwise(child.events))
        for event in child.events:
            assert event.summary, event.name
            assert "\n" not in event.summary
            assert isinstance(json.loads(event.details_json), dict)
            assert word(event, "actor") in {"sidecar", "parent", "sub_agent"}
            assert event.HasField("occurred_at")
            assert event.event_id
    assert "integration_accepted" in names(turn.children[0].events)
    assert "failed" in names(turn.children[1].events)
    assert "tool_refused" in names(turn.children[2].events)


@requirement("SX-39")
async def test_a_turn_is_shown_with_its_dispatch_its_end_and_its_routing() -> None:
    """Outcomes with their answers, the narration, and the routing decision."""
    async with running_sidecar_for_tests() as sidecar:
        sidecar.runner.use("shop", answers("Two offers."))
        turn = await seen(sidecar, await a_turn(sidecar, "ask_shop", "ask_rewards", turn_id="t-1"))

    (dispatch,) = turn.dispatches
    assert (dispatch.call_count, dispatch.owner_alive, dispatch.takeover_count) == (2, True, 0)
    assert [(each.sub_agent_id, each.emission_index) for each in dispatch.outcomes] == [("shop", 0), ("rewards", 1)]
    assert dispatch.outcomes[0].narration == "Two offers."
    assert (turn.narration, word(turn, "close_reason")) == ("Here you are.", "ended")
    assert (turn.turn.state, turn.turn.child_count, turn.turn.failed_child_count) == (record_pb2.TURN_STATE_ENDED, 2, 0)
    assert turn.turn.ended_at.ToNanoseconds() >= turn.turn.started_at.ToNanoseconds()
    assert [call.sub_agent_id for call in turn.routing_decision.calls] == ["shop", "rewards"]
    assert (turn.texts_left_out, turn.events_left_out) == (0, 0)


async def test_an_open_turn_is_shown_as_far_as_it_has_come() -> None:
    """No narration, no routing decision, and the child waits for its parent."""
    async with running_sidecar_for_tests() as sidecar:
        turn = await seen(sidecar, await a_turn(sidecar, "ask_shop", turn_id="t-1", end=False))

    assert turn.turn.state == record_pb2.TURN_STATE_OPEN
    assert (turn.narration, turn.HasField("routing_decision"), turn.turn.HasField("ended_at")) == ("", False, False)
    assert names(turn.children[0].events)[-1] == "waiting_for_merge"


async def test_children_can_be_asked_for_one_by_one() -> None:
    """Only the one that is named, with what its call came to; the list's row still counts both."""
    async with running_sidecar_for_tests() as sidecar:
        turn_id = await a_turn(sidecar, "ask_shop", "ask_rewards", turn_id="t-1")
        second = (await seen(sidecar, turn_id)).children[1].child_id
        turn = await seen(sidecar, turn_id, second, "child-of-nobody")

    assert [child.child_id for child in turn.children] == [second]
    assert [each.child_id for each in turn.dispatches[0].outcomes] == [second]
    assert turn.turn.child_count == 2


@pytest.mark.parametrize(("room", "events_too"), [(12_000, False), (4_000, True)])
async def test_what_does_not_fit_is_counted(room: int, events_too: bool) -> None:
    """Long texts go first, then events; what is left says how many are missing."""
    rules = {"record": RecordRules(answer_bytes=room)}
    async with running_sidecar_for_tests(rules=rules) as sidecar:
        sidecar.runner.use("shop", answers("x" * 30_000))
        turn = await seen(sidecar, await a_turn(sidecar, "ask_shop", turn_id="t-1"))
        events = events_of(sidecar, turn.children[0].child_id)

    assert turn.dispatches[0].outcomes[0].narration == ""
    assert turn.texts_left_out >= 1
    assert (turn.events_left_out > 0) is events_too
    assert turn.events_left_out + len(turn.children[0].events) == len(events)
    assert turn.ByteSize() < room


async def test_a_turn_that_nobody_knows_is_not_found() -> None:
    """By both methods, with what was asked for."""
    async with running_sidecar_for_tests() as sidecar:
        got = await failure_of(seen(sidecar, "t-none"))
        streamed = await stream_failure_of(watching(sidecar, "t-none"))

    for failure in (got, streamed):
        assert (failure.code, failure.reason) == (StatusCode.NOT_FOUND, "UNKNOWN_TURN")
        assert failure.metadata == {"turn_id": "t-none"}


async def test_turns_are_listed_newest_first_a_page_at_a_time() -> None:
    """Five turns in pages of two; no turn twice, none missing; a turn without calls is listed, too."""
    async with running_sidecar_for_tests() as sidecar:
        for number in range(4):
            await a_turn(sidecar, "ask_shop", turn_id=f"t-{number}")
        await a_turn(sidecar, turn_id="t-4")
        pages: list[list[str]] = []
        token = ""
        while not pages or token:
            page = await listed(sidecar, page_size=2, page_token=token)
            pages.append([row.turn_id for row in page.turns])
            token = page.next_page_token

    assert pages == [["t-4", "t-3"], ["t-2", "t-1"], ["t-0"]]


async def test_a_turn_is_shown_with_the_same_row_as_in_the_list() -> None:
    """Open, ended with a failed child, without calls, and lost: the store's own row and ours do not differ."""
    async with running_sidecar_for_tests(background=False, rules={"turn_lifetime": timedelta(0)}) as sidecar:
        sidecar.runner.use("rewards", raises(ValueError("x")))
        await a_turn(sidecar, "ask_shop", turn_id="t-lost", end=False)
        await sidecar.operations.reaper.look()
        await a_turn(sidecar, "ask_shop", turn_id="t-open", end=False)
        await a_turn(sidecar, "ask_shop", "ask_rewards", turn_id="t-ended")
        await a_turn(sidecar, turn_id="t-empty")
        rows = {row.turn_id: row for row in (await listed(sidecar)).turns}
        for turn_id, row in rows.items():
            assert (await seen(sidecar, turn_id)).turn == row

    states = {
        turn_id: record_pb2.TurnState.Name(row.state).removeprefix("TURN_STATE_") for turn_id, row in rows.items()
    }
    assert states == {"t-lost": "LOST", "t-open": "OPEN", "t-ended": "ENDED", "t-empty": "ENDED"}
    assert (rows["t-ended"].child_count, rows["t-ended"].failed_child_count) == (2, 1)


async def test_lists_are_filtered_by_episode_slot_and_state() -> None:
    """Each filter alone, and all together."""
    async with running_sidecar_for_tests() as sidecar:
        await a_turn(sidecar, "ask_shop", turn_id="t-shop", episode_id="e-1")
        await a_turn(sidecar, "ask_rewards", turn_id="t-rewards", episode_id="e-1")
        await a_turn(sidecar, "ask_shop", turn_id="t-open", episode_id="e-2", end=False)

        async def found(**fields: Any) -> list[str]:
            return [row.turn_id for row in (await listed(sidecar, **fields)).turns]

        assert await found(episode_id="e-1") == ["t-rewards", "t-shop"]
        assert await found(sub_agent_id="shop") == ["t-open", "t-shop"]
        assert await found(state=record_pb2.TURN_STATE_OPEN) == ["t-open"]
        assert await found(state=record_pb2.TURN_STATE_ENDED, sub_agent_id="shop", episode_id="e-1") == ["t-shop"]
        assert await found(state=record_pb2.TURN_STATE_LOST) == []


async def test_episodes_are_listed_by_their_last_use() -> None:
    """The same id of another principal is another episode."""
    async with running_sidecar_for_tests() as sidecar:
        await a_turn(sidecar, "ask_shop", turn_id="t-1", episode_id="e-1")
        await a_turn(sidecar, "ask_shop", turn_id="t-2", episode_id="e-2")
        await a_turn(sidecar, "ask_rewards", turn_id="t-3", episode_id="e-1")
        await a_turn(sidecar, turn_id="t-4", episode_id="e-1", principal="user-2")
        rows = await episodes(sidecar)
        newest = await episodes(sidecar, 1)

    assert [(row.episode_id, row.principal, row.turn_count) for row in rows] == [
        ("e-1", "user-2", 1),
        ("e-1", "user-1", 2),
        ("e-2", "user-1", 1),
    ]
    assert list(rows[1].sub_agent_ids) == ["shop", "rewards"]
    assert [row.principal for row in newest] == ["user-2"]


@requirement("SX-39")
async def test_events_are_seen_while_the_turn_runs_and_until_it_ends() -> None:
    """What is on record comes at once; the rest when it happens; the last message says that the turn has ended."""
    async with running_sidecar_for_tests(rules={"record": RecordRules(poll=timedelta(hours=1))}) as sidecar:
        sidecar.runner.use("shop", hangs())
        bound = await sidecar.bind(turn_id="t-1")
        request = sidecar.dispatch_request(bound, "ask_shop")
        running = sidecar.stub.Dispatch(request, timeout=20, metadata=sidecar.metadata)
        await sidecar.runner.until_started("shop")
        stream = watching(sidecar, "t-1")
        first = await until(stream, "started")
        assert names([event for message in first for event in message.events])[:2] == ["created", "started"]
        assert [child.sub_agent_id for message in first for child in message.children] == ["shop"]

        running.cancel()
        second = await until(stream, "failed")
        assert [child for message in second for child in message.children] == []

        await sidecar.end(bound)
        rest = [message async for message in stream]
        assert names([event for message in rest for event in message.events]) == ["closed"]
        assert [message.ended for message in (*first, *second, *rest)] == [False] * len(first + second) + [True]


async def test_a_watcher_that_has_seen_everything_is_told_of_the_end_only() -> None:
    """One message without events."""
    async with running_sidecar_for_tests() as sidecar:
        turn_id = await a_turn(sidecar, "ask_shop", turn_id="t-1")
        everything = await watched(sidecar, turn_id)
        (last,) = [message async for message in watching(sidecar, turn_id, positions(everything))]

    assert (last.ended, len(last.events), len(last.children)) == (True, 0, 0)


@pytest.mark.seconds(60)
async def test_watching_resumes_wherever_it_was_cut_without_loss_or_doubling() -> None:
    """Property: cut the stream after any number of events, any number of times; small messages, so that cuts differ."""
    rules = {"record": RecordRules(batch_bytes=1)}
    async with running_sidecar_for_tests(rules=rules) as sidecar:
        await a_turn(sidecar, "ask_shop", "ask_rewards", "ask_support", turn_id="t-1")
        whole = await watched(sidecar, "t-1")
        cuts_tried: list[list[int]] = []

        @settings(max_examples=40, deadline=None, database=None)
        @given(st.lists(st.integers(0, len(whole)), max_size=4))
        def gather(cuts: list[int]) -> None:
            cuts_tried.append(cuts)

        gather()
        for cuts in cuts_tried:
            taken = await _in_pieces(sidecar, cuts)
            assert [event.event_id for event in taken] == [event.event_id for event in whole]
    assert len(whole) == sum(1 for _ in {event.event_id for event in whole})


async def _in_pieces(sidecar: SidecarForTests, cuts: Sequence[int]) -> list[record_pb2.ChildEvent]:
    """Watch, leaving after as many events as each cut says and coming back, and at last to the end."""
    taken: list[record_pb2.ChildEvent] = []
    for cut in cuts:
        stream, piece = watching(sidecar, "t-1", positions(taken)), 0
        async for message in stream:
            taken += message.events
            piece += len(message.events)
            if piece >= cut:
                break
        stream.cancel()
    return taken + await watched(sidecar, "t-1", positions(taken))


async def test_two_sidecars_on_one_record_show_the_same() -> None:
    """A turn runs at one; the other lists it, shows it, and watches it live by looking again and again."""
    record = JournalContents()
    one, other = (MemoryStore(record, InstanceId(name), lambda _: True) for name in ("one", "other"))
    async with (
        running_sidecar_for_tests(store=one, rules=QUICK) as here,
        running_sidecar_for_tests(store=other, rules=QUICK) as there,
    ):
        bound = await here.bind(turn_id="t-1")
        await here.dispatch(bound, "ask_shop", "ask_rewards")
        stream = watching(there, "t-1")
        before = await anext(aiter(stream))
        assert names(before.events).count("waiting_for_merge") == 2
        await here.end(bound, narration="Here you are.")
        after = [event async for message in stream for event in message.events]

        assert names(after).count("closed") == 2
        assert (await seen(here, "t-1")) == (await seen(there, "t-1"))
        assert (await listed(here)) == (await listed(there))
        assert (await watched(here, "t-1")) == (await watched(there, "t-1"))


async def test_too_many_watchers_are_asked_to_come_back() -> None:
    """Room for one; once it has left, the next is served."""
    async with running_sidecar_for_tests(rules={"record": RecordRules(watchers=1)}) as sidecar:
        bound = await sidecar.bind(turn_id="t-1")
        await sidecar.dispatch(bound, "ask_shop")
        first = watching(sidecar, "t-1")
        await anext(aiter(first))
        failure = await stream_failure_of(watching(sidecar, "t-1"))
        assert (failure.code, failure.reason) == (StatusCode.RESOURCE_EXHAUSTED, "ADMISSION_REFUSED")
        assert failure.retry_after == 5.0
        await sidecar.end(bound)
        assert [message.ended async for message in first][-1]
        assert names(await watched(sidecar, "t-1"))[-1] == "closed"


class RecordThatCanBeAway(StoreThatCanBeAway):
    """Cannot be read while it is away, either."""

    async def turn(self, turn_id: Any) -> Any:
        """Return a turn, or say that nobody can say."""
        await self.append(())
        return await super().turn(turn_id)


async def test_a_store_that_is_away_ends_the_watch_with_a_failure() -> None:
    """In the middle of the stream; what was seen stays seen, and watching goes on from there."""
    store = RecordThatCanBeAway()
    async with running_sidecar_for_tests(store=store, rules=QUICK) as sidecar:
        bound = await sidecar.bind(turn_id="t-1")
        await sidecar.dispatch(bound, "ask_shop")
        stream = watching(sidecar, "t-1")
        before = (await anext(aiter(stream))).events
        store.away = True
        failure = await stream_failure_of(stream)
        assert (failure.code, failure.reason) == (StatusCode.UNAVAILABLE, "STORE_UNAVAILABLE")
        store.away = False
        await sidecar.end(bound)
        after = await watched(sidecar, "t-1", positions(before))

    assert [event.sequence for event in (*before, *after)] == list(range(1, len(before) + len(after) + 1))


async def test_a_drain_does_not_wait_for_those_who_look_on() -> None:
    """A watched turn stays open; nothing is counted as in flight."""
    async with running_sidecar_for_tests() as sidecar:
        bound = await sidecar.bind(turn_id="t-1")
        await sidecar.dispatch(bound, "ask_shop")
        stream = watching(sidecar, "t-1")
        await anext(aiter(stream))
        async with asyncio.timeout(5):
            await sidecar.around.in_flight.idle()
        stream.cancel()
