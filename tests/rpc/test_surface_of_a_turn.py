"""What BindTurn gives, from definitions in a folder: tools, their words, and that nothing is looked up later."""

import json
from typing import Any, Final

import pytest
import yaml
from google.protobuf.descriptor import MethodDescriptor

from sidecar.adapters.definitions_directory.loading import load_directory
from subagents.dispatch.v1 import dispatch_pb2 as pb
from subagents.dispatch.v1 import surface_pb2
from subagents.history.v1 import history_pb2
from subagents.runner.v1 import runner_pb2
from subagents.tools.v1 import tools_pb2
from tests.support.builders import a_card, a_catalogue
from tests.support.harness import outcome_name, running_sidecar_for_tests
from tests.support.requests import failure_of
from tests.support.requirement import requirement
from tests.support.whole_chain import CONFIG, EXAMPLE, asks, running_chain

LISTED: Final = "sub_agents: [shop, rewards, support]"
TRAVEL: Final = """
  - id: travel
    description: "Books trips with points: trains, planes & boats.  Two spaces, a \\u2603, and no full stop"
    role: native
    model: gpt-5.4-mini-low
    prompt_blocks: [persona-shop]

  - id: shop
"""
BEFORE_SHOP: Final = "\n  - id: shop\n"
WITH_TRAVEL: Final = {BEFORE_SHOP: TRAVEL}


def agents_as_written() -> dict[str, Any]:
    """Return the entries of the example's `agents`, read by a plain YAML parser."""
    written = yaml.safe_load((EXAMPLE / CONFIG).read_text(encoding="utf-8"))["agents"]
    return {entry["id"]: entry for entry in written}


def tool_names(bound: pb.BindTurnResponse) -> list[str]:
    """Return the sub-agents' tools in their order."""
    return [tool.name for tool in bound.surface.sub_agent_tools]


@requirement("PC2-AC-1", "PC2-FR-1a", "PC2-FR-2a", "PC2-FR-2b")
async def test_the_listed_sub_agents_are_the_tools_each_with_its_own_description() -> None:
    """[shop, rewards, support]: exactly those three, in that order, described to the character as written."""
    written = agents_as_written()
    async with running_chain() as chain:
        tools = (await chain.bind()).surface.sub_agent_tools
    assert [(tool.name, tool.description) for tool in tools] == [
        (f"ask_{name}", written[name]["description"]) for name in ("shop", "rewards", "support")
    ]
    assert [tool.sub_agent_id for tool in tools] == ["shop", "rewards", "support"]


@requirement("PC1-D-58", "PC1-NFR-3b")
async def test_an_eleventh_sub_agent_is_left_out_and_the_other_ten_are_served() -> None:
    """The first ten of the list are tools; the eleventh is a candidate that is not listed."""
    names = [f"s{number}" for number in range(11)]
    async with running_sidecar_for_tests(cards=[a_card(name) for name in names]) as sidecar:
        bound = await sidecar.bind()
    assert tool_names(bound) == [f"ask_{name}" for name in names[:10]]
    left_out = surface_pb2.Candidate(
        sub_agent_id="s10", definition_id="s10", verdict=surface_pb2.CANDIDATE_VERDICT_NOT_LISTED
    )
    assert [each for each in bound.surface.candidates if each.sub_agent_id == "s10"] == [left_out]


@requirement("PC2-FR-2a", "PC2-FR-2b", "PC2-T-1", "PC2-T-2")
@pytest.mark.parametrize("name", ["a", "0", "x-1_y", "a" * 60, "ask_me", "9--"])
async def test_edge_case_ids_and_descriptions_become_tools_unchanged(name: str) -> None:
    """Ids as long, as short and as odd as they may be; a description with quotes, signs and double spaces."""
    entry = TRAVEL.replace("id: travel", f'id: "{name}"')
    async with running_chain({BEFORE_SHOP: entry, LISTED: f'sub_agents: ["{name}", shop]'}) as chain:
        first, second = (await chain.bind()).surface.sub_agent_tools
    assert first.name == f"ask_{name}"
    assert (
        first.description == "Books trips with points: trains, planes & boats.  Two spaces, a \u2603, and no full stop"
    )
    assert second.name == "ask_shop"


