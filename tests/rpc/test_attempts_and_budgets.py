"""How often a sub-agent is tried, when it is not tried at all, and what is left when a budget runs out."""

from collections.abc import AsyncGenerator
from datetime import timedelta

import pytest

from sidecar.core.definitions.cards.card import Card
from sidecar.core.dispatching.outcomes import Usage
from sidecar.core.executing.retries import BreakerRules, RetryRules
from sidecar.policy.protocols import NarrationPart, RunFinished, RunnerError, RunnerEvent, RunRequest, UsageReported
from subagents.errors.v1 import error_reason_pb2 as errors_pb
from tests.support.builders import a_card, with_limits
from tests.support.data_tools import a_card_with_tools, an_envelope
from tests.support.fake_runner import ScriptedRunner, fails_first, hangs, raises
from tests.support.harness import running_sidecar_for_tests
from tests.support.records import event_named, event_names
from tests.support.requests import failure_of
from tests.support.requirement import requirement

AT_ONCE = {"retries": RetryRules(first_backoff=0.001, longest_backoff=0.001)}
FLAKY = RunnerError("connection reset", transient=True)


def shop(**limits: object) -> list[Card]:
    """Return a shop with other limits."""
    return [with_limits(a_card("shop"), **limits)]


@requirement("SX-28")
async def test_a_transient_failure_is_tried_again_as_often_as_the_card_allows() -> None:
    """Two retries, the third attempt answers: one outcome, three attempts on record, each with its own id."""
    async with running_sidecar_for_tests(cards=shop(max_retries=2), rules=AT_ONCE) as sidecar:
        sidecar.runner.use("shop", fails_first(2, FLAKY))

        reply = await sidecar.dispatch(await sidecar.bind(), "ask_shop")

        assert (reply.outcomes, reply.of("call-1").attempts) == (["SUCCEEDED"], 3)
        assert event_names(sidecar, reply.of("call-1").child_id).count("attempt") == 3
        assert len({request.attempt_id for request in sidecar.runner.requests}) == 3


@requirement("PC2-D-39")
@pytest.mark.parametrize(
    ("retries", "error"),
    [(0, FLAKY), (2, RunnerError("a defect")), (2, ValueError("a defect"))],
    ids=["no-retries-by-default", "not-transient", "raised"],
)
async def test_nothing_else_is_tried_again(retries: int, error: Exception) -> None:
    """One attempt if the card allows no more, or if another could not end otherwise."""
    async with running_sidecar_for_tests(cards=shop(max_retries=retries), rules=AT_ONCE) as sidecar:
        sidecar.runner.use("shop", raises(error))

        reply = await sidecar.dispatch(await sidecar.bind(), "ask_shop")

        assert (reply.outcomes, reply.of("call-1").attempts) == (["FAILED"], 1)


async def test_retries_stop_when_the_budget_for_all_is_spent() -> None:
    """The card would allow nine, the process one in its window."""
    rules = {"retries": RetryRules(first_backoff=0.001, longest_backoff=0.001, share=0.0, floor=1, window=60.0)}
    async with running_sidecar_for_tests(cards=shop(max_retries=9), rules=rules) as sidecar:
        sidecar.runner.use("shop", raises(FLAKY))

        reply = await sidecar.dispatch(await sidecar.bind(), "ask_shop")

        assert reply.of("call-1").attempts == 2


async def test_a_runner_that_keeps_failing_is_not_asked_for_a_while() -> None:
    """After two failures in a row the third call fails without an attempt; the surface is as it was."""
    rules = {"breaker": BreakerRules(failures=2, open_for=60.0)}
    async with running_sidecar_for_tests(rules=rules) as sidecar:
        sidecar.runner.use("shop", raises(RunnerError("no such host", unreachable=True)))
        bound = await sidecar.bind()
        for _ in range(2):
            await sidecar.dispatch(bound, "ask_shop")

        third = (await sidecar.dispatch(bound, "ask_shop")).of("call-1")

        assert third.status.reason == errors_pb.ERROR_REASON_RUNNER_BREAKER_OPEN
        assert (third.attempts, len(sidecar.runner.started)) == (0, 2)
        again = await sidecar.bind()
        assert again.surface.binding_digest == bound.surface.binding_digest


