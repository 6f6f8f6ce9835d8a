"""A sub-agent that answers nothing has failed, unless its card allows that; what one made before it failed is kept."""

import asyncio
from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import Any

import pytest

from sidecar.adapters.memory_in_process import InProcessMemory
from sidecar.core.definitions.cards.card import Card
from sidecar.core.dispatching.outcomes import MESSAGE_OF
from sidecar.core.history.records import EpisodeKey
from sidecar.core.identifiers import EpisodeId, Principal
from sidecar.policy.protocols import (
    ComponentMade,
    EnricherRefused,
    NarrationPart,
    RefusalKind,
    RunFinished,
    RunnerError,
    RunnerEvent,
    RunRequest,
)
from subagents.dispatch.v1 import outcome_pb2
from subagents.errors.v1 import error_reason_pb2 as errors_pb
from subagents_errors import CallFailure
from tests.support.builders import a_card, with_limits
from tests.support.data_tools import a_card_with_tools
from tests.support.fake_runner import ScriptedRunner, answers, raises
from tests.support.harness import running_sidecar_for_tests
from tests.support.records import event_named
from tests.support.requirement import requirement

CARD = ComponentMade("render_offer", '{"ids": [7]}', '{"title": "Socks"}')


def a_shop(**fields: Any) -> Card:
    """Return a shop that may render offers."""
    return a_card("shop", components={"render_offer": {"type": "object"}}, **fields)


