"""What a sub-agent inherits from its orchestrator, and that it is always for the user the turn was bound for."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any, get_type_hints

import msgspec
import pytest
from google.protobuf.descriptor import FieldDescriptor

from sidecar.policy.protocols import InheritedContext, NarrationPart, RunFinished, RunnerEvent, RunRequest
from subagents.dispatch.v1 import dispatch_pb2 as pb
from subagents.runner.v1 import runner_pb2
from tests.support.data_tools import a_card_with_tools, an_envelope
from tests.support.fake_runner import ScriptedRunner, calls_tool
from tests.support.harness import running_sidecar_for_tests
from tests.support.requests import a_call, failure_of
from tests.support.requirement import requirement

SOURCES: Sequence[Any] = (pb.TURN_SOURCE_CHAT, pb.TURN_SOURCE_SCHEDULED, pb.TURN_SOURCE_NOTIFICATION)


@requirement("PC2-FR-5a", "PC2-FR-5b", "PC2-T-3")
async def test_a_sub_agent_inherits_user_episode_locale_location_and_summary() -> None:
    """All five reach the sub-agent as they were given, and each of two siblings gets the same."""
    async with running_sidecar_for_tests() as sidecar:
        bound = await sidecar.bind(
            principal="user-ü", episode_id="episode-9", turn_id="turn-9", locale="de-AT", location="Wien"
        )

        await sidecar.dispatch(bound, "ask_shop", "ask_rewards", prior_context="Asked for oat milk before.")

        for slot in ("shop", "rewards"):
            context = sidecar.runner.request_of(slot).context
            assert (context.principal, context.episode_id, context.turn_id) == ("user-ü", "episode-9", "turn-9")
            assert (context.locale, context.location) == ("de-AT", "Wien")
            assert context.prior_context == "Asked for oat milk before."


@requirement("PC2-FR-5c")
async def test_something_is_inherited_even_if_the_orchestrator_knows_almost_nothing() -> None:
    """No locale, no location, no summary: the user and the episode are there, and unknown is said to be unknown."""
    async with running_sidecar_for_tests() as sidecar:
        await sidecar.dispatch(await sidecar.bind(), "ask_shop")

        context = sidecar.runner.request_of("shop").context
        assert (context.principal, context.episode_id) == ("user-1", "episode-1")
        assert (context.locale, context.location, context.prior_context) == (None, None, "")


@requirement("PC2-D-15", "PC2-D-14")
async def test_no_earlier_turn_is_in_what_a_sub_agent_is_handed() -> None:
    """Five turns of one episode with answers and narrations: the fifth request holds none of it and is no larger."""
    sizes: list[int] = []
    async with running_sidecar_for_tests() as sidecar:
        for number in range(1, 6):
            bound = await sidecar.bind(turn_id=f"turn-{number}")
            call = a_call(f"call-{number}", "ask_shop", f'{{"request": "question {number}"}}')
            await sidecar.dispatch(bound, call, task_prompt=f"user said {number}")
            await sidecar.end(bound, narration=f"answer {number}")
            sizes.append(len(repr(sidecar.runner.request_of("shop").context)))

        handed = repr(sidecar.runner.request_of("shop"))

    assert not any(f"{words} {number}" in handed for words in ("question", "answer", "said") for number in range(1, 5))
    assert "user said 5" in handed
    assert len(set(sizes)) == 1


AS_AGREED_WITH_THE_MEMORY_ARCHITECTURE = {
    "principal": str,
    "episode_id": str,
    "turn_id": str,
    "locale": str | None,
    "location": str | None,
    "prior_context": str,
    "task_prompt": str,
}
ON_THE_WIRE = {
    "principal": 1,
    "user_id": 2,
    "episode_id": 3,
    "turn_id": 4,
    "locale": 5,
    "location": 6,
    "prior_context": 7,
    "task_prompt": 8,
}


@requirement("PC2-D-55", "PC2-T-23")
async def test_what_is_inherited_has_exactly_the_agreed_fields() -> None:
    """As declared, as handed to a runner, and as written to a host: one field more or less changes PC2-FR-5, too."""
    declared = {name: _plain(kind) for name, kind in get_type_hints(InheritedContext).items()}
    fields = runner_pb2.InheritedContext.DESCRIPTOR.fields
    async with running_sidecar_for_tests() as sidecar:
        await sidecar.dispatch(await sidecar.bind(locale="de-AT", location="Wien"), "ask_shop", task_prompt="Milk?")
        handed = msgspec.structs.asdict(sidecar.runner.request_of("shop").context)

    assert declared == AS_AGREED_WITH_THE_MEMORY_ARCHITECTURE
    assert {name: isinstance(value, str) for name, value in handed.items()} == dict.fromkeys(declared, True)
    assert {field.name: field.number for field in fields} == ON_THE_WIRE
    assert {field.type for field in fields} == {FieldDescriptor.TYPE_STRING}
    assert [field.name for field in fields if field.has_presence] == ["locale", "location"]
    assert ON_THE_WIRE.keys() - declared.keys() == {"user_id"}


def _plain(kind: Any) -> Any:
    """Return the type under an id's own type."""
    return getattr(kind, "__supertype__", kind)


