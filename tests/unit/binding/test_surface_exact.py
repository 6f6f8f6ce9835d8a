"""The whole surface of a turn, field by field, and what each refusal says, word for word."""

from collections.abc import Mapping, Sequence
from hashlib import sha256

import msgspec
import pytest
from msgspec.structs import replace

from sidecar.core.binding.bind import (
    BindingRules,
    binding_digest,
    cohort_of,
    orchestrator_of,
    surface_of,
    surface_tool,
    tools_of,
)
from sidecar.core.binding.candidates import Flags, SlotCandidates, evaluate_slots
from sidecar.core.binding.cohort import Cohort
from sidecar.core.binding.surface import Candidate, Surface
from sidecar.core.definitions.cards.card import BlockCategory, Card, Catalogue, PromptBlock, Role
from sidecar.core.errors import FieldProblem, InvalidRequest, UnknownOrchestrator
from sidecar.core.flag_states import FlagValue
from sidecar.core.identifiers import BlockId, Commit, DefinitionId, Digest, Slot, Vertical
from sidecar.core.rollout.bucketing import WHOLE
from sidecar.core.rollout.facts import FlagPair, Tombstone
from sidecar.core.rollout.serving import BindSubject, CandidateVerdict
from sidecar.core.rollout.states import LifecycleState
from sidecar.core.rollout.view import RolloutView
from tests.support.builders import FixedFlags, a_card, a_catalogue
from tests.support.requirement import requirement
from tests.unit.rollout.building import NOW, facts, flags, rollout, with_target

SHOP, REWARDS, CONCIERGE = Slot("shop"), Slot("rewards"), DefinitionId("concierge")
RULES = BindingRules(fan_out_cap=2, max_dispatches=4)
FLAG = "ai_assistant_subagent_shop"
ASKER = BindSubject("user-1", "treatment")
CATALOGUE = a_catalogue(a_card("shop"), a_card("rewards"))


class FlagsOfVerticals:
    """Flags that are on in one vertical each."""

    narrowed = False

    def __init__(self, **on: str) -> None:
        """Keep the vertical by flag."""
        self._on = on

    def value(self, flag_name: str, vertical: Vertical | None = None) -> FlagValue:
        """Say on in that vertical only."""
        return FlagValue.ON if self._on.get(flag_name) == vertical else FlagValue.OFF

    def share(self, flag_name: str, vertical: Vertical | None = None) -> int:
        """Return all users in that vertical, and few users in others."""
        return WHOLE if flag_name in self._on and self._on[flag_name] == vertical else 1


def block(name: str, gated: str | None = None) -> PromptBlock:
    """Return a block that says its name, and the cap."""
    category = BlockCategory.PERSONA
    return PromptBlock(BlockId(name), category, f"{name}: {{{{fan_out_cap}}}}", gated, "shop", f"{name}.yaml")


def bound(
    catalogue: Catalogue,
    flags: Flags,
    judged: Sequence[SlotCandidates] = (),
    arm: str = "",
    kept: Mapping[Digest, Card] | None = None,
) -> Surface:
    """Return the surface that a bind makes of what was judged."""
    orchestrator = catalogue.cards[CONCIERGE]
    tools = tools_of(catalogue, judged, (kept or {}).get)
    candidates = tuple(each for one in judged for each in one.candidates)
    return surface_of(orchestrator, tools, candidates, cohort_of(catalogue, orchestrator, flags, arm, tools), RULES)


def with_blocks(catalogue: Catalogue, name: str, *blocks: PromptBlock) -> Catalogue:
    """Return the catalogue with the blocks of one card."""
    card = replace(catalogue.cards[DefinitionId(name)], blocks=blocks)
    return replace(catalogue, cards={**catalogue.cards, card.definition.id: card})


