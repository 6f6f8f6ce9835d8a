"""Two sidecars on one record: resuming, taking over and ending a turn at the one that did not bind it.

The sidecar that "dies" here goes on running: it only counts as dead on the record. So every case also shows that what
it still does is refused, which is what protects against one that was only away for a while.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sidecar.adapters.record_memory import JournalContents
from sidecar.adapters.record_memory.store import records_in
from sidecar.core.definitions.cards.card import Card
from sidecar.core.dispatching.routing_record import RoutingRecord
from sidecar.core.executing.events import CLOSED, ChildEvent
from sidecar.core.executing.records import CallSettled, ChildOpened
from sidecar.core.identifiers import DispatchId, InstanceId, TurnId
from sidecar.core.journal import facts
from sidecar.core.journal.texts import Texts
from subagents.dispatch.v1 import dispatch_pb2 as pb
from subagents.errors.v1.error_reason_pb2 import ErrorReason
from subagents_errors import CallFailure
from tests.support.builders import a_card, with_limits
from tests.support.enum_words import word
from tests.support.fake_runner import answers, hangs, waits_for
from tests.support.harness import SidecarForTests, running_sidecar_for_tests
from tests.support.records import StoreThatCanBeAway
from tests.support.requests import failure_of
from tests.support.requirement import requirement

SOON = timedelta(milliseconds=5)
PATIENT = timedelta(seconds=30)


@dataclass(slots=True)
class Pair:
    """Two sidecars, what both write to, and who of them counts as alive."""

    first: SidecarForTests
    second: SidecarForTests
    record: JournalContents
    alive: set[str] = field(default_factory=lambda: {"first", "second"})

    def kill_first(self) -> None:
        """Let the first one count as dead from now on."""
        self.alive.discard("first")

    def kept(self, kind: type[Any]) -> list[Any]:
        """Return the records of one kind."""
        return [each for each in records_in(self.record) if isinstance(each, kind)]

    def events_of(self, child_id: str) -> list[str]:
        """Return the names of a child's events."""
        return [each.name.removeprefix("agent.") for each in self.kept(ChildEvent) if each.child_id == child_id]


@asynccontextmanager
async def two_sidecars(*cards: Card, background: bool = True, **rules: Any) -> AsyncIterator[Pair]:
    """Serve both while the context is open."""
    record, alive = JournalContents(), {"first", "second"}
    stores = [StoreThatCanBeAway(record, InstanceId(name), alive.__contains__) for name in ("first", "second")]
    chosen: dict[str, Any] = {"cards": cards, "rules": {"record_poll_interval": SOON, "resume_grace": PATIENT, **rules}}
    chosen["background"] = background
    async with (
        running_sidecar_for_tests(store=stores[0], **chosen) as first,
        running_sidecar_for_tests(store=stores[1], **chosen) as second,
    ):
        yield Pair(first, second, record, alive)


async def running_at_first(
    pair: Pair, bound: pb.BindTurnResponse, *calls: str, **fields: Any
) -> tuple[asyncio.Task[Any], str]:
    """Begin a dispatch `d-1` at the first sidecar whose `shop` hangs; returns its listener and the child's id."""
    pair.first.runner.use("shop", hangs())
    listening = asyncio.create_task(failure_of(pair.first.dispatch(bound, *calls, dispatch_id="d-1", **fields)))
    await pair.first.runner.until_started("shop")
    return listening, pair.first.runner.request_of("shop").child_id


async def _close(sidecar: SidecarForTests, bound: pb.BindTurnResponse, child_id: str) -> Any:
    request = pb.CloseChildRequest(surface_token=bound.surface_token, child_id=child_id)
    return await sidecar.stub.CloseChild(request, timeout=10, metadata=sidecar.metadata)


@requirement("PC2-FR-8a", "SX-50")
async def test_a_settled_dispatch_is_resumed_at_the_other_sidecar() -> None:
    """The same outcomes in the same order; what happened meanwhile is a declared gap."""
    async with two_sidecars() as pair:
        bound = await pair.first.bind()
        told = await pair.first.dispatch(bound, "ask_shop", "ask_rewards", "ask_nobody", dispatch_id="d-1")

        again = await pair.second.resume(bound, "d-1", after=1)

        assert list(again.result.outcomes) == list(told.result.outcomes)
        gaps = [event.gap for frame in again.frames for event in frame.events if event.HasField("gap")]
        assert [(gap.from_sequence, gap.to_sequence >= 2) for gap in gaps] == [(2, True)]


