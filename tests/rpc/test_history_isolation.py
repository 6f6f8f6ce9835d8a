"""A sub-agent reads its own earlier turns of this session, and there is no way to any others."""

import asyncio
from collections.abc import AsyncGenerator
from datetime import UTC, datetime

import grpc
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.core.history.records import OwnTurn
from sidecar.core.identifiers import Slot, TurnId
from sidecar.policy.protocols import NarrationPart, RunFinished, RunnerEvent, RunRequest
from subagents.dispatch.v1 import dispatch_pb2
from subagents.history.v1 import history_pb2, history_pb2_grpc
from subagents.tools.v1 import tools_pb2
from tests.support.fake_runner import ScriptedRunner, answers
from tests.support.harness import running_sidecar_for_tests
from tests.support.history import MemoryThatCanBeAway, a_turn, own_turns, remembers, rendering_cards, renders
from tests.support.requests import failure_of
from tests.support.requirement import requirement

Seen = dict[str, list[tools_pb2.OwnTurn]]


@requirement("PC1-FR-7a", "PC1-D-29")
async def test_a_sub_agent_that_is_asked_again_reads_what_it_said_before() -> None:
    """Three turns: what it was asked and answered in the first two, oldest first, with its components annotated."""
    seen: Seen = {}
    async with running_sidecar_for_tests(cards=rendering_cards()) as sidecar:
        sidecar.runner.use("shop", renders("Two offers."))
        await a_turn(sidecar, "ask_shop", turn_id="t-1")
        sidecar.runner.use("shop", answers("None left."))
        await a_turn(sidecar, "ask_shop", turn_id="t-2")
        sidecar.runner.use("shop", remembers(sidecar, seen))
        await a_turn(sidecar, "ask_shop", turn_id="t-3")

    assert [(own.turn_id, own.asked, own.narration) for own in seen["shop"]] == [
        ("t-1", "what is new?", "Two offers."),
        ("t-2", "what is new?", "None left."),
    ]
    (component,) = seen["shop"][0].components
    assert (component.name, component.position, list(component.component_ids)) == (
        "render_offers",
        0,
        ["offer-1", "offer-2"],
    )
    assert "component-contents" not in str(seen)


@requirement("PC1-FR-7b", "PC1-D-32")
@settings(max_examples=25)
@given(st.lists(st.lists(st.sampled_from(["shop", "rewards"]), min_size=1, max_size=3), min_size=1, max_size=6))
def test_two_sub_agents_in_one_session_never_see_each_others_turns(turns: list[list[str]]) -> None:
    """Any turns with any calls in any order: each sees exactly its own of the earlier turns, in both directions."""

    async def session() -> None:
        seen: Seen = {}
        async with running_sidecar_for_tests() as sidecar:
            for slot in ("shop", "rewards"):
                sidecar.runner.use(slot, remembers(sidecar, seen))
            for number, slots in enumerate(turns):
                seen.clear()
                await a_turn(sidecar, *(f"ask_{slot}" for slot in slots), turn_id=f"t-{number}")
                for slot in slots:
                    earlier = [(at, each) for at, called in enumerate(turns[:number]) for each in called]
                    expected = [(f"t-{at}", f"{slot} in t-{at}") for at, each in earlier if each == slot]
                    assert [(own.turn_id, own.narration) for own in seen[slot]] == expected

    asyncio.run(asyncio.wait_for(session(), 30))


async def test_another_session_and_another_user_are_not_this_session() -> None:
    """The same sub-agent in another episode, and in this episode bound for somebody else."""
    seen: Seen = {}
    async with running_sidecar_for_tests() as sidecar:
        await a_turn(sidecar, "ask_shop", episode_id="episode-2")
        await a_turn(sidecar, "ask_shop", principal="user-2")
        sidecar.runner.use("shop", remembers(sidecar, seen))
        await a_turn(sidecar, "ask_shop")

    assert seen == {"shop": []}


async def test_a_memory_that_gives_what_belongs_to_others_is_not_believed() -> None:
    """The entry of another sub-agent is left out and reported."""
    seen: Seen = {}
    memory = MemoryThatCanBeAway()
    memory.intruder = (OwnTurn(TurnId("t-0"), Slot("rewards"), datetime.now(UTC), "asked", "of rewards"),)
    async with running_sidecar_for_tests(memory=memory) as sidecar:
        await a_turn(sidecar, "ask_shop", turn_id="t-1")
        sidecar.runner.use("shop", remembers(sidecar, seen))
        await a_turn(sidecar, "ask_shop", turn_id="t-2")

        assert [own.turn_id for own in seen["shop"]] == ["t-1"]
        assert [kind for kind, _ in sidecar.recorder.of("anomaly")] == ["foreign_history"]


@requirement("PC1-FR-9b")
async def test_a_sub_agent_cannot_read_the_stored_history() -> None:
    """With its grant, on its listener: the service of episodes is not there for it."""
    async with running_sidecar_for_tests() as sidecar:
        await a_turn(sidecar, "ask_rewards", narration="What rewards said.")
        stub = history_pb2_grpc.HistoryServiceStub(sidecar.tools_channel)
        request = history_pb2.ReadEpisodeRequest(episode_id="episode-1", principal="user-1")
        grant = sidecar.runner.request_of("rewards").grant
        refused = await failure_of(stub.ReadEpisode(request, timeout=10, metadata=(("x-subagents-grant", grant),)))

    assert (refused.code, refused.reason) == (grpc.StatusCode.PERMISSION_DENIED, "WRONG_LISTENER")


async def test_own_turns_are_read_with_a_living_grant_only() -> None:
    """None, somebody's invention, and that of an attempt that is over."""
    async with running_sidecar_for_tests() as sidecar:
        await a_turn(sidecar, "ask_shop")
        spent = await failure_of(own_turns(sidecar, sidecar.runner.request_of("shop").grant))
        invented = await failure_of(own_turns(sidecar, "k1.invented.grant"))

    assert (spent.reason, invented.reason) == ("GRANT_SPENT", "GRANT_INVALID")


async def test_nothing_but_a_number_can_be_asked_for() -> None:
    """No field names a sub-agent, a session or a user; the number has bounds."""
    assert list(tools_pb2.ReadOwnTurnsRequest.DESCRIPTOR.fields_by_name) == ["max_turns"]
    async with running_sidecar_for_tests() as sidecar:
        refused = await failure_of(own_turns(sidecar, "any", -1))

    assert refused.fields == {"max_turns": "must be from 0 to 1000, was -1"}


async def test_a_session_goes_on_while_the_memory_is_away() -> None:
    """Turns are bound, run and ended; who asks for its own turns is told that they cannot be had, not why."""
    memory = MemoryThatCanBeAway()
    async with running_sidecar_for_tests(memory=memory) as sidecar:
        memory.away = True
        refusals: list[str] = []

        async def asks(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
            refusals.append((await failure_of(own_turns(sidecar, request.grant))).message)
            yield NarrationPart("I remember nothing.")
            yield RunFinished()

        sidecar.runner.use("shop", asks)
        bound = await sidecar.bind()
        reply = await sidecar.dispatch(bound, "ask_shop", "ask_rewards")
        await sidecar.end(bound)

        assert reply.outcomes == ["SUCCEEDED", "SUCCEEDED"]
        assert bound.compaction_due == dispatch_pb2.COMPACTION_DUE_UNKNOWN
        assert refusals == ["the episode memory did not answer"]
        assert "secret" not in str(sidecar.recorder.told)