async def nothing(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
    """Finish at once."""
    yield RunFinished()


async def blanks(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
    """Say blanks only."""
    yield NarrationPart(" \n")
    yield RunFinished()


async def renders(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
    """Make a component and say nothing."""
    yield CARD
    yield RunFinished()


@pytest.mark.parametrize("script", [nothing, blanks])
async def test_an_answer_with_nothing_in_it_is_a_failure_with_a_reason_of_its_own(script: Any) -> None:
    """No narration, component, or word on missing data: axis 1, a neutral sentence, and the cause in the timeline."""
    async with running_sidecar_for_tests(cards=[a_shop()]) as sidecar:
        sidecar.runner.use("shop", script)

        reply = await sidecar.dispatch(await sidecar.bind(), "ask_shop")

        outcome = reply.of("call-1")
        assert (reply.outcomes, outcome.status.reason) == (["FAILED"], errors_pb.ERROR_REASON_RESULT_EMPTY)
        assert outcome.status.axis == errors_pb.FAILURE_AXIS_EXECUTION
        assert outcome.status.message == MESSAGE_OF[CallFailure.RESULT_EMPTY]
        details = event_named(sidecar, outcome.child_id, "failed").details()
        assert details["cause"] == "RESULT_EMPTY"
        assert "finished without narration" in details["detail"]


async def test_a_card_may_allow_an_empty_answer() -> None:
    """A sub-agent that only acts: finishing is its success."""
    async with running_sidecar_for_tests(cards=[a_shop(allow_empty_answer=True)]) as sidecar:
        sidecar.runner.use("shop", nothing)

        reply = await sidecar.dispatch(await sidecar.bind(), "ask_shop")

        assert reply.outcomes == ["SUCCEEDED"]


@requirement("PC2-D-38")
@pytest.mark.parametrize(
    ("script", "outcome"),
    [(renders, "SUCCEEDED"), (answers("Nothing.", data_unavailable=True), "DEGRADED")],
    ids=["component", "no data"],
)
async def test_a_component_or_a_word_on_missing_data_is_an_answer(script: Any, outcome: str) -> None:
    """Neither needs narration."""
    async with running_sidecar_for_tests(cards=[a_shop()]) as sidecar:
        sidecar.runner.use("shop", script)

        assert (await sidecar.dispatch(await sidecar.bind(), "ask_shop")).outcomes == [outcome]


async def test_a_sub_agent_whose_data_was_withheld_may_have_nothing_to_say() -> None:
    """The gateway knows that data was missing, though the sub-agent did not say so: degraded, not failed."""

    async def asks(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
        await runner.call_tool(request.grant, "offers", "{}")
        yield RunFinished()

    async with running_sidecar_for_tests(cards=[a_card_with_tools("shop", "offers")]) as sidecar:
        sidecar.connector.reply = lambda call: EnricherRefused(RefusalKind.UNAVAILABLE)
        sidecar.runner.use("shop", asks)

        outcome = (await sidecar.dispatch(await sidecar.bind(), "ask_shop")).of("call-1")

        assert outcome.outcome == outcome_pb2.OUTCOME_DEGRADED
        assert outcome.status.reason == errors_pb.ERROR_REASON_DATA_UNAVAILABLE


def breaks_off(error: BaseException | None) -> Any:
    """Make a component, say something, then raise; or hang."""

    async def script(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
        yield CARD
        yield NarrationPart("I found socks, ")
        if error is not None:
            raise error
        await asyncio.Event().wait()

    return script


@pytest.mark.parametrize("error", [ValueError("x"), RunnerError("lost", connection_lost=True), None])
async def test_what_was_made_before_a_failure_is_kept_as_evidence(error: BaseException | None) -> None:
    """Raised, connection lost, timed out: narration and component are in the outcome, and still it is a failure."""
    card = with_limits(a_shop(), attempt_timeout=timedelta(seconds=1))
    async with running_sidecar_for_tests(cards=[card]) as sidecar:
        sidecar.runner.use("shop", breaks_off(error))

        outcome = (await sidecar.dispatch(await sidecar.bind(), "ask_shop")).of("call-1")

        assert outcome.outcome == outcome_pb2.OUTCOME_FAILED
        assert outcome.narration == "I found socks, "
        assert [each.tool_input_json for each in outcome.components] == ['{"ids": [7]}']
        assert not outcome.data_unavailable


async def test_a_later_attempt_that_brings_nothing_does_not_lose_the_evidence() -> None:
    """The first attempt made a component and lost its connection, the second reached nobody."""

    async def tries(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
        if request.attempt == 1:
            yield CARD
        raise RunnerError("away", transient=True, unreachable=request.attempt > 1)

    async with running_sidecar_for_tests(cards=[with_limits(a_shop(), max_retries=1)]) as sidecar:
        sidecar.runner.use("shop", tries)

        outcome = (await sidecar.dispatch(await sidecar.bind(), "ask_shop")).of("call-1")

        assert (outcome.attempts, outcome.status.reason) == (2, errors_pb.ERROR_REASON_RUNNER_UNAVAILABLE)
        assert [each.name for each in outcome.components] == ["render_offer"]


async def test_text_that_no_narration_may_hold_is_no_evidence_either() -> None:
    """Inline component JSON: the failure keeps the component that was right, and drops the text."""

    async def mixes(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
        yield CARD
        yield NarrationPart('<component name="x">{}</component>')
        yield RunFinished()

    async with running_sidecar_for_tests(cards=[a_shop()]) as sidecar:
        sidecar.runner.use("shop", mixes)

        outcome = (await sidecar.dispatch(await sidecar.bind(), "ask_shop")).of("call-1")

        assert outcome.status.reason == errors_pb.ERROR_REASON_RESULT_INVALID
        assert (outcome.narration, len(outcome.components)) == ("", 1)


async def test_evidence_of_a_failure_never_gets_into_the_history() -> None:
    """Shop failed after it had spoken, rewards answered: only the answer is kept for later turns."""
    memory = InProcessMemory()
    async with running_sidecar_for_tests(cards=[a_shop(), a_card("rewards")], memory=memory) as sidecar:
        sidecar.runner.use("shop", breaks_off(ValueError("x")))
        bound = await sidecar.bind(episode_id="episode-1", principal="user-1")
        await sidecar.dispatch(bound, "ask_shop", "ask_rewards")
        await sidecar.end(bound, narration="Done.")
        await sidecar.operations.history.captures.idle()

        [turn] = (await memory.read(EpisodeKey(EpisodeId("episode-1"), Principal("user-1")), 10)).turns
        assert [each.sub_agent_id for each in turn.answers] == ["rewards"]
        assert turn.tool_messages == ()


async def test_a_sub_agent_that_asks_another_is_not_given_the_evidence_of_its_failure() -> None:
    """Rewards breaks off after having spoken: shop is told a sentence, and no half answer to build on."""
    told: list[Any] = []

    async def asks(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
        told.append(await runner.delegate(request.grant, "ask_rewards"))
        yield NarrationPart("done")
        yield RunFinished()

    cards = [with_limits(a_shop(), max_delegation_depth=1), a_card("rewards")]
    async with running_sidecar_for_tests(cards=cards) as sidecar:
        sidecar.runner.use("shop", asks)
        sidecar.runner.use("rewards", raises(ValueError("x"), after="So far "))

        await sidecar.dispatch(await sidecar.bind(), "ask_shop")

        [response] = told
        assert response.outcome == outcome_pb2.OUTCOME_FAILED
        assert (response.narration, bool(response.message)) == ("", True)
