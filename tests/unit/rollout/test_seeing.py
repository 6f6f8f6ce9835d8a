"""What a new state of the configuration means for a rollout (PF1-FR-12, TN-66)."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from sidecar.core.definitions.cards.card import Card
from sidecar.core.definitions.cards.card_json import card_from_json, card_to_json
from sidecar.core.identifiers import BlockId, Digest, ModelId, Slot, ToolId, Vertical
from sidecar.core.rollout.bucketing import WHOLE
from sidecar.core.rollout.definition_changes import (
    MajorChange,
    PendingPromotion,
    major_changes,
    may_be_rolled_out,
    pending_promotions,
    seen,
)
from sidecar.core.rollout.events import RolloutEventKind
from sidecar.core.rollout.facts import FlagPair, Override, SlotRollout
from sidecar.core.rollout.states import LifecycleState
from sidecar.core.rollout.view import RolloutView
from tests.support.builders import a_card, a_catalogue
from tests.unit.rollout.building import NOW, SHOP, by, with_target

FLAG = "ai_assistant_subagent_shop"


def card(digest: str = "one", *, flag: str | None = None, **changes: Any) -> Card:
    """Return a card of the definition `shop`."""
    made = a_card("shop")
    definition = replace(made.definition, enabled_via_flag=flag, **changes)
    return replace(made, definition=definition, digest=Digest(f"sha256:{digest}"))


def after(rollout: SlotRollout | None, *cards: Card, at_once: bool = True) -> SlotRollout:
    """Return the rollout once these cards were seen, one after the other, where entries without a flag may serve."""
    for each in cards:
        rollout = seen(rollout, SHOP, each, by(), at_once=at_once).rollout
    assert rollout is not None
    return rollout


def test_what_nothing_gates_and_nobody_shares_serves_everybody_where_that_is_set() -> None:
    """The sub-agents that live today: no flag, alone in the slot."""
    rollout = after(None, card())
    (facts,) = rollout.definitions.values()
    assert (facts.state, facts.ramp, rollout.active) == (LifecycleState.PROMOTE, WHOLE, facts.digest)
    assert (facts.target_recorded, facts.target) == (True, None)


@pytest.mark.parametrize(
    ("there", "flag", "at_once"),
    [(False, FLAG, True), (True, None, True), (False, None, False)],
    ids=["flagged", "not the first", "not set"],
)
def test_anything_else_starts_at_dev(there: bool, flag: str | None, at_once: bool) -> None:
    """Served to nobody until an operator promotes it."""
    before = after(None, card("old")) if there else None
    rollout = after(before, card("new", flag=flag, model=ModelId("m2")), at_once=at_once)
    newest = list(rollout.definitions.values())[-1]
    assert (newest.state, newest.ramp, rollout.active == newest.digest) == (LifecycleState.DEV, 0, False)
    assert newest.flags is (FlagPair.NAMED if flag else FlagPair.NONE)


def test_an_entry_that_dropped_its_flag_in_dev_does_not_serve_at_once() -> None:
    """The pair is on record; taking its name out of the entry is no way around the gates."""
    rollout = after(after(None, card("one", flag=FLAG)), card("two"))
    (facts,) = rollout.definitions.values()
    assert (facts.digest, facts.state, facts.flag) == ("sha256:two", LifecycleState.DEV, FLAG)
    assert rollout.active is None


def test_seeing_it_again_changes_nothing() -> None:
    """Each replica sees the same configuration."""
    rollout = after(None, card())
    assert seen(rollout, SHOP, card(), by(), at_once=True).rollout is rollout


def test_a_minor_revision_takes_its_place_in_everything() -> None:
    """State, ramp, slot and the targets that name it; one event that says what it revises."""
    rollout = after(None, card("one"))
    (facts,) = rollout.definitions.values()
    newer = with_target(facts, "one")
    rollout = rollout.with_facts(newer)

    change = seen(rollout, SHOP, card("two", description="Better words."), by(), at_once=True)

    (revised,) = change.rollout.definitions.values()
    assert (revised.digest, revised.state, revised.ramp) == ("sha256:two", LifecycleState.PROMOTE, WHOLE)
    assert change.rollout.active == "sha256:two"
    assert [(event.what, event.detail) for event in change.events] == [(RolloutEventKind.REVISED, "sha256:one")]


@pytest.mark.parametrize(
    ("state", "before", "then"),
    [
        (LifecycleState.PROMOTE, FlagPair.NONE, FlagPair.NAMED),
        (LifecycleState.TEST, FlagPair.NONE, FlagPair.NAMED),
        (LifecycleState.PROMOTE, FlagPair.CREATED, FlagPair.CREATED),
        (LifecycleState.PROMOTE, FlagPair.RETIRED, FlagPair.RETIRED),
    ],
    ids=str,
)
def test_a_revision_that_names_a_flag_is_gated_by_it(state: LifecycleState, before: FlagPair, then: FlagPair) -> None:
    """Nobody has switched on what it names first; what it named before is as it was; retired flags stay retired."""
    served = after(None, card("one"))
    (facts,) = served.definitions.values()
    flag = None if before is FlagPair.NONE else FLAG
    rollout = served.with_facts(msgspec.structs.replace(facts, state=state, flag=flag, flags=before))
    (revised,) = after(rollout, card("two", flag=FLAG)).definitions.values()
    assert (revised.state, revised.ramp, revised.flag, revised.flags) == (state, WHOLE, FLAG, then)


@pytest.mark.parametrize(
    ("named", "names", "then"),
    [
        (FLAG, None, FlagPair.RETIRED),
        (None, FLAG, FlagPair.NAMED),
        (FLAG, f"{FLAG}_again", FlagPair.NAMED),
    ],
    ids=["not named any more", "named again", "another one"],
)
def test_a_flag_that_is_named_anew_gates_again_though_its_flags_were_let_go(
    named: str | None, names: str | None, then: FlagPair
) -> None:
    """Who names a flag counts on it as a kill switch. Source: TN-59."""
    served = after(None, card("one"))
    (facts,) = served.definitions.values()
    rollout = served.with_facts(msgspec.structs.replace(facts, flag=named, flags=FlagPair.RETIRED))
    change = seen(rollout, SHOP, card("two", flag=names), by(), at_once=True)
    (revised,) = change.rollout.definitions.values()
    told = [event.what for event in change.events]
    assert (revised.flags, revised.gated) == (then, then is FlagPair.NAMED)
    assert (RolloutEventKind.FLAGS_NAMED in told) is (then is FlagPair.NAMED)


@pytest.mark.parametrize("flags", [FlagPair.NAMED, FlagPair.CREATED, FlagPair.ON])
@pytest.mark.parametrize("names", [None, f"{FLAG}_too"], ids=["no flag", "another one"])
@pytest.mark.parametrize("state", list(LifecycleState))
def test_a_revision_keeps_the_pair_that_gates_whatever_its_entry_names(
    flags: FlagPair, names: str | None, state: LifecycleState
) -> None:
    """How far it has come, and what was confirmed of it: a pause holds, and the kill switch kills (PF1-D-35)."""
    served = after(None, card("one"))
    (facts,) = served.definitions.values()
    confirmed = FLAG if flags is FlagPair.ON else ""
    gated = msgspec.structs.replace(facts, state=state, flag=FLAG, flags=flags, confirmed_on=confirmed)
    change = seen(served.with_facts(gated), SHOP, card("two", flag=names), by(), at_once=True)
    (revised,) = change.rollout.definitions.values()
    assert revised == msgspec.structs.replace(gated, digest=revised.digest, commit=revised.commit, flag_dropped=True)
    assert [event.what for event in change.events] == [RolloutEventKind.REVISED, RolloutEventKind.FLAGS_KEPT]


@pytest.mark.parametrize("flags", [FlagPair.CREATED, FlagPair.ON])
def test_a_revision_in_another_vertical_belongs_to_that_one_and_its_flags_are_nobodys_yet(flags: FlagPair) -> None:
    """Gates, policies and backend are the new vertical's; at another backend nobody has switched them on."""
    served = after(None, card("one"))
    (facts,) = served.definitions.values()
    confirmed = FLAG if flags is FlagPair.ON else ""
    rollout = served.with_facts(
        msgspec.structs.replace(facts, flag=FLAG, flags=flags, confirmed_on=confirmed, confirmed_by="embedded")
    )
    (revised,) = after(rollout, card("two", flag=FLAG, vertical=Vertical("gold"))).definitions.values()
    assert (revised.vertical, revised.flags) == ("gold", FlagPair.NAMED)
    assert (revised.confirmed_on, revised.confirmed_by, revised.ramp) == ("", "", WHOLE)


