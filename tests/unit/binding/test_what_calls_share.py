"""What all calls of a tool or a surface share is made at the first one, and is what each would have made alone."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sidecar.core.binding.bind import BindingRules
from sidecar.core.binding.surface import Surface, SurfaceTool
from sidecar.core.definitions.cards.ask_arguments import declared_arguments
from sidecar.core.definitions.cards.card import BlockCategory, Card, PromptBlock
from sidecar.core.definitions.cards.digest import digest_of_card
from sidecar.core.definitions.cards.prompt import prefix_of
from sidecar.core.definitions.files.placeholders import FAN_OUT_CAP, filled
from sidecar.core.identifiers import BlockId
from sidecar.core.json_schemas import canonical_text
from tests.support.builders import FixedFlags, a_card, a_catalogue, a_surface
from tests.support.promoted import promoted_surface
from tests.support.requirement import requirement

FLAGS = ("terse", "formal")
PARTS = st.sampled_from([FAN_OUT_CAP, "{{other}}", "{fan_out_cap}", "\n", " ", "é", "Be brief."]) | st.text(max_size=5)
BLOCKS = st.lists(
    st.builds(
        PromptBlock,
        id=st.just(BlockId("voice")),
        category=st.just(BlockCategory.PERSONA),
        instructions=st.lists(PARTS, max_size=4).map("".join),
        feature_gated=st.sampled_from([None, *FLAGS]),
        owner=st.just("platform"),
        path=st.just("voice.md"),
    ),
    max_size=3,
).map(tuple)
COHORTS = st.tuples(st.sets(st.sampled_from(FLAGS)), st.integers(1, 3))


def card_with(name: str, blocks: tuple[PromptBlock, ...]) -> Card:
    """Return a card with those prompt blocks."""
    plain = a_card(name)
    digest = digest_of_card(plain.definition, plain.model, (), blocks)
    return replace(plain, blocks=blocks, digest=digest)


def surface_with(cards: list[Card], flags: frozenset[str], cap: int) -> Surface:
    """Return the surface of a cohort."""
    rules = BindingRules(fan_out_cap=cap, max_dispatches=4)
    return promoted_surface(a_catalogue(*cards), FixedFlags(sorted(flags)), rules)


def block(text: str, gate: str | None = None) -> PromptBlock:
    """Return a prompt block."""
    return PromptBlock(BlockId("voice"), BlockCategory.PERSONA, text, gate, "platform", "voice.md")


@requirement("PC1-D-20")
@given(BLOCKS, BLOCKS, st.lists(COHORTS, min_size=1, max_size=3), st.lists(st.integers(0, 5), max_size=8))
def test_a_prompt_begins_as_if_rendered_for_each_call(
    one: tuple[PromptBlock, ...], two: tuple[PromptBlock, ...], cohorts: list[tuple[set[str], int]], asked: list[int]
) -> None:
    """Two sub-agents on the surfaces of up to three cohorts, called in any order, any number of times."""
    cards = [card_with("shop", one), card_with("rewards", two)]
    surfaces = [surface_with(cards, frozenset(flags), cap) for flags, cap in cohorts]
    for number in asked:
        surface, card = surfaces[number % len(surfaces)], cards[number % 2]
        alone = filled(prefix_of(card.blocks, surface.flags_on), surface.fan_out_cap)
        assert surface.prompt_prefix_of(card) == alone


def test_cohorts_share_a_text_only_if_it_is_the_same() -> None:
    """One object where it is, whatever else tells the cohorts apart; each its own where a flag or the cap shows."""
    gated = card_with("shop", (block("Be brief."), block("Be formal.", "formal")))
    counted = card_with("rewards", (block(f"One of {FAN_OUT_CAP}."),))
    plain, formal = (surface_with([gated, counted], frozenset(flags), 2) for flags in ((), ("formal",)))
    wider = surface_with([gated, counted], frozenset(), 3)

    assert plain.prompt_prefix_of(gated) == "Be brief.\n\n"
    assert formal.prompt_prefix_of(gated) == "Be brief.\n\nBe formal.\n\n"
    assert wider.prompt_prefix_of(gated) is plain.prompt_prefix_of(gated)
    assert formal.prompt_prefix_of(counted) is plain.prompt_prefix_of(counted)
    assert wider.prompt_prefix_of(counted) == "One of 3.\n\n"


def test_the_schema_that_models_are_shown_is_one_text_for_all_surfaces() -> None:
    """Of one definition; of two that differ it is each its own."""
    cards = [a_card("shop"), a_card("rewards", arguments={"type": "object", "properties": {"who": {}}})]
    one, other = (surface_with(cards, frozenset(), cap) for cap in (2, 3))

    for tool, twin, card in zip(one.tools, other.tools, cards, strict=True):
        assert tool.arguments_schema_json is twin.arguments_schema_json
        assert tool.arguments_schema_json == canonical_text(declared_arguments(card.definition.arguments))
    assert one.tools[0].arguments_schema_json != one.tools[1].arguments_schema_json


def test_a_tool_is_asked_for_each_thing_once() -> None:
    """And each tool for itself, although their values are equal."""
    made: list[SurfaceTool] = []

    def what(tool: SurfaceTool) -> str:
        made.append(tool)
        return f"{tool.name} for call {len(made)}"

    def other(tool: SurfaceTool) -> str:
        return f"another of {tool.name}"

    (tool, *_), (twin, *_) = a_surface("shop", "rewards").tools, a_surface("shop", "rewards").tools
    rewards = a_surface("shop", "rewards").tools[1]

    assert tool == twin
    assert [tool.made_once(what), tool.made_once(other), tool.made_once(what)] == [
        "ask_shop for call 1",
        "another of ask_shop",
        "ask_shop for call 1",
    ]
    assert [twin.made_once(what), rewards.made_once(what)] == ["ask_shop for call 2", "ask_rewards for call 3"]


def test_what_is_kept_with_a_value_is_no_part_of_it() -> None:
    """Neither of the surface nor of a tool; a changed copy begins with nothing."""
    card = card_with("shop", (block("Be formal.", "formal"), block(f"{FAN_OUT_CAP}")))
    used, fresh = (surface_with([card], frozenset(), 2) for _ in range(2))
    before = msgspec.json.encode(used.tools[0].card.definition.limits), repr(used.tools[0])
    assert used.prompt_prefix_of(card) == "2\n\n"
    assert used.by_name == {"ask_shop": used.tools[0]}
    assert used.tools[0].made_once(lambda tool: tool.name) == "ask_shop"
    assert used.tools[0].ownership == ("slot:shop",)
    assert used.tools[0].held_back == ("prior_context",)

    assert (used, repr(used)) == (fresh, repr(fresh))
    assert (msgspec.json.encode(used.tools[0].card.definition.limits), repr(used.tools[0])) == before
    changed = replace(used, flags_on=frozenset({"formal"}), fan_out_cap=3)
    assert changed.prompt_prefix_of(card) == "Be formal.\n\n3\n\n"
    assert replace(used.tools[0], slot=fresh.tools[0].card.definition.slot + "2").ownership == ("slot:shop2",)
