"""A recorded turn, sent through today's code again, comes to the same; and a changed join does not."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from sidecar.adapters.record_memory import MemoryStore
from sidecar.composition.replay import replayed
from sidecar.core.dispatching.outcomes import Answer, Outcome, Usage
from sidecar.core.dispatching.result_checks import ResultLimits
from sidecar.core.executing.retries import BreakerRules, RetryRules
from sidecar.core.identifiers import CallId, DispatchId
from sidecar.core.journal.entries import Draft
from sidecar.core.replaying.document import CannotReplay, ReplayDocument, document_from_json
from sidecar.operations.replay.replay_turn import ReplayReport
from sidecar.policy.protocols import (
    ComponentMade,
    NarrationPart,
    RunFinished,
    RunnerError,
    RunnerEvent,
    RunRequest,
    UsageReported,
)
from subagents.dispatch.v1 import dispatch_pb2 as pb
from subagents.history.v1 import history_pb2, history_pb2_grpc
from tests.rpc.test_asking_back import answering, approved, asked_in_a_turn
from tests.support.builders import a_card, with_limits
from tests.support.data_tools import a_card_with_tools, an_envelope
from tests.support.fake_runner import (
    Script,
    ScriptedRunner,
    answers,
    calls_tool,
    ends_early,
    fails_first,
    hangs,
    lies,
    raises,
    waits_for,
)
from tests.support.harness import SidecarForTests, running_sidecar_for_tests
from tests.support.requirement import requirement

FLAKY = RunnerError("connection reset", transient=True)
CARD = ComponentMade("render_card", '{"id": 1}', '{"title": "Offer"}')
QUICK = {"retries": RetryRules(first_backoff=0.005, longest_backoff=0.01)}


async def exported(sidecar: SidecarForTests, turn_id: str) -> ReplayDocument:
    """Export a turn over the RPC, as the command does."""
    stub = history_pb2_grpc.HistoryServiceStub(sidecar.channel)
    request = history_pb2.ExportReplayRequest(turn_id=turn_id)
    pieces = [piece.document_json async for piece in stub.ExportReplay(request, metadata=sidecar.metadata)]
    return document_from_json("".join(pieces).encode())


async def replay_of(sidecar: SidecarForTests, turn_id: str) -> ReplayReport:
    """Export and replay a turn."""
    document = await exported(sidecar, turn_id)
    return await asyncio.to_thread(replayed, document, sidecar.definitions.card_by_digest)


def told(report: ReplayReport) -> list[tuple[str, str | None, int]]:
    """Return outcome, reason and attempts of every call that was replayed."""
    return [
        (each.outcome.value, each.reason and str(each.reason), each.attempts)
        for outcomes in report.replayed.outcomes.values()
        for each in outcomes
    ]


def uses_tokens(*totals: int) -> Script:
    """Report tokens, with something to say before each report."""

    async def script(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
        for total in totals:
            yield NarrationPart(f"{total};")
            yield UsageReported(total, 0)
        yield RunFinished()

    return script


ONE: dict[str, tuple[Script, dict[str, Any], tuple[str, str | None, int]]] = {
    "success": (answers("Two offers.", components=[CARD], usage=(3, 4)), {}, ("succeeded", None, 1)),
    "without-data": (answers(data_unavailable=True), {}, ("degraded", "DATA_UNAVAILABLE", 1)),
    "failure": (raises(RunnerError("a defect"), after="half"), {}, ("failed", "RUNNER_FAILED", 1)),
    "unreachable": (raises(RunnerError("away", unreachable=True)), {}, ("failed", "RUNNER_UNAVAILABLE", 1)),
    "raises": (raises(SystemExit(3)), {}, ("failed", "RUNNER_FAILED", 1)),
    "cancels-itself": (raises(asyncio.CancelledError()), {}, ("failed", "RUNNER_FAILED", 1)),
    "no-end": (ends_early(), {}, ("failed", "RESULT_INVALID", 1)),
    "lies": (lies(), {}, ("failed", "RESULT_INVALID", 1)),
    "retry": (fails_first(2, FLAKY), {"max_retries": 2}, ("succeeded", None, 3)),
    "retries-in-vain": (raises(FLAKY), {"max_retries": 1}, ("failed", "RUNNER_FAILED", 2)),
    "timeout": (hangs(), {"attempt_timeout": timedelta(milliseconds=30)}, ("failed", "ATTEMPT_TIMEOUT", 1)),
    "idle": (hangs(), {"idle_timeout": timedelta(milliseconds=30)}, ("failed", "RUNNER_IDLE", 1)),
    "wall-clock": (hangs(), {"wall_clock": timedelta(milliseconds=30)}, ("degraded", "BUDGET_EXHAUSTED", 1)),
    "tokens": (uses_tokens(40, 80, 120), {"tokens": 100}, ("degraded", "BUDGET_EXHAUSTED", 1)),
}


@requirement("PC1-FR-10d", "SX-48")
@pytest.mark.parametrize(("script", "limits", "expected"), ONE.values(), ids=ONE)
async def test_a_turn_with_one_call_comes_to_the_same(
    script: Script, limits: dict[str, Any], expected: tuple[str, str | None, int]
) -> None:
    """Whatever the sub-agent did, outcome, reason, answer and attempts are as they were told."""
    cards = [with_limits(a_card("shop", components={"render_card": {"type": "object"}}), **limits)]
    async with running_sidecar_for_tests(cards=cards, rules=QUICK) as sidecar:
        sidecar.runner.use("shop", script)
        bound = await sidecar.bind(turn_id="t")
        await sidecar.dispatch(bound, "ask_shop")

        report = await replay_of(sidecar, "t")

        assert (report.differences, report.notes) == ((), ())
        assert told(report) == [expected]


@requirement("SX-50")
async def test_a_fan_out_comes_to_the_same_in_emission_order_whoever_came_first() -> None:
    """The last of three finishes first; one waits for a slot in use, one is over the cap, one is unknown."""
    first_is_through = asyncio.Event()

    async def last(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
        yield NarrationPart("first")
        first_is_through.set()
        yield RunFinished()

    async with running_sidecar_for_tests(cap=4) as sidecar:
        sidecar.runner.use("shop", waits_for(first_is_through))
        sidecar.runner.use("rewards", waits_for(first_is_through, ends_early()))
        sidecar.runner.use("support", last)
        bound = await sidecar.bind(turn_id="t")
        calls = ("ask_shop", "ask_rewards", "ask_support", "ask_shop", "ask_support", "ask_nobody")
        reply = await sidecar.dispatch(bound, *calls)

        report = await replay_of(sidecar, "t")

        assert reply.outcomes == ["SUCCEEDED", "FAILED", "SUCCEEDED", "SUCCEEDED", "DROPPED", "REFUSED"]
        assert (report.differences, report.notes) == ((), ())
        (joined,) = report.replayed.outcomes.values()
        assert [each.call_id for each in joined] == [f"call-{place}" for place in range(1, 7)]


@pytest.mark.parametrize(
    ("changes", "limits", "outcome"),
    [
        ({}, {}, "SUCCEEDED"),
        ({"principal": "user-2"}, {"max_retries": 2}, "DEGRADED"),
        ({"status": "error"}, {}, "DEGRADED"),
        ({}, {"tool_calls": 1}, "FAILED"),
    ],
    ids=["released", "barred", "withheld", "budget"],
)
async def test_what_the_tool_gateway_did_is_part_of_it(
    changes: dict[str, Any], limits: dict[str, Any], outcome: str
) -> None:
    """No data service is asked again; that data was withheld, or the budget hit, changes the outcome as it did."""
    card = with_limits(a_card_with_tools("shop", "stock"), **limits)
    async with running_sidecar_for_tests(cards=[card], rules=QUICK) as sidecar:
        sidecar.connector.reply = lambda call: an_envelope(call, **changes)
        sidecar.runner.use("shop", calls_tool("stock", times=2))
        reply = await sidecar.dispatch(await sidecar.bind(turn_id="t"), "ask_shop")
        asked = len(sidecar.connector.calls)

        report = await replay_of(sidecar, "t")

        assert reply.outcomes == [outcome]
        assert (report.differences, report.notes) == ((), ())
        assert len(sidecar.connector.calls) == asked > 0


async def test_cancelled_calls_are_cancelled_again_whether_they_ran_or_waited() -> None:
    """One is cancelled while it runs, one while it waits for its lane; their sibling answers after that."""
    goes_on = asyncio.Event()
    async with running_sidecar_for_tests() as sidecar:
        sidecar.runner.use("shop", hangs())
        sidecar.runner.use("rewards", waits_for(goes_on))
        bound = await sidecar.bind(turn_id="t")
        request = sidecar.dispatch_request(bound, "ask_shop", "ask_rewards", "ask_rewards", dispatch_id="d")
        sending = asyncio.create_task(sidecar.send(request))
        await sidecar.runner.until_started("shop", "rewards")
        for call_id in ("call-3", "call-1"):
            cancel = pb.CancelCallRequest(surface_token=bound.surface_token, dispatch_id="d", call_id=call_id)
            await sidecar.stub.CancelCall(cancel, metadata=sidecar.metadata)
        goes_on.set()
        reply = await sending

        report = await replay_of(sidecar, "t")

        assert reply.outcomes == ["FAILED", "SUCCEEDED", "NOT_STARTED"]
        assert report.differences == ()
        assert told(report)[0::2] == [("failed", "CALL_CANCELLED", 1), ("not_started", "CALL_CANCELLED", 0)]


async def test_a_listener_that_left_stops_the_replayed_calls_as_well() -> None:
    """The client goes away; what ran is cancelled, then and now."""
    async with running_sidecar_for_tests() as sidecar:
        sidecar.runner.use("shop", hangs())
        bound = await sidecar.bind(turn_id="t")
        request = sidecar.dispatch_request(bound, "ask_shop", "ask_shop", dispatch_id="d")
        stream = sidecar.stub.Dispatch(request, metadata=sidecar.metadata)
        await sidecar.runner.until_started("shop")
        stream.cancel()
        await sidecar.runner.until_cancelled("shop")
        await sidecar.resume(bound, "d")

        report = await replay_of(sidecar, "t")

        assert report.differences == ()
        assert [(outcome, attempts) for outcome, _, attempts in told(report)] == [("failed", 1), ("not_started", 0)]


class SlowStore(MemoryStore):
    """Confirms nothing until it may."""

    waits = True

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.may = asyncio.Event(), asyncio.Event()

    async def append(self, records: Sequence[Draft]) -> None:
        """Wait, then keep."""
        self.asked.set()
        await self.may.wait()
        await super().append(records)


async def test_a_call_that_was_cancelled_before_its_first_attempt_makes_none_again() -> None:
    """It was cancelled while the store was writing its child down; its sibling began after that."""
    store = SlowStore()
    async with running_sidecar_for_tests(store=store) as sidecar:
        bound = await sidecar.bind(turn_id="t")
        sending = asyncio.create_task(sidecar.dispatch(bound, "ask_shop", "ask_rewards", dispatch_id="d"))
        await store.asked.wait()
        dispatch = sidecar.operations.turns.of_token(bound.surface_token).dispatches[DispatchId("d")]
        cancel = pb.CancelCallRequest(surface_token=bound.surface_token, dispatch_id="d", call_id="call-1")
        cancelling = asyncio.ensure_future(sidecar.stub.CancelCall(cancel, metadata=sidecar.metadata))
        await dispatch.calls.stops[CallId("call-1")].wait()
        store.may.set()
        await asyncio.gather(sending, cancelling)

        report = await replay_of(sidecar, "t")

        assert (report.differences, report.notes) == ((), ())
        assert told(report) == [("failed", "CALL_CANCELLED", 0), ("succeeded", None, 1)]


async def test_the_join_deadline_comes_when_it_came() -> None:
    """One answers before, one is stopped by it, and one that waits behind it never starts."""
    async with running_sidecar_for_tests() as sidecar:
        sidecar.runner.use("shop", hangs())
        bound = await sidecar.bind(turn_id="t")
        reply = await sidecar.dispatch(bound, "ask_shop", "ask_rewards", "ask_shop", seconds=2)

        report = await replay_of(sidecar, "t")

        assert reply.outcomes == ["FAILED", "SUCCEEDED", "NOT_STARTED"]
        assert report.differences == ()
        assert [reason for _, reason, _ in told(report)] == ["JOIN_DEADLINE", None, "NOT_STARTED"]


async def test_the_end_of_a_turn_stops_what_it_stopped_and_all_dispatches_are_replayed() -> None:
    """Two dispatches, one still running when the turn is ended; both are part of the replay."""
    async with running_sidecar_for_tests() as sidecar:
        bound = await sidecar.bind(turn_id="t")
        first = await sidecar.dispatch(bound, "ask_shop", dispatch_id="d-1")
        sidecar.runner.use("rewards", hangs())
        second = asyncio.create_task(sidecar.dispatch(bound, "ask_rewards", dispatch_id="d-2"))
        await sidecar.runner.until_started("rewards")
        await sidecar.end(bound)
        stopped = await second

        report = await replay_of(sidecar, "t")

        assert (first.outcomes, stopped.outcomes) == (["SUCCEEDED"], ["FAILED"])
        assert (report.differences, list(report.replayed.outcomes)) == ((), ["d-1", "d-2"])
        assert told(report)[1] == ("failed", "TURN_OVER", 1)


@requirement("SX-48")
async def test_outcomes_on_record_change_the_comparison_and_nothing_of_the_replay() -> None:
    """With every stored outcome altered, or taken away, the same is computed; only what it is compared with differs."""
    async with running_sidecar_for_tests() as sidecar:
        await sidecar.dispatch(await sidecar.bind(turn_id="t"), "ask_shop", "ask_rewards", dispatch_id="d")
        document = await exported(sidecar, "t")
        stored = document.recorded_outcomes[DispatchId("d")]
        lies_about = tuple(
            msgspec.structs.replace(each, outcome=Outcome.FAILED, answer=Answer("a lie"), attempts=7) for each in stored
        )
        documents = [
            document,
            msgspec.structs.replace(document, recorded_outcomes={DispatchId("d"): lies_about}),
            msgspec.structs.replace(document, recorded_outcomes={}),
        ]
        same, altered, without = [
            await asyncio.to_thread(replayed, each, sidecar.definitions.card_by_digest) for each in documents
        ]

    assert same.replayed == altered.replayed == without.replayed
    assert (same.differences, len(altered.differences)) == ((), 6)
    assert without.notes == tuple(f"d call-{place}: not compared: no outcome is on record" for place in (1, 2))


@pytest.mark.parametrize(
    ("script", "rules", "why"),
    [
        (answers(), {"record_frames": False}, "record.frames was off"),
        (answers("x" * 300_000), {"results": ResultLimits(narration=400_000)}, "the recording was cut: over 256 KiB"),
        (raises(FLAKY), {"retries": RetryRules(share=0.0, floor=0)}, "because of the retry budget"),
        (
            raises(RunnerError("away", unreachable=True)),
            {"breaker": BreakerRules(failures=1, open_for=60.0)},
            "because of the breaker",
        ),
    ],
    ids=["not-recorded", "too-large", "retry-budget", "breaker"],
)
async def test_what_cannot_be_replayed_says_why(script: Script, rules: dict[str, Any], why: str) -> None:
    """Rather than a replay that would be wrong."""
    cards = [with_limits(a_card("shop"), max_retries=1)]
    async with running_sidecar_for_tests(cards=cards, rules=rules) as sidecar:
        sidecar.runner.use("shop", script)
        await sidecar.dispatch(await sidecar.bind(turn_id="t"), "ask_shop", "ask_shop")

        with pytest.raises(CannotReplay, match=why):
            await replay_of(sidecar, "t")


async def test_what_delegations_used_counts_again_and_they_are_not_run_again() -> None:
    """Eight tokens below and three above are over ten; the second dispatch goes on counting after the delegation."""
    shop = with_limits(a_card("shop"), max_delegation_depth=1, tokens=10, idle_timeout=timedelta(seconds=1))

    async def asks(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
        await runner.delegate(request.grant, "ask_rewards")
        yield NarrationPart("done")
        yield UsageReported(3, 0)
        yield RunFinished()

    async def takes_its_time(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
        waited = asyncio.Event()
        asyncio.get_running_loop().call_later(1.1, waited.set)
        await waited.wait()
        yield UsageReported(5, 3, 4)
        yield RunFinished()

    async with running_sidecar_for_tests(cards=[shop, a_card("rewards")]) as sidecar:
        sidecar.runner.use("shop", asks)
        sidecar.runner.use("rewards", takes_its_time)
        bound = await sidecar.bind(turn_id="t")
        first = await sidecar.dispatch(bound, "ask_shop", dispatch_id="d-1")
        sidecar.runner.use("rewards", answers())
        await sidecar.dispatch(bound, "ask_rewards", dispatch_id="d-2")

        report = await replay_of(sidecar, "t")

        assert (first.outcomes, report.differences) == (["DEGRADED"], ())
        assert [each.usage for each in report.replayed.outcomes[DispatchId("d-1")]] == [Usage(8, 3, 4)]
        assert [each.emission_index for each in report.replayed.outcomes[DispatchId("d-2")]] == [2]


async def test_a_call_that_a_daily_limit_refused_is_refused_again() -> None:
    """The count came from other turns: a replay takes it as it was, and the call beyond it does not run."""
    cards = [with_limits(a_card("shop"), calls_per_user_per_day=2), a_card("rewards")]
    async with running_sidecar_for_tests(cards=cards) as sidecar:
        await sidecar.dispatch(await sidecar.bind(turn_id="before"), "ask_shop")
        bound = await sidecar.bind(turn_id="t-1")
        await sidecar.dispatch(bound, "ask_shop", "ask_shop", "ask_rewards")
        await sidecar.end(bound)
        report = await replay_of(sidecar, "t-1")

    assert told(report) == [("succeeded", None, 1), ("refused", "DAILY_LIMIT_REACHED", 0), ("succeeded", None, 1)]
    assert report.differences == ()


async def test_turns_that_ask_back_and_that_answer_are_replayed() -> None:
    """A question comes again; what continued then is played from its recording, without the turn that asked."""
    async with running_sidecar_for_tests() as sidecar:
        asking = await asked_in_a_turn(sidecar)
        for turn_id in ("turn-answer", "turn-again"):
            bound = await sidecar.bind(turn_id=turn_id)
            await sidecar.dispatch(bound, answering(approved(asking.question.receipt)))
            await sidecar.end(bound)
        asked, answer, again = [await replay_of(sidecar, each) for each in ("turn-1", "turn-answer", "turn-again")]

    assert [report.differences for report in (asked, answer, again)] == [(), (), ()]
    assert told(asked) == [("suspended", "NEEDS_APPROVAL", 1)]
    assert told(answer) == [("succeeded", None, 1)]
    assert [note.endswith("which the record of another turn decides") for note in again.notes] == [True]
