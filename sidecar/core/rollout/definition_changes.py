"""The effect of a new configuration on the rollout of a slot. Source: PF1-FR-12, DESIGN section 8, TN-66.

An unknown digest is a new definition, a minor revision of a known definition, or a major change. A minor revision
inherits everything, including the flags. A major change starts at `dev`; the sidecar continues to serve the previous
content from its stored copy. A new definition starts at `dev`. If the settings allow it and no flag gates the
definition, it serves immediately.
"""

from typing import Final

import msgspec

from sidecar.core.definitions.cards.card import Card, Catalogue
from sidecar.core.identifiers import DefinitionId, Digest, Slot
from sidecar.core.rollout.bucketing import WHOLE
from sidecar.core.rollout.events import RolloutEvent, RolloutEventKind
from sidecar.core.rollout.facts import DefinitionFacts, FlagPair, SlotRollout
from sidecar.core.rollout.states import LifecycleState
from sidecar.core.rollout.step import Actor, Change
from sidecar.core.rollout.view import RolloutView, revised_by

AT_ONCE: Final = "without a flag: served immediately, because rollout.auto_promote_unflagged is true"
"""The audit's detail for a definition that no operator promoted."""


def seen(rollout: SlotRollout | None, slot: Slot, card: Card, by: Actor, *, at_once: bool) -> Change:
    """Return the effect of loading `card` on the rollout of its slot; a change without events means no effect.

    Args:
        rollout: the present rollout; None: the slot has none yet.
        slot: the slot of the card.
        card: as loaded.
        by: actor and time.
        at_once: the settings allow that a definition without a flag immediately serves every user, and no other entry
            of the configuration fills the slot. It has an effect if no definition of the slot has ever left `dev`.
    """
    # The first salt is the id of the slot; `past_rollout`, which has only the audit, assumes the same.
    before = rollout or SlotRollout(slot=slot, salt=slot)
    known = revised_by(before, card.definition.id, card.shape)
    # Loading the same configuration again is no event: every sidecar loads it at each start. A replaced content is not
    # among the definitions: if the configuration returns to it, it is a revision like any other.
    if card.digest in before.definitions:
        change = Change(before)
    elif known is not None:
        change = _revised(before, known, card, by)
    else:
        facts = fresh_facts(card)
        change = Change(_grown(before.with_facts(facts)), (), (_event(slot, facts, RolloutEventKind.SEEN, by, ""),))
    return _served_at_once(before, change, card, by) if at_once else change


def may_be_rolled_out(catalogue: Catalogue, card: Card) -> bool:
    """Return whether rollout steps have an effect on a definition; false for an orchestrator that no entry lists.

    Such an orchestrator is on no surface: a kill would succeed and change nothing. Source: PF1-D-71.
    """
    listed = any(card.definition.slot in each.definition.sub_agents for each in catalogue.cards.values())
    return listed or not card.definition.is_orchestrator


class PendingPromotion(msgspec.Struct, frozen=True):
    """A definition that serves no user until an operator takes a step.

    Attributes:
        needs_flag: no step can promote it before its entry names a flag.
    """

    definition_id: DefinitionId
    slot: Slot
    needs_flag: bool


class MajorChange(msgspec.Struct, frozen=True):
    """A loaded definition whose id serves with another, recorded content until an operator takes a step.

    Attributes:
        serving: digest of the recorded content.
        loaded: digest of the configuration's content.
        state: of the loaded content, `dev` or `test`.
    """

    definition_id: DefinitionId
    slot: Slot
    serving: Digest
    loaded: Digest
    state: LifecycleState


def major_changes(catalogue: Catalogue, view: RolloutView) -> tuple[MajorChange, ...]:
    """Return the definitions whose new content waits for a promotion while the recorded one serves."""
    return tuple(
        MajorChange(card.definition.id, card.definition.slot, serving, card.digest, facts.state)
        for card in catalogue.cards.values()
        if (facts := _facts(card, view)) is not None and facts.state in {LifecycleState.DEV, LifecycleState.TEST}
        if (serving := _serving_of(card, view)) is not None
    )


def _serving_of(card: Card, view: RolloutView) -> Digest | None:
    """Return the digest of the active definition of the card's slot, if it has the card's id."""
    # The slot is recorded: the caller has found facts of the card in it.
    rollout = view.slots[card.definition.slot]
    active = None if rollout.active is None else rollout.definitions.get(rollout.active)
    return active.digest if active is not None and active.definition_id == card.definition.id else None


def pending_promotions(catalogue: Catalogue, view: RolloutView) -> tuple[PendingPromotion, ...]:
    """Return the definitions of slots that are listed but not served, if an operator's step can change that.

    Excluded are definitions next to an active one, and definitions that were rolled back or killed.
    """
    listed = {slot for card in catalogue.cards.values() for slot in card.definition.sub_agents}
    # A slot that no orchestrator lists is on no surface, whatever an operator does.
    unserved = [slot for slot in catalogue.slots if slot in listed and not _served(slot, view)]
    cards = [catalogue.cards[definition_id] for slot in unserved for definition_id in catalogue.slots[slot]]
    return tuple(
        PendingPromotion(card.definition.id, card.definition.slot, _needs_flag(card, _facts(card, view)))
        for card in cards
        if _may_be_promoted(_facts(card, view))
    )


def _served(slot: Slot, view: RolloutView) -> bool:
    return slot in view.slots and view.slots[slot].active is not None


