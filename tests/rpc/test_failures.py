"""What a failing sub-agent leaves untouched, what its operator finds, and what it may still make of missing data."""

from collections.abc import AsyncGenerator
from datetime import timedelta
from itertools import product
from typing import Any

import pytest

from sidecar.core.definitions.cards.card import Card
from sidecar.core.dispatching.result_checks import ResultLimits
from sidecar.policy.protocols import (
    ComponentMade,
    NarrationPart,
    RunFinished,
    RunnerError,
    RunnerEvent,
    RunRequest,
    UsageReported,
)
from subagents.dispatch.v1 import outcome_pb2
from subagents.errors.v1 import error_reason_pb2 as errors_pb
from tests.support.builders import a_card, with_limits
from tests.support.data_tools import a_card_with_tools, an_envelope
from tests.support.enum_words import word
from tests.support.fake_runner import ScriptedRunner, answers, hangs, meets, raises
from tests.support.harness import Reply, running_sidecar_for_tests
from tests.support.records import event_named
from tests.support.requirement import requirement

SOON = timedelta(milliseconds=50)
NO_TEXT: Any = b'{"rows":[]}'
"""Neither a text nor a number, as a sub-agent may report that is not type-checked."""


def reason_of(reply: Reply, call_id: str = "call-1") -> str:
    """Return why a call did not succeed."""
    return errors_pb.ErrorReason.Name(reply.of(call_id).status.reason).removeprefix("ERROR_REASON_")


def cards(**limits: object) -> list[Card]:
    """Return the usual cards, the shop's with other limits."""
    return [with_limits(a_card("shop"), **limits), a_card("rewards"), a_card("support")]


@requirement("PC2-FR-8a", "PC1-FR-5a", "PC2-D-47")
async def test_a_sub_agent_that_raises_leaves_its_siblings_running_to_their_end() -> None:
    """Shop raises at once; the siblings, which answer only once shop has begun and each other runs, both answer."""
    async with running_sidecar_for_tests() as sidecar:
        sidecar.runner.use("shop", raises(ValueError("boom")))
        sidecar.runner.use("rewards", meets("shop", "support"))
        sidecar.runner.use("support", meets("shop", "rewards"))

        reply = await sidecar.dispatch(await sidecar.bind(), "ask_shop", "ask_rewards", "ask_support")

        assert reply.outcomes == ["FAILED", "SUCCEEDED", "SUCCEEDED"]
        assert sidecar.runner.cancelled == []


@requirement("PC2-D-48", "PC2-T-26", "SX-28")
async def test_an_attempt_past_its_timeout_ends_like_one_that_raised() -> None:
    """The card allows 50 ms; both failures have the same axis and state, and the hanging one was told to stop."""
    async with running_sidecar_for_tests(cards=cards(attempt_timeout=SOON)) as sidecar:
        sidecar.runner.use("shop", hangs())
        sidecar.runner.use("rewards", raises(TimeoutError("the model did not answer")))

        bound = await sidecar.bind()
        reply = await sidecar.dispatch(bound, "ask_shop", "ask_rewards")
        ended = await sidecar.end(bound)

        timed_out, raised = reply.result.outcomes
        assert timed_out.outcome == raised.outcome == outcome_pb2.OUTCOME_FAILED
        assert timed_out.status.axis == raised.status.axis == errors_pb.FAILURE_AXIS_EXECUTION
        assert sidecar.runner.cancelled == ["shop"]
        assert [(word(child, "final_status"), word(child, "close_reason")) for child in ended.children] == [
            ("failed", "execution_failed"),
            ("failed", "execution_failed"),
        ]


@requirement("PC2-T-29", "PC2-D-41")
@pytest.mark.parametrize("fates", list(product(("answers", "lacks data", "raises"), repeat=3)), ids="-".join)
async def test_every_call_has_its_own_outcome_in_any_mix(fates: tuple[str, str, str]) -> None:
    """All 27 mixes of success, axis 2 and axis 1 over three sub-agents."""
    scripts = {"answers": answers(), "lacks data": answers(data_unavailable=True), "raises": raises(ValueError("x"))}
    expected = {"answers": "SUCCEEDED", "lacks data": "DEGRADED", "raises": "FAILED"}
    async with running_sidecar_for_tests() as sidecar:
        for slot, fate in zip(("shop", "rewards", "support"), fates, strict=True):
            sidecar.runner.use(slot, scripts[fate])

        reply = await sidecar.dispatch(await sidecar.bind(), "ask_shop", "ask_rewards", "ask_support")

        assert reply.outcomes == [expected[fate] for fate in fates]