def test_a_surface_is_exactly_what_its_cohort_decides() -> None:
    """Two slots, the second not served: blocks by flags, the cap filled in, one tool, two candidates."""
    catalogue = with_blocks(CATALOGUE, "concierge", block("always"), block("on", "x"), block("off", "y"))
    orchestrator, shop = catalogue.cards[CONCIERGE], catalogue.cards[DefinitionId("shop")]
    chosen = Candidate(SHOP, shop.definition.id, CandidateVerdict.CHOSEN)
    ramped = Candidate(REWARDS, DefinitionId("rewards"), CandidateVerdict.RAMP)
    judged = (SlotCandidates(SHOP, shop.digest, (chosen,)), SlotCandidates(REWARDS, None, (ramped,)))
    tool = surface_tool(SHOP, shop)
    prefix = "always: 2\n\non: 2\n\n"

    surface = bound(catalogue, FixedFlags(("x",)), judged, "treatment")

    assert surface == Surface(
        orchestrator=orchestrator,
        tools=(tool,),
        candidates=(chosen, ramped),
        cohort=Cohort("definitions-1", "blocks-1", "capabilities-1", ("x",), "treatment", (SHOP,)),
        flags_on=frozenset({"x"}),
        prompt_prefix=prefix,
        prefix_digest=Digest(f"sha256:{sha256(prefix.encode()).hexdigest()}"),
        fan_out_cap=2,
        max_dispatches=4,
        binding_digest=binding_digest([tool]),
    )
    assert surface.claimed_tools == ((SHOP, shop.digest),)
    assert surface.claimed_candidates == ((SHOP, "shop", "chosen"), (REWARDS, "rewards", "ramp"))
    assert surface.by_name == {"ask_shop": tool}


