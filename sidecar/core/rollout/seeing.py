"""What a new state of the configuration means for the rollout of a slot. Source: PF1-FR-12, DESIGN section 8, TN-66.

A digest that was never seen is a new definition, a minor revision of one that is known, or a major change. A minor one
inherits everything; a major one starts at `dev` beside what is there, which goes on being served from what is kept.
"""

from datetime import datetime

import msgspec

from sidecar.core.definitions.card import Card, Catalogue
from sidecar.core.identifiers import DefinitionId, Slot
from sidecar.core.rollout.bucketing import WHOLE
from sidecar.core.rollout.events import Happening, RolloutEvent
from sidecar.core.rollout.facts import DefinitionFacts, FlagPair, SlotRollout
from sidecar.core.rollout.states import LifecycleState
from sidecar.core.rollout.stepping import By, Change
from sidecar.core.rollout.view import RolloutView, revised_by


def seen(rollout: SlotRollout | None, slot: Slot, card: Card, by: By, *, alone: bool) -> Change:
    """Return what seeing `card` makes of the rollout of its slot; without events nothing is new.

    Args:
        rollout: as it stands; None: the slot has none yet.
        slot: that the card fills.
        card: as loaded.
        by: when, and on whose behalf.
        alone: nothing else in the configuration fills the slot.
    """
    before = rollout or SlotRollout(slot=slot, salt=slot)
    if card.digest in before.definitions:
        return Change(before)
    known = revised_by(before, card.definition.id, card.shape)
    if known is not None:
        return _revised(before, known, card, by)
    facts = _fresh(card, by.at, ungated=card.definition.enabled_via_flag is None and alone and not before.definitions)
    after = before.with_facts(facts)
    if facts.state is LifecycleState.PROMOTE:
        after = msgspec.structs.replace(after, active=facts.digest)
    return Change(_grown(after), (), (_event(slot, facts, Happening.SEEN, by, ""),))


def may_be_rolled_out(catalogue: Catalogue, card: Card) -> bool:
    """Say whether steps can mean anything for a definition: not for an orchestrator whom nobody lists.

    It is on no surface, so that a kill of it would be answered, and change nothing. Source: PF1-D-71.
    """
    listed = any(card.definition.slot in each.definition.sub_agents for each in catalogue.cards.values())
    return listed or not card.definition.is_orchestrator


def waiting_for_operators(catalogue: Catalogue, view: RolloutView) -> tuple[DefinitionId, ...]:
    """Return the definitions of slots that somebody lists and nobody serves, if a step of an operator may change that.

    A definition beside an active one is not among them, nor one that was taken back or killed.
    """
    listed = {slot for card in catalogue.cards.values() for slot in card.definition.sub_agents}
    nobody = [slot for slot in catalogue.slots if slot in listed and not _served(slot, view)]
    cards = [catalogue.cards[definition_id] for slot in nobody for definition_id in catalogue.slots[slot]]
    return tuple(card.definition.id for card in cards if _may_be_promoted(card, view))


def _served(slot: Slot, view: RolloutView) -> bool:
    return slot in view.slots and view.slots[slot].active is not None


def _may_be_promoted(card: Card, view: RolloutView) -> bool:
    rollout = view.slots.get(card.definition.slot)
    facts = rollout.definitions.get(card.digest) if rollout else None
    return facts is None or (facts.state is not LifecycleState.ROLLBACK and facts.killed is None)


def _fresh(card: Card, at: datetime, *, ungated: bool) -> DefinitionFacts:
    """Return the facts of a new definition: served to everybody only if nothing gates it and nobody is there."""
    definition = card.definition
    flag = definition.enabled_via_flag
    return DefinitionFacts(
        digest=card.digest,
        definition_id=definition.id,
        commit=card.commit,
        vertical=definition.vertical,
        shape=card.shape,
        state=LifecycleState.PROMOTE if ungated else LifecycleState.DEV,
        ramp=WHOLE if ungated else 0,
        activated_at=at if ungated else None,
        flag=flag,
        flags=FlagPair.NONE if flag is None else FlagPair.NAMED,
        target_recorded=ungated,
    )


def _revised(rollout: SlotRollout, known: DefinitionFacts, card: Card, by: By) -> Change:
    """Let a minor revision take the place of what it revises; one that is being decommissioned is not revised.

    It inherits everything but the overrides: each was granted for a content. In another vertical, whose backend may be
    another one, nobody has switched its flags on yet.
    """
    if known.decommission_began_at is not None:
        return Change(rollout)
    flag, vertical = card.definition.enabled_via_flag, card.definition.vertical
    flags = _flags_of(known, flag, moved=vertical != known.vertical)
    revised = msgspec.structs.replace(
        known, digest=card.digest, commit=card.commit, vertical=vertical, flag=flag, flags=flags, overrides=()
    )
    if flags is FlagPair.NAMED:
        revised = msgspec.structs.replace(revised, confirmed_on="", confirmed_by="", confirmed_at=None)
    others = {
        digest: msgspec.structs.replace(each, target=card.digest) if each.target == known.digest else each
        for digest, each in rollout.definitions.items()
        if digest != known.digest
    }
    active = card.digest if rollout.active == known.digest else rollout.active
    after = msgspec.structs.replace(rollout, definitions={**others, card.digest: revised}, active=active)
    events = [_event(rollout.slot, revised, Happening.REVISED, by, known.digest)]
    if flags is FlagPair.NAMED and known.flags is not flags:
        events.append(_event(rollout.slot, revised, Happening.FLAGS_NAMED, by, str(flag)))
    return Change(_grown(after), (), tuple(events))


def _flags_of(known: DefinitionFacts, flag: str | None, *, moved: bool) -> FlagPair:
    """Return how far the flags of a revision are; where it names its first one or another, nobody has switched that on.

    Flags that were let go stay so; but one that is named anew gates again, or it would promise a switch that does
    nothing (TN-59).
    """
    if flag is None:
        return FlagPair.RETIRED if known.flags is FlagPair.RETIRED else FlagPair.NONE
    if known.flags is FlagPair.RETIRED:
        return FlagPair.RETIRED if flag == known.flag else FlagPair.NAMED
    return FlagPair.NAMED if flag != known.flag or moved else known.flags


def _grown(rollout: SlotRollout) -> SlotRollout:
    return msgspec.structs.replace(rollout, revision=rollout.revision + 1)


def _event(slot: Slot, facts: DefinitionFacts, what: Happening, by: By, detail: str) -> RolloutEvent:
    return RolloutEvent(
        slot=slot,
        subagent_id=facts.definition_id,
        digest=facts.digest,
        what=what,
        at=by.at,
        actor=by.actor,
        actor_key=by.actor_key,
        reason=by.reason,
        request_id=by.request_id,
        after=facts.ramp,
        detail=detail,
    )
