"""What a failure costs: one sub-agent's execution (axis 1), its data (axis 2), some of a fan-out (axis 3)."""

import asyncio
from collections.abc import Callable
from datetime import timedelta

import pytest

from sidecar.core.dispatching.outcomes import MESSAGE_OF
from sidecar.core.dispatching.result_checks import ResultLimits
from sidecar.policy.protocols import RunnerError
from subagents.errors.v1 import error_reason_pb2
from subagents_errors import CallFailure
from tests.support.builders import a_card, with_limits
from tests.support.enum_words import word
from tests.support.fake_runner import (
    Script,
    answers,
    ends_early,
    floods,
    hangs,
    lies,
    meets,
    raises,
    says_too_much,
    waits_for,
)
from tests.support.harness import Reply, running_sidecar_for_tests
from tests.support.requirement import requirement

QUICK, PATIENT = timedelta(milliseconds=100), timedelta(seconds=30)


def reason_of(reply: Reply, call_id: str) -> str:
    """Return why a call did not succeed."""
    return error_reason_pb2.ErrorReason.Name(reply.of(call_id).status.reason).removeprefix("ERROR_REASON_")


FAILING: dict[str, tuple[Callable[[], Script], str]] = {
    "exception": (lambda: raises(RuntimeError("db password is hunter2")), "RUNNER_FAILED"),
    "late exception": (lambda: raises(ValueError("hunter2"), after="so far "), "RUNNER_FAILED"),
    "exit": (lambda: raises(SystemExit(3)), "RUNNER_FAILED"),
    "cancels itself": (lambda: raises(asyncio.CancelledError()), "RUNNER_FAILED"),
    "host error": (lambda: raises(RunnerError("host said hunter2")), "RUNNER_FAILED"),
    "unreachable": (lambda: raises(RunnerError("no route", transient=True, unreachable=True)), "RUNNER_UNAVAILABLE"),
    "hangs": (hangs, "ATTEMPT_TIMEOUT"),
    "no end": (ends_early, "RESULT_INVALID"),
    "unknown component": (lies, "RESULT_INVALID"),
    "inline component": (lambda: answers('<component name="x">{}</component>'), "RESULT_INVALID"),
    "too long": (says_too_much, "RESULT_TOO_LARGE"),
    "flood": (floods, "RESULT_TOO_LARGE"),
}


@pytest.mark.parametrize("kind", FAILING)
@requirement("PC2-D-19", "PC2-D-38", "PC2-D-47")
async def test_a_failing_sub_agent_costs_only_its_own_outcome(kind: str) -> None:
    """Its sibling was running before it failed and answers after; the model is told a neutral sentence."""
    script, reason = FAILING[kind]
    cards = [with_limits(a_card("shop"), attempt_timeout=QUICK if kind == "hangs" else PATIENT), a_card("rewards")]
    limits = ResultLimits(events=5_000)
    async with running_sidecar_for_tests(cards=cards, rules={"results": limits}) as sidecar:
        failed = asyncio.Event()
        sidecar.runner.use("shop", script())
        sidecar.runner.use("rewards", waits_for(failed))
        bound = await sidecar.bind()
        request = sidecar.dispatch_request(bound, "ask_shop", "ask_rewards")
        frames = []
        async for message in sidecar.stub.Dispatch(request, metadata=sidecar.metadata):
            frames.append(message.frame)
            if any(event.state_changed.outcome for event in message.frame.events):
                failed.set()
        reply = Reply(frames)
        assert reply.outcomes == ["FAILED", "SUCCEEDED"]
        assert reason_of(reply, "call-1") == reason
        outcome = reply.of("call-1")
        assert outcome.status.axis == error_reason_pb2.FAILURE_AXIS_EXECUTION
        assert outcome.status.message == MESSAGE_OF[CallFailure(reason)]
        assert "hunter2" not in str(frames)
        assert (await sidecar.end(bound)).routing_decision.calls[0].sub_agent_id == "shop"


@pytest.mark.parametrize("failing", range(6))
@requirement("PC2-D-41", "PC2-T-29")
async def test_every_call_has_an_outcome_whatever_share_of_them_fails(failing: int) -> None:
    """Axis 3: M of five fail while all five run at the same time; the others answer, and the turn can be ended."""
    names = [f"agent{n}" for n in range(5)]
    async with running_sidecar_for_tests(cap=5, cards=[a_card(name) for name in names]) as sidecar:
        for place, name in enumerate(names):
            sidecar.runner.use(name, raises(RuntimeError()) if place < failing else meets(*names))
        bound = await sidecar.bind()
        reply = await sidecar.dispatch(bound, *(f"ask_{name}" for name in names))
        assert reply.outcomes == ["FAILED"] * failing + ["SUCCEEDED"] * (5 - failing)
        ended = await sidecar.end(bound)
        assert [word(child, "final_status") for child in ended.children] == ["failed"] * failing + ["completed"] * (
            5 - failing
        )
        assert ended.gate_passed == (failing == 0)


async def test_outcomes_arrive_before_the_clients_deadline() -> None:
    """One that answers and one that hangs, 1 s: the stream ends whole, not with DEADLINE_EXCEEDED."""
    async with running_sidecar_for_tests() as sidecar:
        sidecar.runner.use("rewards", hangs())
        reply = await sidecar.dispatch(await sidecar.bind(), "ask_shop", "ask_rewards", seconds=1.0)
        assert reply.outcomes == ["SUCCEEDED", "FAILED"]
        assert reason_of(reply, "call-2") == "JOIN_DEADLINE"