def test_what_a_provider_can_cache_changes_with_each_tool_and_block_and_with_nothing_else() -> None:
    """Tools and prefix; not the digest of a card, nor who was looked at besides."""
    blocks = with_blocks(CATALOGUE, "concierge", block("always"), block("on", "x"))
    shop = blocks.cards[DefinitionId("shop")]
    judged = [SlotCandidates(SHOP, shop.digest, ())]
    usual = bound(blocks, FixedFlags(), judged)
    described = replace(shop, definition=replace(shop.definition, description="Other words."))
    recast = replace(shop, digest=Digest("sha256:other"))

    assert usual.beginning == bound(blocks, FixedFlags(), judged, arm="b").beginning
    assert usual.beginning == replace(usual, tools=(surface_tool(SHOP, recast),)).beginning
    assert usual.beginning != bound(blocks, FixedFlags(("x",)), judged).beginning
    assert usual.beginning != bound(blocks, FixedFlags()).beginning
    assert usual.beginning != replace(usual, tools=(surface_tool(SHOP, described),)).beginning
    texts = [usual.tools[0].name, usual.tools[0].description, usual.tools[0].arguments_schema_json, "always: 2\n\n"]
    assert usual.beginning_tokens == sum(-(-len(text) // 4) for text in texts)
    assert usual.beginning == "sha256:" + sha256("\0".join(texts).encode()).hexdigest()


def test_a_tool_offers_the_schema_of_its_card_with_what_the_sidecar_reads() -> None:
    """Canonical JSON, so that one card has one text."""
    tool = surface_tool(SHOP, a_card("shop", arguments={"type": "object", "properties": {}}))
    assert (tool.slot, tool.name, tool.description) == ("shop", "ask_shop", "Knows about shop.")
    assert tool.arguments_schema_json == (
        '{"properties":{"intent_count":{"description":"How many separate intents the user\'s message holds.","minimum"'
        ':1,"type":"integer"},"prior_context":{"description":"What this assistant needs to know of earlier turns, if it'
        ' was not the one asked last.","maxLength":16384,"type":"string"}},"type":"object"}'
    )


@requirement("PC2-D-60")
def test_each_thing_that_a_call_depends_on_is_in_the_digest() -> None:
    """Id, commit, content, name, description, schema and limits, each alone; the empty surface has one, too."""
    tool = surface_tool(SHOP, a_card("shop"))
    card = tool.card
    others = [
        replace(tool, card=replace(card, definition=replace(card.definition, id=DefinitionId("other")))),
        replace(tool, card=replace(card, commit=Commit("other"))),
        replace(tool, card=replace(card, digest=Digest("other"))),
        replace(tool, name="other"),
        replace(tool, description="other"),
        replace(tool, arguments_schema_json="other"),
        replace(tool, card=replace(card, definition=replace(card.definition, limits=None))),
    ]
    digests = [binding_digest([each]) for each in (tool, *others)]

    assert len(set(digests)) == 8
    assert binding_digest([]) == f"sha256:{sha256(b'[]').hexdigest()}"


def test_a_card_of_an_earlier_configuration_serves_as_long_as_it_is_kept() -> None:
    """The rollout names its digest; a slot whose card is not kept is left out of tools and cohort."""
    earlier = a_card("shop", description="As it was.")
    judged = (SlotCandidates(SHOP, earlier.digest, ()), SlotCandidates(REWARDS, Digest("sha256:lost"), ()))
    kept = {earlier.digest: earlier}

    surface = bound(CATALOGUE, FixedFlags(), judged, kept=kept)

    assert [tool.description for tool in surface.tools] == ["As it was."]
    assert surface.cohort.active_sub_agents == (SHOP,)


def test_flags_of_a_cohort_are_those_of_every_definition_that_could_be_reached() -> None:
    """The orchestrator's, its sub-agents' and their blocks', sorted, each asked in its definition's vertical."""
    cards = (a_card("shop", enabled_via_flag=FLAG), a_card("rewards"), a_card("aside", enabled_via_flag="aside_flag"))
    catalogue = with_blocks(a_catalogue(*cards, sub_agents=["shop", "rewards", "gone"]), "rewards", block("b", "z"))
    on = {FLAG: "shop", f"{FLAG}_cohort": "shop", "z": "rewards", "aside_flag": "aside"}

    def seen(**of_verticals: str) -> tuple[str, ...]:
        return bound(catalogue, FlagsOfVerticals(**of_verticals)).cohort.active_feature_flags

    assert seen(**on) == (FLAG, f"{FLAG}_cohort", "z")
    assert seen(**(on | {"z": "shop"})) == (FLAG, f"{FLAG}_cohort")


def test_a_flag_that_two_definitions_mention_is_asked_in_the_vertical_of_the_first() -> None:
    """In the order of the orchestrator's list."""
    cards = (a_card("rewards", enabled_via_flag=FLAG), a_card("shop", enabled_via_flag=FLAG))
    catalogue = a_catalogue(*cards)
    surface = bound(catalogue, FlagsOfVerticals(**{FLAG: "rewards"}))
    assert surface.cohort.active_feature_flags == (FLAG,)


@pytest.mark.parametrize(
    ("cards", "wanted", "why", "metadata"),
    [
        (
            (a_card("shop"), a_card("b", sub_agents=(SHOP,), role=Role.ORCHESTRATOR)),
            "x" * 65,
            f"no orchestrator is called '{'x' * 64}'; the configuration has: b, concierge",
            {"known": "b, concierge"},
        ),
        ((a_card("shop"),), "shop", "no orchestrator is called 'shop'; the configuration has: concierge", None),
        (None, "shop", "no orchestrator is called 'shop'; the configuration has: none", {"known": "none"}),
        (None, "", "the configuration has no orchestrator: no definition lists sub_agents", {}),
    ],
)
def test_an_unknown_orchestrator_is_refused_with_the_known_ones(
    cards: tuple[Card, ...] | None, wanted: str, why: str, metadata: dict[str, str] | None
) -> None:
    """Sorted, and the name that was asked for is cut."""
    catalogue = replace(CATALOGUE, cards={}) if cards is None else a_catalogue(*cards)
    with pytest.raises(UnknownOrchestrator) as refused:
        orchestrator_of(catalogue, wanted)
    assert str(refused.value) == why
    assert metadata is None or refused.value.metadata == metadata


def test_with_several_orchestrators_the_request_has_to_name_one() -> None:
    """The field and its problem."""
    with pytest.raises(InvalidRequest, match=r"^say which orchestrator the turn is for$") as refused:
        orchestrator_of(a_catalogue(a_card("shop"), a_card("b", sub_agents=(SHOP,))), "")
    problem = "is empty, and there are several orchestrators: b, concierge"
    assert refused.value.fields == (FieldProblem("orchestrator_id", problem),)


def test_a_slot_without_a_rollout_is_served_to_nobody_and_says_why() -> None:
    """Every listed definition is a candidate; a slot that nothing fills is one without a definition."""
    catalogue = a_catalogue(a_card("shop"), a_card("shop2", slot=SHOP))
    state, not_listed = CandidateVerdict.STATE, CandidateVerdict.NOT_LISTED

    assert evaluate_slots(SHOP, catalogue, FixedFlags(), RolloutView(), ASKER) == SlotCandidates(
        SHOP, None, (Candidate(SHOP, DefinitionId("shop"), state), Candidate(SHOP, DefinitionId("shop2"), state))
    )
    nothing = SlotCandidates(Slot("gone"), None, (Candidate(Slot("gone"), None, not_listed),))
    assert evaluate_slots(Slot("gone"), catalogue, FixedFlags(), RolloutView(), ASKER) == nothing


def test_a_rollout_that_knows_no_definition_says_not_listed() -> None:
    """It is there, and empty; also if the configuration has nothing for the slot any more."""
    view = RolloutView({SHOP: rollout()})
    assert evaluate_slots(SHOP, a_catalogue(), FixedFlags(), view, ASKER).candidates == (
        Candidate(SHOP, None, CandidateVerdict.NOT_LISTED),
    )
    nothing = SlotCandidates(SHOP, None, (Candidate(SHOP, None, CandidateVerdict.NOT_LISTED),))
    assert evaluate_slots(SHOP, CATALOGUE, FixedFlags(), view, ASKER) == nothing


def test_a_kill_that_is_not_on_record_yet_takes_the_slot_from_everybody() -> None:
    """The active one's: one candidate, and no target. The target's: the active one is served as before."""
    old, new = facts("old", ramp=WHOLE), with_target(facts("new", ramp=1), "old")
    of = rollout(old, new, active="new")

    def judged(*killed: Digest) -> SlotCandidates:
        return evaluate_slots(
            SHOP, CATALOGUE, flags("old", "new"), RolloutView({SHOP: of}, 1, frozenset(killed)), ASKER
        )

    ramp = Candidate(SHOP, DefinitionId("new"), CandidateVerdict.RAMP)
    assert judged() == SlotCandidates(
        SHOP, old.digest, (ramp, Candidate(SHOP, DefinitionId("old"), CandidateVerdict.CHOSEN))
    )
    assert judged(old.digest) == SlotCandidates(
        SHOP, None, (ramp, Candidate(SHOP, DefinitionId("old"), CandidateVerdict.DEPRECATED))
    )
    dead = Candidate(SHOP, DefinitionId("new"), CandidateVerdict.KILLED)
    assert judged(new.digest) == SlotCandidates(SHOP, None, (dead,))


def test_an_empty_slot_lists_who_was_killed_and_who_is_not_served() -> None:
    """Nobody is active: each definition is a candidate with its own reason."""
    dead = facts("dead", LifecycleState.ROLLBACK, killed=Tombstone(NOW, "ada", "wrong"))
    view = RolloutView({SHOP: rollout(dead, facts("idle", ramp=WHOLE))})
    assert evaluate_slots(SHOP, CATALOGUE, flags("dead", "idle"), view, ASKER).candidates == (
        Candidate(SHOP, DefinitionId("dead"), CandidateVerdict.KILLED),
        Candidate(SHOP, DefinitionId("idle"), CandidateVerdict.STATE),
    )


def test_only_an_entry_that_says_deprecated_is() -> None:
    """Of two in a slot."""
    cards = (a_card("a", slot=SHOP, deprecated=True), a_card("b", slot=SHOP))
    old, new = (
        facts(card.definition.id, digest=card.digest, flag=None, flags=FlagPair.NONE, ramp=WHOLE) for card in cards
    )
    catalogue = a_catalogue(*cards)
    for one, verdict in ((old, CandidateVerdict.DEPRECATED), (new, CandidateVerdict.CHOSEN)):
        view = RolloutView({SHOP: msgspec.structs.replace(rollout(old, new), active=one.digest)})
        judged = evaluate_slots(SHOP, catalogue, FixedFlags(), view, ASKER)
        assert judged.candidates == (Candidate(SHOP, one.definition_id, verdict),)