@pytest.mark.parametrize("bound_again", [False, True], ids=["token", "bound again"])
async def test_the_same_request_attaches_at_the_other_sidecar_and_another_one_is_refused(bound_again: bool) -> None:
    """Also if the turn was bound again there, which gives it another token."""
    async with two_sidecars() as pair:
        bound = await pair.first.bind(turn_id="turn-1")
        told = await pair.first.dispatch(bound, "ask_shop", dispatch_id="d-1")
        token = await pair.second.bind(turn_id="turn-1") if bound_again else bound

        attached = await pair.second.dispatch(token, "ask_shop", dispatch_id="d-1")
        refused = await failure_of(pair.second.dispatch(token, "ask_rewards", dispatch_id="d-1"))

        assert attached.frames[0].snapshot.state == pb.START_STATE_ATTACHED
        assert list(attached.result.outcomes) == list(told.result.outcomes)
        assert refused.reason == "DISPATCH_ID_REUSED"
        assert pair.second.runner.started == []


@requirement("SX-28")
async def test_a_child_that_may_be_repeated_is_taken_over_with_another_attempt() -> None:
    """The client resumes at the second; the first one, which only seemed dead, is told that it lost the dispatch."""
    async with two_sidecars(with_limits(a_card("shop"), max_retries=1), a_card("rewards")) as pair:
        bound = await pair.first.bind()
        listening, child = await running_at_first(pair, bound, "ask_shop", "ask_nobody")
        grant = pair.first.runner.request_of("shop").grant
        pair.second.runner.use("shop", answers("from the second"))
        pair.kill_first()

        resumed = await pair.second.resume(bound, "d-1")

        assert resumed.outcomes == ["SUCCEEDED", "REFUSED"]
        assert resumed.of("call-1").child_id == child
        assert pair.second.runner.request_of("shop").attempt == 2
        assert pair.events_of(child).count("taken_over") == 1
        pair.first.operations.turns.of_token(bound.surface_token).dispatches[DispatchId("d-1")].calls.stop_all(
            CallFailure.CALL_CANCELLED
        )
        assert (await listening).reason == "RECORD_CONFLICT"
        assert (await failure_of(pair.first.call_tool(grant, "notes", "{}"))).reason == "GRANT_SPENT"
        settled = [each.outcome.call_id for each in pair.kept(CallSettled)]
        assert sorted(settled) == ["call-1", "call-2"]
        assert [word(each, "final_status") for each in (await pair.second.end(bound)).children] == ["completed"]


async def test_a_child_without_an_attempt_left_fails_with_its_sidecar() -> None:
    """It may have done its work: it is not done twice."""
    async with two_sidecars() as pair:
        bound = await pair.first.bind()
        listening, child = await running_at_first(pair, bound, "ask_shop")
        pair.kill_first()

        resumed = await pair.second.resume(bound, "d-1")

        assert (resumed.outcomes, pair.second.runner.started) == (["FAILED"], [])
        assert resumed.of("call-1").status.reason == ErrorReason.ERROR_REASON_SIDECAR_LOST
        await pair.second.end(bound)
        assert pair.events_of(child)[-2:] == ["subagent_failed", "subagent_closed"]
        listening.cancel()


@requirement("SX-23", "SX-43")
async def test_an_answer_whose_record_was_not_confirmed_does_not_count_after_a_takeover_either() -> None:
    """The answer is on record, but the client was told otherwise, and that stands: in the child's status, too."""
    async with two_sidecars(with_limits(a_card("shop"), max_retries=1)) as pair:
        bound = await pair.first.bind()
        listening, child = await running_at_first(pair, bound, "ask_shop")
        may_end = asyncio.Event()
        pair.second.runner.use("shop", waits_for(may_end))
        pair.kill_first()
        resuming = asyncio.create_task(pair.second.resume(bound, "d-1"))
        await pair.second.runner.until_started("shop")
        store = pair.second.store
        assert isinstance(store, StoreThatCanBeAway)
        store.is_cut_off = True
        may_end.set()

        outcome = (await resuming).of("call-1")
        store.is_cut_off = False
        ended = await pair.second.end(bound)

        assert outcome.status.reason == ErrorReason.ERROR_REASON_RECORD_UNAVAILABLE
        assert [each.outcome.outcome for each in pair.kept(CallSettled)] == ["succeeded", "failed"]
        assert [(each.child_id, word(each, "final_status")) for each in ended.children] == [(child, "failed")]
        assert not ended.routing_decision.gate_passed
        listening.cancel()