def _facts(card: Card, view: RolloutView) -> DefinitionFacts | None:
    rollout = view.slots.get(card.definition.slot)
    return rollout.definitions.get(card.digest) if rollout else None


def _needs_flag(card: Card, facts: DefinitionFacts | None) -> bool:
    if facts is None:
        # Not recorded yet: only the entry is known.
        return card.definition.enabled_via_flag is None
    return facts.flag is None and facts.state is not LifecycleState.PROMOTE


def _may_be_promoted(facts: DefinitionFacts | None) -> bool:
    return facts is None or (facts.state is not LifecycleState.ROLLBACK and facts.killed is None)


def fresh_facts(card: Card) -> DefinitionFacts:
    """Return the facts of a new definition: in `dev`, which serves no user."""
    definition = card.definition
    return DefinitionFacts(
        digest=card.digest,
        definition_id=definition.id,
        commit=card.commit,
        vertical=definition.vertical,
        shape=card.shape,
        flag=definition.enabled_via_flag,
        flags=FlagPair.NONE if definition.enabled_via_flag is None else FlagPair.NAMED,
    )


def _served_at_once(before: SlotRollout, change: Change, card: Card, by: Actor) -> Change:
    """Let a definition without a flag serve every user, if no definition in its slot has ever left `dev`.

    This also applies to a definition that was recorded before the setting was switched on.
    """
    rollout = change.rollout
    facts = rollout.definitions.get(card.digest)
    empty = all(each.state is LifecycleState.DEV for each in rollout.definitions.values())
    # A slot in which any definition was ever promoted is left to its operators, even if no definition serves now.
    if facts is None or facts.flag is not None or not empty:
        return change
    serving = msgspec.structs.replace(
        facts, state=LifecycleState.PROMOTE, ramp=WHOLE, activated_at=by.at, target_recorded=True
    )
    # Counted from `before`: `change` may have counted already, and one write has one revision.
    after = msgspec.structs.replace(rollout.with_facts(serving), active=card.digest, revision=before.revision + 1)
    # A single event `definition_seen` says that the definition was seen and that it serves.
    other_events = tuple(event for event in change.events if event.what is not RolloutEventKind.SEEN)
    return Change(after, (), (*other_events, _event(rollout.slot, serving, RolloutEventKind.SEEN, by, AT_ONCE)))


def _revised(rollout: SlotRollout, known: DefinitionFacts, card: Card, by: Actor) -> Change:
    """Replace a definition by its minor revision, unless it is being decommissioned.

    The revision inherits everything but the overrides, because each override was granted for a content.
    """
    if known.decommission_began_at is not None:
        return Change(rollout)
    named, vertical = card.definition.enabled_via_flag, card.definition.vertical
    flag, flags = _pair_of(known, named, moved=vertical != known.vertical)
    dropped = flag != named
    revised = msgspec.structs.replace(
        known,
        digest=card.digest,
        commit=card.commit,
        vertical=vertical,
        flag=flag,
        flags=flags,
        flag_dropped=dropped,
        # Each override was granted for the former content; the gates must judge the new one.
        overrides=(),
    )
    # An earlier confirmation concerned another flag or another vertical; it does not count for the new pair.
    if flags is FlagPair.NAMED:
        revised = msgspec.structs.replace(revised, confirmed_on="", confirmed_by="", confirmed_at=None)
    # Definitions that would fall back to the replaced content must fall back to the revision, which takes its place.
    others = {
        digest: msgspec.structs.replace(each, target=card.digest) if each.target == known.digest else each
        for digest, each in rollout.definitions.items()
        if digest != known.digest
    }
    # In the same write: between two writes, the slot would have an active definition that it does not contain.
    active = card.digest if rollout.active == known.digest else rollout.active
    after = msgspec.structs.replace(rollout, definitions={**others, card.digest: revised}, active=active)
    events = [_event(rollout.slot, revised, RolloutEventKind.REVISED, by, known.digest)]
    if flags is FlagPair.NAMED and known.flags is not flags:
        events.append(_event(rollout.slot, revised, RolloutEventKind.FLAGS_NAMED, by, str(flag)))
    if dropped and not known.flag_dropped:
        events.append(_event(rollout.slot, revised, RolloutEventKind.FLAGS_KEPT, by, str(flag)))
    return Change(_grown(after), (), tuple(events))


def _pair_of(known: DefinitionFacts, named: str | None, *, moved: bool) -> tuple[str | None, FlagPair]:
    """Return the flag of a revision whose entry names `named`, and the stage of its pair.

    A flag that gates stays until it is retired, whatever the entry names. Otherwise a change of the configuration would
    end a pause and disarm the kill switch without any gate. A flag that is named for the first time, or again after the
    flags were retired, gates again; otherwise the entry would promise a switch that does nothing (TN-59). The stage of
    such a pair is `NAMED`, because the ramp has not switched it on. The same holds if the definition has `moved` to
    another vertical, whose backend may be another one.
    """
    # Also if the entry names no flag any more: a flag that gates stays until an operator retires it, or a change of the
    # file would end a pause.
    if known.gated:
        return known.flag, FlagPair.NAMED if moved else known.flags
    return named, known.flags if named in {None, known.flag} else FlagPair.NAMED


def _grown(rollout: SlotRollout) -> SlotRollout:
    return msgspec.structs.replace(rollout, revision=rollout.revision + 1)


def _event(slot: Slot, facts: DefinitionFacts, what: RolloutEventKind, by: Actor, detail: str) -> RolloutEvent:
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
