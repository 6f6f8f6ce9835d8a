"""The calls of one model response run together and each has its one outcome, in the order they were emitted."""

import asyncio
from collections.abc import AsyncGenerator

from sidecar.policy.protocols import (
    ComponentMade,
    NarrationPart,
    RunFinished,
    RunnerEvent,
    RunRequest,
    StatusReported,
)
from subagents.dispatch.v1 import dispatch_pb2 as pb
from tests.support.builders import a_card
from tests.support.fake_runner import ScriptedRunner, answers, hangs, meets, raises, waits_for
from tests.support.harness import SLOTS, running_sidecar_for_tests
from tests.support.requests import a_call
from tests.support.requirement import requirement
from tests.support.whole_result import whole_result

OFFERS = ComponentMade("render_offers", '{"ids": [7]}', '{"offers": [7]}')


@requirement("PC2-FR-6a", "PC2-FR-6b", "PC1-D-17", "PC2-NFR-2")
async def test_the_calls_of_one_response_run_at_the_same_time() -> None:
    """Each of three answers only once the other two run as well: one after the other would never end."""
    async with running_sidecar_for_tests(cap=3) as sidecar:
        sidecar.runner.use("shop", meets("rewards", "support"))
        sidecar.runner.use("rewards", meets("shop", "support"))
        sidecar.runner.use("support", meets("shop", "rewards"))

        reply = await sidecar.dispatch(await sidecar.bind(), "ask_shop", "ask_rewards", "ask_support")

        assert reply.outcomes == ["SUCCEEDED", "SUCCEEDED", "SUCCEEDED"]


@requirement("PC2-FR-6b")
async def test_the_answer_of_a_quick_sub_agent_is_there_while_a_slow_one_is_still_at_work() -> None:
    """The slow one goes on only when the listener has the whole answer of the quick one, which is not sent again."""
    async with running_sidecar_for_tests() as sidecar:
        quick_has_settled = asyncio.Event()
        sidecar.runner.use("shop", waits_for(quick_has_settled))
        request = sidecar.dispatch_request(await sidecar.bind(), "ask_shop", "ask_rewards")

        frames, told_early = [], ""
        async for message in sidecar.stub.Dispatch(request, timeout=10, metadata=sidecar.metadata):
            frames.append(message.frame)
            for event in message.frame.events:
                if event.call_id == "call-2" and event.state_changed.state == pb.CALL_STATE_SETTLED:
                    told_early = event.state_changed.outcome.narration
                    quick_has_settled.set()

        assert told_early == "hello from rewards"
        assert [one.narration for one in whole_result(frames).outcomes] == ["hello from shop", "hello from rewards"]


@requirement("PC2-D-3")
async def test_one_call_and_several_go_the_same_way() -> None:
    """A single call is told of with the same frames as each of several, and leaves the same events."""
    async with running_sidecar_for_tests() as sidecar:
        bound = await sidecar.bind()

        alone = await sidecar.dispatch(bound, "ask_shop")
        together = await sidecar.dispatch(bound, "ask_shop", "ask_rewards")

        def told_of(events: list[pb.DispatchEvent]) -> list[int]:
            return [event.state_changed.state for event in events if event.call_id == "call-1"]

        assert told_of(alone.events) == told_of(together.events) == [pb.CALL_STATE_RUNNING, pb.CALL_STATE_SETTLED]
        assert [len(alone.result.outcomes), len(together.result.outcomes)] == [1, 2]


@requirement("SX-48", "PC2-D-41")
async def test_outcomes_come_in_emission_order_whoever_is_first() -> None:
    """The first call ends last, and the second fails; the listener still gets first, second, third."""
    async with running_sidecar_for_tests() as sidecar:
        sidecar.runner.use("rewards", raises(ValueError("no such points")))
        sidecar.runner.use("shop", meets("rewards", "support"))

        reply = await sidecar.dispatch(await sidecar.bind(), "ask_shop", "ask_rewards", "ask_support")

        assert [each.call_id for each in reply.result.outcomes] == ["call-1", "call-2", "call-3"]
        assert [each.emission_index for each in reply.result.outcomes] == [0, 1, 2]
        assert reply.outcomes == ["SUCCEEDED", "FAILED", "SUCCEEDED"]


@requirement("PC1-FR-3b", "PC1-FR-3c")
async def test_text_and_components_come_back_side_by_side_in_the_outcome() -> None:
    """A sub-agent says a sentence and makes one component; neither stands in the other."""
    shop = a_card("shop", components={"render_offers": {"type": "object", "required": ["offers"]}})
    async with running_sidecar_for_tests(cards=[shop]) as sidecar:
        sidecar.runner.use("shop", answers("Milk is cheaper.", components=[OFFERS]))

        outcome = (await sidecar.dispatch(await sidecar.bind(), "ask_shop")).of("call-1")

        assert outcome.narration == "Milk is cheaper."
        (component,) = outcome.components
        assert (component.name, component.tool_input_json, component.component_data_json) == (
            "render_offers",
            '{"ids": [7]}',
            '{"offers": [7]}',
        )