def test_an_override_was_granted_for_a_content_and_does_not_pass_another_one() -> None:
    """A gate that fails for the revision has failed for nothing that an operator has looked at."""
    served = after(None, card("one"))
    (facts,) = served.definitions.values()
    granted = Override("pre_ramp", 0, 500, "ada@example", "a known flake", NOW)
    rollout = served.with_facts(msgspec.structs.replace(facts, overrides=(granted,)))
    (revised,) = after(rollout, card("two")).definitions.values()
    assert revised.overrides == ()


def test_who_waits_for_operators_is_whoever_could_be_promoted_into_an_empty_slot() -> None:
    """Not what stands beside an active one, was taken back, or is listed by nobody."""
    shop, beside, other = a_card("shop"), a_card("shop2", slot=SHOP, enabled_via_flag=f"{FLAG}2"), a_card("other")
    catalogue = a_catalogue(shop, beside, other, sub_agents=["shop"])
    served = seen(None, SHOP, shop, by(), at_once=True).rollout
    killed = msgspec.structs.replace(served.definitions[shop.digest], state=LifecycleState.ROLLBACK)
    emptied = msgspec.structs.replace(served.with_facts(killed), active=None)

    assert pending_promotions(catalogue, RolloutView()) == (
        PendingPromotion(shop.definition.id, SHOP, needs_flag=True),
        PendingPromotion(beside.definition.id, SHOP, needs_flag=False),
    )
    assert pending_promotions(catalogue, RolloutView({SHOP: served})) == ()
    (left,) = pending_promotions(catalogue, RolloutView({SHOP: emptied}))
    assert left.definition_id == "shop2"


