"""What a turn may call, decided from values alone."""

import pytest
from msgspec.structs import replace

from sidecar.core.binding.bind import BindingRules, evaluated_slots, orchestrator_of
from sidecar.core.binding.candidates import SlotCandidates, excluded_candidates
from sidecar.core.binding.surface import Candidate, Surface
from sidecar.core.definitions.cards.card import Card
from sidecar.core.identifiers import DefinitionId, Slot
from sidecar.core.rollout.serving import BindSubject, CandidateVerdict
from sidecar.core.rollout.view import RolloutView
from subagents_errors import InvalidRequest, UnknownOrchestrator
from tests.support.builders import FixedFlags, a_card, a_catalogue
from tests.support.promoted import promoted_surface
from tests.support.requirement import requirement

RULES = BindingRules(fan_out_cap=2, max_dispatches=4)
FLAG = "ai_assistant_subagent_shop"
BOTH = (FLAG, f"{FLAG}_cohort")


def bound(*cards: Card, flags: FixedFlags | None = None, sub_agents: list[str] | None = None, arm: str = "") -> Surface:
    """Return the surface of an orchestrator over `cards`."""
    catalogue = a_catalogue(*cards, sub_agents=sub_agents)
    return promoted_surface(catalogue, flags or FixedFlags(), RULES, arm)


def verdicts(surface: Surface) -> list[tuple[str, str]]:
    """Return slot and verdict of every candidate."""
    return [(each.slot, each.verdict.value) for each in surface.candidates]


@requirement("PC2-T-1")
def test_three_sub_agents_are_three_tools_in_listed_order() -> None:
    """Names are derived, descriptions are the definitions' own, character for character."""
    odd = "  Trailing space, “quotes” and\nnewline. "
    surface = bound(a_card("c", description=odd), a_card("a"), a_card("b"), sub_agents=["b", "c", "a"])

    assert [tool.name for tool in surface.tools] == ["ask_b", "ask_c", "ask_a"]
    assert surface.tools[1].description == odd


@requirement("PC2-T-2")
@pytest.mark.parametrize("slot", ["a", "0", "a-b_c", "x" * 60])
def test_a_tool_is_named_after_its_slot(slot: str) -> None:
    """Shortest, digits, dashes, and the longest: 64 characters is what providers allow."""
    name = bound(a_card(slot)).tools[0].name

    assert name == f"ask_{slot}"
    assert len(name) <= 64


@requirement("PF1-T-5", "PF1-T-19")
@pytest.mark.parametrize(
    ("on", "unreachable", "verdict"),
    [
        (BOTH, (), "chosen"),
        ((FLAG,), (), "cohort"),
        ((f"{FLAG}_cohort",), (), "flag_off"),
        ((), (), "flag_off"),
        (BOTH, (FLAG,), "flag_stale"),
        (BOTH, (f"{FLAG}_cohort",), "flag_stale"),
        ((), BOTH, "flag_stale"),
    ],
)
def test_a_flagged_definition_needs_both_flags_on_and_fresh(
    on: tuple[str, ...], unreachable: tuple[str, ...], verdict: str
) -> None:
    """Absent is off; unreachable closes the way in but is not taken for off."""
    surface = bound(a_card("shop", enabled_via_flag=FLAG), a_card("support"), flags=FixedFlags(on, unreachable))

    assert verdicts(surface) == [("shop", verdict), ("support", "chosen")]
    assert ("ask_shop" in [tool.name for tool in surface.tools]) is (verdict == "chosen")


def test_a_deprecated_definition_is_left_out() -> None:
    """Also with its flags on."""
    card = a_card("shop", deprecated=True, enabled_via_flag=FLAG)

    assert verdicts(bound(card, flags=FixedFlags(BOTH))) == [("shop", "deprecated")]


def test_at_most_one_definition_serves_a_slot() -> None:
    """Two are promoted, ramped and switched on: the active one serves, and only that."""
    first, second = (a_card(name, slot=Slot("shop"), enabled_via_flag=FLAG) for name in ("shop1", "shop2"))

    surface = bound(first, second, flags=FixedFlags(BOTH))

    assert verdicts(surface) == [("shop", "chosen")]
    assert [tool.card.definition.id for tool in surface.tools] == ["shop1"]


