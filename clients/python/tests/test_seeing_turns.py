"""What is on record of turns, through the SDK."""

from contextlib import aclosing
from datetime import UTC, datetime

import pytest

from clients.python.tests.support.fake_sidecar_host import Scene, scene
from subagents.dispatch.v1 import outcome_pb2, routing_pb2
from subagents.errors.v1 import error_reason_pb2
from subagents.history.v1 import history_pb2, record_pb2
from subagents_client import ClientTimeouts, EventBatch, Outcome, ScoreSource, TurnFilter, TurnState
from subagents_errors import AdmissionRefused, CallFailure, InternalError, StoreUnavailable, UnknownTurn

JUDGE = ScoreSource.JUDGE
AT = datetime(2026, 11, 21, 10, tzinfo=UTC)


def a_row(turn_id: str, state: record_pb2.TurnState) -> record_pb2.TurnRow:
    """Return a row, ended if it has ended."""
    row = record_pb2.TurnRow(turn_id=turn_id, principal="user-1", state=state, sub_agent_ids=["shop"], child_count=1)
    row.started_at.FromDatetime(AT)
    if state == record_pb2.TURN_STATE_ENDED:
        row.ended_at.FromDatetime(AT)
    return row


def batch(*sequences: int, ended: bool = False) -> history_pb2.WatchEventsResponse:
    """Return events of one child; with the first of them comes the child."""
    events = [record_pb2.ChildEvent(child_id="child-1", sequence=number, summary=f"s-{number}") for number in sequences]
    children = [record_pb2.RecordedChild(child_id="child-1", sub_agent_id="shop")] if 1 in sequences else []
    return history_pb2.WatchEventsResponse(children=children, events=events, ended=ended)


async def watched(here: Scene, after: dict[str, int] | None = None) -> list[EventBatch]:
    """Watch a turn to its end."""
    async with aclosing(here.client.history.watch_events("turn-1", after=after)) as batches:
        return [one async for one in batches]


async def test_turns_are_listed_with_filters_and_pages() -> None:
    """Every field arrives, in both directions; an open turn has no end, an unknown state is said to be one."""
    async with scene() as here:
        newer = record_pb2.TurnRow(turn_id="t-3")
        newer.state = 99  # type: ignore[assignment]  # of a sidecar that is newer than this client
        rows = [a_row("t-1", record_pb2.TURN_STATE_OPEN), a_row("t-2", record_pb2.TURN_STATE_ENDED), newer]
        here.sidecar.history.page = history_pb2.ListTurnsResponse(turns=rows, next_page_token="next")
        wanted = TurnFilter(
            episode_id="e-1",
            sub_agent_id="shop",
            state=TurnState.LOST,
            principal="ada",
            since=AT,
            until=AT,
            outcome=Outcome.FAILED,
            definition_id="shop-2",
            reason=CallFailure.RUNNER_FAILED,
        )
        page = await here.client.history.list_turns(wanted, page_size=3, page_token="this")
        sent = here.sidecar.history.received[-1]

    assert (sent.page_size, sent.page_token, sent.episode_id, sent.sub_agent_id) == (3, "this", "e-1", "shop")
    assert (sent.state, sent.outcome) == (record_pb2.TURN_STATE_LOST, outcome_pb2.OUTCOME_FAILED)
    assert (sent.principal, sent.definition_id) == ("ada", "shop-2")
    assert sent.reason == error_reason_pb2.ERROR_REASON_RUNNER_FAILED
    assert sent.since.ToDatetime(AT.tzinfo) == sent.until.ToDatetime(AT.tzinfo) == AT
    assert here.sidecar.history.secrets == ["secret-1"]
    assert [row.state for row in page.turns] == [TurnState.OPEN, TurnState.ENDED, TurnState.UNSPECIFIED]
    assert [row.ended_at for row in page.turns[:2]] == [None, AT]
    assert (page.turns[0].sub_agent_ids, page.next_page_token) == (["shop"], "next")