@requirement("PC1-FR-4a", "PC1-T-15", "PC2-T-20", "PC1-D-9")
async def test_an_orchestrator_is_an_entry_that_lists_sub_agents_and_its_surface_is_that_list() -> None:
    """The list backwards gives the tools backwards; an entry without a list is no orchestrator, whatever its role."""
    leaf = {BEFORE_SHOP: TRAVEL.replace("role: native", "role: orchestrator")}
    async with running_chain({**leaf, LISTED: "sub_agents: [support, rewards, shop]"}) as chain:
        bound = await chain.bind()
        assert tool_names(bound) == ["ask_support", "ask_rewards", "ask_shop"]
        failure = await failure_of(chain.bind(orchestrator_id="travel"))
        assert failure.reason == "UNKNOWN_ORCHESTRATOR"
        shape = (await chain.bind(orchestrator_id="concierge")).surface
        assert shape.binding_digest == bound.surface.binding_digest


@requirement("PC1-D-10", "PC2-D-5")
async def test_the_orchestrators_own_tools_stand_beside_those_of_its_sub_agents() -> None:
    """`llm_feedback` and three `ask_` tools; own tools of the sub-agents are not among them."""
    async with running_chain() as chain:
        surface = (await chain.bind()).surface
    assert [tool.name for tool in surface.orchestrator_tools] == ["llm_feedback"]
    assert json.loads(surface.orchestrator_tools[0].arguments_schema_json)["required"] == ["pleased"]
    assert [tool.name for tool in surface.sub_agent_tools] == ["ask_shop", "ask_rewards", "ask_support"]


@requirement("PC2-D-4")
async def test_a_new_vertical_is_one_more_definition_in_the_list() -> None:
    """Nothing else is touched or restarted: the next turn has its tool, and it is reached."""
    async with running_chain(WITH_TRAVEL) as chain:
        assert tool_names(await chain.bind()) == ["ask_shop", "ask_rewards", "ask_support"]
        await chain.edit({LISTED: "sub_agents: [shop, rewards, support, travel]"})
        bound = await chain.bind()
        assert tool_names(bound) == ["ask_shop", "ask_rewards", "ask_support", "ask_travel"]
        result = await chain.dispatch(bound, "ask_travel")
        assert result.outcomes[0].narration == "hello from travel"


@requirement("PC2-D-60", "PC1-D-55", "PC2-D-61")
async def test_taking_a_change_back_gives_the_earlier_surface_back() -> None:
    """A sub-agent listed and taken out, an orchestrator's block changed and changed back: the earlier digests."""
    async with running_chain(WITH_TRAVEL) as chain:
        before = (await chain.bind()).surface
        await chain.edit({LISTED: "sub_agents: [shop, rewards, support, travel]"})
        await chain.edit_block("platform/persona-orchestrator.yaml", "You lead", "You lead and dance through")
        changed = (await chain.bind()).surface
        assert changed.binding_digest != before.binding_digest
        assert changed.prompt.prefix_digest != before.prompt.prefix_digest

        await chain.edit({"sub_agents: [shop, rewards, support, travel]": LISTED})
        back = (await chain.bind()).surface
        assert back.binding_digest == before.binding_digest
        assert back.prompt.prefix_digest == changed.prompt.prefix_digest, "the block is still the changed one"

        await chain.edit_block("platform/persona-orchestrator.yaml", "You lead and dance through", "You lead")
        assert (await chain.bind()).surface == before


@requirement("PC1-D-55", "PC1-D-4")
async def test_a_definition_alone_goes_back_to_its_earlier_digest() -> None:
    """One sub-agent's block is changed and changed back; its siblings' digests never move."""
    async with running_chain() as chain:
        before = digests_of(await chain.bind())
        await chain.edit_block("shop/persona-shop.yaml", "You are", "You were")
        changed = digests_of(await chain.bind())
        await chain.edit_block("shop/persona-shop.yaml", "You were", "You are")
        assert digests_of(await chain.bind()) == before
    assert {name for name in before if before[name] != changed[name]} == {"shop"}


def digests_of(bound: pb.BindTurnResponse) -> dict[str, str]:
    """Return the digest of each tool's definition."""
    return {tool.sub_agent_id: tool.digest for tool in bound.surface.sub_agent_tools}


@requirement("PC2-D-8")
async def test_ten_verticals_are_ten_tools() -> None:
    """The most that may be listed: each stands there with its whole description."""
    names = [f"v{number}" for number in range(10)]
    entries = "".join(TRAVEL.replace("travel", name).replace(BEFORE_SHOP, "") for name in names)
    edits = {BEFORE_SHOP: f"{entries}{BEFORE_SHOP}", LISTED: f"sub_agents: [{', '.join(names)}]"}
    async with running_chain(edits) as chain:
        tools = (await chain.bind()).surface.sub_agent_tools
    assert [tool.name for tool in tools] == [f"ask_{name}" for name in names]
    assert {tool.description for tool in tools} == {tools[0].description}
    assert tools[0].description.startswith("Books trips")