async def test_a_dispatch_that_runs_at_a_living_sidecar_is_followed() -> None:
    """The second one waits for what the first writes down, and takes nothing from it."""
    async with two_sidecars() as pair:
        may_end = asyncio.Event()
        pair.first.runner.use("shop", waits_for(may_end, answers("in the end")))
        bound = await pair.first.bind()
        told = asyncio.create_task(pair.first.dispatch(bound, "ask_shop", dispatch_id="d-1"))
        await pair.first.runner.until_started("shop")

        following = asyncio.create_task(pair.second.resume(bound, "d-1"))
        cancel = pb.CancelCallRequest(surface_token=bound.surface_token, dispatch_id="d-1", call_id="call-1")
        elsewhere = await failure_of(pair.second.stub.CancelCall(cancel, metadata=pair.second.metadata))
        may_end.set()

        assert elsewhere.reason == "RUNS_ELSEWHERE"
        assert list((await following).result.outcomes) == list((await told).result.outcomes)


async def test_what_was_taken_to_close_a_child_goes_on_where_it_was_taken() -> None:
    """A sibling never finished: it gets its outcome although no client resumes the dispatch at that sidecar."""
    async with two_sidecars() as pair:
        bound = await pair.first.bind()
        listening, _ = await running_at_first(pair, bound, "ask_shop", "ask_rewards")
        await pair.first.recorder.until("child_settled")
        child = pair.first.runner.request_of("rewards").child_id
        pair.kill_first()

        closed = await _close(pair.second, bound, child)
        assert (await failure_of(_close(pair.second, bound, "unknown"))).reason == "UNKNOWN_CHILD"
        again = await _close(pair.second, bound, child)
        await pair.second.recorder.until("child_settled")

        assert [word(each.child, "final_status") for each in (closed, again)] == ["completed"] * 2
        assert (await pair.second.resume(bound, "d-1")).outcomes == ["FAILED", "SUCCEEDED"]
        assert [word(each, "final_status") for each in (await pair.second.end(bound)).children] == [
            "failed",
            "completed",
        ]
        listening.cancel()


@requirement("SX-25", "SX-26")
async def test_the_end_of_a_turn_at_the_other_sidecar_stops_what_runs_at_the_first() -> None:
    """The parent has the last word wherever it says it; the first one's listener learns that it lost the dispatch."""
    async with two_sidecars() as pair:
        bound = await pair.first.bind()
        listening, child = await running_at_first(pair, bound, "ask_shop")

        ended = await pair.second.end(bound, narration="Nothing found.")

        assert [(each.child_id, word(each, "final_status")) for each in ended.children] == [(child, "failed")]
        assert pair.events_of(child)[-1] == "subagent_closed"
        pair.first.operations.turns.of_token(bound.surface_token).dispatches[DispatchId("d-1")].calls.stop_all(
            CallFailure.CALL_CANCELLED
        )
        assert (await listening).reason == "RECORD_CONFLICT"
        at_first = await pair.first.end(bound, narration="Nothing found.")
        assert at_first.routing_decision == ended.routing_decision
        assert (await failure_of(pair.first.end(bound, narration="Other words."))).reason == "TURN_ID_REUSED"


async def test_a_second_dispatch_of_a_turn_goes_on_counting_at_the_other_sidecar() -> None:
    """Steps are unique over the turn, and the limit of dispatches holds over both."""
    async with two_sidecars() as pair:
        bound = await pair.first.bind(turn_id="turn-1")
        await pair.first.dispatch(bound, "ask_shop", dispatch_id="d-1")
        bound_again = await pair.second.bind(turn_id="turn-1")
        await pair.second.dispatch(bound_again, "ask_shop", dispatch_id="d-2")
        await pair.first.dispatch(bound, "ask_shop", dispatch_id="d-3")

        assert [each.step_idx for each in pair.kept(ChildOpened)] == [0, 1, 2]
        ended = await pair.second.end(bound_again)
        assert [word(each, "final_status") for each in ended.children] == ["completed"] * 3
        assert len(ended.routing_decision.calls) == 3


@requirement("SX-25")
async def test_what_nobody_resumes_is_settled_and_closed_for_its_parent() -> None:
    """The second one settles it, and closes it when the turn's time is over; one routing decision is written."""
    async with two_sidecars(resume_grace=timedelta(0), turn_lifetime=timedelta(seconds=1)) as pair:
        bound = await pair.first.bind()
        listening, child = await running_at_first(pair, bound, "ask_shop")
        listening.cancel()
        pair.kill_first()

        await pair.second.recorder.until("turn_routed")

        assert pair.events_of(child)[-2:] == ["subagent_failed", "subagent_closed"]
        closed = [each for each in pair.kept(ChildEvent) if each.name == CLOSED]
        assert [each.details()["close_reason"] for each in closed] == ["parent_lost"]


