"""The prompt that a turn is given, and the one each sub-agent gets, from blocks in a folder."""

from typing import Final

from sidecar.adapters.definitions_directory.loading import load_directory
from sidecar.core.definitions.files.placeholders import filled
from tests.support.requirement import requirement
from tests.support.whole_chain import EXAMPLE, WatchedFlags, running_chain

LOCATED: Final = "ai_assistant_location_aware"
CANARY: Final = "canary-5d02"


@requirement("PC1-FR-6b")
async def test_the_dynamic_context_is_four_values_and_no_more() -> None:
    """All given, and none: date, location, user id and locale, each once, in that order."""
    async with running_chain() as chain:
        given = {"date": "2031-04-05", "location": "Chicago, IL", "locale": "en-US", "principal": "user-1"}
        suffix = (await chain.bind(**given, experiment_arm=CANARY)).surface.prompt.suffix
        bare = (await chain.bind(date="2031-04-05")).surface.prompt.suffix
    assert suffix == (
        "<dynamic_context>\n"
        "date: 2031-04-05\n"
        'location: "Chicago, IL"\n'
        'user_id: "user-1"\n'
        'locale: "en-US"\n'
        "</dynamic_context>\n"
    )
    assert [line.partition(":")[0] for line in bare.splitlines()[1:-1]] == ["date", "location", "user_id", "locale"]
    assert (bare.count("unknown"), CANARY in suffix) == (2, False)


@requirement("PC1-FR-6a", "PC1-T-5")
async def test_the_prompt_is_put_together_anew_at_each_bind() -> None:
    """A block changes, then a flag that gates one: the next turn has it, the turn bound before keeps its own."""
    async with running_chain({"      - format-streaming\n": "      - context-location-aware\n"}) as chain:
        first = await chain.bind(turn_id="turn-first")
        await chain.edit_block("platform/instructions-routing.yaml", "Find every separate intent", f"{CANARY}: find")
        second = (await chain.bind()).surface.prompt
        await chain.flags.switch(LOCATED, on=True)
        third = (await chain.bind()).surface.prompt
        assert (await chain.bind(turn_id="turn-first")).surface == first.surface
    place = "prefer what is near it"
    assert [CANARY in prompt.prefix for prompt in (first.surface.prompt, second, third)] == [False, True, True]
    assert [place in prompt.prefix for prompt in (first.surface.prompt, second, third)] == [False, False, True]
    assert len({first.surface.prompt.prefix_digest, second.prefix_digest, third.prefix_digest}) == 3


@requirement("PC1-D-18", "PC1-D-20", "PC1-D-22", "PF1-D-39")
async def test_what_differs_between_users_stands_behind_what_they_share() -> None:
    """Two users in two places, two turns each: one prefix to the byte, blocks in order, nothing of a user in it."""
    catalogue = load_directory(EXAMPLE).catalogue
    assert catalogue is not None
    blocks = next(card for name, card in catalogue.cards.items() if name == "concierge").blocks
    async with running_chain() as chain:
        prompts = [
            (await chain.bind(principal=f"{CANARY}-{user}", location=f"{CANARY}-place", locale="de")).surface.prompt
            for user in ("a", "b", "a", "b")
        ]
    assert {(prompt.prefix, prompt.prefix_digest) for prompt in prompts} == {
        (prompts[0].prefix, prompts[0].prefix_digest)
    }
    assert CANARY not in prompts[0].prefix
    assert [f"{CANARY}-{user}" in prompt.suffix for user, prompt in zip("abab", prompts, strict=True)] == [True] * 4
    places = [prompts[0].prefix.index(filled(block.instructions.strip(), 3)) for block in blocks]
    assert places == sorted(places)


@requirement("PC1-FR-12a", "PC1-FR-12c", "PC1-T-2", "PC1-D-39")
async def test_every_prompt_begins_with_the_three_platform_blocks() -> None:
    """The orchestrator's and each sub-agent's; the financial safety block only where it is listed."""
    texts = {
        name: _instructions_of(name)
        for name in ("persona-fetch-assistant", "format-conversational", "safety-base", "safety-financial")
    }
    head = "".join(texts[name] + "\n\n" for name in ("persona-fetch-assistant", "format-conversational", "safety-base"))
    async with running_chain() as chain:
        bound = await chain.bind(location="Chicago, IL")
        await chain.dispatch(bound, "ask_shop", "ask_rewards", "ask_support")
        prefixes = {run.sub_agent_id: run.card.prompt_prefix for run in chain.runs}
        suffixes = {run.prompt_suffix for run in chain.runs}
    prefixes["concierge"] = bound.surface.prompt.prefix
    assert {name: prefix.startswith(head) for name, prefix in prefixes.items()} == dict.fromkeys(prefixes, True)
    assert [name for name, prefix in prefixes.items() if texts["safety-financial"] in prefix] == ["rewards"]
    assert suffixes == {bound.surface.prompt.suffix}, "the same four values for all"


@requirement("PC1-FR-6a", "PC1-D-20")
async def test_a_sub_agents_gated_block_follows_the_flags_of_its_turn() -> None:
    """On at the bind and off before the call: the sub-agent's prompt is the one that the turn was bound with."""
    async with running_chain(flags=WatchedFlags(LOCATED)) as chain:
        bound = await chain.bind()
        await chain.flags.switch(LOCATED, on=False)
        await chain.dispatch(bound, "ask_shop")
        await chain.dispatch(await chain.bind(), "ask_shop")
        with_it, without = [run.card.prompt_prefix for run in chain.runs]
    assert "prefer what is near it" in with_it
    assert "prefer what is near it" not in without


def _instructions_of(name: str) -> str:
    catalogue = load_directory(EXAMPLE).catalogue
    assert catalogue is not None
    blocks = (block for card in catalogue.cards.values() for block in card.blocks)
    return next(block.instructions.strip() for block in blocks if block.id == name)


@requirement("PC1-D-21")
async def test_definition_registries_and_gated_blocks_make_the_cohort_and_a_user_does_not() -> None:
    """Two users share it; each of the four, changed alone, makes another one."""
    flags = WatchedFlags()
    async with running_chain(flags=flags) as chain:

        async def cohort(principal: str = "user-1") -> bytes:
            surface = (await chain.bind(principal=principal)).surface
            return surface.cohort.SerializeToString(deterministic=True)

        found = [await cohort()]
        same = await cohort("user-2")
        await flags.switch(LOCATED, on=True)
        found.append(await cohort())
        await chain.edit_block("platform/persona-orchestrator.yaml", "instructions: |", "instructions: |\n  Be kind.")
        found.append(await cohort())
        await chain.edit({"Finds offers and products": "Looks for offers and products"})
        found.append(await cohort())
        await chain.edit_block("shop/capabilities-shop.yaml", "instructions: |", "instructions: |\n  <!-- kind -->")
        found.append(await cohort())

    assert same == found[0]
    assert len(set(found)) == len(found)