@requirement("PC2-D-6")
async def test_a_definition_without_a_description_never_comes_into_force() -> None:
    """It is emptied while the sidecar runs: the last good state stays, with the description."""
    async with running_chain(WITH_TRAVEL) as chain:
        before = (await chain.bind()).surface
        await chain.edit_badly({"description: Talks to the user, asks": 'description: "" # Talks to the user, asks'})
        assert (await chain.bind()).surface == before


@requirement("PC2-FR-1b", "PC1-D-46", "PC2-D-7")
async def test_after_the_bind_nothing_is_looked_up_any_more() -> None:
    """Definitions and flags are counted: one read each at the bind, none by dispatch, tool call or end."""
    catalogue = load_directory(EXAMPLE).catalogue
    assert catalogue is not None
    async with running_sidecar_for_tests(catalogue=catalogue) as sidecar:
        bound = await sidecar.bind()
        assert (sidecar.definitions.reads, sidecar.flags.reads) == (1, 1)
        assert (sidecar.connector.calls, sidecar.runner.requests) == ([], [])
        sidecar.definitions.load(a_catalogue())
        reply = await sidecar.dispatch(bound, "ask_shop", "ask_rewards")
        again = await sidecar.dispatch(bound, "ask_support")
        await sidecar.end(bound)
        assert (sidecar.definitions.reads, sidecar.flags.reads) == (1, 1)
    assert [*reply.outcomes, *again.outcomes] == ["SUCCEEDED"] * 3


@requirement("PC2-FR-1b", "PC1-D-46")
async def test_a_turn_runs_what_it_was_bound_to_though_the_definitions_have_changed() -> None:
    """Model, tools, prompt and list are replaced in between: the turn's calls get the earlier definition."""
    async with running_chain() as chain:
        chain.use("shop", asks("search_offers", query="coffee"))
        bound = await chain.bind()
        digest = bound.surface.sub_agent_tools[0].digest
        await chain.edit({LISTED: "sub_agents: [rewards]", "tools: [search_offers, render_": "tools: [render_"})
        result = await chain.dispatch(bound, "ask_shop")
        assert outcome_name(result.outcomes[0].outcome) == "SUCCEEDED"
        (run,) = chain.runs
        assert run.digest == digest
        assert "search_offers" in [tool.tool_id for tool in run.card.tools]

        later = await chain.bind()
        assert tool_names(later) == ["ask_rewards"]
        refused = (await chain.dispatch(later, "ask_shop")).outcomes[0]
        assert (outcome_name(refused.outcome), len(chain.runs)) == ("REFUSED", 1)


ROUTING_WORDS: Final = ("utterance", "message", "query", "question", "user_text", "chat", "prompt_text")


@requirement("PC2-D-2", "PC1-FR-3a")
def test_no_method_takes_what_a_user_said_and_gives_a_choice() -> None:
    """All of our services: the one that carries the user's words is the one that carries the model's calls, too."""
    files = (pb.DESCRIPTOR, runner_pb2.DESCRIPTOR, tools_pb2.DESCRIPTOR, history_pb2.DESCRIPTOR)
    methods = [method for file in files for service in file.services_by_name.values() for method in service.methods]
    assert {method.name for method in methods} == {
        *("BindTurn", "Dispatch", "DispatchUnary", "ResumeDispatch", "CancelCall", "CloseChild", "EndTurn", "Session"),
        *("Run", "Describe", "CallTool", "ReadOwnTurns", "Delegate", "ReadEpisode", "WriteSummary"),
        *("ListTurns", "GetTurn", "WatchEvents", "ListEpisodes", "ExportReplay", "RecordScore"),
    }
    for method in methods:
        words = set(field_names(method)) & set(ROUTING_WORDS)
        assert words <= ({"question"} if method.name == "Run" else set()), method.full_name  # what the sub-agent asked
        if "task_prompt" in field_names(method):
            assert {"tool_name", "child_id"} & set(field_names(method)), method.full_name


def field_names(method: MethodDescriptor) -> list[str]:
    """Return the names of all fields of a method's request, those inside messages too."""
    left, seen, names = [method.input_type], set(), []
    while left:
        message = left.pop()
        if message.full_name in seen:
            continue
        seen.add(message.full_name)
        for field in message.fields:
            names.append(field.name)
            if field.message_type is not None:
                left.append(field.message_type)
    return names
