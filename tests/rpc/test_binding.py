"""BindTurn: what a turn may call is decided once, from the registries and flags of that moment, and then frozen."""

import re
from dataclasses import replace
from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from grpc import StatusCode

from sidecar.core.definitions.card import BlockCategory, Card, PromptBlock, Role, ToolEntry
from sidecar.core.identifiers import BlockId, ToolId
from subagents.dispatch.v1 import dispatch_pb2 as pb
from subagents.dispatch.v1 import surface_pb2
from tests.support.builders import a_card, a_catalogue
from tests.support.fake_runner import answers
from tests.support.harness import SidecarForTests, running_sidecar_for_tests
from tests.support.requests import failure_of
from tests.support.requirement import requirement


def tools_of(bound: pb.BindTurnResponse) -> list[str]:
    """Return the names of the sub-agent tools, in order."""
    return [tool.name for tool in bound.surface.sub_agent_tools]


def verdicts_of(bound: pb.BindTurnResponse) -> dict[str, str]:
    """Return the verdict on each listed sub-agent."""
    name = surface_pb2.CandidateVerdict.Name
    return {
        each.sub_agent_id: name(each.verdict).removeprefix("CANDIDATE_VERDICT_") for each in bound.surface.candidates
    }


def a_block(name: str, text: str, **fields: Any) -> PromptBlock:
    """Return a prompt block."""
    given: dict[str, Any] = {"feature_gated": None, "owner": "platform", "path": f"{name}.yaml"}
    return PromptBlock(BlockId(name), BlockCategory.PERSONA, text, **(given | fields))


@requirement("PC2-AC-1", "PC2-FR-2a", "PC2-FR-2b", "PC1-T-15")
async def test_an_orchestrator_gets_one_tool_for_each_sub_agent_it_lists() -> None:
    """`[shop, rewards, support]`: exactly three `ask_` tools in that order, descriptions character for character."""
    words = {"shop": "Finds offers.\n  Übermorgen? ", "rewards": "Points — and <b>status</b>.", "support": "Helps."}
    async with running_sidecar_for_tests(
        cards=[a_card(name, description=text) for name, text in words.items()]
    ) as sidecar:
        bound = await sidecar.bind()
        assert tools_of(bound) == ["ask_shop", "ask_rewards", "ask_support"]
        assert [tool.description for tool in bound.surface.sub_agent_tools] == list(words.values())
        assert verdicts_of(bound) == dict.fromkeys(words, "CHOSEN")


@requirement("PC2-T-2", "PC2-FR-2a")
async def test_tool_names_hold_for_every_id_that_is_allowed() -> None:
    """Digits first, dashes, underscores, 60 characters: each becomes a name that model providers take."""
    names = ["a", "0shop", "a-b_c", "x" * 60]
    async with running_sidecar_for_tests(cards=[a_card(name) for name in names]) as sidecar:
        bound = await sidecar.bind()
        assert tools_of(bound) == [f"ask_{name}" for name in names]
        assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in tools_of(bound))


@requirement("PC2-D-8")
async def test_ten_verticals_are_all_listed() -> None:
    """No pre-filter: the model sees them all."""
    names = [f"vertical{n}" for n in range(10)]
    async with running_sidecar_for_tests(cards=[a_card(name) for name in names]) as sidecar:
        assert tools_of(await sidecar.bind()) == [f"ask_{name}" for name in names]


@requirement("PC2-FR-1a", "PC1-FR-2d", "PC1-D-46", "PF1-D-74")
async def test_the_callable_set_is_bound_when_the_turn_begins() -> None:
    """The configuration changes between two binds: each has what was configured then, without a restart."""
    async with running_sidecar_for_tests() as sidecar:
        before = await sidecar.bind()
        sidecar.definitions.load(a_catalogue(a_card("shop"), a_card("travel")))
        after = await sidecar.bind()
        assert tools_of(before) == ["ask_shop", "ask_rewards", "ask_support"]
        assert tools_of(after) == ["ask_shop", "ask_travel"]


