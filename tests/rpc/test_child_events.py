"""The log of one child: what is written, in which order, and that it is never rewritten (SX section 6)."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from datetime import timedelta
from itertools import pairwise
from typing import Any

import grpc
import pytest

from sidecar.adapters.record_memory import MemoryStore
from sidecar.core.errors import RecordConflict
from sidecar.core.executing.events import MOST_OF_A_KIND
from sidecar.core.executing.records import CallSettled
from sidecar.core.identifiers import DispatchId
from sidecar.core.journal.entries import Draft
from sidecar.core.journal.facts import CallsSettled, ChildNoted, Progress
from sidecar.core.journal.marks import Mark, What
from sidecar.core.journal.texts import Texts
from sidecar.operations.record.ports import Store
from sidecar.policy.protocols import EnricherRefused, NarrationPart, RefusalKind, RunFinished, RunnerEvent, RunRequest
from subagents.dispatch.v1 import dispatch_pb2 as pb
from tests.support.builders import a_card, with_limits
from tests.support.data_tools import a_card_with_tools
from tests.support.enum_words import word
from tests.support.fake_runner import Script, ScriptedRunner, answers, hangs, lies, raises, waits_for
from tests.support.harness import running_sidecar_for_tests
from tests.support.records import event_named, event_names, events_of, kept, records_of
from tests.support.requirement import requirement

SHORT = timedelta(milliseconds=50)


@requirement("SX-41", "SX-42", "SX-45")
async def test_the_log_of_a_child_that_answers() -> None:
    """Created, started, one attempt, waits for the parent; closed once, last, by the end of the turn."""
    async with running_sidecar_for_tests() as sidecar:
        bound = await sidecar.bind()
        child = (await sidecar.dispatch(bound, "ask_shop")).of("call-1").child_id
        assert event_names(sidecar, child) == ["created", "started", "attempt", "waiting_for_merge"]

        await sidecar.end(bound)

        names = ["created", "started", "attempt", "waiting_for_merge", "integration_accepted", "closed"]
        assert event_names(sidecar, child) == names
        assert [event.sequence for event in events_of(sidecar, child)] == [1, 2, 3, 4, 5, 6]


@requirement("SX-43")
@pytest.mark.parametrize(
    ("script", "cause"),
    [(raises(ValueError("x")), "RUNNER_FAILED"), (hangs(), "ATTEMPT_TIMEOUT")],
    ids=["raises", "hangs"],
)
async def test_the_log_of_a_child_that_fails(script: Script, cause: str) -> None:
    """`failed` with its cause instead of `waiting_for_merge`, then closed like any other."""
    limits = {"attempt_timeout": SHORT} if cause == "ATTEMPT_TIMEOUT" else {}
    async with running_sidecar_for_tests(cards=[with_limits(a_card("shop"), **limits)]) as sidecar:
        sidecar.runner.use("shop", script)
        bound = await sidecar.bind()
        child = (await sidecar.dispatch(bound, "ask_shop")).of("call-1").child_id
        await sidecar.end(bound)

        assert event_names(sidecar, child) == ["created", "started", "attempt", "failed", "closed"]
        assert event_named(sidecar, child, "failed").details()["cause"] == cause


async def test_a_sub_agent_that_hangs_is_told_with_the_limit_that_ended_it() -> None:
    """The timeline names the setting: a newcomer raises it, or looks for what hangs."""
    async with running_sidecar_for_tests(cards=[with_limits(a_card("shop"), attempt_timeout=SHORT)]) as sidecar:
        sidecar.runner.use("shop", hangs())
        child = (await sidecar.dispatch(await sidecar.bind(), "ask_shop")).of("call-1").child_id

        failed = event_named(sidecar, child, "failed")
        assert failed.details()["cause"] == "ATTEMPT_TIMEOUT"
        assert failed.details()["detail"] == "not ended within the `limits.attempt_timeout` of its definition"


@requirement("SX-23")
@pytest.mark.parametrize(
    ("kind", "cause"),
    [
        ("execution", "RUNNER_FAILED"),
        ("policy", "RESULT_INVALID"),
        ("timeout", "ATTEMPT_TIMEOUT"),
        ("integration", "it does not fit"),
    ],
)
async def test_every_kind_of_failure_ends_a_child_as_failed_with_its_cause(kind: str, cause: str) -> None:
    """It raises; it makes a component that its card does not allow; it hangs; its parent rejects what it brought."""
    scripts = {"execution": raises(ValueError("x")), "policy": lies(), "timeout": hangs(), "integration": answers()}
    limits = {"attempt_timeout": SHORT} if kind == "timeout" else {}
    async with running_sidecar_for_tests(cards=[with_limits(a_card("shop"), **limits)]) as sidecar:
        sidecar.runner.use("shop", scripts[kind])
        bound = await sidecar.bind()
        child = (await sidecar.dispatch(bound, "ask_shop")).of("call-1").child_id
        if kind == "integration":
            request = pb.CloseChildRequest(surface_token=bound.surface_token, child_id=child)
            request.verdict, request.reason = pb.VERDICT_REJECTED, cause
            await sidecar.stub.CloseChild(request, timeout=10, metadata=sidecar.metadata)
        (ended,) = (await sidecar.end(bound)).children

    failed = event_named(sidecar, child, "failed").details()
    assert word(ended, "final_status") == "failed"
    assert failed["reason" if kind == "integration" else "cause"] == cause
    assert word(ended, "close_reason") == ("integration_failed" if kind == "integration" else "execution_failed")


@requirement("SX-20", "SX-21", "SX-51")
async def test_states_are_written_when_they_begin_and_not_inferred_later() -> None:
    """While the worker runs, `started` is there and nothing after the attempt; once it is through, it waits."""
    async with running_sidecar_for_tests() as sidecar:
        may_end = asyncio.Event()
        sidecar.runner.use("shop", waits_for(may_end))
        bound = await sidecar.bind()
        running = asyncio.create_task(sidecar.dispatch(bound, "ask_shop"))
        await sidecar.runner.until_started("shop")
        child = sidecar.runner.request_of("shop").child_id
        assert event_names(sidecar, child) == ["created", "started"]

        may_end.set()
        await running
        assert event_named(sidecar, child, "waiting_for_merge").details()["outcome"] == "succeeded"
        assert "closed" not in event_names(sidecar, child)

        await sidecar.end(bound)
        assert event_names(sidecar, child)[-1] == "closed"


@requirement("SX-21", "SX-51")
async def test_nobody_is_told_of_an_outcome_before_it_is_on_record() -> None:
    """The store is slow: the call is still running to whoever asks; when the store has it, it has settled."""
    store = SlowStore()
    async with running_sidecar_for_tests(store=store) as sidecar:
        bound = await sidecar.bind()
        running = asyncio.create_task(sidecar.dispatch(bound, "ask_shop", dispatch_id="d-1"))
        await store.asked.wait()

        request = pb.ResumeDispatchRequest(surface_token=bound.surface_token, dispatch_id="d-1")
        stream = sidecar.stub.ResumeDispatch(request, timeout=10, metadata=sidecar.metadata)
        meanwhile: Any = await stream.read()
        store.answers.set()

        assert [call.state for call in meanwhile.frame.snapshot.calls] == [pb.CALL_STATE_RUNNING]
        assert (await running).outcomes == ["SUCCEEDED"]
        (settled,) = kept(sidecar, CallSettled)
        assert settled.outcome.answer.narration == "hello from shop"


class SlowStore(MemoryStore):
    """Keeps outcomes only when it is told to."""

    waits = True

    def __init__(self) -> None:
        """Begin slow."""
        super().__init__()
        self.asked, self.answers = asyncio.Event(), asyncio.Event()

    async def append(self, records: Sequence[Draft]) -> None:
        """Wait before keeping an outcome."""
        if any(isinstance(each.body, CallsSettled) for each in records):
            self.asked.set()
            await self.answers.wait()
        await super().append(records)


@requirement("SX-46", "SX-47")
async def test_closing_says_who_how_and_why() -> None:
    """One child is integrated, one has failed."""
    async with running_sidecar_for_tests() as sidecar:
        sidecar.runner.use("rewards", raises(ValueError("x")))
        bound = await sidecar.bind()
        reply = await sidecar.dispatch(bound, "ask_shop", "ask_rewards")
        await sidecar.end(bound)

        closings = [
            event_named(sidecar, outcome.child_id, "subagent_closed").details() for outcome in reply.result.outcomes
        ]
        assert closings == [
            {"sub_agent_id": "shop", "step_idx": 0, "final_status": "completed", "close_reason": "integrated"},
            {"sub_agent_id": "rewards", "step_idx": 1, "final_status": "failed", "close_reason": "execution_failed"},
        ]


@requirement("SX-38")
async def test_what_was_written_stays_as_it_was_written() -> None:
    """Everything on record after the dispatch is there unchanged, and first, after the turn has ended twice."""
    async with running_sidecar_for_tests() as sidecar:
        bound = await sidecar.bind()
        reply = await sidecar.dispatch(bound, "ask_shop", "ask_rewards")
        before = records_of(sidecar)

        await sidecar.end(bound)
        await sidecar.end(bound)

        after = records_of(sidecar)
        assert after[: len(before)] == before
        for outcome in reply.result.outcomes:
            assert event_names(sidecar, outcome.child_id).count("closed") == 1


@requirement("SX-38")
async def test_the_store_has_no_way_to_change_or_remove_an_event() -> None:
    """The port has one method of its own that writes (`draft` only makes); an event is never altered."""
    assert {name for name in vars(Store) if not name.startswith("_")} == {"append", "draft", "shared", "waits"}

    async with running_sidecar_for_tests() as sidecar:
        reply = await sidecar.dispatch(await sidecar.bind(), "ask_shop", dispatch_id="d-1")
        event = events_of(sidecar, reply.of("call-1").child_id)[0]
        body = ChildNoted(DispatchId("d-1"), (Progress(0, (Mark(What.CREATED, 0),)),))
        rewritten = sidecar.store.draft(event.run_id, event.time, body, Texts(values=((),)))

        with pytest.raises(RecordConflict):
            await sidecar.store.append([rewritten])

        assert events_of(sidecar, event.child_id)[0] == event


@requirement("SX-24", "SX-45")
async def test_nothing_is_written_of_a_child_after_it_was_closed() -> None:
    """A second verdict, a cancel and another end of the turn come after: `closed` stays the last event."""
    async with running_sidecar_for_tests() as sidecar:
        bound = await sidecar.bind()
        child = (await sidecar.dispatch(bound, "ask_shop", dispatch_id="d-1")).of("call-1").child_id
        verdict = pb.CloseChildRequest(surface_token=bound.surface_token, child_id=child)
        await sidecar.stub.CloseChild(verdict, metadata=sidecar.metadata)
        log = events_of(sidecar, child)

        await sidecar.stub.CloseChild(verdict, metadata=sidecar.metadata)
        cancel = pb.CancelCallRequest(surface_token=bound.surface_token, dispatch_id="d-1", call_id="call-1")
        assert not (await sidecar.stub.CancelCall(cancel, metadata=sidecar.metadata)).cancelled
        await sidecar.end(bound)

        assert events_of(sidecar, child) == log
        assert log[-1].name == "agent.subagent_closed"


@requirement("SX-48")
async def test_the_same_turn_twice_leaves_the_same_log() -> None:
    """Whoever of the siblings is first: names and details are the same but for ids and times."""
    logs = []
    for last in ("shop", "rewards"):
        async with running_sidecar_for_tests() as sidecar:
            other_has_begun = asyncio.Event()
            sidecar.runner.use(last, waits_for(other_has_begun))
            bound = await sidecar.bind()
            running = asyncio.create_task(sidecar.dispatch(bound, "ask_shop", "ask_rewards"))
            await sidecar.runner.until_started("shop", "rewards")
            other_has_begun.set()
            reply = await running
            ended = await sidecar.end(bound)
            logs.append(
                [(event_names(sidecar, each.child_id), each.sub_agent_id) for each in reply.result.outcomes]
                + [(child.emission_index, child.sub_agent_id, word(child, "final_status")) for child in ended.children]
            )
    assert logs[0] == logs[1]


async def test_a_degraded_answer_waits_for_the_parent_like_any_other() -> None:
    """Missing data is noted with the state, so that a timeline shows it."""
    async with running_sidecar_for_tests() as sidecar:
        sidecar.runner.use("shop", answers("half", usage=(7, 3), data_unavailable=True))
        reply = await sidecar.dispatch(await sidecar.bind(), "ask_shop")

        details = event_named(sidecar, reply.of("call-1").child_id, "waiting_for_merge").details()
        assert (details["outcome"], details["data_unavailable"]) == ("degraded", True)
        assert {name: count for name, count in details.items() if "tokens" in name} == {
            "input_tokens": 7,
            "output_tokens": 3,
        }


@requirement("SX-38", "SX-39")
async def test_a_loop_of_refused_calls_leaves_a_few_events_and_one_that_counts_the_rest() -> None:
    """500 tools that the contract does not allow, 80 answers withheld: 64 events of each kind, and how many more.

    That count is on record before the outcome is told, in the chain of the child's events like any other, and stays
    before the end of the child.
    """
    tools = ("offers", "stock")
    async with running_sidecar_for_tests(cards=[a_card_with_tools("shop", *tools)]) as sidecar:
        sidecar.connector.reply = lambda call: EnricherRefused(RefusalKind.UNAVAILABLE)
        sidecar.runner.use("shop", never_learns(refused=500, withheld=80))
        bound = await sidecar.bind()

        child = (await sidecar.dispatch(bound, "ask_shop", seconds=60)).of("call-1").child_id

        assert event_named(sidecar, child, "events_left_out").details()["counts"] == {
            "agent.data_withheld": 80 - MOST_OF_A_KIND,
            "agent.tool_refused": 500 - MOST_OF_A_KIND,
        }
        await sidecar.end(bound)
        names = event_names(sidecar, child)
        assert (names.count("tool_refused"), names.count("data_withheld")) == (MOST_OF_A_KIND, MOST_OF_A_KIND)
        assert names[-4:] == ["events_left_out", "waiting_for_merge", "integration_accepted", "closed"]
        events = events_of(sidecar, child)
        assert [each.link for each in events[1:]] == [each.relinked(before.link) for before, each in pairwise(events)]


def never_learns(*, refused: int, withheld: int) -> Script:
    """Return a sub-agent that asks for the same again and again."""

    async def script(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
        for _ in range(refused):
            with suppress(grpc.RpcError):
                await runner.call_tool(request.grant, "archive", "{}")
        for _ in range(withheld):
            await runner.call_tool(request.grant, "offers", "{}")
        yield NarrationPart("I give up.")
        yield RunFinished()

    return script