@requirement("PC2-FR-4b", "PC1-D-16")
async def test_nothing_a_sub_agent_says_is_seen_before_its_call_has_settled() -> None:
    """Its text is there and it still runs: no frame holds a word of it. Then one event has it, and nothing else."""
    async with running_sidecar_for_tests() as sidecar:
        shop_was_heard, shop_has_settled = asyncio.Event(), asyncio.Event()

        async def says_and_waits(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
            yield NarrationPart("SECRET OF THE SHOP")
            yield StatusReported("searching_offers")
            await shop_was_heard.wait()
            yield RunFinished()

        sidecar.runner.use("shop", says_and_waits)
        sidecar.runner.use("rewards", waits_for(shop_has_settled))
        request = sidecar.dispatch_request(await sidecar.bind(), "ask_shop", "ask_rewards")

        frames = []
        async for message in sidecar.stub.Dispatch(request, timeout=10, metadata=sidecar.metadata):
            frames.append(message.frame)
            if any(event.status.type for event in message.frame.events):
                shop_was_heard.set()
            if any(event.state_changed.state == pb.CALL_STATE_SETTLED for event in message.frame.events):
                shop_has_settled.set()

        saying = [frame for frame in frames if b"SECRET OF THE SHOP" in frame.SerializeToString()]
        assert len(frames) > 2
        assert [frame.HasField("result") for frame in saying] == [False, True]
        (settled,) = [each for each in saying[0].events if each.state_changed.HasField("outcome")]
        assert settled.state_changed.outcome.narration == "SECRET OF THE SHOP"


@requirement("PC1-FR-3a", "SX-1")
async def test_a_sub_agent_runs_only_when_a_dispatch_calls_it() -> None:
    """A bind, a dispatch for one, and the end of a turn start exactly the one that was called."""
    async with running_sidecar_for_tests() as sidecar:
        bound = await sidecar.bind()
        assert sidecar.runner.started == []

        await sidecar.dispatch(bound, "ask_rewards")
        await sidecar.end(bound)

        assert sidecar.runner.started == ["rewards"]


async def test_two_calls_to_one_sub_agent_go_one_after_the_other() -> None:
    """The second starts only when the first has settled, though both fit under the cap."""
    async with running_sidecar_for_tests(cap=3) as sidecar:
        first_may_end = asyncio.Event()
        sidecar.runner.use("shop", waits_for(first_may_end))
        request = sidecar.dispatch_request(await sidecar.bind(), "ask_shop", "ask_shop", "ask_rewards")
        stream = asyncio.create_task(sidecar.send(request))

        await sidecar.runner.until_started("shop", "rewards")
        assert sorted(sidecar.runner.started) == ["rewards", "shop"]
        first_may_end.set()
        reply = await stream

        assert sidecar.runner.started.count("shop") == 2
        assert reply.outcomes == ["SUCCEEDED"] * 3


async def test_calls_that_own_the_same_things_go_one_after_the_other() -> None:
    """Two sub-agents share the boundary `basket`: the second waits, a third that owns nothing of it does not."""
    cards = [a_card("shop", ownership=("basket",)), a_card("rewards", ownership=("basket",)), a_card("support")]
    async with running_sidecar_for_tests(cards=cards) as sidecar:
        shop_may_end = asyncio.Event()
        sidecar.runner.use("shop", waits_for(shop_may_end))
        request = sidecar.dispatch_request(await sidecar.bind(), "ask_shop", "ask_rewards", "ask_support")
        stream = asyncio.create_task(sidecar.send(request))

        await sidecar.runner.until_started("shop", "support")
        assert "rewards" not in sidecar.runner.started
        shop_may_end.set()
        reply = await stream

        assert sidecar.runner.started[-1] == "rewards"
        assert reply.outcomes == ["SUCCEEDED"] * 3


async def test_max_parallel_lets_the_rest_wait_without_dropping_it() -> None:
    """One at a time of three: the second starts only after the first has ended, and all three answer."""
    async with running_sidecar_for_tests() as sidecar:
        shop_may_end = asyncio.Event()
        sidecar.runner.use("shop", waits_for(shop_may_end))
        request = sidecar.dispatch_request(
            await sidecar.bind(), "ask_shop", "ask_rewards", "ask_support", join=pb.JoinPolicy(max_parallel=1)
        )
        stream = asyncio.create_task(sidecar.send(request))

        await sidecar.runner.until_started("shop")
        assert sidecar.runner.started == ["shop"]
        shop_may_end.set()
        reply = await stream

        assert sidecar.runner.started == list(SLOTS)
        assert reply.outcomes == ["SUCCEEDED"] * 3


async def test_what_has_not_had_its_turn_by_the_join_deadline_is_said_to_be_not_started() -> None:
    """One at a time, and the first never ends: it fails at the deadline, the second was never run."""
    async with running_sidecar_for_tests() as sidecar:
        sidecar.runner.use("shop", hangs())
        join = pb.JoinPolicy(max_parallel=1)
        join.timeout.FromMilliseconds(300)

        reply = await sidecar.dispatch(await sidecar.bind(), "ask_shop", "ask_rewards", join=join)

        assert reply.outcomes == ["FAILED", "NOT_STARTED"]
        assert reply.of("call-2").attempts == 0
        assert not reply.of("call-2").HasField("duration")
        assert sidecar.runner.started == ["shop"]


async def test_the_unary_form_answers_the_same_without_events() -> None:
    """The same calls both ways: the same narrations, outcomes, intents and cap."""
    async with running_sidecar_for_tests() as sidecar:
        bound = await sidecar.bind()
        streamed = (await sidecar.dispatch(bound, "ask_shop", "ask_nobody")).result
        request = sidecar.dispatch_request(bound, a_call("call-1", "ask_shop"), a_call("call-2", "ask_nobody"))
        answered = await sidecar.stub.DispatchUnary(
            pb.DispatchUnaryRequest(dispatch=request), timeout=10, metadata=sidecar.metadata
        )

        assert answered.state == pb.START_STATE_STARTED
        assert [_essence(each) for each in answered.result.outcomes] == [_essence(each) for each in streamed.outcomes]
        assert (answered.result.intents, answered.result.cap) == (streamed.intents, streamed.cap)


def _essence(outcome: object) -> tuple[object, ...]:
    names = ("call_id", "tool_name", "sub_agent_id", "outcome", "narration", "attempts")
    return tuple(getattr(outcome, name) for name in names)
