"""BindTurn: what a turn may call is decided once, from the registries and flags of that moment, and then frozen."""

from typing import Any

import pytest
from grpc import StatusCode
from msgspec.structs import replace

from sidecar.core.definitions.cards.card import BlockCategory, Card, PromptBlock, Role, ToolEntry
from sidecar.core.executing.records import ChildOpened
from sidecar.core.identifiers import BlockId, ToolId
from subagents.dispatch.v1 import dispatch_pb2 as pb
from subagents.dispatch.v1 import surface_pb2
from tests.support.builders import a_card, a_catalogue
from tests.support.harness import SidecarForTests, running_sidecar_for_tests
from tests.support.records import kept
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


@requirement("PC2-FR-1a", "PC1-FR-2d", "PC1-D-46", "PF1-D-74")
async def test_the_callable_set_is_bound_when_the_turn_begins() -> None:
    """The configuration changes between two binds: each has what was configured then, without a restart."""
    async with running_sidecar_for_tests() as sidecar:
        before = await sidecar.bind()
        sidecar.definitions.load(a_catalogue(a_card("shop"), a_card("travel")))
        after = await sidecar.bind()
        assert tools_of(before) == ["ask_shop", "ask_rewards", "ask_support"]
        assert tools_of(after) == ["ask_shop", "ask_travel"]


@requirement("PC2-D-1")
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


@requirement("PC2-D-10")
@pytest.mark.parametrize("slot", ["shop", "rewards", "support"])
async def test_a_call_names_one_sub_agent_and_runs_that_one_alone(slot: str) -> None:
    """Each tool's name is its own, and opens one child; a name of two sub-agents is no tool's name."""
    async with running_sidecar_for_tests(cap=8) as sidecar:
        bound = await sidecar.bind()
        reply = await sidecar.dispatch(bound, f"ask_{slot}")
        (opened,) = kept(sidecar, ChildOpened)
        both = await sidecar.dispatch(bound, f"ask_{slot},ask_shop", f"ask_{slot} ask_support", dispatch_id="d-2")
        tools = tools_of(bound)

    assert (len(set(tools)), len(tools)) == (3, 3)
    assert (reply.outcomes, sidecar.runner.started) == (["SUCCEEDED"], [slot])
    assert (opened.slot, reply.of("call-1").sub_agent_id) == (slot, slot)
    assert both.outcomes == ["REFUSED", "REFUSED"]


@requirement("PC1-FR-2a", "PC1-FR-2b", "PC1-FR-2c", "PC1-FR-1g")
async def test_model_tools_and_prompt_are_resolved_at_the_bind() -> None:
    """The model's name where it is served, tools and blocks in their order; a changed registry shows next time."""
    feedback, render = ToolId("llm_feedback"), ToolId("render_card")
    own = (ToolEntry(feedback, "Says what went wrong."), ToolEntry(render, "Shows a card."))
    blocks = (a_block("b", "Second comes first."), a_block("a", "Then this."))
    async with running_sidecar_for_tests() as sidecar:
        with_orchestrator(sidecar, blocks=blocks, tools=own)
        first = (await sidecar.bind()).surface
        orchestrator = sidecar.definitions.current_card("concierge")
        with_orchestrator(sidecar, model=replace(orchestrator.model, provider_model="small-2"))
        second = (await sidecar.bind()).surface
        assert first.prompt.prefix.index("Second comes first.") < first.prompt.prefix.index("Then this.")
        assert [(tool.name, tool.description) for tool in first.orchestrator_tools] == [
            ("llm_feedback", "Says what went wrong."),
            ("render_card", "Shows a card."),
        ]
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