@requirement("SX-26")
async def test_an_idle_turn_in_which_another_sidecar_works_is_left_to_that_one() -> None:
    """Bound at the first, running at the second: the first forgets it, and its parent may end it there even so."""
    may_end = asyncio.Event()
    async with two_sidecars(idle_lifetime=timedelta(0), background=False) as pair:
        bound, left = await pair.first.bind(turn_id="t-1"), await pair.first.bind(turn_id="t-2")
        pair.second.runner.use("shop", waits_for(may_end))
        works = asyncio.create_task(pair.second.dispatch(bound, "ask_shop"))
        await pair.second.runner.until_started("shop")

        await pair.first.operations.reaper.look()

        assert next(iter(pair.first.operations.turns)).turn_id == "t-2"
        assert [record.turn_id for record in pair.kept(RoutingRecord)] == ["t-2"]
        assert pair.first.recorder.of("anomaly") == []
        may_end.set()
        assert (await works).outcomes == ["SUCCEEDED"]
        ended = await pair.first.end(bound)
        assert [word(child, "final_status") for child in ended.children] == ["completed"]
        assert (await failure_of(pair.second.dispatch(left, "ask_shop"))).reason == "TURN_ENDED"


@requirement("SX-25")
async def test_an_operator_ends_a_turn_that_was_bound_elsewhere() -> None:
    """Asked of the second: what runs at the first is settled, its child closed, and the first has lost the dispatch."""
    async with two_sidecars() as pair:
        bound = await pair.first.bind(turn_id="turn-1")
        listening, child = await running_at_first(pair, bound, "ask_shop")

        ended = await pair.second.operations.end_turn_for_operator(TurnId("turn-1"))
        again = await pair.second.operations.end_turn_for_operator(TurnId("turn-1"))

        assert (ended.before, again.before) == (False, True)
        assert ended.close_reason == again.close_reason == "ended_by_operator"
        assert pair.events_of(child)[-1] == "subagent_closed"
        listening.cancel()


@requirement("SX-28", "SX-51")
async def test_what_one_could_not_write_before_another_took_its_dispatch_is_made_again() -> None:
    """The first stood still, the second took the dispatch and died at once: the first goes on from the record."""
    async with two_sidecars(with_limits(a_card("shop"), max_retries=1), background=False) as pair:
        bound = await pair.first.bind()
        listening, child = await running_at_first(pair, bound, "ask_shop")
        first = pair.first.operations.turns.of_token(bound.surface_token).dispatches[DispatchId("d-1")]
        store, taking = pair.second.store, facts.DispatchTaken(first.dispatch_id, 1)
        await store.append([store.draft(first.turn.turn_id, datetime.now(UTC), taking, Texts())])
        first.calls.stop_all(CallFailure.CALL_CANCELLED)
        assert (await listening).reason == "RECORD_CONFLICT"
        pair.alive.discard("second")
        pair.first.runner.use("shop", answers("in the end"))

        resumed = await pair.first.resume(bound, "d-1")
        ended = await pair.first.end(bound)

        assert resumed.outcomes == ["SUCCEEDED"]
        assert [each.outcome.outcome for each in pair.kept(CallSettled)] == ["succeeded"]
        assert [(each.child_id, word(each, "final_status")) for each in ended.children] == [(child, "completed")]
        assert [each for each in pair.first.recorder.of("anomaly") if each[0].endswith("_defect")] == []


@requirement("SX-25")
async def test_a_turn_that_neither_sidecar_has_open_is_closed_by_the_one_that_worked_in_it_last() -> None:
    """Both live, both settled a dispatch of it, and the first has left it to the second, which only settled it."""
    async with two_sidecars(turn_lifetime=timedelta(seconds=2)) as pair:
        bound = await pair.first.bind()
        await pair.first.dispatch(bound, "ask_shop", dispatch_id="d-1")
        await pair.second.dispatch(bound, "ask_shop", dispatch_id="d-2")
        for sidecar in (pair.first, pair.second):
            sidecar.operations.turns.forget(sidecar.operations.turns.of_token(bound.surface_token))

        await pair.second.recorder.until("turn_routed")

        assert [each.close_reason for each in pair.kept(RoutingRecord)] == ["parent_lost"]
        assert pair.first.recorder.of("turn_routed") == []