@requirement("PC2-FR-1b", "PC1-D-46")
async def test_nothing_is_read_again_after_the_bind() -> None:
    """Definitions and flags are counted: a dispatch, a resume and an end read neither, and no change reaches them."""
    async with running_sidecar_for_tests() as sidecar:
        bound = await sidecar.bind()
        reads = (sidecar.definitions.reads, sidecar.flags.reads)
        sidecar.definitions.load(a_catalogue(a_card("travel")))
        reply = await sidecar.dispatch(bound, "ask_support", "ask_travel", dispatch_id="d-1")
        await sidecar.resume(bound, "d-1")
        await sidecar.end(bound)
        assert reply.outcomes == ["SUCCEEDED", "REFUSED"]
        assert (sidecar.definitions.reads, sidecar.flags.reads) == reads


@requirement("PC2-D-1", "PC2-D-10")
async def test_a_tool_that_was_not_bound_cannot_be_called_in_this_turn() -> None:
    """Configured meanwhile, off by its flag, somebody else's tool, or a name that is nearly right."""
    gated = a_card("beta", enabled_via_flag="ai_assistant_subagent_beta")
    async with running_sidecar_for_tests(cap=8, cards=[a_card("shop"), gated]) as sidecar:
        bound = await sidecar.bind()
        sidecar.definitions.load(a_catalogue(a_card("shop"), gated, a_card("travel")))
        names = ["ask_travel", "ask_beta", "llm_feedback", "ask_Shop", "ask_shop ", "shop"]
        reply = await sidecar.dispatch(bound, *names)
        assert reply.outcomes == ["REFUSED"] * len(names)
        assert sidecar.runner.started == []


@requirement("PC2-D-2")
async def test_no_rpc_turns_a_users_text_into_a_choice_of_sub_agent() -> None:
    """Before a tool was chosen, only ids, place and language are sent; with a user's text always the chosen tool."""
    free = {"turn_id", "episode_id", "principal", "orchestrator_id", "locale", "location", "experiment_arm", "date"}
    assert set(pb.BindTurnRequest.DESCRIPTOR.fields_by_name) == free | {"source"}
    chosen_by_caller = {"DispatchRequest", "DispatchUnaryRequest"}
    for method in pb.DESCRIPTOR.services_by_name["DispatchService"].methods:
        texts = _text_fields(method.input_type)
        if texts & {"task_prompt", "arguments_json"}:
            assert method.input_type.name in chosen_by_caller
            assert "tool_name" in texts


def _text_fields(message: Descriptor | None) -> set[str]:
    found: set[str] = set()
    for field in message.fields if message else ():
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            found |= _text_fields(field.message_type)
        elif field.type == FieldDescriptor.TYPE_STRING:
            found.add(field.name)
    return found


@requirement("PC2-D-4")
async def test_a_new_vertical_is_a_definition_that_an_orchestrator_lists() -> None:
    """Nothing else changes, and it can be asked at once."""
    async with running_sidecar_for_tests(cards=[a_card("shop")]) as sidecar:
        sidecar.definitions.load(a_catalogue(a_card("shop"), a_card("travel")))
        sidecar.runner.use("travel", answers("to Rome"))
        reply = await sidecar.dispatch(await sidecar.bind(), "ask_travel")
        assert reply.of("call-1").narration == "to Rome"


@requirement("PC2-D-60")
async def test_a_sub_agent_taken_out_again_leaves_the_earlier_surface() -> None:
    """The same digest as before it was added."""
    async with running_sidecar_for_tests(cards=[a_card("shop")]) as sidecar:
        digests = []
        for names in (["shop"], ["shop", "travel"], ["shop"]):
            sidecar.definitions.load(a_catalogue(*(a_card(name) for name in names)))
            digests.append((await sidecar.bind()).surface.binding_digest)
        assert digests[0] == digests[2] != digests[1]


@requirement("PC1-D-10", "PC2-D-5", "PC1-FR-2b")
async def test_the_orchestrators_own_tools_stand_beside_its_sub_agents() -> None:
    """Resolved from the registry at the bind, in declared order; the sidecar does not run them."""
    own = (
        ToolEntry(ToolId("llm_feedback"), "Says what went wrong."),
        ToolEntry(ToolId("render_card"), "Shows a card."),
    )
    async with running_sidecar_for_tests() as sidecar:
        with_orchestrator(sidecar, tools=own)
        surface = (await sidecar.bind()).surface
        assert [(tool.name, tool.description) for tool in surface.orchestrator_tools] == [
            ("llm_feedback", "Says what went wrong."),
            ("render_card", "Shows a card."),
        ]
        assert len(surface.sub_agent_tools) == 3
        reply = await sidecar.dispatch(await sidecar.bind(), "llm_feedback")
        assert reply.outcomes == ["REFUSED"]


