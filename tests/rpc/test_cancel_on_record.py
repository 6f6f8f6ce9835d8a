"""A cancel is on record before it is acknowledged, so that a takeover does not run the call again."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from sidecar.adapters.record_memory import JournalContents
from sidecar.core.errors import StoreUnavailable
from sidecar.core.identifiers import CallId, DispatchId, InstanceId
from sidecar.core.journal.encoding import body_of
from sidecar.core.journal.entries import Draft
from sidecar.core.journal.facts import AttemptRepeated, CallsCancelled, CallsSettled, ChildrenOpened, DispatchTaken
from subagents.dispatch.v1 import dispatch_pb2 as pb
from subagents.errors.v1.error_reason_pb2 import ErrorReason
from subagents_errors import CallFailure
from tests.rpc.test_cancel import cancel
from tests.support.fake_runner import hangs
from tests.support.harness import SidecarForTests, running_sidecar_for_tests
from tests.support.records import StoreThatCanBeAway
from tests.support.requests import failure_of
from tests.support.requirement import requirement

SOON = timedelta(milliseconds=5)
ONE_AT_A_TIME = pb.JoinPolicy(max_parallel=1)


class RefusesSome(StoreThatCanBeAway):
    """Keeps nothing that contains a fact of the kinds in `refused`; those in `slow` wait until `held` is set."""

    refused: tuple[type[Any], ...] = ()
    slow: tuple[type[Any], ...] = (CallsCancelled,)

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.held = asyncio.Event()
        self.held.set()
        self.asked = asyncio.Event()

    async def append(self, entries: Sequence[Draft]) -> None:
        """Append, or say that it is not kept."""
        bodies = [each.body for each in entries]
        if any(isinstance(body, self.slow) for body in bodies):
            self.asked.set()
            await self.held.wait()
        if any(isinstance(body, self.refused) for body in bodies):
            raise StoreUnavailable("the store is away", retry_after=timedelta(seconds=1))
        await super().append(entries)


def kinds(record: JournalContents, *kind: type[Any]) -> list[Any]:
    """Return the facts of one kind, in order."""
    bodies = [body_of(fact) for turn in record.turns.values() for fact in turn.facts]
    return [body for body in bodies if isinstance(body, kind)]


async def begun(sidecar: SidecarForTests) -> tuple[pb.BindTurnResponse, asyncio.Task[Any]]:
    """Begin `d-1` of two calls, one at a time; the first one hangs."""
    sidecar.runner.use("shop", hangs())
    bound = await sidecar.bind()
    sending = sidecar.dispatch(bound, "ask_shop", "ask_rewards", dispatch_id="d-1", join=ONE_AT_A_TIME)
    running = asyncio.create_task(failure_of(sending))
    await sidecar.runner.until_started("shop")
    return bound, running


@requirement("SX-28")
async def test_the_answer_waits_for_the_record_and_the_work_does_not() -> None:
    """The sub-agent is stopped while the cancel is still being written."""
    store = RefusesSome(JournalContents())
    async with running_sidecar_for_tests(store=store) as sidecar:
        bound, running = await begun(sidecar)
        store.held.clear()

        cancelling = asyncio.create_task(cancel(sidecar, bound, "call-1"))
        await store.asked.wait()
        await sidecar.runner.until_cancelled("shop")
        await sidecar.bind()  # an answer would have come before this one
        assert not cancelling.done()
        store.held.set()

        assert await cancelling
        running.cancel()


@requirement("SX-28")
async def test_a_cancelled_call_is_not_run_by_the_sidecar_that_takes_the_dispatch_over() -> None:
    """Its outcome could not be recorded; the cancel was. One call ran already, the other one still waited."""
    record, alive = JournalContents(), {"first", "second"}
    stores = [RefusesSome(record, InstanceId(name), alive.__contains__) for name in ("first", "second")]
    quick: dict[str, Any] = {"rules": {"record_poll_interval": SOON}, "background": True}
    async with (
        running_sidecar_for_tests(store=stores[0], **quick) as first,
        running_sidecar_for_tests(store=stores[1], **quick) as second,
    ):
        bound, running = await begun(first)
        stores[0].refused = (CallsSettled, ChildrenOpened)
        assert await cancel(first, bound, "call-2")
        assert await cancel(first, bound, "call-1")
        assert [each.places for each in kinds(record, CallsCancelled)] == [(1,), (0,)]
        alive.discard("first")

        reply = await second.resume(bound, "d-1")

        assert reply.outcomes == ["FAILED", "NOT_STARTED"]
        reasons = [reply.of(call).status.reason for call in ("call-1", "call-2")]
        assert reasons == [ErrorReason.ERROR_REASON_CALL_CANCELLED] * 2
        assert (second.runner.started, kinds(record, AttemptRepeated)) == ([], [])
        running.cancel()


async def test_no_child_is_opened_for_a_call_that_was_cancelled_after_its_lane_was_free() -> None:
    """The step was ready before the cancel came, and is laid out after it: the rules would refuse the child."""
    async with running_sidecar_for_tests() as sidecar:
        bound, running = await begun(sidecar)
        operations = sidecar.operations
        dispatch = operations.turns.of_token(bound.surface_token).dispatches[DispatchId("d-1")]
        planned, now = dispatch.calls.planned[CallId("call-2")], datetime.now(UTC)
        begin_late = operations.dispatch_calls._execute._begin_late

        assert begin_late(dispatch, planned, None, None, now).opening is not None
        dispatch.calls.stop(CallId("call-2"), CallFailure.CALL_CANCELLED)
        laid = begin_late(dispatch, planned, None, None, now)

        assert laid.opening is None
        assert laid.settled is not None
        assert laid.settled.call.reason is CallFailure.CALL_CANCELLED
        running.cancel()


async def test_a_cancel_whose_answer_was_lost_can_be_repeated() -> None:
    """The first one was kept although the store did not say so. The call still waits for its outcome to be written."""
    store = RefusesSome(JournalContents())
    async with running_sidecar_for_tests(store=store) as sidecar:
        bound, running = await begun(sidecar)
        store.slow, store.is_cut_off = (CallsSettled,), True
        store.held.clear()
        lost = await failure_of(cancel(sidecar, bound, "call-1"))
        store.is_cut_off = False

        again = await cancel(sidecar, bound, "call-1")

        assert (lost.reason, again) == ("STORE_UNAVAILABLE", True)
        assert len(kinds(store.contents, CallsCancelled)) == 1
        assert kinds(store.contents, CallsSettled) == []
        store.held.set()
        running.cancel()


async def test_a_call_is_cancelled_at_a_sidecar_that_does_not_run_its_dispatch() -> None:
    """The one that did is dead; cancelling takes the dispatch, so that the cancel is on record.

    Its other call then runs there, for the client to resume at any sidecar: a third one only follows a living owner.
    """
    record, alive = JournalContents(), {"first", "second", "third"}
    stores = [RefusesSome(record, InstanceId(name), alive.__contains__) for name in ("first", "second", "third")]
    quick: dict[str, Any] = {"rules": {"record_poll_interval": SOON}, "background": True}
    async with (
        running_sidecar_for_tests(store=stores[0], **quick) as first,
        running_sidecar_for_tests(store=stores[1], **quick) as other,
        running_sidecar_for_tests(store=stores[2], **quick) as third,
    ):
        bound, running = await begun(first)
        alive.discard("first")

        assert await cancel(other, bound, "call-1")

        taken = kinds(record, DispatchTaken, CallsCancelled)
        assert [type(body) for body in taken] == [DispatchTaken, CallsCancelled]
        reply = await third.resume(bound, "d-1")
        assert (reply.outcomes, other.runner.started) == (["FAILED", "SUCCEEDED"], ["rewards"])
        assert third.runner.started == []
        running.cancel()
