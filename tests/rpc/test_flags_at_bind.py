"""Flags decide at the bind who is on the surface, from memory, and never again in that turn."""

import asyncio
from typing import Final

import pytest

from sidecar.adapters.flags_memory import FlagFault
from sidecar.observability import event_names
from subagents.dispatch.v1 import surface_pb2
from subagents_client.runner import Run
from tests.support.flag_services import (
    COHORT,
    GATED,
    KILL,
    UNGATED,
    WITH_TRAVEL,
    tool_names,
    verdict_on_travel,
)
from tests.support.harness import outcome_name
from tests.support.requirement import requirement
from tests.support.whole_chain import Chain, WatchedFlags, running_chain

NAMES_A_FLAG: Final = f"    enabled_via_flag: {KILL}\n"


@requirement("PF1-AC-1a", "PF1-FR-2b", "PF1-D-18")
async def test_an_entry_whose_flag_is_off_is_left_out_from_the_start() -> None:
    """Off is the default: listed, loaded, without error, and on nobody's surface."""
    async with running_chain(GATED) as chain:
        bound = await chain.bind()
        assert tool_names(bound) == UNGATED
        assert verdict_on_travel(bound) == "FLAG_OFF"
        refused = (await chain.dispatch(bound, "ask_travel")).outcomes[0]
        assert outcome_name(refused.outcome) == "REFUSED"
        assert chain.runs == []


@requirement("PF1-AC-1b", "PF1-D-75")
async def test_an_inactive_entry_leaves_the_others_as_they_were() -> None:
    """Entries without a flag: the same tools, digests and prompt with and without the inactive one beside them."""
    async with running_chain() as chain:
        alone = (await chain.bind()).surface
    async with running_chain(GATED) as chain:
        beside = (await chain.bind()).surface
        result = await chain.dispatch(await chain.bind(), "ask_shop", "ask_support")
    # The data service has another port, hence another digest, in each of the two chains.
    assert [(each.name, each.description, each.arguments_schema_json) for each in alone.sub_agent_tools] == [
        (each.name, each.description, each.arguments_schema_json) for each in beside.sub_agent_tools
    ]
    assert alone.prompt.prefix == beside.prompt.prefix
    assert list(alone.cohort.active_sub_agents) == list(beside.cohort.active_sub_agents)
    assert [outcome_name(each.outcome) for each in result.outcomes] == ["SUCCEEDED"] * 2


@requirement("PF1-D-34", "PF1-FR-9b", "PF1-T-4")
@pytest.mark.parametrize(
    ("on", "tools", "verdict"),
    [
        ([KILL, COHORT], WITH_TRAVEL, "CHOSEN"),
        ([COHORT], UNGATED, "FLAG_OFF"),
        ([KILL], UNGATED, "COHORT"),
        ([], UNGATED, "FLAG_OFF"),
        (["ai_assistant_subagent_travel_cohort_", "AI_ASSISTANT_SUBAGENT_TRAVEL", COHORT], UNGATED, "FLAG_OFF"),
    ],
)
async def test_both_flags_must_be_on_and_the_kill_flag_wins(on: list[str], tools: list[str], verdict: str) -> None:
    """Every combination of the two, and names that only look alike."""
    async with running_chain(GATED, WatchedFlags(*on)) as chain:
        bound = await chain.bind(experiment_arm="travel-for-all")
    assert tool_names(bound) == tools
    assert verdict_on_travel(bound) == verdict


@requirement("PF1-AC-4a", "PF1-FR-9c", "PF1-NFR-4c")
async def test_the_next_bind_after_the_kill_flag_went_off_is_without_it_for_everybody() -> None:
    """Three users had it; after the switch none has, in old episodes and in new ones."""
    users = [("user-1", "episode-1"), ("user-2", "episode-2"), ("user-3", "episode-1")]
    async with running_chain(GATED, WatchedFlags(KILL, COHORT)) as chain:
        for user, episode in users:
            assert tool_names(await chain.bind(principal=user, episode_id=episode)) == WITH_TRAVEL
        await chain.flags.switch(KILL, on=False)
        for user, episode in [*users, ("user-4", "episode-4")]:
            bound = await chain.bind(principal=user, episode_id=episode)
            assert tool_names(bound) == UNGATED
            assert verdict_on_travel(bound) in {"FLAG_OFF", "KILLED"}, "it is killed for good as soon as it was seen"


@requirement("PF1-FR-8b", "PF1-T-5")
async def test_a_turn_keeps_its_surface_though_the_flag_goes_off() -> None:
    """Killed while one call runs: it ends well, the same turn may call again, and binding it again gives the same."""
    running, may_end = asyncio.Event(), asyncio.Event()

    async def travels(run: Run, chain: Chain) -> str:
        running.set()
        await may_end.wait()
        return "Booked."

    async with running_chain(GATED, WatchedFlags(KILL, COHORT)) as chain:
        chain.use("travel", travels)
        bound = await chain.bind(turn_id="turn-kept")
        call = asyncio.ensure_future(chain.dispatch(bound, "ask_travel"))
        await running.wait()
        await chain.flags.switch(KILL, on=False)
        may_end.set()
        assert (await call).outcomes[0].narration == "Booked."
        assert (await chain.dispatch(bound, "ask_travel")).outcomes[0].narration == "Booked."

        again = await chain.bind(turn_id="turn-kept")
        assert (again.surface, again.surface_token) == (bound.surface, bound.surface_token)
        assert tool_names(await chain.bind()) == UNGATED
        ended = await chain.end(bound)
        assert list(ended.routing_decision.cohort.active_feature_flags) == [KILL, COHORT]