async def test_the_operator_finds_the_cause_in_the_childs_failure_event() -> None:
    """A runner's own detail is kept where only operators look."""
    async with running_sidecar_for_tests() as sidecar:
        sidecar.runner.use("shop", raises(RunnerError("the index is being rebuilt")))

        reply = await sidecar.dispatch(await sidecar.bind(), "ask_shop")

        details = event_named(sidecar, reply.of("call-1").child_id, "failed").details()
        assert details == {"cause": "RUNNER_FAILED", "detail": "the index is being rebuilt"}


async def test_a_sub_agent_that_falls_silent_fails_long_before_its_timeout() -> None:
    """The card allows 50 ms of silence within 90 s."""
    async with running_sidecar_for_tests(cards=cards(idle_timeout=SOON)) as sidecar:
        sidecar.runner.use("shop", hangs())

        reply = await sidecar.dispatch(await sidecar.bind(), "ask_shop", "ask_rewards")

        assert (reply.outcomes, reason_of(reply)) == (["FAILED", "SUCCEEDED"], "RUNNER_IDLE")


async def test_the_operators_idle_timeout_holds_where_the_card_has_none() -> None:
    """Setting `dispatch.results.idle_timeout`."""
    async with running_sidecar_for_tests(rules={"results": ResultLimits(silence=SOON)}) as sidecar:
        sidecar.runner.use("shop", hangs())

        reply = await sidecar.dispatch(await sidecar.bind(), "ask_shop", "ask_rewards")

        assert (reply.outcomes, reason_of(reply)) == (["FAILED", "SUCCEEDED"], "RUNNER_IDLE")


async def test_a_sub_agent_that_says_it_lacks_data_is_degraded_with_what_it_could_say() -> None:
    """Axis 2: the narration is there, and only here may data be called unavailable."""
    async with running_sidecar_for_tests() as sidecar:
        sidecar.runner.use("shop", answers("I only know part of it.", data_unavailable=True))

        outcome = (await sidecar.dispatch(await sidecar.bind(), "ask_shop")).of("call-1")

        assert outcome.outcome == outcome_pb2.OUTCOME_DEGRADED
        assert (outcome.narration, outcome.data_unavailable) == ("I only know part of it.", True)
        assert outcome.status.axis == errors_pb.FAILURE_AXIS_DATA


@requirement("PC2-D-40")
async def test_a_sub_agent_may_try_another_tool_when_the_first_has_no_data() -> None:
    """The first service says `error`, the second answers: one request each, and the call has succeeded."""

    async def tries_both(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
        found = [await runner.call_tool(request.grant, tool, "{}") for tool in ("offers", "archive")]
        yield NarrationPart(" then ".join("nothing" if each.payload_json is None else "data" for each in found))
        yield RunFinished()

    async with running_sidecar_for_tests(cards=[a_card_with_tools("shop", "offers", "archive")]) as sidecar:
        sidecar.runner.use("shop", tries_both)
        sidecar.connector.reply = lambda call: an_envelope(call, status="error" if call.tool_id == "offers" else "ok")

        reply = await sidecar.dispatch(await sidecar.bind(), "ask_shop")

        assert (reply.outcomes, reply.of("call-1").narration) == (["SUCCEEDED"], "nothing then data")
        assert [call.tool_id for call in sidecar.connector.calls] == ["offers", "archive"]
        assert reply.of("call-1").attempts == 1


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (NarrationPart("It says \ud83d."), "RESULT_INVALID"),
        (NarrationPart(NO_TEXT), "RESULT_INVALID"),
        (ComponentMade("list", "{}", NO_TEXT), "RESULT_INVALID"),
        (UsageReported(10**30, 5), "RESULT_INVALID"),
        (UsageReported(NO_TEXT, 5), "RESULT_INVALID"),
        (RunnerError("it says \ud83d"), "RUNNER_FAILED"),
    ],
    ids=lambda each: "" if isinstance(each, str) else type(each).__name__,
)
async def test_what_the_record_cannot_hold_fails_its_own_call_only(event: RunnerEvent, expected: str) -> None:
    """Else nothing of the turn could be put on record any more, its end included."""

    async def script(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
        if isinstance(event, RunnerError):
            raise event
        yield event
        yield RunFinished(data_unavailable=False)

    async with running_sidecar_for_tests() as sidecar:
        sidecar.runner.use("shop", script)
        bound = await sidecar.bind()
        reply = await sidecar.dispatch(bound, "ask_shop", "ask_rewards")
        assert (reply.outcomes, reason_of(reply)) == (["FAILED", "SUCCEEDED"], expected)
        ended = await sidecar.end(bound)
        assert [word(child, "final_status") for child in ended.children] == ["failed", "completed"]