async def test_a_sub_agent_out_of_tokens_is_degraded_with_what_it_had_said() -> None:
    """It may use 100 and reports 101 after its first sentence; what it would say next is not waited for."""

    async def spends(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
        yield NarrationPart("First the good news.")
        yield UsageReported(60, 41)
        yield NarrationPart("Too late.")
        yield RunFinished()

    async with running_sidecar_for_tests(cards=shop(tokens=100)) as sidecar:
        sidecar.runner.use("shop", spends)

        reply = await sidecar.dispatch(await sidecar.bind(), "ask_shop")

        outcome = reply.of("call-1")
        assert (reply.outcomes, outcome.narration) == (["DEGRADED"], "First the good news.")
        assert outcome.status.reason == errors_pb.ERROR_REASON_BUDGET_EXHAUSTED
        assert (outcome.usage.input_tokens, outcome.usage.output_tokens) == (60, 41)
        assert "budget_stopped" in event_names(sidecar, outcome.child_id)


@pytest.mark.parametrize(("told", "kept"), [(40, 40), (0, 0), (-1, 0), (61, 60), (None, None)])
async def test_tokens_of_a_providers_cache_are_some_of_those_read(told: int | None, kept: int | None) -> None:
    """As the host reports them; never more than were read, and unknown stays unknown."""

    async def spends(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
        yield UsageReported(60, 1, told)
        yield NarrationPart("Done.")
        yield RunFinished()

    async with running_sidecar_for_tests() as sidecar:
        sidecar.runner.use("shop", spends)

        usage = (await sidecar.dispatch(await sidecar.bind(), "ask_shop")).of("call-1").usage

        assert (usage.cached_input_tokens if usage.HasField("cached_input_tokens") else None) == kept
        assert sidecar.recorder.of("tokens_used") == [("shop", Usage(60, 1, kept))]


async def test_the_end_of_the_work_says_what_it_cost() -> None:
    """A failure as well, over all attempts: tokens read, those of them from a cache, and tokens written."""

    async def spends(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
        yield UsageReported(60, 4, 40)
        raise FLAKY

    async with running_sidecar_for_tests(cards=shop(max_retries=1), rules=AT_ONCE) as sidecar:
        sidecar.runner.use("shop", spends)
        reply = await sidecar.dispatch(await sidecar.bind(), "ask_shop")

        details = event_named(sidecar, reply.of("call-1").child_id, "failed").details()
        told = [details[name] for name in ("input_tokens", "cached_input_tokens", "output_tokens")]
        assert (reply.of("call-1").attempts, told) == (2, [120, 80, 8])


async def test_a_sub_agent_out_of_time_is_degraded_with_what_it_had_said() -> None:
    """Its wall-clock budget is 1 s over all attempts; then it hangs."""

    async def begins(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
        yield NarrationPart("So far so good.")
        async for event in hangs()(request, runner):
            yield event

    async with running_sidecar_for_tests(cards=shop(wall_clock=timedelta(seconds=1))) as sidecar:
        sidecar.runner.use("shop", begins)

        reply = await sidecar.dispatch(await sidecar.bind(), "ask_shop")

        outcome = reply.of("call-1")
        assert (reply.outcomes, outcome.narration) == (["DEGRADED"], "So far so good.")
        assert outcome.status.reason == errors_pb.ERROR_REASON_BUDGET_EXHAUSTED
        assert sidecar.runner.cancelled == ["shop"]


async def test_a_sub_agent_out_of_tool_calls_is_degraded_and_may_still_answer() -> None:
    """It may ask for data once and asks twice: the second call reaches no data service."""

    async def asks_twice(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
        await runner.call_tool(request.grant, "offers", "{}")
        refused = await failure_of(runner.call_tool(request.grant, "offers", "{}"))
        yield NarrationPart(f"one look; then {refused.reason}")
        yield RunFinished()

    card = with_limits(a_card_with_tools("shop", "offers"), tool_calls=1)
    async with running_sidecar_for_tests(cards=[card]) as sidecar:
        sidecar.runner.use("shop", asks_twice)
        sidecar.connector.reply = an_envelope

        reply = await sidecar.dispatch(await sidecar.bind(), "ask_shop")

        assert (reply.outcomes, len(sidecar.connector.calls)) == (["DEGRADED"], 1)
        assert reply.of("call-1").narration == "one look; then TOOL_BUDGET_EXHAUSTED"
        assert reply.of("call-1").status.reason == errors_pb.ERROR_REASON_BUDGET_EXHAUSTED


async def test_a_grant_is_dead_as_soon_as_its_attempt_is_over() -> None:
    """Kept by the sub-agent and used after its call has settled: refused, and no data service is asked."""
    async with running_sidecar_for_tests(cards=[a_card_with_tools("shop", "offers")]) as sidecar:
        await sidecar.dispatch(await sidecar.bind(), "ask_shop")

        late = await failure_of(sidecar.call_tool(sidecar.runner.request_of("shop").grant, "offers", "{}"))

        assert (late.reason, sidecar.connector.calls) == ("GRANT_SPENT", [])