@requirement("PF1-D-74", "PF1-AC-1b", "PF1-FR-5a", "PF1-FR-5b")
async def test_configuration_and_flags_are_read_at_each_bind() -> None:
    """One process: an entry comes, names a flag, both go on, cohort off and on, is reverted: shown at once.

    That it names none while the cohort flag is off ends no pause.
    """
    async with running_chain() as chain:
        assert tool_names(await chain.bind()) == UNGATED
        await chain.edit({old: new.replace(NAMES_A_FLAG, "") for old, new in GATED.items()})
        assert tool_names(await chain.bind()) == WITH_TRAVEL
        await chain.edit({"    prompt_blocks: [persona-shop]\n": f"    prompt_blocks: [persona-shop]\n{NAMES_A_FLAG}"})
        assert tool_names(await chain.bind()) == UNGATED
        await chain.flags.switch(KILL, on=True)
        await chain.flags.switch(COHORT, on=True)
        assert tool_names(await chain.bind()) == WITH_TRAVEL
        await chain.flags.switch(COHORT, on=False)
        assert tool_names(await chain.bind()) == UNGATED
        await chain.edit({NAMES_A_FLAG: ""})
        assert tool_names(await chain.bind()) == UNGATED
        await chain.flags.switch(COHORT, on=True)
        assert tool_names(await chain.bind()) == WITH_TRAVEL
        await chain.edit({"sub_agents: [shop, travel, rewards, support]": "sub_agents: [shop, rewards, support]"})
        assert tool_names(await chain.bind()) == UNGATED


async def test_a_new_entry_that_names_a_flag_is_on_nobodys_surface_though_its_flags_are_on() -> None:
    """It begins in `dev`: what the configuration brings and what its flags say is not enough, it has to be promoted."""
    async with running_chain(flags=WatchedFlags(KILL, COHORT)) as chain:
        await chain.edit(GATED)
        bound = await chain.bind()
        (said,) = chain.heard.of(event_names.DEFINITIONS_ON_RECORD)[-1:]
    assert (tool_names(bound), verdict_on_travel(bound)) == (UNGATED, "STATE")
    assert said.levelname == "WARNING"
    assert "travel" in said.__dict__["fields"]["waiting"]


@requirement("PF1-T-19", "PF1-D-75")
@pytest.mark.parametrize("fault", [FlagFault.RAISE, FlagFault.GARBAGE])
async def test_a_backend_that_was_never_reached_takes_the_gated_off_and_nothing_else(fault: FlagFault) -> None:
    """It raises, or answers nonsense: absent with a reason of its own, others stay, nothing is written anywhere."""
    flags = WatchedFlags(KILL, COHORT)
    flags.misbehave(fault)
    async with running_chain(GATED, flags) as chain:
        bound = await chain.bind()
        assert tool_names(bound) == UNGATED
        assert verdict_on_travel(bound) == "FLAG_STALE"
        assert list(bound.surface.cohort.active_feature_flags) == []
        flags.misbehave(FlagFault.NONE)
        await chain.flags.switch("any", on=True)
        back = await chain.bind()
        assert (tool_names(back), verdict_on_travel(back)) == (WITH_TRAVEL, "CHOSEN"), "being away changed no state"


@requirement("PF1-NFR-4b", "PC2-D-7")
async def test_a_bind_asks_no_backend_and_waits_for_none() -> None:
    """The backend is being asked and does not answer: binds are served meanwhile, from the last report."""
    async with running_chain(GATED, WatchedFlags(KILL, COHORT)) as chain:
        await chain.bind()
        chain.flags.asking.clear()
        chain.flags.misbehave(FlagFault.HANG)
        chain.flags.set("any", on=True)
        await chain.flags.asking.wait()
        fetches = chain.flags.fetches
        bound = [await chain.bind() for _ in range(5)]
        assert chain.flags.asking.is_set(), "the backend still has not answered"
        assert chain.flags.fetches == fetches
        assert [tool_names(each) for each in bound] == [WITH_TRAVEL] * 5
        assert "any" not in bound[-1].surface.cohort.active_feature_flags
        chain.flags.misbehave(FlagFault.NONE)


@requirement("PF1-D-37", "PF1-D-38", "PF1-D-39")
async def test_the_cohort_has_six_fields_and_follows_what_is_dispatchable() -> None:
    """In their order; users of one cohort share it and the prompt's prefix; another arm or flag is another cohort."""
    assert [field.name for field in surface_pb2.Cohort.DESCRIPTOR.fields] == [
        "agent_definition_version",
        "prompt_block_registry_version",
        "xml_prompt_component_registry_version",
        "active_feature_flags",
        "experiment_arm_assignment",
        "active_sub_agents",
    ]
    async with running_chain(GATED, WatchedFlags(KILL, COHORT, "somebody_elses_flag")) as chain:
        one, two = [(await chain.bind(principal=user)).surface for user in ("user-1", "user-2")]
        assert one.cohort == two.cohort
        assert one.prompt.prefix_digest == two.prompt.prefix_digest
        assert list(one.cohort.active_sub_agents) == ["shop", "travel", "rewards", "support"]
        assert list(one.cohort.active_feature_flags) == [KILL, COHORT], "only flags that the definitions mention"

        other_arm = (await chain.bind(experiment_arm="b")).surface
        assert other_arm.cohort.experiment_arm_assignment == "b"
        assert other_arm.prompt.prefix == one.prompt.prefix

        await chain.flags.switch(COHORT, on=False)
        without = (await chain.bind()).surface
        assert list(without.cohort.active_sub_agents) == ["shop", "rewards", "support"]
        assert list(without.cohort.active_feature_flags) == [KILL]