def test_what_was_promoted_without_a_flag_and_is_not_active_any_more_needs_none() -> None:
    """A step brings it back into the empty slot."""
    shop = a_card("shop")
    idle = msgspec.structs.replace(seen(None, SHOP, shop, by(), at_once=True).rollout, active=None)
    (left,) = pending_promotions(a_catalogue(shop, sub_agents=["shop"]), RolloutView({SHOP: idle}))
    assert left == PendingPromotion(shop.definition.id, SHOP, needs_flag=False)


@pytest.mark.parametrize(
    "changes",
    [{"model": ModelId("m2")}, {"tools": (ToolId("one_more"),)}, {"prompt_blocks": (BlockId("one-more"),)}],
    ids=str,
)
def test_a_major_change_starts_at_dev_beside_what_is_served(changes: dict[str, Any]) -> None:
    """Model, tools or blocks: what was gated goes on being served, from what is kept."""
    rollout = after(None, card("one"))
    changed = after(rollout, card("two", **changes))
    assert changed.active == "sha256:one"
    assert changed.definitions[Digest("sha256:two")].state is LifecycleState.DEV
    found = major_changes(a_catalogue(card("two", **changes)), RolloutView({SHOP: changed}))
    dev = LifecycleState.DEV
    assert found == (MajorChange(card().definition.id, SHOP, Digest("sha256:one"), Digest("sha256:two"), dev),)


def test_a_minor_change_and_a_definition_beside_the_active_one_are_no_major_change() -> None:
    """The first serves at once; the other has an id of its own, whose entry says that it is new."""
    minor = after(None, card("one"), card("two", description="Another text."))
    beside = a_card("shop2", slot=SHOP)
    both = seen(minor, SHOP, beside, by(), at_once=False).rollout
    catalogue = a_catalogue(card("two", description="Another text."), beside)
    assert major_changes(catalogue, RolloutView({SHOP: both})) == ()


def test_a_card_comes_back_from_its_text_as_it_was() -> None:
    """Every field: what is served from what is kept is what was gated."""
    assert card_from_json(card_to_json(card())) == card()


def test_an_orchestrator_whom_nobody_lists_is_not_rolled_out() -> None:
    """It is on no surface; one that another one lists is, and so is an agent that nobody lists yet."""
    nested = a_card("travel", sub_agents=(Slot("shop"),))
    catalogue = a_catalogue(a_card("shop"), nested, a_card("new"), sub_agents=["shop", "travel"])
    found = {str(card.definition.id): may_be_rolled_out(catalogue, card) for card in catalogue.cards.values()}
    assert found == {"concierge": False, "shop": True, "travel": True, "new": True}
