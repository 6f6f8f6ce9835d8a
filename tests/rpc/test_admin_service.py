"""Looking after one sidecar: its status, a drain that is taken back, its plugins, and whether its record is whole."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc

from sidecar.core.executing.retries import BreakerState
from sidecar.core.identifiers import Slot
from sidecar.observability.recorder import MeasuringRecorder
from subagents.admin.v1 import admin_pb2 as pb
from subagents.dispatch.v1 import outcome_pb2
from subagents.history.v1 import history_pb2
from subagents.history.v1.history_pb2_grpc import HistoryServiceStub
from subagents.lifecycle.v1 import reading_pb2
from tests.support.fake_runner import hangs
from tests.support.operators import an_operated_sidecar
from tests.support.requests import failure_of, stream_failure_of


async def test_a_drain_refuses_new_turns_lets_the_others_go_on_and_can_be_taken_back() -> None:
    """What runs is finished; once the process has been told to end there is no way back."""
    async with an_operated_sidecar() as bench:
        bound = await bench.sidecar.bind()
        drained = await bench.admin.Drain(pb.DrainRequest(reason="a new kernel"), metadata=bench.role())
        refused = await failure_of(bench.sidecar.bind())
        status = await bench.admin.GetStatus(pb.GetStatusRequest(), metadata=bench.role("viewer"))
        await bench.sidecar.end(bound)
        back = await bench.admin.Drain(pb.DrainRequest(reason="done", resume=True), metadata=bench.role())
        await bench.sidecar.bind()
        bench.readiness.block("stop", "a stop signal came")
        late = await failure_of(bench.admin.Drain(pb.DrainRequest(reason="no", resume=True), metadata=bench.role()))

    assert (drained.draining, drained.open_turns, refused.reason) == (True, 1, "DRAINING")
    assert (status.ready, list(status.blockers)) == (False, ["ada@example has it drained: a new kernel"])
    assert (back.draining, late.reason) == (False, "DRAINING")


async def test_a_drain_wants_a_reason_on_one_line() -> None:
    """Empty, or with a line break that would forge the log."""
    async with an_operated_sidecar() as bench:
        empty = await failure_of(bench.admin.Drain(pb.DrainRequest(), metadata=bench.role()))
        forged = await failure_of(bench.admin.Drain(pb.DrainRequest(reason="a\nb"), metadata=bench.role()))
        status = await bench.admin.GetStatus(pb.GetStatusRequest(), metadata=bench.role())

    assert [list(each.fields) for each in (empty, forged)] == [["reason"], ["reason"]]
    assert not status.draining


async def test_the_status_says_who_answers_and_what_is_open() -> None:
    """Version, instance, turns, the version of rollouts that binds show, kills that wait to be recorded."""
    async with an_operated_sidecar() as bench:
        await bench.promoted(ramp=500)
        await bench.sidecar.bind()
        bench.store.away = True
        await bench.step("Kill", header={"expected_revision": None})
        status = await bench.admin.GetStatus(pb.GetStatusRequest(), metadata=bench.role())

    assert (status.version, status.instance_id, status.ready) == ("1.0", "instance-of-the-tests", True)
    assert (status.open_turns, status.pending_kills, status.calls_in_flight) == (1, 1, 1)
    assert status.rollout_version > 0


async def test_the_traffic_is_what_was_counted_what_runs_and_what_cannot_be_reached() -> None:
    """By slot, definition, arm, outcome and reason; a sub-agent that hangs is in flight; a breaker is open."""
    async with an_operated_sidecar() as bench:
        recorder = MeasuringRecorder(bench.metrics)
        recorder.call_settled("shop", "shop-2", "active", "failed", "RUNNER_UNAVAILABLE")
        recorder.call_settled("", "", "", "refused", "UNKNOWN_TOOL")
        recorder.child_settled("shop", "failed", 1, 0.2)
        await bench.promoted(ramp=9999)
        bench.sidecar.runner.use("shop", hangs())
        bound = await bench.sidecar.bind(principal="user-20")
        running = asyncio.ensure_future(bench.sidecar.dispatch(bound, "ask_shop"))
        await bench.sidecar.runner.until_started("shop")
        bench.sidecar.operations.breakers.of("unix:host.sock", Slot("shop")).state = BreakerState.OPEN
        seen = await bench.admin.GetTraffic(pb.GetTrafficRequest(), metadata=bench.role("viewer"))
        refused = await failure_of(bench.admin.GetTraffic(pb.GetTrafficRequest(), metadata=bench.role("breaker")))
        running.cancel()

    counted = [(each.sub_agent_id, each.definition_id, each.outcome, each.reason, each.count) for each in seen.calls]
    assert counted == [
        ("", "", outcome_pb2.OUTCOME_REFUSED, "UNKNOWN_TOOL", 1),
        ("shop", "shop-2", outcome_pb2.OUTCOME_FAILED, "RUNNER_UNAVAILABLE", 1),
    ]
    (shop,) = seen.slots
    assert (shop.sub_agent_id, shop.in_flight, seen.dispatches) == ("shop", 1, 1)
    assert [(each.target, each.half_open) for each in shop.open_breakers] == [("unix:host.sock", False)]
    assert (sum(shop.durations), len(shop.durations)) == (1, len(seen.duration_bounds) + 1)
    assert refused.reason == "ROLE_REQUIRED"


async def test_operators_read_turns_on_their_listener_and_viewers_only_the_list() -> None:
    """What a turn contains is for operators; the status says who asks."""
    async with an_operated_sidecar() as bench:
        await bench.promoted(ramp=9999)
        await bench.sidecar.dispatch(await bench.sidecar.bind(principal="user-20"), "ask_shop")
        history = HistoryServiceStub(bench.channel)
        ask = history_pb2.GetTurnRequest(turn_id="turn-1")
        listed = await history.ListTurns(history_pb2.ListTurnsRequest(), metadata=bench.role("viewer"))
        refused = await failure_of(history.GetTurn(ask, metadata=bench.role("viewer")))
        turn = await history.GetTurn(ask, metadata=bench.role())
        status = await bench.admin.GetStatus(pb.GetStatusRequest(), metadata=bench.role("viewer"))

    assert [row.turn_id for row in listed.turns] == ["turn-1"]
    assert refused.reason == "ROLE_REQUIRED"
    assert turn.dispatches[0].outcomes[0].outcome == outcome_pb2.OUTCOME_SUCCEEDED
    assert (status.caller, status.caller_role) == ("ada@example", reading_pb2.ACTOR_ROLE_VIEWER)


async def test_a_whole_record_verifies_and_says_what_it_cannot_know() -> None:
    """One dispatch on record; without checkpoints it says so."""
    async with an_operated_sidecar() as bench:
        await bench.promoted(ramp=9999)
        bound = await bench.sidecar.bind(principal="user-20")
        await bench.sidecar.dispatch(bound, "ask_shop")
        stream = bench.admin.VerifyLog(pb.VerifyLogRequest(), timeout=10, metadata=bench.role("viewer"))
        news = [each async for each in stream]

    assert [(each.done, list(each.findings)) for each in news] == [(True, [])]
    assert news[0].turn_count == 1
    assert "no checkpoints" in news[0].notices[0]


async def test_a_record_that_cannot_be_read_is_no_whole_one_and_only_one_is_verified_at_a_time() -> None:
    """The second is told to wait; a failure ends the stream with a status, never with `done`."""
    opened, go_on = asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def unreadable() -> AsyncIterator[Any]:
        opened.set()
        await go_on.wait()
        for problem in (OSError("gone"),):
            raise problem
        yield

    async with an_operated_sidecar(open_record=unreadable) as bench:
        first = asyncio.ensure_future(
            stream_failure_of(bench.admin.VerifyLog(pb.VerifyLogRequest(), timeout=10, metadata=bench.role()))
        )
        await opened.wait()
        second = await stream_failure_of(
            bench.admin.VerifyLog(pb.VerifyLogRequest(), timeout=10, metadata=bench.role())
        )
        go_on.set()
        failed = await first

    assert (second.reason, failed.reason) == ("ADMISSION_REFUSED", "STORE_UNAVAILABLE")
    assert failed.code == grpc.StatusCode.UNAVAILABLE
    assert "gone" not in failed.message


async def test_the_plugins_are_listed() -> None:
    """An empty list where none is installed, and no failure."""
    async with an_operated_sidecar() as bench:
        answer = await bench.admin.ListPlugins(pb.ListPluginsRequest(), metadata=bench.role("viewer"))

    assert list(answer.plugins) == []


async def test_the_content_of_a_user_is_erased_and_the_log_does_not_say_whose() -> None:
    """A turn that is open keeps it; then it goes, once; the record is whole."""
    async with an_operated_sidecar() as bench:
        await bench.promoted(ramp=9999)
        bound = await bench.sidecar.bind(principal="user-20")
        await bench.sidecar.dispatch(bound, "ask_shop")
        token, reason = bench.role(), "they asked for it"

        async def erased(principal: str, *, preview: bool = False) -> pb.EraseUserResponse:
            request = pb.EraseUserRequest(principal=principal, reason=reason, preview=preview)
            return [each async for each in bench.admin.EraseUser(request, timeout=10, metadata=token)][-1]

        refused = await erased("user-20")
        await bench.sidecar.end(bound)
        found = await erased("user-20", preview=True)
        done = await erased("user-20")
        again = await erased("user-20")
        news = [each async for each in bench.admin.VerifyLog(pb.VerifyLogRequest(), timeout=10, metadata=token)]

    assert (len(refused.open_turn_ids), refused.done) == (1, False)
    assert (found.turn_count, found.fact_count, found.done) == (1, 0, False)
    assert (done.turn_count, done.fact_count > 0, done.HasField("conversation_count"), done.done) == (
        1,
        True,
        True,
        True,
    )
    assert (again.turn_count, again.fact_count, again.done) == (0, 0, True)
    assert [list(each.findings) for each in news] == [[]]
    assert [reason for _, reason in bench.erasures] == ["they asked for it"] * 3


async def test_an_erasure_needs_a_user_and_a_reason() -> None:
    """Both are said at once."""
    async with an_operated_sidecar() as bench:
        failed = await stream_failure_of(
            bench.admin.EraseUser(pb.EraseUserRequest(), timeout=10, metadata=bench.role())
        )
    assert failed.reason == "INVALID_REQUEST"
    assert "principal" in failed.message