@requirement("PC1-D-11")
async def test_a_sub_agent_is_the_card_that_was_bound_with_the_calls_arguments() -> None:
    """The card of the surface, its digest, the arguments to the letter, and a prompt that ends with the user's own."""
    async with running_sidecar_for_tests() as sidecar:
        bound = await sidecar.bind(location="Wien")
        arguments = '{ "request" : "Milch\\u0021" }'

        reply = await sidecar.dispatch(bound, a_call("call-1", "ask_shop", arguments))

        request = sidecar.runner.request_of("shop")
        (tool,) = [tool for tool in bound.surface.sub_agent_tools if tool.name == "ask_shop"]
        assert (request.card.digest, request.arguments_json) == (tool.digest, arguments)
        assert "Wien" in request.prompt_suffix
        assert "user-1" in request.prompt_suffix
        assert reply.of("call-1").child_id == request.child_id


@requirement("PC2-D-30", "PC2-D-37")
@pytest.mark.parametrize("source", SOURCES, ids=["chat", "scheduled", "notification"])
async def test_the_user_a_turn_is_for_is_fixed_at_the_bind_whatever_began_it(source: Any) -> None:
    """Chat, scheduled job and notification: the same user reaches the sub-agent and the data service."""
    async with running_sidecar_for_tests(cards=[a_card_with_tools("shop", "offers")]) as sidecar:
        sidecar.runner.use("shop", calls_tool("offers"))
        sidecar.connector.reply = an_envelope
        bound = await sidecar.bind(source=source, principal="target-user-7")

        await sidecar.dispatch(bound, "ask_shop")

        assert sidecar.runner.request_of("shop").context.principal == "target-user-7"
        assert [call.principal for call in sidecar.connector.calls] == ["target-user-7"]


@requirement("PC2-D-30", "PC2-D-31")
async def test_a_turn_without_a_user_is_not_bound() -> None:
    """Nobody else's name is put in."""
    async with running_sidecar_for_tests() as sidecar:
        refused = await failure_of(sidecar.bind(principal="", source=pb.TURN_SOURCE_SCHEDULED))

        assert (refused.reason, list(refused.fields)) == ("INVALID_REQUEST", ["principal"])


@requirement("PC2-D-31")
async def test_a_sub_agent_cannot_say_for_whom_it_asks() -> None:
    """It puts another user into its arguments: the request to the data service is still for the turn's user."""

    async def asks_for_another(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
        await runner.call_tool(request.grant, "offers", '{"principal": "victim", "user_id": "victim"}')
        yield NarrationPart("asked")
        yield RunFinished()

    async with running_sidecar_for_tests(cards=[a_card_with_tools("shop", "offers")]) as sidecar:
        sidecar.runner.use("shop", asks_for_another)
        sidecar.connector.reply = an_envelope

        await sidecar.dispatch(await sidecar.bind(principal="user-1"), "ask_shop")

        assert [call.principal for call in sidecar.connector.calls] == ["user-1"]


async def test_two_turns_at_the_same_time_keep_their_users_apart() -> None:
    """The same sub-agent runs for two users and asks for data only when both run; each call is for its own user."""
    both = asyncio.Barrier(2)

    async def meets_itself(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
        await both.wait()
        user = request.context.principal
        await runner.call_tool(request.grant, "offers", f'{{"for":"{user}"}}')
        yield NarrationPart(f"for {user}")
        yield RunFinished()

    async with running_sidecar_for_tests(cards=[a_card_with_tools("shop", "offers")]) as sidecar:
        sidecar.runner.use("shop", meets_itself)
        sidecar.connector.reply = an_envelope
        turns = [await sidecar.bind(principal=user) for user in ("ada", "bob")]

        replies = await asyncio.gather(*(sidecar.dispatch(bound, "ask_shop") for bound in turns))

        assert [reply.of("call-1").narration for reply in replies] == ["for ada", "for bob"]
        asked = {call.principal: call.arguments_json for call in sidecar.connector.calls}
        assert asked == {"ada": '{"for":"ada"}', "bob": '{"for":"bob"}'}