async def test_a_turn_is_read_with_its_children_and_dispatches() -> None:
    """Contract, events, outcomes, routing, scores; an unknown turn is an exception of its own."""
    async with scene() as here:
        child = record_pb2.RecordedChild(child_id="child-1", contract_json="{}", parent_child_id="child-0")
        child.events.add(sequence=1, name="agent.subagent_created", summary="made", details_json="{}", link="aa")
        turn = history_pb2.GetTurnResponse(
            children=[child],
            routing_decision=routing_pb2.RoutingDecision(turn_id="t-1"),
            narration="N",
            texts_left_out=2,
        )
        turn.dispatches.add(dispatch_id="d-1", call_count=1, owner_alive=True).outcomes.add(
            call_id="c-1", narration="Two."
        )
        turn.scores.add(score_id="s-1", dispatch_id="d-1", call_id="c-1", name="helpfulness", value=0.25, label="down")
        turn.scores[0].recorded_at.FromDatetime(AT)
        turn.scores[0].source = record_pb2.SCORE_SOURCE_JUDGE
        turn.scores.add(score_id="s-2").source = 99  # type: ignore[assignment]  # of a newer sidecar
        here.sidecar.history.turn = turn
        read = await here.client.history.get_turn("turn-1", child_ids=["child-1"])
        sent = here.sidecar.history.received[-1]
        here.sidecar.history.refusals.append(UnknownTurn("nothing", metadata={"turn_id": "t"}))
        with pytest.raises(UnknownTurn):
            await here.client.history.get_turn("t")

    assert (sent.turn_id, list(sent.child_ids)) == ("turn-1", ["child-1"])
    assert (read.children[0].parent_child_id, read.children[0].contract_json) == ("child-0", "{}")
    assert (read.children[0].events[0].summary, read.children[0].events[0].link) == ("made", "aa")
    assert read.dispatches[0].outcomes[0].narration == "Two."
    judged, newer = read.scores
    assert (judged.score_id, judged.call_id, judged.name, judged.label) == ("s-1", "c-1", "helpfulness", "down")
    assert (judged.value, judged.source, judged.recorded_at, newer.source) == (0.25, JUDGE, AT, ScoreSource.UNSPECIFIED)
    assert (read.routing_decision and read.routing_decision.turn_id, read.narration, read.texts_left_out) == (
        "t-1",
        "N",
        2,
    )


async def test_episodes_are_listed() -> None:
    """With their principals."""
    async with scene() as here:
        here.sidecar.history.rows.episodes.add(
            episode_id="e-1", principal="user-1", turn_count=2, sub_agent_ids=["shop"]
        )
        (row,) = (await here.client.history.list_episodes(page_size=7)).episodes
        assert here.sidecar.history.received[-1].page_size == 7

    assert (row.episode_id, row.principal, row.turn_count, row.sub_agent_ids) == ("e-1", "user-1", 2, ["shop"])


@pytest.mark.parametrize(
    "broken_by", [StoreUnavailable("away"), InternalError("stopped"), None], ids=["store", "stop", "end"]
)
async def test_a_watch_goes_on_where_it_was_cut(broken_by: StoreUnavailable | InternalError | None) -> None:
    """The store is away, the sidecar stops, the stream just ends: asked for again from what was seen."""
    async with scene() as here:
        first = [batch(1, 2), *([broken_by] if broken_by else [])]
        here.sidecar.history.streams += [first, [batch(3)], [batch(4), batch(ended=True)]]
        batches = await watched(here)
        asked = [[(seen.child_id, seen.sequence) for seen in one.after] for one in here.sidecar.history.received]

    assert [event.sequence for one in batches for event in one.events] == [1, 2, 3, 4]
    assert [child.sub_agent_id for one in batches for child in one.children] == ["shop"]
    assert [one.ended for one in batches] == [False, False, False, True]
    assert asked == [[], [("child-1", 2)], [("child-1", 3)]]


async def test_a_watch_begins_after_what_was_seen_before() -> None:
    """As the caller says."""
    async with scene() as here:
        here.sidecar.history.streams.append([batch(8, ended=True)])
        await watched(here, {"child-1": 7})
        (seen,) = here.sidecar.history.received[-1].after

    assert (seen.child_id, seen.sequence) == ("child-1", 7)


async def test_a_watch_gives_up_after_failures_in_a_row_and_at_once_if_there_is_no_such_turn() -> None:
    """As many as any other request; a message in between starts the count anew."""
    async with scene() as here:
        most = ClientTimeouts().most_attempts
        here.sidecar.history.streams += [[StoreUnavailable("away")]] * (most - 1)
        here.sidecar.history.streams += [[batch(1), StoreUnavailable("away")]]
        here.sidecar.history.streams += [[StoreUnavailable("away")]] * most
        with pytest.raises(StoreUnavailable):
            await watched(here)
        assert len(here.sidecar.history.streams) == 1
        for refusal in (UnknownTurn("nothing"), AdmissionRefused("full")):
            here.sidecar.history.streams.clear()
            here.sidecar.history.streams.append([refusal])
            with pytest.raises(type(refusal)):
                await watched(here)


async def test_an_exported_turn_comes_in_one_piece_after_a_try_in_vain() -> None:
    """The pieces are joined; a store that is away for a moment is asked again; an unknown turn is said to be one."""
    async with scene() as here:
        here.sidecar.history.exported = ('{"turn_id": "', 'turn-1"}')
        here.sidecar.history.refusals.append(StoreUnavailable("away"))

        assert await here.client.history.export_replay("turn-1") == '{"turn_id": "turn-1"}'
        assert [request.turn_id for request in here.sidecar.history.received] == ["turn-1", "turn-1"]

        here.sidecar.history.refusals.append(UnknownTurn("no such turn"))
        with pytest.raises(UnknownTurn):
            await here.client.history.export_replay("turn-2")