def test_what_is_not_on_record_is_served_to_nobody() -> None:
    """Configured, with its flags on, or without any: each is a candidate, and none is chosen."""
    catalogue = a_catalogue(a_card("shop", enabled_via_flag=FLAG), a_card("support"))
    orchestrator = catalogue.cards[DefinitionId("concierge")]

    judged = evaluated_slots(catalogue, orchestrator, FixedFlags(BOTH), RolloutView(), BindSubject("user-1"))

    assert [(each.slot, each.digest) for each in judged] == [("shop", None), ("support", None)]
    assert [each.verdict.value for one in judged for each in one.candidates] == ["state"] * 2


def test_a_listed_slot_that_nobody_fills_is_a_candidate_too() -> None:
    """The record says why it could not be called."""
    surface = bound(a_card("shop"), sub_agents=["shop", "gone"])

    assert surface.candidates[1].verdict is CandidateVerdict.NOT_LISTED
    assert surface.candidates[1].definition_id is None


@requirement("PC1-D-58")
def test_slots_listed_beyond_the_number_that_is_allowed_are_offered_to_nobody() -> None:
    """Three are listed and two allowed: the first two are tools, the third is on record as left out."""
    catalogue = replace(a_catalogue(a_card("a"), a_card("b"), a_card("c")), max_sub_agents=2)

    surface = promoted_surface(catalogue, FixedFlags(), RULES, "")

    assert [tool.slot for tool in surface.tools] == ["a", "b"]
    assert verdicts(surface) == [("a", "chosen"), ("b", "chosen"), ("c", "not_listed")]


def test_of_a_slot_that_is_left_out_each_definition_is_on_record() -> None:
    """By its own id, which may differ from the slot's; a slot without any is on record by itself."""
    catalogue = a_catalogue(a_card("shop-dates", slot=Slot("shop")))
    listed = Candidate(Slot("shop"), DefinitionId("shop-dates"), CandidateVerdict.NOT_LISTED)
    nobody = Candidate(Slot("nobody"), None, CandidateVerdict.NOT_LISTED)

    assert excluded_candidates(Slot("shop"), catalogue) == SlotCandidates(Slot("shop"), None, (listed,))
    assert excluded_candidates(Slot("nobody"), catalogue) == SlotCandidates(Slot("nobody"), None, (nobody,))


def test_the_cohort_has_six_fields_and_only_flags_that_matter_here() -> None:
    """A flag that nothing of this orchestrator mentions does not split its cohorts."""
    flags = FixedFlags((*BOTH, "ai_assistant_something_else"))

    cohort = bound(a_card("shop", enabled_via_flag=FLAG), flags=flags, arm="treatment").cohort

    assert cohort.active_feature_flags == BOTH
    assert cohort.active_sub_agents == ("shop",)
    assert cohort.experiment_arm_assignment == "treatment"
    assert cohort.agent_definition_version == "definitions-1"


@requirement("PC2-D-60")
def test_the_digest_covers_what_a_call_depends_on() -> None:
    """Order, description, schema and limits change it; taking a sub-agent out and back in restores it."""
    base = bound(a_card("a"), a_card("b")).binding_digest
    others = [
        bound(a_card("b"), a_card("a")).binding_digest,
        bound(a_card("a", description="Other."), a_card("b")).binding_digest,
        bound(a_card("a", arguments={"type": "object"}), a_card("b")).binding_digest,
        bound(a_card("a")).binding_digest,
    ]

    assert base not in others
    assert len(set(others)) == len(others)
    assert bound(a_card("a"), a_card("b")).binding_digest == base


def test_the_orchestrator_is_found_or_the_known_ones_are_named() -> None:
    """Named, the only one, unknown, and a leaf that is none."""
    catalogue = a_catalogue(a_card("shop"))

    assert orchestrator_of(catalogue, "").definition.id == "concierge"
    assert orchestrator_of(catalogue, "concierge").definition.id == "concierge"
    for wrong in ("nobody", "shop"):
        with pytest.raises(UnknownOrchestrator, match="concierge"):
            orchestrator_of(catalogue, wrong)


def test_several_orchestrators_must_be_told_apart() -> None:
    """An empty id is an error that names the field and the choices."""
    catalogue = a_catalogue(a_card("shop"), a_card("second", sub_agents=(Slot("shop"),)))

    with pytest.raises(InvalidRequest) as refused:
        orchestrator_of(catalogue, "")
    assert refused.value.fields[0].field == "orchestrator_id"
    assert "concierge, second" in refused.value.fields[0].description