@requirement("PC1-FR-2a", "PC1-FR-2c", "PC1-FR-1g")
async def test_model_and_prompt_are_resolved_at_the_bind() -> None:
    """The model's name where it is served, and the blocks' texts in their order; a changed registry shows next time."""
    async with running_sidecar_for_tests() as sidecar:
        with_orchestrator(sidecar, blocks=(a_block("b", "Second comes first."), a_block("a", "Then this.")))
        first = (await sidecar.bind()).surface
        orchestrator = sidecar.definitions.current_card("concierge")
        with_orchestrator(sidecar, model=replace(orchestrator.model, provider_model="small-2"))
        second = (await sidecar.bind()).surface
        assert first.prompt.prefix.index("Second comes first.") < first.prompt.prefix.index("Then this.")
        assert (first.model, first.provider_model, second.provider_model) == ("small", "small-1", "small-2")


def with_orchestrator(sidecar: SidecarForTests, **changes: Any) -> None:
    """Load the present configuration with another orchestrator's card."""
    catalogue = sidecar.definitions.current()
    assert catalogue is not None
    card: Card = sidecar.definitions.current_card("concierge")
    marked = replace(card, **({"digest": f"{card.digest}+{len(changes)}{sorted(changes)}"} | changes))
    sidecar.definitions.load(replace(catalogue, cards={**catalogue.cards, card.definition.id: marked}))


@requirement("PC1-FR-1d")
async def test_the_role_of_a_definition_changes_nothing() -> None:
    """Each role in turn, on a sub-agent: the same tool, the same outcome."""
    seen = []
    for role in Role:
        async with running_sidecar_for_tests(cards=[a_card("shop", role=role)]) as sidecar:
            bound = await sidecar.bind()
            reply = await sidecar.dispatch(bound, "ask_shop")
            (tool,) = bound.surface.sub_agent_tools
            seen.append((tool.name, tool.description, tool.arguments_schema_json, reply.of("call-1").narration))
    assert seen == [seen[0]] * len(Role)


@pytest.mark.parametrize(("wanted", "reason"), [("nobody", "UNKNOWN_ORCHESTRATOR"), ("shop", "UNKNOWN_ORCHESTRATOR")])
async def test_an_orchestrator_that_is_none_is_not_found(wanted: str, reason: str) -> None:
    """An id that nobody has, and a definition without sub-agents; the message says which there are."""
    async with running_sidecar_for_tests() as sidecar:
        failure = await failure_of(sidecar.bind(orchestrator_id=wanted))
        assert (failure.code, failure.reason) == (StatusCode.NOT_FOUND, reason)
        assert "concierge" in failure.message


async def test_a_wrong_digest_is_refused() -> None:
    """Client and sidecar disagree on what is bound: nothing runs."""
    async with running_sidecar_for_tests() as sidecar:
        bound = await sidecar.bind()
        failure = await failure_of(sidecar.dispatch(bound, "ask_shop", binding_digest="sha256:0"))
        assert (failure.code, failure.reason) == (StatusCode.FAILED_PRECONDITION, "BINDING_DIGEST_MISMATCH")
        assert sidecar.runner.started == []


async def test_a_token_that_was_altered_is_refused() -> None:
    """Every tenth character, one at a time."""
    async with running_sidecar_for_tests() as sidecar:
        bound = await sidecar.bind()
        for place in range(0, len(bound.surface_token), 10):
            letter = "A" if bound.surface_token[place] != "A" else "B"
            forged = bound.surface_token[:place] + letter + bound.surface_token[place + 1 :]
            request = sidecar.dispatch_request(bound, "ask_shop")
            request.surface_token = forged
            failure = await failure_of(sidecar.send(request))
            assert (failure.code, failure.reason) == (StatusCode.UNAUTHENTICATED, "SURFACE_TOKEN_INVALID")
